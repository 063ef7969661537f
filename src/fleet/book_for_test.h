// TestBook: lease.lua's decisions as a plain state machine, its twin (lease_vectors_test.cc).
//
// Copyable, so that a simulator can restore what a server would have after it lost its last
// writes. Not thread-safe.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "fleet/lease.h"
#include "weir/core/cost.h"

namespace weir::fleet {

// The script's arithmetic: products are exact below 2^53, and beyond that one is added to or taken
// from the rounded result, which is more than the error of a quotient below 2^52. Results are at
// most 2^52: as an instant, the year 2112.
namespace book {

inline constexpr double kExactBelow = 9'007'199'254'740'992.0;
inline constexpr std::int64_t kLatest = std::int64_t{1} << 52;

// a × b ÷ c, rounded up and down.
inline std::int64_t scaled_up(std::int64_t a, std::int64_t b, std::int64_t c) {
  const double product = static_cast<double>(a) * static_cast<double>(b);
  const double up = std::ceil(product / static_cast<double>(c)) + (product < kExactBelow ? 0 : 1);
  return static_cast<std::int64_t>(std::min(up, static_cast<double>(kLatest)));
}
inline std::int64_t scaled_down(std::int64_t a, std::int64_t b, std::int64_t c) {
  const double product = static_cast<double>(a) * static_cast<double>(b);
  const double down =
      std::floor(product / static_cast<double>(c)) - (product < kExactBelow ? 0 : 1);
  return static_cast<std::int64_t>(std::clamp(down, 0.0, static_cast<double>(kLatest)));
}

// A limit in the book, by the configuration of whoever asked last.
struct Limit {
  LeaseKind kind = LeaseKind::kWindow;
  Amount amount = 0;
  Micros period = 0;
  Amount burst = 0;
  BookState state{};                      // log: {oldest slice, used, newest slice}
  std::map<std::int64_t, Amount> slices;  // log: by expiry ÷ width

  static Limit fresh(const LeaseAsk& ask, Micros now) {
    Limit limit{ask.kind, ask.amount, ask.period, ask.burst, {}, {}};
    if (ask.kind == LeaseKind::kCounter || ask.kind == LeaseKind::kStepped) limit.state[0] = now;
    if (ask.kind == LeaseKind::kLog)
      limit.state = {limit.first_slice(now), 0, limit.first_slice(now)};
    return limit;
  }

  bool has_burst() const { return kind == LeaseKind::kBucket || kind == LeaseKind::kStepped; }
  Amount capacity() const { return has_burst() ? burst : amount; }
  Amount most() const { return capacity() + kAmountMax; }  // a count ends here, debts included
  // A log's slices are numbered by expiry ÷ width, and count until a period after their end.
  Micros width() const { return (period + 399) / 400; }
  std::int64_t first_slice(Micros now) const { return now < period ? 0 : (now - period) / width(); }

  // The limit as `ask` has it. Windows and steps of the same length go on, and what was counted in
  // them stays counted; anything else begins with what the old one had left.
  void adapt(const LeaseAsk& ask, Micros now) {
    roll(now);
    const bool same_kind = kind == ask.kind;
    const bool same_period = same_kind && period == ask.period;
    if (kind == LeaseKind::kSlots || (same_period && (amount == ask.amount || !has_burst()))) {
      amount = ask.amount;
      burst = ask.burst;
      return;
    }
    Limit next = fresh(ask, now);
    if (kind == LeaseKind::kStepped && same_period) next.state[0] = state[0];
    const Amount left = same_kind ? std::min(free(now), next.capacity()) : 0;
    next.charge(next.capacity() - left, now + ask.ttl, ask.ends, now);
    *this = std::move(next);
  }

  void roll(Micros now) {
    if (kind == LeaseKind::kWindow) {
      if (state[0] <= now) state = {};
    } else if (kind == LeaseKind::kCounter || kind == LeaseKind::kStepped) {
      state = rolled(state, now);
    } else if (kind == LeaseKind::kLog) {
      const auto first = first_slice(now);
      while (!slices.empty() && slices.begin()->first < first) {
        state[1] -= slices.begin()->second;
        slices.erase(slices.begin());
      }
      state[0] = std::max(state[0], first);
      state[2] = std::max(state[2], state[0]);
    }
  }

  BookState rolled(BookState of, Micros now) const {
    const std::int64_t passed = now < of[0] ? 0 : (now - of[0]) / period;
    if (passed == 0) return of;
    of[0] += passed * period;
    if (kind == LeaseKind::kCounter) return {of[0], 0, passed == 1 ? of[1] : 0};
    const double arrived = static_cast<double>(passed) * static_cast<double>(amount);
    of[1] = arrived < static_cast<double>(of[1]) ? of[1] - passed * amount : 0;
    return of;
  }

