#include "gate/waiter.h"

#include <deque>
#include <utility>

namespace weir {

void Waiter::complete(Result<Permit> outcome, Effects& effects) {
  gate.store(nullptr, std::memory_order_release);
  effects.completions.push_back({std::move(self), std::move(outcome)});
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
    // What the callback holds is let go of with it, and not only with the last ticket.
    std::exchange(waiter->done, nullptr)(std::move(outcome));
  }
  running = nullptr;
}

}  // namespace weir
