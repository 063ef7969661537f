#include "weir/time/sleep.h"

#include <condition_variable>
#include <mutex>
#include <utility>

namespace weir {
namespace {

class Sleeper final : public Alarm {
 public:
  void ring(Instant) override { wake(); }

  void wake() {
    const std::scoped_lock lock(mutex_);
    woken_ = true;
    wake_.notify_one();
  }

  void park() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return woken_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool woken_ = false;
};

}  // namespace

Woken sleep_until(TimeSource time, Instant at, std::stop_token stop) {
  Sleeper sleeper;
  const std::stop_callback on_stop(stop, [&sleeper] { sleeper.wake(); });
  time.timer.arm(sleeper, at);
  // Looks after arming: simulated time may have passed `at` before it knew of the alarm.
  if (time.clock.now() < at) sleeper.park();
  time.timer.disarm(sleeper);
  return stop.stop_requested() ? Woken::kStopped : Woken::kTime;
}

}  // namespace weir
