#include "weir/time/thread_timer.h"

#include <algorithm>

#if defined(__linux__)
#include <sys/prctl.h>
#endif

namespace weir {
namespace {

// The kernel's timer slack: it does not sleep less, and a clock that stands still between its
// steps (CachedClock) must not make the thread spin.
constexpr Nanos kShortestSleep = std::chrono::microseconds{50};
// The sleep does not count the time for which the machine is suspended, the clock may: after that
// an alarm is late by this at most.
constexpr Nanos kLongestSleep = std::chrono::seconds{1};

}  // namespace

ThreadTimer::~ThreadTimer() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void ThreadTimer::arm(Alarm& alarm, Instant at) {
  at = std::max(at, clock_.now());  // no instant before those that are due already
  if (!queue_.arm(alarm, at)) return;
  const std::scoped_lock lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  if (at < asleep_until_) wake_.notify_one();
}

void ThreadTimer::run() {
#if defined(__linux__)
  // The kernel rounds sleeps up by 50 us to save wake-ups; a bucket of 2,000/s without a burst
  // loses a tenth of its tokens to that.
  prctl(PR_SET_TIMERSLACK, 1UL);
#endif
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const Instant now = clock_.now();
    if (const auto due = queue_.begin_ring(now)) {
      lock.unlock();
      due->alarm->ring(now);
      queue_.end_ring();
      lock.lock();
      continue;
    }
    // Under the lock, so that an earlier arm() comes either before this look or after the sleep
    // has begun.
    asleep_until_ = queue_.next().value_or(kEndOfTime);
    wake_.wait_for(lock, std::clamp(asleep_until_ - now, kShortestSleep, kLongestSleep));
    asleep_until_ = Instant::min();
  }
}

}  // namespace weir
