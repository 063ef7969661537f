#include "weir/core/sliding_log.h"

#include <algorithm>

namespace weir {

Result<SlidingLog> SlidingLog::create(Rate rate) {
  if (auto good = check_rate(rate); !good) return std::unexpected(good.error());
  return SlidingLog{rate};
}

// Two entries more than one period can open: the one that straddles its beginning, and a debt's.
SlidingLog::SlidingLog(Rate rate)
    : rate_(rate),
      entries_(static_cast<std::size_t>(std::min<Amount>(rate.amount, kEntriesMax)) + 2),
      gather_(rate.amount <= static_cast<Amount>(kEntriesMax)
                  ? Nanos{0}
                  : rate.period / static_cast<std::int64_t>(kEntriesMax) + Nanos{1}) {}

SlidingLog::State SlidingLog::start(Instant /*now*/) const {
  return {.ring = std::vector<Entry>(entries_)};
}

std::size_t SlidingLog::expired(const State& state, Instant now) const {
  std::size_t count = 0;
  while (count < state.size && state[count].at + rate_.period <= now) ++count;
  return count;
}

void SlidingLog::forget_expired(State& state, Instant now) const {
  const std::size_t count = expired(state, now);
  for (std::size_t i = 0; i < count; ++i) state.used -= state[i].amount;
  state.first = (state.first + count) % state.ring.size();
  state.size -= count;
}

void SlidingLog::forget_refunded(State& state) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < state.size; ++i) {
    // The newest stays: it is the latest instant seen.
    if (state[i].amount > 0 || i + 1 == state.size) state[kept++] = state[i];
  }
  state.size = kept;
}

Amount SlidingLog::available(const State& state, Instant now) const {
  now = clamp_instant(now);
  Amount used = state.used;
  for (std::size_t i = expired(state, now); i > 0; --i) used -= state[i - 1].amount;
  return rate_.amount - used;
}

Decision SlidingLog::check(const State& state, Amount cost, Instant now) const {
  now = clamp_instant(now);
  if (cost > rate_.amount) return Decision::never();
  Amount free = rate_.amount - state.used;
  if (cost <= free) return Decision::admit();
  for (std::size_t i = 0;; ++i) {
    free += state[i].amount;
    if (cost > free) continue;
    const Instant due = state[i].at + rate_.period;
    return due <= now ? Decision::admit() : Decision::wait(due - now);
  }
}

void SlidingLog::take(State& state, Amount cost, Instant now) const {
  forget_expired(state, clamp_instant(now));
  add(state, cost, clamp_instant(now));
}

void SlidingLog::add(State& state, Amount cost, Instant at) const {
  cost = std::min(cost, rate_.amount + kAmountMax - state.used);
  state.used += cost;
  if (state.size == state.ring.size()) forget_refunded(state);
  if (state.size > 0) {
    Entry& newest = state[state.size - 1];
    at = std::max(at, newest.at);  // a clock that ran backwards must not expire this too early
    // Still full with debts alone; then the newest entry takes them in.
    if (at - newest.opened < gather_ || at == newest.at || state.size == state.ring.size()) {
      newest.at = at;
      newest.amount += cost;
      return;
    }
  }
  state[state.size++] = {.at = at, .amount = cost, .opened = at};
}

void SlidingLog::refund(State& state, Amount amount, Instant charged_at, Instant now) const {
  charged_at = clamp_instant(charged_at);
  for (std::size_t i = expired(state, clamp_instant(now)); i < state.size; ++i) {
    if (state[i].at < charged_at) continue;
    if (state[i].opened > charged_at) return;
    amount = std::min(amount, state[i].amount);
    state[i].amount -= amount;
    state.used -= amount;
    return;
  }
}

SlidingLog::State SlidingLog::carried(const State& old, Instant now) const {
  State state = start(now);
  for (std::size_t i = expired(old, clamp_instant(now)); i < old.size; ++i) {
    take(state, old[i].amount, old[i].at);
  }
  return state;
}

Instant SlidingLog::slot_end(Instant at) const {
  return Instant{(at.time_since_epoch() / slot_width() + 1) * slot_width()};
}

Mark SlidingLog::mark(const State& state, Amount ahead, Instant now, Nanos /*slack*/) const {
  now = clamp_instant(now);
  const Instant latest = state.size == 0 ? now : std::max(now, state[state.size - 1].at);
  Mark mark{.at = slot_end(latest), .slots = {ahead}};
  for (std::size_t i = expired(state, now); i < state.size; ++i) {
    const auto slot = static_cast<std::size_t>((mark.at - slot_end(state[i].at)) / slot_width());
    if (slot >= mark.slots.size()) mark.slots.resize(slot + 1);
    mark.slots[slot] += state[i].amount;
  }
  return mark;
}

bool SlidingLog::covers(const Mark& mark, const State& state, Amount cost, Instant now) const {
  if (clamp_instant(now) >= mark.at || mark.slots.empty()) return false;
  Amount newest = cost;
  for (std::size_t i = state.size; i > 0 && slot_end(state[i - 1].at) >= mark.at; --i) {
    if (state[i - 1].at >= mark.at) return false;
    newest += state[i - 1].amount;
  }
  return newest <= mark.slots[0];
}

void SlidingLog::resume(State& state, const Mark& mark, Instant now) const {
  forget_expired(state, clamp_instant(now));
  for (std::size_t i = mark.slots.size(); i > 0; --i) {
    const Instant at = mark.at - static_cast<std::int64_t>(i - 1) * slot_width();
    if (at + rate_.period <= clamp_instant(now) || mark.slots[i - 1] == 0) continue;
    add(state, mark.slots[i - 1], clamp_instant(at));
  }
}

Instant SlidingLog::void_at(const Mark& mark) const { return mark.at + rate_.period; }

}  // namespace weir
