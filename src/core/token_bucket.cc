#include "weir/core/token_bucket.h"

namespace weir {

template <class Ticks>
Result<BasicTokenBucket<Ticks>> BasicTokenBucket<Ticks>::create(BucketSpec spec) {
  if (spec.burst <= 0 || spec.burst > kAmountMax) {
    return fail(Errc::kInvalidLimit, "burst must be from 1 to " + std::to_string(kAmountMax) +
                                         ": " + std::to_string(spec.burst));
  }
  const auto rate = TickRate<Ticks>::of(spec.rate);
  if (!rate) return std::unexpected(rate.error());
  if (static_cast<Int128>(spec.burst) * rate->per_unit > rate->of_nanos(kPeriodMax)) {
    return fail(Errc::kInvalidLimit,
                "a burst of " + std::to_string(spec.burst) + " takes longer than 400 days to fill");
  }
  return BasicTokenBucket{*rate, spec.burst};
}

template <class Ticks>
typename BasicTokenBucket<Ticks>::State BasicTokenBucket<Ticks>::holding(Int128 level,
                                                                         Int128 per_unit,
                                                                         Instant now) const {
  // Whole units and the rest apart, so that the products stay inside 128 bits.
  const Int128 units = floor_div(level, per_unit);
  const Int128 rest = (level - units * per_unit) * rate_.per_unit / per_unit;
  const Int128 held = std::clamp<Int128>(units, -kAmountMax, kAmountMax) * rate_.per_unit + rest;
  const Int128 missing = burst_ticks_ - held;
  const Int128 debt_max = static_cast<Int128>(burst_ticks_) + rate_.of_nanos(kPeriodMax);
  return {rate_.at(now) + static_cast<Ticks>(std::clamp<Int128>(missing, 0, debt_max))};
}

template <class Ticks>
Mark BasicTokenBucket<Ticks>::mark(const State& state, Amount ahead, Instant now,
                                   Nanos /*slack*/) const {
  State used = state;
  take(used, ahead, now);
  return {.at = Instant{rate_.nanos(used.full_at)}};
}

template <class Ticks>
bool BasicTokenBucket<Ticks>::covers(const Mark& mark, const State& state, Amount cost,
                                     Instant now) const {
  State used = state;
  take(used, cost, now);
  return rate_.nanos(used.full_at) <= mark.at.time_since_epoch();
}

template <class Ticks>
void BasicTokenBucket<Ticks>::resume(State& state, const Mark& mark, Instant now) const {
  const Nanos missing = std::clamp(mark.at - clamp_instant(now), Nanos{0}, 2 * kPeriodMax);
  state.full_at = std::min(std::max(state.full_at, rate_.at(now)) + rate_.of_nanos(missing),
                           rate_.of_nanos(TickRate<Ticks>::kLatest));
}

template <class Ticks>
Instant BasicTokenBucket<Ticks>::void_at(const Mark& mark) const {
  return mark.at;
}

template class BasicTokenBucket<std::int64_t>;
template class BasicTokenBucket<Int128>;

}  // namespace weir
