// A naive model of one gate, for property tests: no alarms, no lists threaded through waiters, no
// words; it looks at everybody again whenever anything happens, and searches time by bisection.
//
// It takes the arithmetic of a single limit from Limit, which core/limit_property_test.cc holds
// against models of its own, and uses no retry_after. A plain value: a copy runs ahead by itself.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "weir/core/int128.h"
#include "weir/core/limit.h"
#include "weir/gate/request.h"

namespace weir {

inline std::ostream& operator<<(std::ostream& out, const Cost& cost) {
  for (std::size_t i = 0; i < kUnitCount; ++i) {
    const Unit unit{static_cast<std::uint8_t>(i)};
    if (cost.names(unit)) out << cost[unit] << " " << name(unit) << " ";
  }
  return out;
}

}  // namespace weir

namespace weir::reference {

class GateModel {
 public:
  struct Outcome {
    int id;
    Instant at;
    std::optional<Errc> why;  // nothing: it was admitted

    friend bool operator==(const Outcome&, const Outcome&) = default;
    friend std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
      return out << "#" << outcome.id << " " << (outcome.why ? name(*outcome.why) : "admitted")
                 << " at " << outcome.at.time_since_epoch().count() << " ns";
    }
  };
  struct Ask {
    int id = 0;
    Cost cost;
    std::string agent;
    int priority = 0;
    std::uint32_t weight = 1;
    Instant deadline = kEndOfTime;

    friend std::ostream& operator<<(std::ostream& out, const Ask& ask) {
      return out << "#" << ask.id << " of " << ask.agent << " (priority " << ask.priority
                 << ", weight " << ask.weight << ") for " << ask.cost;
    }
  };
  enum class Answer { kAdmitted, kWait, kNever, kEnded };

  GateModel(std::vector<LimitSpec> specs, Nanos stale_after, Instant now)
      : now_(now), stale_after_(stale_after) {
    for (LimitSpec& spec : specs) {
      limits_.push_back(Limit::create(std::move(spec), now).value());
      added_at_[limits_.back().spec().name] = Instant::min();
    }
  }

  Answer attempt(const Ask& ask) {
    const Answer answer = look_at(ask);
    if (answer == Answer::kAdmitted) admit(ask, std::nullopt);
    return answer;
  }

  void wait(const Ask& ask) {
    switch (look_at(ask)) {
      case Answer::kAdmitted: return admit(ask, std::nullopt);
      case Answer::kNever: return end(ask.id, Errc::kNeverFits);
      case Answer::kEnded: return end(ask.id, *closed_);
      case Answer::kWait: break;
    }
    if (ask.deadline <= now_) return end(ask.id, Errc::kDeadlineExceeded);
    Level& level = levels_[ask.priority];
    Turn& turn = level.turns[ask.agent];
    if (!in_line(ask.priority, ask.agent)) {
      turn.start = std::max(turn.start, level.virtual_time - turn.overpaid);
      turn.overpaid = 0;
      turn.weight = std::max<std::uint32_t>(ask.weight, 1);
    }
    waiting_.push_back({ask, share(ask.cost), now_});
    serve();
  }

  void cancel(int id) {
    const auto found = std::ranges::find(waiting_, id, [](const Waiting& w) { return w.ask.id; });
    if (found == waiting_.end()) return;
    leave(static_cast<std::size_t>(found - waiting_.begin()), Errc::kCancelled);
    serve();
  }

  void settle(int id, const Cost& actual) {
    Held& held = permits_.at(id);
    Cost settled = held.ask.cost;
    for (Limit& limit : limits_) {
      if (limit.borrowed() || !actual.names(limit.unit())) continue;
      const Amount excess = actual[limit.unit()] - held.ask.cost[limit.unit()];
      if (excess > 0) limit.take(excess, now_);
      const bool charged = held.since > added_at_.at(limit.spec().name);
      if (excess < 0 && charged) limit.refund(-excess, held.since, now_);
      settled = settled.with(limit.unit(), actual[limit.unit()]);
    }
    if (held.waited) correct(held.ask, share(settled) - share(held.ask.cost));
    serve();
  }

  void release(int id) {
    const auto found = std::ranges::find(slots_, id);
    if (found == slots_.end()) return;
    slots_.erase(found);
    give_back(id);
    serve();
  }

