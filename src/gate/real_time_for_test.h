// Real clocks and threads, for tests whose subject is concurrency.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "weir/gate/gate.h"
#include "weir/time/system_clock.h"
#include "weir/time/thread_timer.h"

namespace weir {

// A clock of the machine and a timer thread of its own.
template <class ClockType = MonotonicClock>
struct RealTime {
  ClockType clock;
  ThreadTimer timer{clock};

  TimeSource source() { return {clock, timer}; }
  std::unique_ptr<Gate> gate(GateConfig config) {
    return Gate::create(std::move(config), source()).value();
  }
};

// Runs `work(i)` in `count` threads that start together, and waits for them all.
template <class F>
void in_threads(int count, F work) {
  std::barrier start{count};
  std::vector<std::jthread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&start, &work, i] {
      start.arrive_and_wait();
      work(i);
    });
  }
}

// How many are inside at once, and the most that ever were.
class Occupancy {
 public:
  void enter() {
    const int inside = ++inside_;
    int most = most_.load();
    while (inside > most && !most_.compare_exchange_weak(most, inside)) {
    }
  }
  void leave() { --inside_; }
  int most() const { return most_; }

 private:
  std::atomic<int> inside_ = 0;
  std::atomic<int> most_ = 0;
};

// Outcomes of async requests, each of which must come exactly once.
class Tally {
 public:
  explicit Tally(std::size_t size) : calls_(size) {}

  // Releases a permit before it counts: when all are done, all slots are back.
  void note(std::size_t which, Result<Permit>& outcome) {
    if (outcome) outcome->release();
    note(which, std::as_const(outcome));
  }
  void note(std::size_t which, const Result<Permit>& outcome) {
    calls_[which].fetch_add(1);
    (outcome ? admitted_ : ended_).fetch_add(1);
    if (done() == calls_.size()) all_done_.test_and_set(), all_done_.notify_all();
  }
  void wait_for_all() const { all_done_.wait(false); }
  std::size_t done() const { return admitted_ + ended_; }
  std::size_t admitted() const { return admitted_; }
  void expect_each_once() const {
    for (std::size_t i = 0; i < calls_.size(); ++i) EXPECT_EQ(calls_[i].load(), 1) << i;
  }

 private:
  std::vector<std::atomic<int>> calls_;
  std::atomic<std::size_t> admitted_ = 0;
  std::atomic<std::size_t> ended_ = 0;
  std::atomic_flag all_done_;
};

}  // namespace weir
