#include "weir/core/fixed_window.h"

#include <algorithm>
#include <cassert>

namespace weir {

Result<FixedWindow> FixedWindow::create(Rate rate, std::shared_ptr<const WindowEnds> ends) {
  if (auto good = check_rate(rate); !good) return std::unexpected(good.error());
  return FixedWindow{rate, std::move(ends)};
}

Decision FixedWindow::check(const State& state, Amount cost, Instant now) const {
  now = clamp_instant(now);
  if (cost > rate_.amount) return Decision::never();
  if (used(state, now) + cost <= rate_.amount) return Decision::admit();
  return Decision::wait(state.end - now);
}

void FixedWindow::take(State& state, Amount cost, Instant now) const {
  now = clamp_instant(now);
  if (now >= state.end) {
    state = {end_after(now), 0, now};
    assert(state.end > now);
  }
  state.used = std::min(state.used + cost, rate_.amount + kAmountMax);
}

void FixedWindow::refund(State& state, Amount amount, Instant charged_at, Instant now) const {
  if (clamp_instant(now) >= state.end || clamp_instant(charged_at) < state.start) return;
  state.used = std::max<Amount>(state.used - amount, 0);
}

FixedWindow::State FixedWindow::carried(const State& old, Instant now) const {
  State state = old;
  now = clamp_instant(now);
  if (ends_ != nullptr && now < state.end) state.end = std::max(state.end, ends_->after(now));
  return state;
}

Mark FixedWindow::mark(const State& state, Amount ahead, Instant now, Nanos slack) const {
  now = clamp_instant(now);
  if (now < state.end) return {.at = state.end, .used = state.used + ahead};
  return {.at = end_after(now) + (ends_ == nullptr ? slack : Nanos{0}), .used = ahead};
}

bool FixedWindow::covers(const Mark& mark, const State& state, Amount cost, Instant now) const {
  now = clamp_instant(now);
  const Instant end = now < state.end ? state.end : end_after(now);
  return end <= mark.at && used(state, now) + cost <= mark.used;
}

void FixedWindow::resume(State& state, const Mark& mark, Instant now) const {
  now = clamp_instant(now);
  if (mark.at <= now) return;
  if (now >= state.end) {
    state = {.end = now, .used = 0, .start = std::min(now, mark.at - rate_.period)};
  }
  state.end = std::max(state.end, std::min(mark.at, kInstantMax + 2 * kPeriodMax));
  state.used = std::min(state.used + mark.used, rate_.amount + kAmountMax);
}

Instant FixedWindow::void_at(const Mark& mark) const { return mark.at; }

}  // namespace weir
