// Simulated time that moves by itself to whatever is armed next, so that code which blocks its
// thread can be tested. For tests.
#pragma once

#include <concepts>
#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "weir/time/simulated_time.h"

namespace weir {

class MovingTime final : public Timer {
 public:
  TimeSource source() { return {time_, *this}; }
  Instant now() const { return time_.now(); }

  // Time stands still but for this and run().
  void advance(Nanos by) { time_.advance(by); }

  // Runs `f` on another thread and moves time on from here until it returns.
  template <std::invocable F>
  std::invoke_result_t<F> run(F f) {
    std::packaged_task<std::invoke_result_t<F>()> task{std::move(f)};
    auto result = task.get_future();
    std::jthread thread{[&] {
      task();
      change(done_);
    }};
    std::unique_lock lock{mutex_};
    while (true) {
      changed_.wait(lock, [this] { return done_ || armed_; });
      if (std::exchange(done_, false)) break;
      armed_ = false;
      lock.unlock();
      while (const std::optional<Instant> next = time_.next_alarm()) time_.advance_to(*next);
      lock.lock();
    }
    return result.get();
  }

  void arm(Alarm& alarm, Instant at) override {
    time_.arm(alarm, at);
    change(armed_);
  }
  void disarm(Alarm& alarm) override { time_.disarm(alarm); }

 private:
  void change(bool& flag) {
    const std::lock_guard lock{mutex_};
    flag = true;
    changed_.notify_one();
  }

  SimulatedTime time_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool armed_ = false;
  bool done_ = false;
};

}  // namespace weir
