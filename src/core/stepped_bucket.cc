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

Mark SteppedBucket::mark(const State& state, Amount ahead, Instant now, Nanos /*slack*/) const {
  const State current = stepped(state, now);
  return {.at = current.last_step, .used = spec_.max - current.tokens + ahead};
}

Mark SteppedBucket::stepped(const Mark& mark, Instant now) const {
  const std::int64_t steps = std::max<std::int64_t>((now - mark.at) / spec_.every, 0);
  const Int128 missing = mark.used - static_cast<Int128>(steps) * spec_.refill;
  return {.at = mark.at + steps * spec_.every,
          .used = static_cast<Amount>(std::max<Int128>(missing, 0))};
}

bool SteppedBucket::covers(const Mark& mark, const State& state, Amount cost, Instant now) const {
  const State current = stepped(state, now);
  return spec_.max - current.tokens + cost <= stepped(mark, current.last_step).used;
}

void SteppedBucket::resume(State& state, const Mark& mark, Instant now) const {
  state = stepped(state, now);
  const Mark current = stepped(mark, clamp_instant(now));
  // Of two grids the later one: no refill comes early.
  state.last_step = state.tokens == spec_.max ? std::max(current.at, Instant{})
                                              : std::max(current.at, state.last_step);
  state.tokens = std::max(state.tokens - current.used, -kAmountMax);
}

Instant SteppedBucket::void_at(const Mark& mark) const {
  const std::int64_t steps = (mark.used + spec_.refill - 1) / spec_.refill;
  const Int128 refilled = static_cast<Int128>(steps) * spec_.every.count();
  constexpr Int128 kLatest = TickRate<Int128>::kLatest.count();
  return mark.at + Nanos{static_cast<std::int64_t>(std::min(refilled, kLatest))};
}

}  // namespace weir
