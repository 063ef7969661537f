// The waiters of one gate in the order in which they are served: strictly by priority; within a
// priority by agent, fairly; within an agent by arrival. Not thread-safe: the gate's lock guards
// it.
//
// Fairness is weighted fair queueing. Each agent's next waiter has a tag: where its agent's last
// turn ended, plus its share of the gate's limits divided by its agent's weight; the lowest tag is
// served. The virtual time runs with the work: by what is served, divided by the weights of all who
// wait; no newcomer's turn starts before it. So equal weights get equal shares whatever the sizes,
// a large request is passed only until the others have had as much, and neither an idle agent saves
// up turns nor a stream of new agents starves an old one.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "gate/waiter.h"
#include "weir/core/int128.h"

namespace weir {

// A doubly linked list through Waiter::previous and ::next, in order of arrival.
class Line {
 public:
  Waiter* front() const { return front_; }
  void insert(Waiter& waiter);
  void erase(Waiter& waiter);

 private:
  Waiter* front_ = nullptr;
  Waiter* back_ = nullptr;
};

// The waiters of one agent in one priority.
struct Flow {
  std::uint64_t turn = 0;
  std::uint32_t weight = 1;
  Int128 start = 0;     // where its next turn starts, in shares × kShareScale / weight
  Int128 overpaid = 0;  // given back while it had nobody in line; the virtual time was not
  Int128 tag = 0;       // where it ends: the key under which the flow stands in the order
  Line line;

  using Key = std::pair<Int128, std::uint64_t>;  // a total order
  Key key() const { return {tag, turn}; }
};

class WaitQueue {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  // The priority of the head; nothing if nobody waits.
  std::optional<int> top_priority() const;
  Waiter* head() const;

  // Joins its agent's line; waiter.share must be set. One that has had its turn here goes first.
  void push(Waiter& waiter);
  void push_first(Waiter& waiter);
  // Leaves without having had its turn.
  void remove(Waiter& waiter) { leave(waiter, Turn::kKept); }
  // The head leaves, and its agent pays for the turn.
  void serve(Waiter& waiter) { leave(waiter, Turn::kUsed); }

  // An agent's turns have cost `share` more (or less) than was counted.
  void correct(int priority, std::uint64_t turn, std::int64_t share);

  Instant next_deadline() const;
  // The first waiter whose deadline is not after `now`: of one deadline, the earliest arrival.
  Waiter* expired(Instant now) const;

  // Visits all in the order in which they would be served if nobody else came and nobody left,
  // until `visit` returns false.
  template <class F>
  void for_each(F visit) const {
    for (const auto& [priority, level] : levels_) {
      for (const Waiter* w = level.first.front(); w != nullptr; w = w->next) {
        if (!visit(*w)) return;
      }
      // An agent's second waiter has its turn where that of its first ends, and so on.
      std::map<Key, const Waiter*> later;
      auto flow = level.order.begin();
      while (flow != level.order.end() || !later.empty()) {
        Key key;
        const Waiter* waiter = nullptr;
        if (flow != level.order.end() && (later.empty() || (*flow)->key() < later.begin()->first)) {
          key = (*flow)->key();
          waiter = (*flow)->line.front();
          ++flow;
        } else {
          std::tie(key, waiter) = *later.begin();
          later.erase(later.begin());
        }
        if (!visit(*waiter)) return;
        if (const Waiter* next = waiter->next) {
          later[{key.first + stretch(next->share, next->flow->weight), key.second}] = next;
        }
      }
    }
  }

 private:
  enum class Turn : std::uint8_t { kKept, kUsed };
  // Divides by any 32-bit weight without losing the smallest share.
  static constexpr Int128 kShareScale = Int128{1} << 32;
  // More agents than this without anybody in line, and debts to their turns, are forgotten.
  static constexpr std::size_t kIdleFlowsMax = 65'536;

  using Key = Flow::Key;
  struct ByTag {
    bool operator()(const Flow* a, const Flow* b) const { return a->key() < b->key(); }
  };

  static Int128 stretch(std::int64_t share, std::uint64_t weight) {
    return share * kShareScale / static_cast<Int128>(weight);
  }

  struct Level {
    Int128 virtual_time = 0;
    std::uint64_t weight = 0;  // of all flows in the order
    Line first;                // back from a lower gate
    std::unordered_map<std::uint64_t, Flow> flows;
    std::set<Flow*, ByTag> order;  // those with somebody in line
    std::size_t size = 0;
  };

  void leave(Waiter& waiter, Turn turn);
  void joined(Waiter& waiter, Level& level);
  static void file(Level& level, Flow& flow);
  static void unfile(Level& level, Flow& flow);
  static void forget_idle_flows(Level& level);

  std::map<int, Level, std::greater<>> levels_;
  std::map<std::pair<Instant, std::uint64_t>, Waiter*> deadlines_;  // by deadline, then arrival
  std::size_t size_ = 0;
};

}  // namespace weir
