// One who waits, and what a decision leaves to do once the locks are released.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weir/gate/observer.h"
#include "weir/gate/path.h"

namespace weir {

struct Effects;
struct Flow;

struct Waiter {
  Waiter(const Path& p, const Request& request, Instant now, Instant until, Callback callback,
         std::uint64_t number)
      : path(p),
        cost(request.cost),
        agent(request.agent),
        turn(std::hash<std::string_view>{}(request.agent) | 1U),
        priority(request.priority),
        weight(request.weight),
        waits_for_limits(request.waits_for_limits),
        arrival(number),
        arrived(now),
        deadline(until),
        done(std::move(callback)) {}

  Path path;
  Cost cost;
  std::string agent;
  std::uint64_t turn;  // names the agent's line in a queue; never 0
  int priority;
  std::uint32_t weight;
  bool waits_for_limits;
  std::uint64_t arrival;  // orders the waiters of one agent
  Instant arrived;
  Instant deadline;
  Callback done;
  bool for_backing = false;  // the limits would have admitted it on its arrival

  // Where it queues; null once its wait has ended. Changed under the locks of the whole path.
  std::atomic<Gate*> gate{nullptr};
  std::shared_ptr<Waiter> self;  // keeps it alive while it waits

  // Who has found it under a lock and looks at it without one, and kEnded. Its completion is left
  // to the last of them: whoever is told may end the gates of the path.
  static constexpr std::uint32_t kEnded = 1U << 31;
  std::atomic<std::uint32_t> visits{0};
  std::unique_ptr<Result<Permit>> outcome;  // while it is left to them

  // The rest belongs to the gate where it queues.
  std::uint8_t passed = 0;  // gates of the path, by position, at which it has had its turn
  std::uint32_t hit = 0;    // limits whose refusal has been counted
  std::int64_t share = 0;   // of that gate's limits; see Limit::share
  Flow* flow = nullptr;     // null while it is served first, having come back
  Waiter* previous = nullptr;
  Waiter* next = nullptr;

  Request request() const {
    return {.cost = cost,
            .agent = agent,
            .priority = priority,
            .weight = weight,
            .waits_for_limits = waits_for_limits};
  }
  std::uint8_t bit(const Gate& at) const {
    const auto gates = path.gates();
    return static_cast<std::uint8_t>(1U << (std::ranges::find(gates, &at) - gates.begin()));
  }
  bool has_passed(const Gate& at) const { return (passed & bit(at)) != 0; }

  // Its wait is over; it must have left its queue.
  void complete(Result<Permit> result, Effects& effects);
  // True if somebody looks at it: then `result` is theirs to deliver.
  bool leaves_to_visitor(Result<Permit>& result);
};

// Completions and events, to be run when no lock is held.
struct Effects {
  struct Completion {
    std::shared_ptr<Waiter> waiter;
    Result<Permit> outcome;
  };
  struct Note {
    Observer* observer;
    Event event;
    std::string agent;
    std::string limit;
  };

  std::vector<Completion> completions;
  std::vector<Note> notes;
  std::vector<std::shared_ptr<Waiter>> visits;

  // Under the lock of a gate that it passes: from now to run() all gates of its path stay.
  Waiter& visit(const Waiter& waiter) {
    visits.push_back(waiter.self);
    visits.back()->visits.fetch_add(1, std::memory_order_relaxed);
    return *visits.back();
  }

  void note(Observer* observer, Event event, std::string_view agent, std::string_view limit = {});

  // A callback may release permits and so complete others; those run after it on the same thread,
  // not inside it, so that a chain of any length needs no stack.
  void run() noexcept {
    if (!notes.empty() || !completions.empty() || !visits.empty()) run_all();
  }

 private:
  void run_all() noexcept;
};

}  // namespace weir
