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

template class BasicTokenBucket<std::int64_t>;
template class BasicTokenBucket<Int128>;

}  // namespace weir
