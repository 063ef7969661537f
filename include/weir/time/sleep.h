// Parks the calling thread until an instant of any clock, simulated ones included.
#pragma once

#include <cstdint>
#include <stop_token>

#include "weir/core/time.h"
#include "weir/time/timer.h"

namespace weir {

enum class Woken : std::uint8_t { kTime, kStopped };

// Returns at or after `at`, or as soon as stop is requested (kStopped, even if the time has come).
// In simulated time another thread advances. Not to be called from an alarm's ring().
Woken sleep_until(TimeSource time, Instant at, std::stop_token stop = {});

}  // namespace weir
