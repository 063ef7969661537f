// A timer at which nobody waits: simulated time jumps to whatever is armed. For tests of code that
// sleeps, in one thread.
#pragma once

#include "weir/time/simulated_time.h"

namespace weir {

class JumpTimer final : public Timer {
 public:
  explicit JumpTimer(SimulatedTime& time) : time_(time) {}

  TimeSource source() { return {time_, *this}; }

  void arm(Alarm& alarm, Instant at) override {
    time_.advance_to(at);
    alarm.ring(time_.now());
  }
  void disarm(Alarm&) override {}

 private:
  SimulatedTime& time_;
};

}  // namespace weir
