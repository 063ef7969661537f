// A rate as two integers: how many ticks a nanosecond has, and how many ticks a unit takes.
//
// "amount per period" reduced to lowest terms a/p makes both exact: a tick is 1/a of a nanosecond
// and a unit takes p ticks. An instant is then one integer, and no division is needed to admit.
#pragma once

#include <cstdint>

#include "weir/core/cost.h"
#include "weir/core/error.h"
#include "weir/core/int128.h"
#include "weir/core/time.h"

namespace weir {

// `amount` units each `period`.
struct Rate {
  Amount amount;
  Nanos period;

  friend constexpr bool operator==(const Rate&, const Rate&) = default;
};

// Fails with kInvalidLimit unless 0 < amount <= kAmountMax and 0 < period <= kPeriodMax.
Result<void> check_rate(Rate rate);

template <class Ticks>
struct TickRate {
  Ticks per_nano;
  Ticks per_unit;

  // The latest instant a state may hold: ten years of now, a longest fill and a longest debt.
  static constexpr Nanos kLatest = kTenYears + 2 * kPeriodMax;
  // One more fill or debt may be added to it before it is capped.
  static constexpr Nanos kHorizon = kLatest + kPeriodMax;

  // The rate itself where its ticks run for kHorizon; else the nearest lower rate for which they
  // do. Fails with kInvalidLimit if that is lower by more than one part in a million (a prime
  // rate above 20,000 a second, in 64 bits; in 128 bits every rate is exact).
  static Result<TickRate> of(Rate rate);

  constexpr Ticks at(Instant now) const {
    return static_cast<Ticks>(clamp_instant(now).time_since_epoch().count()) * per_nano;
  }
  // The first whole nanosecond at or after `ticks` more.
  constexpr Nanos nanos(Ticks ticks) const {
    if (per_nano == 1) return Nanos{static_cast<std::int64_t>(ticks)};
    return Nanos{static_cast<std::int64_t>((ticks + per_nano - 1) / per_nano)};
  }
  constexpr Ticks of_nanos(Nanos nanos) const {
    return static_cast<Ticks>(nanos.count()) * per_nano;
  }
};

extern template struct TickRate<std::int64_t>;
extern template struct TickRate<Int128>;

}  // namespace weir
