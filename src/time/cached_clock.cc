#include "weir/time/cached_clock.h"

namespace weir {

CachedClock::CachedClock(const Clock& source, Nanos step)
    : source_(source), step_(step), ns_(source.now().time_since_epoch().count()) {
  cached_ns_ = &ns_;
  ticker_ = std::thread([this] { tick(); });
}

CachedClock::~CachedClock() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_one();
  ticker_.join();
}

void CachedClock::tick() {
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, step_, [this] { return stopping_; })) {
    ns_.store(read().time_since_epoch().count(), std::memory_order_relaxed);
  }
}

}  // namespace weir
