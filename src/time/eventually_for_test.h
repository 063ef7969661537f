// Waiting for what a real server, process or thread does in its own time.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "weir/time/system_clock.h"

namespace weir {

// Leaves the processor to whoever is waited for.
inline void nap() { std::this_thread::sleep_for(std::chrono::milliseconds{1}); }

// What is expected to happen; false if it does not, even on a busy machine.
inline bool eventually(const std::function<bool()>& happened) {
  const MonotonicClock clock;
  for (const Instant end = clock.now() + std::chrono::minutes{1}; !happened(); nap()) {
    if (clock.now() > end) return false;
  }
  return true;
}

// Lets things go on for a while.
inline void let_pass(Nanos time) {
  const MonotonicClock clock;
  for (const Instant end = clock.now() + time; clock.now() < end;) nap();
}

}  // namespace weir
