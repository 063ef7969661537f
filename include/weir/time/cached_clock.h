// A clock that costs one load: a thread of its own copies the source's time every `step`.
//
// For those who accept its step: now() lags the source by up to `step`, and by more while the
// machine does not schedule the ticker. Does not follow a simulated source any faster than that.
// Safe to use from any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "weir/time/clock.h"

namespace weir {

class CachedClock final : public Clock {
 public:
  explicit CachedClock(const Clock& source, Nanos step = std::chrono::milliseconds{1});
  ~CachedClock() override;

  CalendarTime wall() const override { return source_.wall(); }

 private:
  Instant read() const override { return source_.now(); }
  void tick();

  const Clock& source_;
  const Nanos step_;
  std::atomic<std::int64_t> ns_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  std::thread ticker_;
};

}  // namespace weir
