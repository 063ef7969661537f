// Token bucket: admits a steady rate plus a bounded burst.
//
// Never over: at most burst + rate·t in every interval t. Pure arithmetic (see algorithm.h).
//
// The state is the instant at which the bucket is full again, in ticks (tick_rate.h). Spending
// moves it later by the cost; a bucket whose instant has passed is full. So one integer says all,
// and one compare-and-set replaces it.
#pragma once

#include <algorithm>

#include "weir/core/algorithm.h"
#include "weir/core/mark.h"
#include "weir/core/tick_rate.h"

namespace weir {

struct BucketSpec {
  Rate rate;
  Amount burst;
};

template <class Ticks>
class BasicTokenBucket {
 public:
  struct State {
    Ticks full_at{};
  };

  // Fails with kInvalidLimit unless the rate fits (TickRate::of), burst is in [1, kAmountMax] and
  // an empty bucket fills within kPeriodMax.
  static Result<BasicTokenBucket> create(BucketSpec spec);

  State start(Instant now) const { return {rate_.at(now)}; }

  Decision check(const State& state, Amount cost, Instant now) const {
    if (cost > burst_) return Decision::never();
    const Ticks late = lateness(state, cost, rate_.at(now));
    return late <= 0 ? Decision::admit() : Decision::wait(rate_.nanos(late));
  }
  void take(State& state, Amount cost, Instant now) const {
    state.full_at = std::max(state.full_at, rate_.at(now)) + ticks_of(cost);
    state.full_at = std::min(state.full_at, rate_.of_nanos(TickRate<Ticks>::kLatest));
  }
  // What would fill it past its burst is lost, also to a clock that runs backwards later.
  void refund(State& state, Amount amount, Instant /*charged_at*/, Instant now) const {
    state.full_at =
        std::max(state.full_at - ticks_of(amount), std::min(state.full_at, rate_.at(now)));
  }
  Amount available(const State& state, Instant now) const {
    return static_cast<Amount>(
        std::max<Int128>(floor_div(level(state, now), rate_.per_unit), -kAmountMax));
  }
  Amount capacity() const { return burst_; }

  // What the bucket holds, in ticks; `ticks().per_unit` of them are one unit.
  Ticks level(const State& state, Instant now) const {
    return burst_ticks_ - std::max<Ticks>(state.full_at - rate_.at(now), 0);
  }
  // A state of this bucket that holds `level` ticks of a bucket with `per_unit`, at most its fill.
  State holding(Int128 level, Int128 per_unit, Instant now) const;

  // `at`: when the bucket is full again. See mark.h.
  Mark mark(const State& state, Amount ahead, Instant now, Nanos slack) const;
  bool covers(const Mark& mark, const State& state, Amount cost, Instant now) const;
  void resume(State& state, const Mark& mark, Instant now) const;
  Instant void_at(const Mark& mark) const;

  // The rate in force; at most a millionth below the one asked for.
  const TickRate<Ticks>& ticks() const { return rate_; }

  // The steps of an admission for whoever keeps the state in an atomic word: the admission is at
  // hand if lateness() <= 0, and the new state is spent(). Cost must be in [1, burst].
  Ticks lateness(const State& state, Amount cost, Ticks now) const {
    return std::max(state.full_at, now) + static_cast<Ticks>(cost) * rate_.per_unit - burst_ticks_ -
           now;
  }
  State spent(const State& state, Amount cost, Ticks now) const {
    return {std::max(state.full_at, now) + static_cast<Ticks>(cost) * rate_.per_unit};
  }

 private:
  BasicTokenBucket(TickRate<Ticks> rate, Amount burst)
      : rate_(rate), burst_(burst), burst_ticks_(static_cast<Ticks>(burst) * rate.per_unit) {}

  // Saturates at the longest debt.
  Ticks ticks_of(Amount amount) const {
    return static_cast<Ticks>(
        std::min<Int128>(static_cast<Int128>(amount) * rate_.per_unit, rate_.of_nanos(kPeriodMax)));
  }

  TickRate<Ticks> rate_;
  Amount burst_;
  Ticks burst_ticks_;
};

extern template class BasicTokenBucket<std::int64_t>;
extern template class BasicTokenBucket<Int128>;

// One word of state. The rate of 99,991 a minute is rounded down by less than a millionth.
using TokenBucket = BasicTokenBucket<std::int64_t>;
// Two words of state, and every rate exact: for the fast and awkward rates that one word refuses.
using WideTokenBucket = BasicTokenBucket<Int128>;

static_assert(Algorithm<TokenBucket> && Algorithm<WideTokenBucket>);
static_assert(Markable<TokenBucket> && Markable<WideTokenBucket>);

}  // namespace weir
