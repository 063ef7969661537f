#include "gate/wait_queue.h"

#include <algorithm>
#include <cassert>

namespace weir {

void Line::insert(Waiter& waiter) {
  Waiter* before = back_;  // newcomers arrive last; only one that comes back looks further
  while (before != nullptr && before->arrival > waiter.arrival) before = before->previous;
  waiter.previous = before;
  waiter.next = before == nullptr ? front_ : before->next;
  (before == nullptr ? front_ : before->next) = &waiter;
  (waiter.next == nullptr ? back_ : waiter.next->previous) = &waiter;
}

void Line::erase(Waiter& waiter) {
  (waiter.previous == nullptr ? front_ : waiter.previous->next) = waiter.next;
  (waiter.next == nullptr ? back_ : waiter.next->previous) = waiter.previous;
}

std::optional<int> WaitQueue::top_priority() const {
  if (levels_.empty()) return std::nullopt;
  return levels_.begin()->first;
}

Waiter* WaitQueue::head() const {
  if (levels_.empty()) return nullptr;
  const Level& level = levels_.begin()->second;
  if (level.first.front() != nullptr) return level.first.front();
  return (*level.order.begin())->line.front();
}

void WaitQueue::file(Level& level, Flow& flow) {
  const Waiter& next = *flow.line.front();
  flow.tag = flow.start + stretch(next.share, flow.weight);
  level.order.insert(&flow);
}

void WaitQueue::unfile(Level& level, Flow& flow) { level.order.erase(&flow); }

void WaitQueue::push(Waiter& waiter) {
  Level& level = levels_[waiter.priority];
  if (level.flows.size() > 2 * level.order.size() + 64) forget_idle_flows(level);
  Flow& flow = level.flows[waiter.turn];
  flow.turn = waiter.turn;
  waiter.flow = &flow;
  if (flow.line.front() == nullptr) {
    flow.weight = std::max<std::uint32_t>(waiter.weight, 1);
    level.weight += flow.weight;
    flow.start = std::max(flow.start, level.virtual_time - flow.overpaid);
    flow.overpaid = 0;
  } else {
    unfile(level, flow);
  }
  flow.line.insert(waiter);
  file(level, flow);
  joined(waiter, level);
}

void WaitQueue::push_first(Waiter& waiter) {
  Level& level = levels_[waiter.priority];
  waiter.flow = nullptr;
  level.first.insert(waiter);
  joined(waiter, level);
}

void WaitQueue::joined(Waiter& waiter, Level& level) {
  if (waiter.deadline != kEndOfTime) deadlines_[{waiter.deadline, waiter.arrival}] = &waiter;
  ++level.size;
  ++size_;
}

void WaitQueue::leave(Waiter& waiter, Turn turn) {
  const auto found = levels_.find(waiter.priority);
  assert(found != levels_.end());
  Level& level = found->second;
  if (waiter.flow == nullptr) {
    level.first.erase(waiter);
  } else {
    Flow& flow = *waiter.flow;
    unfile(level, flow);
    if (turn == Turn::kUsed) {
      level.virtual_time += stretch(waiter.share, level.weight);
      flow.start = flow.tag;
    }
    flow.line.erase(waiter);
    if (flow.line.front() != nullptr) {
      file(level, flow);
    } else {
      level.weight -= flow.weight;
    }
  }
  if (waiter.deadline != kEndOfTime) deadlines_.erase({waiter.deadline, waiter.arrival});
  --size_;
  // Turns are remembered while somebody waits: whoever comes when nobody does competes with nobody.
  if (--level.size == 0) levels_.erase(found);
}

void WaitQueue::forget_idle_flows(Level& level) {
  const bool too_many = level.flows.size() > level.order.size() + kIdleFlowsMax;
  std::erase_if(level.flows, [&](const auto& entry) {
    const Flow& flow = entry.second;
    return flow.line.front() == nullptr && (too_many || flow.start <= level.virtual_time);
  });
}

void WaitQueue::correct(int priority, std::uint64_t turn, std::int64_t share) {
  const auto at = levels_.find(priority);
  if (at == levels_.end()) return;
  Level& level = at->second;
  if (level.weight > 0) level.virtual_time += stretch(share, level.weight);
  const auto found = level.flows.find(turn);
  if (found == level.flows.end()) return;
  Flow& flow = found->second;
  const bool waiting = flow.line.front() != nullptr;
  if (waiting) unfile(level, flow);
  const Int128 correction = stretch(share, flow.weight);
  flow.start += correction;
  if (!waiting) flow.overpaid = std::max<Int128>(flow.overpaid - correction, 0);
  if (waiting) file(level, flow);
}

Instant WaitQueue::next_deadline() const {
  return deadlines_.empty() ? kEndOfTime : deadlines_.begin()->first.first;
}

Waiter* WaitQueue::expired(Instant now) const {
  return next_deadline() <= now ? deadlines_.begin()->second : nullptr;
}

}  // namespace weir
