#include "weir/core/sliding_window.h"

#include <algorithm>

#include "weir/core/int128.h"

namespace weir {

Result<SlidingWindow> SlidingWindow::create(Rate rate) {
  if (auto good = check_rate(rate); !good) return std::unexpected(good.error());
  return SlidingWindow{rate};
}

SlidingWindow::State SlidingWindow::rolled(State state, Instant now) const {
  const Nanos elapsed = clamp_instant(now) - state.start;
  if (elapsed < rate_.period) return state;
  const std::int64_t windows = elapsed / rate_.period;
  return {.start = state.start + windows * rate_.period,
          .previous = windows == 1 ? state.current : 0,
          .current = 0};
}

Nanos SlidingWindow::overlap(const State& rolled, Instant now) const {
  return rate_.period - std::max(clamp_instant(now) - rolled.start, Nanos{0});
}

Amount SlidingWindow::available(const State& state, Instant now) const {
  const State at_now = rolled(state, now);
  const Int128 faded = ceil_div(static_cast<Int128>(at_now.previous) * overlap(at_now, now).count(),
                                rate_.period.count());
  return rate_.amount - at_now.current - static_cast<Amount>(faded);
}

Decision SlidingWindow::check(const State& state, Amount cost, Instant now) const {
  if (cost > rate_.amount) return Decision::never();
  if (cost <= available(state, now)) return Decision::admit();

  // Fading is continuous across the windows' boundary, so the cost fits from the instant on at
  // which `fading` × overlap has fallen to what the limit leaves: in this window if the current
  // count alone leaves room, else in the next one, where the current count is the one that fades.
  const State at_now = rolled(state, now);
  const bool in_this_window = at_now.current + cost <= rate_.amount;
  const Amount fading = in_this_window ? at_now.previous : at_now.current;
  const Amount room = rate_.amount - cost - (in_this_window ? at_now.current : 0);
  const Int128 overlap_then = static_cast<Int128>(room) * rate_.period.count() / fading;
  const Instant window = at_now.start + (in_this_window ? Nanos{0} : rate_.period);
  const Instant due = window + rate_.period - Nanos{static_cast<std::int64_t>(overlap_then)};
  return Decision::wait(due - clamp_instant(now));
}

void SlidingWindow::take(State& state, Amount cost, Instant now) const {
  state = rolled(state, now);
  state.current = std::min(state.current + cost, rate_.amount + kAmountMax);
}

void SlidingWindow::refund(State& state, Amount amount, Instant charged_at, Instant now) const {
  state = rolled(state, now);
  if (clamp_instant(charged_at) < state.start) return;
  state.current = std::max<Amount>(state.current - amount, 0);
}

Mark SlidingWindow::mark(const State& state, Amount ahead, Instant now, Nanos /*slack*/) const {
  const State current = rolled(state, now);
  return {.at = current.start, .used = current.current + ahead, .previous = current.previous};
}

Mark SlidingWindow::rolled(Mark mark, Instant now) const {
  const std::int64_t windows = (now - mark.at) / rate_.period;
  if (windows < 1) return mark;
  return {
      .at = mark.at + windows * rate_.period, .used = 0, .previous = windows == 1 ? mark.used : 0};
}

bool SlidingWindow::covers(const Mark& mark, const State& state, Amount cost, Instant now) const {
  const State current = rolled(state, now);
  const Mark covered = rolled(mark, current.start);
  return current.current + cost <= covered.used && current.previous <= covered.previous;
}

void SlidingWindow::resume(State& state, const Mark& mark, Instant now) const {
  state = rolled(state, now);
  const Mark current = rolled(mark, clamp_instant(now));
  // Of two grids the later one: nothing fades early.
  const bool unused = state.previous == 0 && state.current == 0;
  state.start = unused ? std::max(current.at, Instant{}) : std::max(current.at, state.start);
  state.previous = std::min(state.previous + current.previous, rate_.amount + kAmountMax);
  state.current = std::min(state.current + current.used, rate_.amount + kAmountMax);
}

Instant SlidingWindow::void_at(const Mark& mark) const { return mark.at + 2 * rate_.period; }

}  // namespace weir
