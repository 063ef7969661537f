// Stock: units of a gate's only limit that its backing has set aside, to be admitted by one
// compare-and-set until an instant.
//
// try_take() is safe from any thread, at any time. The rest is for the gate and its backing, with
// the gate's lock held: while the gate holds the stock, nobody takes from it.
#pragma once

#include <atomic>

#include "weir/core/cost.h"
#include "weir/core/time.h"

namespace weir {

class Stock {
 public:
  bool try_take(Amount amount, Instant now) {
    // The deadline first: fill() writes it before the units that it is for.
    if (now >= deadline_.load(std::memory_order_acquire)) return false;
    Amount word = word_.load(std::memory_order_relaxed);
    do {
      if ((word & kHeld) != 0 || word / kUnit < amount) return false;
    } while (!word_.compare_exchange_weak(word, word - amount * kUnit, std::memory_order_acq_rel,
                                          std::memory_order_relaxed));
    return true;
  }

  void hold() { word_.fetch_or(kHeld, std::memory_order_acq_rel); }
  void let_go() { word_.fetch_and(~kHeld, std::memory_order_acq_rel); }

  // While held.
  Amount empty() { return word_.exchange(kHeld, std::memory_order_acq_rel) / kUnit; }
  void fill(Amount units, Instant deadline) {
    deadline_.store(deadline, std::memory_order_release);
    word_.store(units * kUnit | kHeld, std::memory_order_release);
  }

 private:
  static constexpr Amount kHeld = 1;
  static constexpr Amount kUnit = 2;

  std::atomic<Instant> deadline_ = Instant::min();
  std::atomic<Amount> word_ = kHeld;
};

}  // namespace weir
