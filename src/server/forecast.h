// When a quota ends if things go on as they do. Pure: no clock, no lock.
#pragma once

#include <optional>
#include <span>

#include "weir/core/time.h"

namespace weir::server {

// How far a limit was used, so long ago.
struct UseSample {
  Nanos age;
  double used;  // 0 to 1
};

// Only limits of so long a period are forecast: a shorter one is full again before one has read it.
inline constexpr Nanos kForecastPeriodMin = std::chrono::hours{1};
// How far back the pace is looked for, and how far at least.
inline constexpr Nanos kPaceSpan = std::chrono::minutes{15};
inline constexpr Nanos kPaceSpanMin = std::chrono::minutes{1};

struct Quantity {
  double used = 0;  // now
  Nanos period{0};
  std::optional<Nanos> resets_in = {};  // all of it is free again
};

// How long it lasts by the use of the last kPaceSpan of `past` (the oldest first), of which only
// the running window counts. Nothing if that is unknown, if it is not being used up, or if it
// resets before it ends.
std::optional<Nanos> time_left(const Quantity& now, std::span<const UseSample> past);

}  // namespace weir::server
