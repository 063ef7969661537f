// Windows that begin on the calendar, as instants of its clock.
#pragma once

#include <memory>

#include "config/model.h"
#include "weir/core/window_ends.h"
#include "weir/time/calendar.h"

namespace weir {

// By a calendar that never runs backwards: a wall that jumps gives no window twice, and one that
// jumps ahead ends the running window no sooner.
class CalendarEnds final : public WindowEnds {
 public:
  CalendarEnds(const Alignment& align, Nanos period, std::shared_ptr<const Calendar> calendar)
      : align_(align), period_(period), calendar_(std::move(calendar)) {}

  Instant after(Instant now) const override;

 private:
  Alignment align_;
  Nanos period_;
  std::shared_ptr<const Calendar> calendar_;
};

}  // namespace weir