  void refund(const Cost& cost) {
    for (Limit& limit : limits_) limit.refund(cost[limit.unit()], now_, now_);
    serve();
  }

  void set_limits(std::vector<LimitSpec> specs) {
    std::vector<Limit> limits;
    for (LimitSpec& spec : specs) {
      Limit limit = Limit::create(std::move(spec), now_).value();
      for (const Limit& old : limits_) {
        if (old.spec().name == limit.spec().name && !limit.borrowed()) limit.carry_over(old, now_);
      }
      if (limit.borrowed()) {
        for (int id : slots_) limit.take(permits_.at(id).ask.cost[Unit::kSlots], now_);
      }
      limits.push_back(std::move(limit));
    }
    limits_ = std::move(limits);
    std::map<std::string, Instant> added_at;
    for (const Limit& limit : limits_) {
      const auto before = added_at_.find(limit.spec().name);
      added_at[limit.spec().name] = before == added_at_.end() ? now_ : before->second;
    }
    added_at_ = std::move(added_at);
    std::vector<int> hopeless;
    for (const Ask& ask : in_order()) {
      if (never(ask.cost)) hopeless.push_back(ask.id);
    }
    for (int id : hopeless) leave(index_of(id), Errc::kNeverFits);
    serve();
  }

  void hold_until(Instant at) {
    if (at > now_) held_until_ = std::max(held_until_, at);
  }
  void resume() {
    held_until_ = Instant::min();
    serve();
  }
  bool paused() const { return held_until_ == kEndOfTime; }

  void end_waiters(Errc reason) {
    for (const Ask& ask : in_order()) leave(index_of(ask.id), reason);
  }

  void close(Errc reason) {
    if (closed_) return;
    closed_ = reason;
    for (const Ask& ask : in_order()) leave(index_of(ask.id), reason);
  }

  // Lets everything happen that happens up to `at`, each at its instant.
  void advance_to(Instant at) {
    for (Instant next = next_event(); next <= at; next = next_event()) {
      now_ = std::max(now_, next);
      happen();
    }
    now_ = std::max(now_, at);
  }
  void step_back(Nanos by) { now_ -= by; }

  // When `attempt(ask)` first succeeds if nobody else comes; nothing if that is not known.
  std::optional<Instant> first_success(const Ask& ask) const {
    GateModel ahead = *this;
    while (true) {
      if (ahead.look_at(ask) == Answer::kAdmitted) return ahead.now_;
      const Instant next = ahead.next_event();
      const Instant fits = ahead.is_behind(ask.priority) ? kEndOfTime : ahead.first_fit(ask.cost);
      if (fits < next) return fits;
      if (next == kEndOfTime) return std::nullopt;
      ahead.now_ = next;
      ahead.happen();
    }
  }

  const std::vector<Outcome>& outcomes() const { return outcomes_; }
  const std::vector<Limit>& limits() const { return limits_; }
  std::size_t waiting() const { return waiting_.size(); }
  bool lends() const {
    return std::ranges::any_of(limits_, [](const Limit& limit) { return limit.borrowed(); });
  }
  Instant now() const { return now_; }
  std::uint64_t acquired() const { return acquired_; }
  std::uint64_t waited() const { return waited_; }
  std::uint64_t reclaimed() const { return reclaimed_; }
  Nanos total_wait() const { return total_wait_; }

 private:
  struct Waiting {
    Ask ask;
    std::int64_t share;
    Instant arrived{};
  };
  struct Held {
    Ask ask;
    Instant since;
    bool waited;
  };
  struct Turn {
    Int128 start = 0;
    Int128 overpaid = 0;
    std::uint32_t weight = 1;
  };
  struct Level {
    Int128 virtual_time = 0;
    std::map<std::string, Turn> turns;
  };

