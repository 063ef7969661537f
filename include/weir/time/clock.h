// Clock: says what time it is. Nothing else in Weir reads a real clock.
//
// Implementations: MonotonicClock and TscClock (system_clock.h), CachedClock (cached_clock.h),
// SimulatedTime (simulated_time.h). Safe to use from any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "weir/core/time.h"

namespace weir {

class Clock {
 public:
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  virtual ~Clock() = default;

  // The time-stamp counter and the cached clock are read in line: a virtual call would cost a
  // tenth of an admission.
  Instant now() const {
#if defined(__x86_64__)
    if (tsc_.scale != 0) [[likely]]
      return tsc_.read();
#endif
    if (cached_ns_ != nullptr) return Instant{Nanos{cached_ns_->load(std::memory_order_relaxed)}};
    return read();
  }

  virtual CalendarTime wall() const = 0;

 protected:
  // An affine map from counter ticks to nanoseconds of CLOCK_MONOTONIC.
  struct TscScale {
    std::uint64_t scale = 0;  // nanoseconds a tick, times 2^32; 0: this clock is another kind
    std::uint64_t base_ticks = 0;
    std::int64_t base_ns = 0;

#if defined(__x86_64__)
    Instant read() const {
      __extension__ using Wide = unsigned __int128;
      // Not __rdtsc: its <x86intrin.h> takes as long to compile as the rest of a small program.
      const auto ticks = static_cast<std::int64_t>(__builtin_ia32_rdtsc() - base_ticks);
      // A core whose counter lags the base by a few ticks must not turn into a huge time.
      const auto elapsed = static_cast<Wide>(ticks < 0 ? 0 : ticks) * scale >> 32;
      return Instant{Nanos{base_ns + static_cast<std::int64_t>(elapsed)}};
    }
#endif
  };

  virtual Instant read() const = 0;

  TscScale tsc_;
  const std::atomic<std::int64_t>* cached_ns_ = nullptr;
};

}  // namespace weir
