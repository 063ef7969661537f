// The machine's own clocks. Immutable after construction, so safe to use from any thread.
//
// MonotonicClock and TscClock count the nanoseconds of CLOCK_MONOTONIC, which stands still while
// the machine is suspended; their instants may be compared with each other. BootClock counts the
// time suspended too.
#pragma once

#include "weir/time/clock.h"

namespace weir {

class MonotonicClock : public Clock {
 public:
  CalendarTime wall() const final;  // CLOCK_REALTIME

 private:
  Instant read() const final;
};

// CLOCK_BOOTTIME: for windows that a suspended machine must not stretch.
class BootClock final : public Clock {
 public:
  CalendarTime wall() const override;  // CLOCK_REALTIME

 private:
  Instant read() const override;
};

// The processor's time-stamp counter: half the cost of a MonotonicClock. Follows CLOCK_MONOTONIC
// within the error of its calibration (a few parts per million) and of later clock discipline by
// the kernel, which it does not see. In one thread it never runs backwards; the reading is not
// ordered with loads, so it may lie a microsecond or two before an instant that another thread
// has just published.
class TscClock final : public MonotonicClock {
 public:
  // Whether the counter runs at one rate in every core and state of sleep: the processor says so
  // and the kernel keeps its own time by it.
  static bool trusted();

  // Calibrates for 10 ms. Where the counter is not trusted() this is a MonotonicClock.
  TscClock();
};

}  // namespace weir
