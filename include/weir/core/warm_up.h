// Warm-up: a rate that is a third of itself after idleness and climbs back over a period (S1.4;
// the behaviour of Guava's SmoothWarmingUp with its cold factor of 3).
//
// A request is admitted once the one before it is paid for, whatever its own cost; the next one
// waits for it. So `never` is never said. Pure arithmetic (see algorithm.h).
//
//            interval            A unit taken while `stored` is above half the warm-up costs more
//     3s ^      /                than the stable interval s, up to three times as much when cold.
//        |     /                 Idle time is stored one to one, up to the whole warm-up period w.
//      s +----/                  With d the part of `stored` above w/2, taking n units costs
//        +---+---+-> stored      n·s + 2·(d₁² − d₂²)/w, from d₁ before down to d₂ after: the area
//        0  w/2  w               under the slope, since stored falls by n·s.
#pragma once

#include "weir/core/algorithm.h"
#include "weir/core/error.h"
#include "weir/core/tick_rate.h"

namespace weir {

struct WarmUpSpec {
  Rate rate;
  Nanos warm_up;
};

class WarmUp {
 public:
  struct State {
    std::int64_t stored;   // idle time kept, in ticks
    std::int64_t free_at;  // when the last admission is paid for, in ticks
  };

  // Fails with kInvalidLimit unless the rate fits one word and 0 < warm_up <= kPeriodMax.
  static Result<WarmUp> create(WarmUpSpec spec);

  // Cold.
  State start(Instant now) const { return {warm_up_, rate_.at(now)}; }
  Decision check(const State& state, Amount cost, Instant now) const;
  void take(State& state, Amount cost, Instant now) const;
  void refund(State& state, Amount amount, Instant charged_at, Instant now) const;
  // 1 when the next request would be admitted, else 0: its size does not matter.
  Amount available(const State& state, Instant now) const {
    return state.free_at <= rate_.at(now) ? 1 : 0;
  }
  Amount capacity() const { return kAmountMax; }

  // A state that is as cold as `state` of `old`, and has as long to pay: Guava's setRate.
  State carried(const WarmUp& old, State state, Instant now) const;

  const TickRate<std::int64_t>& ticks() const { return rate_; }

 private:
  WarmUp(TickRate<std::int64_t> rate, Nanos warm_up)
      : rate_(rate), warm_up_(rate.of_nanos(warm_up)) {}

  // Stores the time up to `now` for which nothing had to be paid.
  void rest(State& state, std::int64_t now) const;

  TickRate<std::int64_t> rate_;
  std::int64_t warm_up_;  // in ticks
};

static_assert(Algorithm<WarmUp>);

}  // namespace weir
