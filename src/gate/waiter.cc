#include "gate/waiter.h"

#include <deque>
#include <utility>

namespace weir {

void Waiter::complete(Result<Permit> result, Effects& effects) {
  gate.store(nullptr, std::memory_order_release);
  effects.completions.push_back({std::move(self), std::move(result)});
}

bool Waiter::leaves_to_visitor(Result<Permit>& result) {
  // Nobody comes any more once the wait is over.
  if ((visits.load(std::memory_order_acquire) & ~kEnded) == 0) return false;
  outcome = std::make_unique<Result<Permit>>(std::move(result));
  if ((visits.fetch_or(kEnded, std::memory_order_acq_rel) & ~kEnded) != 0) return true;
  result = std::move(*outcome);
  return false;
}

void Effects::note(Observer* observer, Event event, std::string_view agent,
                   std::string_view limit) {
  if (observer == nullptr) return;
  notes.push_back({observer, event, std::string{agent}, std::string{limit}});
}

void Effects::run_all() noexcept {
  for (Note& note : notes) {
    note.event.agent = note.agent;
    note.event.limit = note.limit;
    note.observer->observe(note.event);
  }
  notes.clear();
  for (auto& waiter : std::exchange(visits, {})) {
    if (waiter->visits.fetch_sub(1, std::memory_order_acq_rel) != (Waiter::kEnded | 1U)) continue;
    Result<Permit> outcome = std::move(*waiter->outcome);
    completions.push_back({std::move(waiter), std::move(outcome)});
  }
  if (completions.empty()) return;

  thread_local std::deque<Completion>* running = nullptr;
  if (running != nullptr) {
    std::move(completions.begin(), completions.end(), std::back_inserter(*running));
    completions.clear();
    return;
  }
  std::deque<Completion> pending{std::make_move_iterator(completions.begin()),
                                 std::make_move_iterator(completions.end())};
  completions.clear();
  running = &pending;
  for (; !pending.empty(); pending.pop_front()) {
    auto& [waiter, outcome] = pending.front();
    if (waiter->leaves_to_visitor(outcome)) continue;
    // What the callback holds is let go of with it, and not only with the last ticket.
    std::exchange(waiter->done, nullptr)(std::move(outcome));
  }
  running = nullptr;
}

}  // namespace weir