  void merge(BookState witness, Micros now) {
    switch (kind) {
      case LeaseKind::kBucket: state[0] = std::max(state[0], witness[0]); break;
      case LeaseKind::kWindow:
        if (witness[0] > now) {
          state = {std::max(state[0], witness[0]), std::max(state[1], witness[1])};
        }
        break;
      case LeaseKind::kCounter:
      case LeaseKind::kStepped:
        witness = rolled(witness, now);
        if (witness[1] == 0 && witness[2] == 0) break;
        if (state[1] == 0 && state[2] == 0) {
          state = witness;
        } else {  // of two grids the later one: nothing fades or arrives early
          for (std::size_t i = 0; i < 3; ++i) state[i] = std::max(state[i], witness[i]);
        }
        break;
      case LeaseKind::kLog: {
        const auto newest = std::min(witness[2], (now + period) / width());
        if (newest >= state[0] && witness[1] > state[1]) {
          add(witness[1] - state[1], std::max({state[2], newest, now / width()}));
        }
        break;
      }
      case LeaseKind::kSlots: break;
    }
  }

  // Unused units of a grant that would live until `until` > `now`.
  void credit(Amount units, Micros until, Micros now) {
    switch (kind) {
      case LeaseKind::kBucket:
        if (state[0] > now) state[0] = std::max(now, state[0] - scaled_down(units, period, amount));
        break;
      case LeaseKind::kWindow:
      case LeaseKind::kCounter:
      case LeaseKind::kStepped: state[1] = std::max<Amount>(0, state[1] - units); break;
      case LeaseKind::kLog:
        if (const auto slice = slices.find(until / width()); slice != slices.end()) {
          units = std::min(units, slice->second);
          slice->second -= units;
          state[1] -= units;
        }
        break;
      case LeaseKind::kSlots: break;
    }
  }

  // Units that are spent by `until`.
  void charge(Amount units, Micros until, const std::vector<Micros>& ends, Micros now) {
    switch (kind) {
      case LeaseKind::kBucket:
        state[0] = std::min(std::max(state[0], now) + scaled_up(units, period, amount), kLatest);
        break;
      case LeaseKind::kWindow:
        if (end(ends, now) == 0) break;
        state[0] = end(ends, now);
        [[fallthrough]];
      case LeaseKind::kCounter:
      case LeaseKind::kStepped:
      case LeaseKind::kSlots: state[1] = std::min(state[1] + units, most()); break;
      case LeaseKind::kLog: add(units, until / width()); break;
    }
  }

  void add(Amount units, std::int64_t slice) {
    units = std::clamp<Amount>(most() - state[1], 0, units);
    slices[slice] += units;
    state[1] += units;
    state[2] = std::max(state[2], slice);
  }

  Amount free(Micros now) const {
    switch (kind) {
      case LeaseKind::kBucket: {
        // The worth of a whole burst is rounded up, since it is to fit: a microsecond's refill.
        const Micros room = scaled_up(burst, period, amount) - std::max<Micros>(state[0] - now, 0);
        if (room < 0) return -scaled_up(-room, amount, period);
        Amount units = scaled_down(room, amount, period);
        if (scaled_up(units, period, amount) > room) {
          units = scaled_down(std::max<Micros>(room - 2, 0), amount, period);
        }
        return std::min(units, burst);
      }
      case LeaseKind::kCounter: {
        const Micros overlap = period - std::max<Micros>(now - state[0], 0);
        return amount - state[1] - scaled_up(state[2], overlap, period);
      }
      default: return capacity() - state[1];
    }
  }

