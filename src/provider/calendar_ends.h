// Windows that begin on the calendar, as instants of one clock.
#pragma once

#include "config/model.h"
#include "weir/core/window_ends.h"
#include "weir/time/clock.h"

namespace weir {

// How far the wall is ahead of the clock is read once, at creation: a wall that jumps later neither
// ends a window early nor gives one twice. The clock may go then.
class CalendarEnds final : public WindowEnds {
 public:
  CalendarEnds(const Alignment& align, Nanos period, const Clock& clock);

  Instant after(Instant now) const override;

 private:
  Alignment align_;
  Nanos period_;
  Nanos ahead_;  // the wall's time since its epoch, less the clock's
};

}  // namespace weir
