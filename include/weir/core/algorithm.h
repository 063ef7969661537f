// What every algorithm offers: pure steps of (state, cost, now).
//
// No clock, lock, allocation or I/O. The caller supplies `now`; whoever owns the state supplies
// atomicity. An algorithm is immutable after create(), so safe to share between threads. A `now`
// earlier than one seen before mints nothing.
#pragma once

#include <concepts>

#include "weir/core/cost.h"
#include "weir/core/decision.h"
#include "weir/core/time.h"

namespace weir {

// For a cost in [1, kAmountMax]:
//   start      the state of a limit nobody has used yet.
//   check      would `cost` be admitted? Leaves no trace.
//   take       charges `cost` without asking: after check() said yes, or as a debt, which may
//              drive the limit negative. Debts saturate: in a bucket one at a longest period and
//              their sum at TickRate::kLatest, in a counter their sum at kAmountMax.
//   refund     gives back what was charged at `charged_at`: never past the capacity, and nothing
//              once the window it was charged in has rolled.
//   available  the largest cost check() would admit now; negative while in debt.
//   capacity   the largest cost check() can ever admit.
template <class A>
concept Algorithm =
    requires(const A& algorithm, typename A::State& state, Amount amount, Instant now) {
      { algorithm.start(now) } -> std::same_as<typename A::State>;
      { algorithm.check(state, amount, now) } -> std::same_as<Decision>;
      { algorithm.take(state, amount, now) } -> std::same_as<void>;
      { algorithm.refund(state, amount, now, now) } -> std::same_as<void>;
      { algorithm.available(state, now) } -> std::same_as<Amount>;
      { algorithm.capacity() } -> std::same_as<Amount>;
    };

// check and take in one step.
template <Algorithm A>
[[nodiscard]] Decision spend(const A& algorithm, typename A::State& state, Amount cost,
                             Instant now) {
  const Decision decision = algorithm.check(state, cost, now);
  if (decision.admitted()) algorithm.take(state, cost, now);
  return decision;
}

}  // namespace weir
