#include "weir/core/warm_up.h"

#include <algorithm>

namespace weir {

Result<WarmUp> WarmUp::create(WarmUpSpec spec) {
  if (spec.warm_up <= Nanos{0} || spec.warm_up > kPeriodMax) {
    return fail(Errc::kInvalidLimit, "warm-up must be from 1 ns to 400 days: " +
                                         std::to_string(spec.warm_up.count()) + " ns");
  }
  const auto rate = TickRate<std::int64_t>::of(spec.rate);
  if (!rate) return std::unexpected(rate.error());
  return WarmUp{*rate, spec.warm_up};
}

Decision WarmUp::check(const State& state, Amount /*cost*/, Instant now) const {
  const std::int64_t late = state.free_at - rate_.at(now);
  return late <= 0 ? Decision::admit() : Decision::wait(rate_.nanos(late));
}

void WarmUp::rest(State& state, std::int64_t now) const {
  if (now <= state.free_at) return;
  state.stored = std::min(warm_up_, state.stored + (now - state.free_at));
  state.free_at = now;
}

void WarmUp::take(State& state, Amount cost, Instant now) const {
  rest(state, rate_.at(now));
  const Int128 stable = static_cast<Int128>(cost) * rate_.per_unit;
  const auto above_half = [this](Int128 stored) {
    return std::max<Int128>(2 * stored - warm_up_, 0);  // twice d, so that no half is lost
  };
  const Int128 before = above_half(state.stored);
  state.stored -= static_cast<std::int64_t>(std::min<Int128>(stable, state.stored));
  const Int128 after = above_half(state.stored);
  const Int128 slope = ceil_div(before * before - after * after, 2 * static_cast<Int128>(warm_up_));
  const Int128 price = std::min<Int128>(stable + slope, rate_.of_nanos(kPeriodMax));
  state.free_at = std::min(state.free_at + static_cast<std::int64_t>(price),
                           rate_.of_nanos(TickRate<std::int64_t>::kLatest));
}

void WarmUp::refund(State& state, Amount amount, Instant /*charged_at*/, Instant now) const {
  const Int128 price =
      std::min<Int128>(static_cast<Int128>(amount) * rate_.per_unit, rate_.of_nanos(kPeriodMax));
  state.free_at -= static_cast<std::int64_t>(price);
  rest(state, rate_.at(now));
}

WarmUp::State WarmUp::carried(const WarmUp& old, State state, Instant now) const {
  old.rest(state, old.rate_.at(now));
  const Int128 stored = ceil_div(static_cast<Int128>(state.stored) * warm_up_, old.warm_up_);
  return {static_cast<std::int64_t>(stored), rate_.of_nanos(old.rate_.nanos(state.free_at))};
}

}  // namespace weir
