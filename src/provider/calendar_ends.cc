#include "provider/calendar_ends.h"

#include <algorithm>

namespace weir {

Instant CalendarEnds::after(Instant now) const {
  const CalendarTime time = calendar_->at(now);
  const CalendarTime reset = align_.zone.next_reset(time, period_, align_.reset);
  return now + std::max(reset - time, Nanos{1});
}

}  // namespace weir
