// A token bucket in one atomic word, for the path on which nobody waits.
//
// The sign bit says that the word is held: some thread with the gate's lock decides, or somebody
// waits, and every other attempt must go through the lock. It stands in the very word that the
// compare-and-set changes, so an admission cannot slip past a waiter that is just joining.
#pragma once

#include <atomic>
#include <cstdint>

#include "weir/core/token_bucket.h"

namespace weir {

class AtomicBucket {
 public:
  // How many ticks too early an attempt was; 0 if it was admitted.
  using Lateness = std::int64_t;
  static constexpr Lateness kWordHeld = -1;

  // Cost must be in [1, burst]. A refusal writes nothing.
  Lateness try_spend(const TokenBucket& bucket, Amount cost, Instant now) {
    const std::int64_t ticks = bucket.ticks().at(now);
    std::int64_t word = word_.load(std::memory_order_relaxed);
    while (word >= 0) {
      const std::int64_t late = bucket.lateness({word}, cost, ticks);
      if (late > 0) return late;
      if (word_.compare_exchange_weak(word, bucket.spent({word}, cost, ticks).full_at,
                                      std::memory_order_acq_rel, std::memory_order_relaxed)) {
        return 0;
      }
    }
    return kWordHeld;
  }

  // The state as of now, for looking at.
  TokenBucket::State peek() const { return {word_.load(std::memory_order_acquire) & ~kHeld}; }

  // For the one thread that has the gate's lock: takes the word out of the others' reach, and puts
  // a state back, within their reach or not.
  TokenBucket::State hold() { return {word_.fetch_or(kHeld, std::memory_order_acq_rel) & ~kHeld}; }
  void let_go(TokenBucket::State state) { word_.store(state.full_at, std::memory_order_release); }
  void keep(TokenBucket::State state) {
    word_.store(state.full_at | kHeld, std::memory_order_release);
  }

 private:
  static constexpr std::int64_t kHeld = std::int64_t{1} << 63;

  std::atomic<std::int64_t> word_{0};
};

}  // namespace weir