  // When the window, or the step, that a grant is made in ends; 0 if there is none.
  Micros end(const std::vector<Micros>& ends, Micros now) const {
    switch (kind) {
      case LeaseKind::kWindow: {
        if (state[0] > now) return state[0];
        if (ends.empty()) return now + period;
        const auto next = std::ranges::upper_bound(ends, now);
        return next == ends.end() ? 0 : *next;
      }
      case LeaseKind::kCounter:
      case LeaseKind::kStepped: return state[0] + period;
      default: return kLatest;
    }
  }
};

}  // namespace book

class TestBook {
 public:
  // `clock`: Redis's.
  LeaseAnswer decide(const LeaseCall& call, Micros clock) {
    if (const auto found = gates_.find(call.gate);
        found != gates_.end() && clock >= found->second.last + found->second.expire) {
      gates_.erase(found);
    }
    Gate& gate = gates_[call.gate];
    const Micros now = std::max(clock, gate.last);
    if (const auto known = gate.nodes.find(call.node); known != gate.nodes.end()) {
      if (call.sequence < known->second.sequence) return {.now = now, .stale = true, .grants = {}};
      if (call.sequence == known->second.sequence) {
        known->second.heard = now;
        return known->second.answer;
      }
    }
    gate.last = now;
    gate.expire = call.expire;

    const bool new_run = !gate.run.empty() && gate.run != call.run;
    if (new_run) {
      gate.quarantine_until = std::max(gate.quarantine_until, now + call.quarantine);
    } else if (gate.run.empty() && call.distrust > 0) {
      gate.quarantine_until = std::max(gate.quarantine_until, now + call.distrust);
    }
    gate.run = call.run;
    const bool quarantined = gate.quarantine_until > now;

    Node& node = gate.nodes[call.node];
    node.heard = now;
    forget_silent(gate, now - call.keep);
    const auto members = std::ranges::count_if(
        gate.nodes, [&](const auto& any) { return any.second.heard >= now - call.member_ttl; });

    node.sequence = call.sequence;
    node.answer = {.now = now,
                   .members = members,
                   .quarantine = std::max<Micros>(gate.quarantine_until - now, 0),
                   .stale = false,
                   .grants = std::vector<LeaseGrant>(call.asks.size())};
    std::map<std::string, Amount> held;  // as this call says it
    for (std::size_t i = 0; i < call.asks.size(); ++i) {
      const LeaseAsk& ask = call.asks[i];
      LeaseGrant& grant = node.answer.grants[i];
      book::Limit& limit =
          gate.limits.try_emplace(key(ask), book::Limit::fresh(ask, now)).first->second;
      limit.adapt(ask, now);
      if (ask.has_witness) limit.merge(ask.witness, now);
      if (ask.back_until > now && !new_run && !quarantined) {
        limit.credit(ask.back, ask.back_until, now);
      }
      if (ask.kind == LeaseKind::kSlots) {
        if (held.try_emplace(ask.limit).second) limit.state[1] -= node.held[ask.limit];
        held[ask.limit] += ask.held;
        limit.state[1] += ask.held;
      } else if (ask.owed > 0) {
        limit.charge(ask.owed, now, ask.ends, now);
      }
      if (!quarantined) give(ask, limit, members, now, grant);
      if (ask.kind == LeaseKind::kSlots) {
        const bool refused = !quarantined && ask.want > 0 && grant.units == 0;
        const Amount fair = (ask.amount + members - 1) / members;
        if (refused && held[ask.limit] < fair) limit.state[2] = now;
        node.held[ask.limit] = held[ask.limit] += grant.units;
      }
    }
    for (std::size_t i = 0; i < call.asks.size(); ++i) {
      const book::Limit& limit = gate.limits.at(key(call.asks[i]));
      node.answer.grants[i].free = limit.free(now);
      node.answer.grants[i].state = limit.state;
    }
    return node.answer;
  }

 private:
  struct Node {
    std::int64_t sequence = 0;
    LeaseAnswer answer;
    Micros heard = 0;                    // the last word
    std::map<std::string, Amount> held;  // slots
  };
  // Slots are borrowed, not used: a limit of the same name that was something else is another one.
  using Key = std::pair<bool, std::string>;
  struct Gate {
    Micros last = 0;
    Micros expire = 0;
    Micros quarantine_until = 0;
    std::string run;
    std::map<std::string, Node> nodes;
    std::map<Key, book::Limit> limits;
  };

  static Key key(const LeaseAsk& ask) { return {ask.kind == LeaseKind::kSlots, ask.limit}; }

  static void forget_silent(Gate& gate, Micros before) {
    std::erase_if(gate.nodes, [&](const auto& any) {
      if (any.second.heard >= before) return false;
      for (const auto& [limit, units] : any.second.held) {
        gate.limits.at({true, limit}).state[1] -= units;
      }
      return true;
    });
  }

  static void give(const LeaseAsk& ask, book::Limit& limit, std::int64_t members, Micros now,
                   LeaseGrant& grant) {
    const Amount free = limit.free(now);
    const Micros end = limit.end(ask.ends, now);
    const Amount share = ask.kind == LeaseKind::kBucket  ? free / members
                         : ask.kind == LeaseKind::kSlots ? (members == 1 ? free : free / 2)
                                                         : free / (2 * members);
    const Amount units = std::min(ask.want, std::max(ask.least, share));
    if (units == 0 || units > free || units < ask.least || end == 0) return;
    grant.units = units;
    grant.expires = std::min(now + ask.ttl, end);
    limit.charge(units, grant.expires, ask.ends, now);
  }

  std::map<std::string, Gate> gates_;
};

// As lease_vectors.txt has it.
inline void PrintTo(const LeaseAnswer& answer, std::ostream* out) {
  *out << "= " << answer.now << ' ' << answer.members << ' ' << answer.quarantine << ' '
       << answer.stale;
  for (const LeaseGrant& grant : answer.grants) {
    *out << "\ngrant " << grant.units << ' ' << grant.expires << ' ' << grant.free;
    for (const std::int64_t number : grant.state) *out << ' ' << number;
  }
}

}  // namespace weir::fleet
