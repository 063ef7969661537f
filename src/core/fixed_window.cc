#include "weir/core/fixed_window.h"

#include <algorithm>

namespace weir {

Result<FixedWindow> FixedWindow::create(Rate rate) {
  if (auto good = check_rate(rate); !good) return std::unexpected(good.error());
  return FixedWindow{rate};
}

Decision FixedWindow::check(const State& state, Amount cost, Instant now) const {
  now = clamp_instant(now);
  if (cost > rate_.amount) return Decision::never();
  if (used(state, now) + cost <= rate_.amount) return Decision::admit();
  return Decision::wait(state.end - now);
}

void FixedWindow::take(State& state, Amount cost, Instant now) const {
  now = clamp_instant(now);
  if (now >= state.end) state = {now + rate_.period, 0};
  state.used = std::min(state.used + cost, rate_.amount + kAmountMax);
}

void FixedWindow::refund(State& state, Amount amount, Instant charged_at, Instant now) const {
  if (clamp_instant(now) >= state.end || clamp_instant(charged_at) < state.end - rate_.period) {
    return;
  }
  state.used = std::max<Amount>(state.used - amount, 0);
}

}  // namespace weir
