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
  now = clamp_instant(now);
  forget_expired(state, now);
  cost = std::min(cost, rate_.amount + kAmountMax - state.used);
  state.used += cost;
  if (state.size == state.ring.size()) forget_refunded(state);
  if (state.size > 0) {
    Entry& newest = state[state.size - 1];
    now = std::max(now, newest.at);  // a clock that ran backwards must not expire this too early
    // Still full with debts alone; then the newest entry takes them in.
    if (now - newest.opened < gather_ || now == newest.at || state.size == state.ring.size()) {
      newest.at = now;
      newest.amount += cost;
      return;
    }
  }
  state[state.size++] = {.at = now, .amount = cost, .opened = now};
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

}  // namespace weir
