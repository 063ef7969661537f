#include "provider/calendar_ends.h"

#include <algorithm>

namespace weir {

CalendarEnds::CalendarEnds(const Alignment& align, Nanos period, const Clock& clock)
    : align_(align),
      period_(period),
      ahead_(clock.wall().time_since_epoch() - clock.now().time_since_epoch()) {}

Instant CalendarEnds::after(Instant now) const {
  const CalendarTime wall{now.time_since_epoch() + ahead_};
  const CalendarTime reset = align_.zone.next_reset(wall, period_, align_.reset);
  return std::max(Instant{reset.time_since_epoch() - ahead_}, now + Nanos{1});
}

}  // namespace weir
