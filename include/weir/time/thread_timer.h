// A Timer that rings from one thread of its own, started by the first arm().
//
// The thread sleeps until the earliest instant, a second at a time. Alarms ring one after
// another, so a ring() that blocks delays all others. Of the alarms that are due, the one due
// longest rings first; one that is armed again in the past goes behind those due already.
// Safe to use from any thread. As with any Timer, do not call disarm() holding a lock that the
// alarm's ring() takes.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "weir/time/alarm_queue.h"
#include "weir/time/timer.h"

namespace weir {

class ThreadTimer final : public Timer {
 public:
  explicit ThreadTimer(const Clock& clock) : clock_(clock) {}

  // Waits for the alarm that is ringing; those still armed do not ring.
  ~ThreadTimer() override;

  void arm(Alarm& alarm, Instant at) override;
  void disarm(Alarm& alarm) override { queue_.disarm(alarm); }

 private:
  void run();

  const Clock& clock_;
  AlarmQueue queue_;
  std::mutex mutex_;  // taken before the queue's own
  std::condition_variable wake_;
  Instant asleep_until_ = Instant::min();  // while the thread is awake: min
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace weir
