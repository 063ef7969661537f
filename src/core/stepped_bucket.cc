#include "weir/core/stepped_bucket.h"

#include <algorithm>

#include "weir/core/int128.h"
#include "weir/core/tick_rate.h"

namespace weir {

Result<SteppedBucket> SteppedBucket::create(SteppedSpec spec) {
  if (auto good = check_rate({spec.refill, spec.every}); !good) {
    return std::unexpected(good.error());
  }
  if (spec.max <= 0 || spec.max > kAmountMax) {
    return fail(Errc::kInvalidLimit, "maximum must be from 1 to " + std::to_string(kAmountMax) +
                                         ": " + std::to_string(spec.max));
  }
  return SteppedBucket{spec};
}

SteppedBucket::State SteppedBucket::stepped(State state, Instant now) const {
  const Nanos elapsed = clamp_instant(now) - state.last_step;
  if (elapsed < spec_.every) return state;
  const std::int64_t steps = elapsed / spec_.every;
  const Int128 tokens = static_cast<Int128>(steps) * spec_.refill + state.tokens;
  return {static_cast<Amount>(std::min<Int128>(tokens, spec_.max)),
          state.last_step + steps * spec_.every};
}

Decision SteppedBucket::check(const State& state, Amount cost, Instant now) const {
  if (cost > spec_.max) return Decision::never();
  const State current = stepped(state, now);
  if (cost <= current.tokens) return Decision::admit();
  const std::int64_t steps = (cost - current.tokens + spec_.refill - 1) / spec_.refill;
  const Int128 due = static_cast<Int128>(steps) * spec_.every.count() +
                     (current.last_step - clamp_instant(now)).count();
  constexpr Int128 kLatest = TickRate<Int128>::kLatest.count();  // beyond the time line: in vain
  return Decision::wait(Nanos{static_cast<std::int64_t>(std::min(due, kLatest))});
}

void SteppedBucket::take(State& state, Amount cost, Instant now) const {
  state = stepped(state, now);
  state.tokens = std::max(state.tokens - cost, -kAmountMax);
}

void SteppedBucket::refund(State& state, Amount amount, Instant /*charged_at*/, Instant now) const {
  state = stepped(state, now);
  state.tokens = std::min(state.tokens + amount, spec_.max);
}

}  // namespace weir