  static Int128 stretch(std::int64_t share, std::int64_t weight) {
    return static_cast<Int128>(share) * (Int128{1} << 32) / weight;
  }
  // Of all agents with somebody in line.
  std::int64_t weight_of(int priority) const {
    std::int64_t sum = 0;
    for (const auto& [agent, turn] : levels_.at(priority).turns) {
      if (in_line(priority, agent)) sum += turn.weight;
    }
    return sum;
  }
  // The agent's turns have cost `share` more or less than they were counted for.
  void correct(const Ask& ask, std::int64_t share) {
    const auto level = levels_.find(ask.priority);
    if (level == levels_.end()) return;
    level->second.virtual_time += stretch(share, weight_of(ask.priority));
    const auto turn = level->second.turns.find(ask.agent);
    if (turn == level->second.turns.end()) return;
    const Int128 correction = stretch(share, turn->second.weight);
    turn->second.start += correction;
    if (in_line(ask.priority, ask.agent)) return;
    turn->second.overpaid = std::max<Int128>(turn->second.overpaid - correction, 0);
  }
  std::int64_t share(const Cost& cost) const {
    const auto largest = [&](bool borrowed) {
      std::int64_t share = 0;
      for (const Limit& limit : limits_) {
        if (limit.borrowed() == borrowed) share = std::max(share, limit.share(cost[limit.unit()]));
      }
      return share;
    };
    if (const std::int64_t consumed = largest(false); consumed > 0) return consumed;
    return std::max<std::int64_t>(largest(true), 1);
  }

  bool never(const Cost& cost) const {
    return std::ranges::any_of(limits_, [&](const Limit& limit) {
      return limit.check(cost[limit.unit()], now_).kind == Decision::Kind::kNever;
    });
  }
  bool fits(const Cost& cost, Instant at) const {
    return at >= held_until_ && std::ranges::all_of(limits_, [&](const Limit& limit) {
             return limit.check(cost[limit.unit()], at).admitted();
           });
  }
  bool slots_fit(const Cost& cost) const {
    return std::ranges::all_of(limits_, [&](const Limit& limit) {
      return !limit.borrowed() || limit.check(cost[limit.unit()], now_).admitted();
    });
  }
  bool is_behind(int priority) const {
    return std::ranges::any_of(waiting_,
                               [&](const Waiting& w) { return w.ask.priority >= priority; });
  }
  bool in_line(int priority, const std::string& agent) const {
    return std::ranges::any_of(waiting_, [&](const Waiting& w) {
      return w.ask.priority == priority && w.ask.agent == agent;
    });
  }
  std::size_t index_of(int id) const {
    const auto found = std::ranges::find(waiting_, id, [](const Waiting& w) { return w.ask.id; });
    return static_cast<std::size_t>(found - waiting_.begin());
  }

  // Slots look full: those held longer than stale_after come back.
  void reclaim(const Cost& cost) {
    const bool look_full = std::ranges::any_of(limits_, [&](const Limit& limit) {
      return limit.borrowed() &&
             limit.check(cost[limit.unit()], now_).kind == Decision::Kind::kWait;
    });
    if (stale_after_ == Nanos{0} || !look_full) return;
    while (!slots_.empty() && now_ - permits_.at(slots_.front()).since > stale_after_) {
      give_back(slots_.front());
      slots_.erase(slots_.begin());
      ++reclaimed_;
    }
  }
  void give_back(int id) {
    for (Limit& limit : limits_) limit.give_back(permits_.at(id).ask.cost[Unit::kSlots]);
  }

  Answer look_at(const Ask& ask) {
    if (closed_) return Answer::kEnded;
    reclaim(ask.cost);
    if (never(ask.cost)) return Answer::kNever;
    return is_behind(ask.priority) || !fits(ask.cost, now_) ? Answer::kWait : Answer::kAdmitted;
  }

  void admit(const Ask& ask, std::optional<Instant> arrived) {
    const bool lends_slots = lends() && ask.cost[Unit::kSlots] > 0;
    for (Limit& limit : limits_) limit.take(ask.cost[limit.unit()], now_);
    permits_[ask.id] = {ask, now_, arrived.has_value()};
    if (lends_slots) slots_.push_back(ask.id);
    ++acquired_;
    if (arrived) {
      ++waited_;
      total_wait_ += now_ - *arrived;
    }
    outcomes_.push_back({ask.id, now_, std::nullopt});
  }
  void end(int id, Errc why) { outcomes_.push_back({id, now_, why}); }

