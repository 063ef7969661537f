// Two kinds of time, two types.
//
// `Instant` is monotonic and belongs to one process: it measures intervals and is never stored
// or sent. `CalendarTime` is the clock on the wall: for days, and for anything that outlives the
// process. Neither type reads a clock; see weir/time/clock.h.
#pragma once

#include <algorithm>
#include <chrono>

namespace weir {

using Nanos = std::chrono::nanoseconds;

// Names the time line of Instant; it has no now(), because nothing in `core` reads a clock.
struct Monotonic {
  using duration = Nanos;
  using rep = duration::rep;
  using period = duration::period;
  static constexpr bool is_steady = true;
};

using Instant = std::chrono::time_point<Monotonic, Nanos>;
using CalendarTime = std::chrono::sys_time<Nanos>;

// Instants run from 0 for ten years (a machine's uptime); an algorithm treats one outside as the
// nearer end, so that no caller's `now` can overflow its sums.
inline constexpr Nanos kTenYears = std::chrono::days{3653};
inline constexpr Instant kInstantMax = Instant{kTenYears};

// The longest period, and the longest time in which an empty bucket may fill.
inline constexpr Nanos kPeriodMax = std::chrono::days{400};

// Stands for "no deadline" and "nothing is due".
inline constexpr Instant kEndOfTime = Instant::max();

constexpr Instant clamp_instant(Instant at) { return std::clamp(at, Instant{}, kInstantMax); }

}  // namespace weir
