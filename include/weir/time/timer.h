// Timer: calls back at an instant of its clock. One alarm per gate, not one per waiter.
//
// Implementations: ThreadTimer (one thread, no polling) and SimulatedTime. Safe to use from any
// thread.
#pragma once

#include "weir/core/time.h"
#include "weir/time/clock.h"

namespace weir {

// Something that wants to be woken. It is armed for at most one instant at a time.
class Alarm {
 public:
  Alarm() = default;
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  // Called by the timer without any lock held, at or after the instant. May arm again.
  virtual void ring(Instant now) = 0;

 protected:
  ~Alarm() = default;  // whoever owns an alarm disarms it before it dies
};

class Timer {
 public:
  Timer() = default;
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  virtual ~Timer() = default;

  // Replaces an earlier instant of the same alarm. An instant in the past rings as soon as it can.
  virtual void arm(Alarm& alarm, Instant at) = 0;

  // After this returns the alarm is neither armed nor ringing, unless called from its own ring().
  virtual void disarm(Alarm& alarm) = 0;
};

// Where a gate gets its time from. Both must outlive whoever was given them.
struct TimeSource {
  Clock& clock;
  Timer& timer;

  // The best clock of this machine, and one timer thread for the process, started when first
  // needed. Lives until the process ends.
  static TimeSource system();
  // The same by a clock that goes on while the machine is suspended (BootClock).
  static TimeSource since_boot();
};

}  // namespace weir