  Int128 tag(const Waiting& w) const {
    const Turn& turn = levels_.at(w.ask.priority).turns.at(w.ask.agent);
    return turn.start + stretch(w.share, turn.weight);
  }
  // The highest priority; of it the first of each agent; of these the lowest tag.
  std::optional<std::size_t> head() const {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      const Waiting& w = waiting_[i];
      if (!best) {
        best = i;
        continue;
      }
      const Waiting& b = waiting_[*best];
      if (w.ask.priority != b.ask.priority) {
        if (w.ask.priority > b.ask.priority) best = i;
        continue;
      }
      const bool first_of_agent =
          std::none_of(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(i),
                       [&](const Waiting& x) {
                         return x.ask.agent == w.ask.agent && x.ask.priority == w.ask.priority;
                       });
      const auto key = [&](const Waiting& x) {
        return std::pair{tag(x), std::hash<std::string_view>{}(x.ask.agent) | 1U};
      };
      if (first_of_agent && key(w) < key(b)) best = i;
    }
    return best;
  }

  void remove(std::size_t i) {
    const int priority = waiting_[i].ask.priority;
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    const bool empty = std::ranges::none_of(
        waiting_, [&](const Waiting& w) { return w.ask.priority == priority; });
    if (empty) levels_.erase(priority);
  }
  void leave(std::size_t i, Errc why) {
    end(waiting_[i].ask.id, why);
    remove(i);
  }
  void use_turn(std::size_t i) {
    const Waiting& w = waiting_[i];
    Level& level = levels_.at(w.ask.priority);
    level.turns.at(w.ask.agent).start = tag(w);
    level.virtual_time += stretch(w.share, weight_of(w.ask.priority));
    remove(i);
  }

  void serve() {
    if (closed_) return;
    while (const auto first = head()) {
      const Waiting next = waiting_[*first];
      reclaim(next.ask.cost);
      if (!fits(next.ask.cost, now_)) return;
      use_turn(*first);
      admit(next.ask, next.arrived);
    }
  }

  // Who is due is served; then deadlines end waits, one after another.
  void happen() {
    if (now_ >= held_until_) held_until_ = Instant::min();
    serve();
    while (true) {
      const auto first =
          std::ranges::min_element(waiting_, {}, [](const Waiting& w) { return w.ask.deadline; });
      if (first == waiting_.end() || first->ask.deadline > now_) return;
      leave(static_cast<std::size_t>(first - waiting_.begin()), Errc::kDeadlineExceeded);
      serve();
    }
  }

  Instant next_event() const {
    Instant next = held_until_ == Instant::min() ? kEndOfTime : held_until_;
    for (const Waiting& w : waiting_) next = std::min(next, w.ask.deadline);
    const auto first = head();
    if (!first) return next;
    const Cost& cost = waiting_[*first].ask.cost;
    if (slots_fit(cost)) return std::min(next, first_fit(cost));
    if (stale_after_ == Nanos{0} || slots_.empty()) return next;
    return std::min(next, permits_.at(slots_.front()).since + stale_after_ + Nanos{1});
  }

  // The first instant from now on at which all limits admit; the end of time if slots do not.
  Instant first_fit(const Cost& cost) const {
    if (fits(cost, now_)) return now_;
    Instant late = kInstantMax;
    if (!fits(cost, late)) return kEndOfTime;
    Instant early = now_;
    while (late - early > Nanos{1}) {
      const Instant middle = early + (late - early) / 2;
      (fits(cost, middle) ? late : early) = middle;
    }
    return late;
  }

  std::vector<Ask> in_order() const {
    GateModel copy = *this;
    std::vector<Ask> order;
    while (const auto first = copy.head()) {
      order.push_back(copy.waiting_[*first].ask);
      copy.use_turn(*first);
    }
    return order;
  }

  Instant now_;
  Nanos stale_after_;
  std::vector<Limit> limits_;
  std::map<std::string, Instant> added_at_;  // of limits, by name
  std::vector<Waiting> waiting_;             // in order of arrival
  std::map<int, Level> levels_;              // those with somebody waiting
  std::map<int, Held> permits_;
  std::vector<int> slots_;  // who holds some, in order of admission
  std::optional<Errc> closed_;
  Instant held_until_ = Instant::min();
  std::vector<Outcome> outcomes_;
  std::uint64_t acquired_ = 0;
  std::uint64_t waited_ = 0;
  std::uint64_t reclaimed_ = 0;
  Nanos total_wait_{0};
};

}  // namespace weir::reference
