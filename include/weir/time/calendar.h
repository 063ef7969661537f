// Calendar: the time on the wall for instants of a clock, except that it never runs backwards.
//
// A wall that jumps back is not followed: time goes on from where it was, at the clock's pace, so
// that no day begins twice. A wall that jumps ahead is followed at the next look. Safe to use from
// any thread; the clock must outlive it.
#pragma once

#include <atomic>

#include "weir/time/clock.h"

namespace weir {

class Calendar {
 public:
  explicit Calendar(const Clock& clock) : clock_(clock), ahead_(wall_ahead()) {}

  CalendarTime now() const { return at(clock_.now()); }
  CalendarTime at(Instant instant) const {
    return CalendarTime{instant.time_since_epoch() + look()};
  }
  Instant instant(CalendarTime time) const { return Instant{time.time_since_epoch() - look()}; }
  // How far it is ahead of the clock; never less than before.
  Nanos ahead() const { return look(); }

  // It was this late already, whatever the wall says: what an earlier process saw.
  void never_before(CalendarTime time) const {
    raise(time.time_since_epoch() - clock_.now().time_since_epoch());
  }

 private:
  // The wall is read first: who is stopped between the two readings finds less and not more, which
  // the next look makes good.
  Nanos wall_ahead() const {
    const CalendarTime wall = clock_.wall();
    return wall.time_since_epoch() - clock_.now().time_since_epoch();
  }
  // How far the calendar is ahead of the clock.
  Nanos look() const { return raise(wall_ahead()); }
  Nanos raise(Nanos ahead) const {
    Nanos before = ahead_.load(std::memory_order_relaxed);
    while (before < ahead && !ahead_.compare_exchange_weak(before, ahead)) {
    }
    return std::max(before, ahead);
  }

  const Clock& clock_;
  mutable std::atomic<Nanos> ahead_;
};

}  // namespace weir
