// Concurrency: at most `max` slots are held at once. Slots are borrowed: give_back() returns them.
//
// Nobody knows when a slot comes back, so a refusal has no exact retry_after. Pure arithmetic (see
// algorithm.h); time plays no part.
#pragma once

#include <algorithm>

#include "weir/core/algorithm.h"
#include "weir/core/error.h"

namespace weir {

class Concurrency {
 public:
  struct State {
    Amount held = 0;
  };

  // Fails with kInvalidLimit unless max is in [1, kAmountMax].
  static Result<Concurrency> create(Amount max);

  State start(Instant /*now*/) const { return {}; }
  Decision check(const State& state, Amount cost, Instant /*now*/) const {
    if (cost > max_) return Decision::never();
    return cost <= max_ - state.held ? Decision::admit() : Decision::wait_for_release();
  }
  void take(State& state, Amount cost, Instant /*now*/) const {
    state.held = std::min(state.held + cost, max_ + kAmountMax);
  }
  void give_back(State& state, Amount amount) const {
    state.held = std::max<Amount>(state.held - amount, 0);
  }
  // What was borrowed is given back, never settled.
  void refund(State& /*state*/, Amount /*amount*/, Instant /*charged_at*/, Instant /*now*/) const {}
  Amount available(const State& state, Instant /*now*/) const { return max_ - state.held; }
  Amount capacity() const { return max_; }

 private:
  explicit Concurrency(Amount max) : max_(max) {}

  Amount max_;
};

static_assert(Algorithm<Concurrency>);

}  // namespace weir
