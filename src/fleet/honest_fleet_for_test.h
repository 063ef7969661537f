// HonestFleet: nodes that keep to the protocol of lease.h, on a TestBook that loses things.
//
// In stepped time: nodes ask, spend what they were granted before it expires, return, lose replies,
// repeat, are paused and die; the book's clock lags; the server is replaced by one that lost its
// last writes, or all of them. What was spent is then held against the limit's own model, which
// knows nothing of leases. One limit for each fleet.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/random_limit.h"
#include "fleet/book_for_test.h"
#include "fleet/lease.h"
#include "weir/core/int128.h"

namespace weir::fleet {

class HonestFleet {
 public:
  HonestFleet(LeaseKind kind, std::uint64_t seed) : dice_(seed), kind_(kind) {
    ask_.limit = "limit";
    ask_.kind = kind;
    ask_.amount = dice_.between(1, 20);
    ask_.period = dice_.between(1, 9) * kSecond / 10 + dice_.between(0, 7);
    ask_.burst = dice_.between(1, 20);
    ask_.ttl = dice_.between(1, ask_.period);
    for (int i = 0; i < 4; ++i) born();
  }

  void run(int steps) {
    while (steps-- > 0) {
      now_ += dice_.pick<Micros>({0, 1, 1'000, 10'000, 30'000, kSecond / 10});
      keep_word();
      if (dice_.one_in(40)) backups_.push_back(book_);
      if (dice_.one_in(60)) replace_server();
      if (dice_.one_in(60)) born();
      Node& node = nodes_[static_cast<std::size_t>(dice_.between(0, std::ssize(nodes_) - 1))];
      if (dice_.one_in(50)) node.dead = true;
      spend(node);
      call(node);
      check_slots();
    }
  }

  // What was wrong; empty if nothing was.
  std::string over() const {
    switch (kind_) {
      case LeaseKind::kBucket: return over_bucket();
      case LeaseKind::kWindow: return over_windows();
      case LeaseKind::kCounter: return over_counter();
      case LeaseKind::kStepped: return over_stepped();
      case LeaseKind::kLog: return over_log();
      case LeaseKind::kSlots: return over_slots_;
    }
    return "no such kind";
  }
  std::int64_t spent() const { return spent_; }

 private:
  static constexpr Micros kSecond = 1'000'000;
  static constexpr Micros kStart = 1'790'000'000 * kSecond;

  struct Held {
    Amount units;
    Micros expires;
    Micros first;  // number of the state at the grant
  };
  struct Node {
    std::string name;
    std::int64_t sequence = 0;
    std::vector<Held> held = {};
    Amount slots = 0;
    std::optional<BookState> witness = {};
    std::optional<LeaseCall> pending = {};  // without an answer yet
    Micros spoke = 0;
    bool dead = false;
  };
  struct Spent {
    Micros at;
    Amount units;
    Micros first;
  };

  void born() { nodes_.push_back({.name = "n" + std::to_string(++births_), .spoke = now_}); }

  // Everybody who lives and has been silent for long speaks. Slots depend on it.
  void keep_word() {
    for (Node& node : nodes_) {
      if (now_ - node.spoke > kKeep / 4) speak(node);
    }
  }
  void speak(Node& node) {
    while (!node.dead && (node.spoke < now_ || node.pending)) call(node);
  }

  void spend(Node& node) {
    if (node.dead || kind_ == LeaseKind::kSlots || node.held.empty()) return;
    Held& held = node.held.back();
    if (held.expires <= now_) return;
    const Amount units = dice_.one_in(3) ? dice_.between(1, held.units) : held.units;
    events_.push_back({now_, units, held.first});
    held.units -= units;
    if (held.units == 0) node.held.pop_back();
    spent_ += units;
  }

  void call(Node& node) {
    if (node.dead) return;
    if (!node.pending || dice_.one_in(4)) node.pending = new_call(node);  // the other is given up
    LeaseCall& call = *node.pending;
    const Micros clock = now_ - (dice_.one_in(5) ? dice_.between(0, kLag) : 0);
    const LeaseAnswer answer = book_.decide(call, clock);
    if (dice_.one_in(20)) late_.push_back(call);
    if (!late_.empty() && dice_.one_in(10)) {
      book_.decide(late_.back(), clock);  // a duplicate from the network
      late_.pop_back();
    }
    if (dice_.one_in(6)) return;  // the answer is lost
    node.pending.reset();
    node.spoke = now_;
    if (answer.stale) return;
    const LeaseGrant& grant = answer.grants[0];
    node.witness = node.witness ? higher(*node.witness, grant.state) : grant.state;
    node.slots += grant.units;
    if (grant.units > 0) node.held.push_back({grant.units, grant.expires, grant.state[0]});
  }

  // Of the states of one limit the later and fuller one; of a log more than either can have been.
  BookState higher(const BookState& a, const BookState& b) const {
    if (kind_ != LeaseKind::kLog) return std::max(a, b);
    if (a[2] < b[0]) return b;  // all of it is forgotten
    return {b[0], std::max(a[1], b[1]), std::max(a[2], b[2])};
  }

  LeaseCall new_call(Node& node) {
    LeaseAsk ask = ask_;
    ask.want = dice_.between(0, 20);
    ask.least = dice_.one_in(4) ? dice_.between(1, 5) : 1;
    if (kind_ == LeaseKind::kSlots) {
      node.slots -= dice_.between(0, node.slots);
      ask.held = node.slots;
    } else if (!node.held.empty() && dice_.one_in(3)) {
      const Held held = node.held.back();
      node.held.pop_back();
      ask.back = dice_.between(0, held.units);
      ask.back_until = held.expires;
    }
    if (healing_until_ > now_) {
      ask.has_witness = node.witness.has_value();
      ask.witness = node.witness.value_or(BookState{});
    }
    return {.gate = "gate",
            .node = node.name,
            .sequence = ++node.sequence,
            .run = run_,
            .distrust = std::max<Micros>(healing_until_ - now_, 0),
            .member_ttl = kKeep / 2,
            .keep = kKeep,
            .quarantine = kQuarantine,
            .expire = 1'000 * kSecond,
            .asks = {ask}};
  }

  // The new one has what some backup has, or nothing. Everybody who lives finds it within the
  // quarantine; what died with its only witness is the excluded double fault, so nobody dies with
  // what is lost: the dead have spent nothing since.
  void replace_server() {
    run_ = "run" + std::to_string(++runs_);
    if (backups_.empty() || dice_.one_in(3)) {
      book_ = {};
    } else {
      book_ = backups_[static_cast<std::size_t>(dice_.between(0, std::ssize(backups_) - 1))];
    }
    backups_.clear();
    late_.clear();
    healing_until_ = now_ + kQuarantine;
    for (Node& node : nodes_) {
      if (forgotten(node)) node.slots = 0;
      node.dead = false;
      node.pending.reset();
      now_ += 1'000;
      speak(node);
    }
  }

  // The book's clock may have lagged when it heard of the node.
  bool forgotten(const Node& node) const { return node.spoke + kKeep - kLag < now_; }

  void check_slots() {
    Amount slots = 0;
    for (const Node& node : nodes_) slots += node.dead && forgotten(node) ? 0 : node.slots;
    spent_ += kind_ == LeaseKind::kSlots ? slots : 0;
    if (kind_ == LeaseKind::kSlots && slots > ask_.amount)
      over_slots_ = "slots " + std::to_string(slots);
  }

  std::string over_bucket() const {
    // In ticks of 1 ÷ amount of a microsecond: a unit is worth a period. A microsecond for
    // rounding.
    Int128 full_at = 0;
    const Int128 most =
        static_cast<Int128>(ask_.burst) * ask_.period + (ask_.ttl + 1) * ask_.amount;
    for (const Spent& event : events_) {
      const Int128 at = static_cast<Int128>(event.at) * ask_.amount;
      full_at = std::max(full_at, at) + static_cast<Int128>(event.units) * ask_.period;
      if (full_at - at > most) return "at " + std::to_string(event.at);
    }
    return "";
  }
  std::string over_windows() const {
    for (const Spent& last : events_) {
      const Micros end = last.first;
      Amount sum = 0;
      for (const Spent& event : events_) {
        if (event.at >= end - ask_.period && event.at < end) sum += event.units;
      }
      if (sum > ask_.amount) return "until " + std::to_string(end) + ": " + std::to_string(sum);
    }
    return "";
  }
  std::string over_counter() const {
    std::map<Micros, Amount> windows;
    for (const Spent& event : events_) {
      const Micros start = event.first;
      const Int128 overlap = ask_.period - (event.at - start);
      windows[start] += event.units;
      if (windows[start - ask_.period] * overlap +
              static_cast<Int128>(windows[start]) * ask_.period >
          static_cast<Int128>(ask_.amount) * ask_.period) {
        return "at " + std::to_string(event.at);
      }
    }
    return "";
  }
  std::string over_stepped() const {
    Amount tokens = ask_.burst;
    Micros last = 0;
    for (const Spent& event : events_) {
      // Another grid begins with a full bucket.
      const Micros passed = event.first - last;
      if (passed % ask_.period != 0) tokens = ask_.burst;
      tokens = std::min(tokens + passed / ask_.period * ask_.amount, ask_.burst) - event.units;
      last = event.first;
      if (tokens < 0) return "at " + std::to_string(event.at);
    }
    return "";
  }
  std::string over_log() const {
    for (const Spent& last : events_) {
      Amount sum = 0;
      for (const Spent& event : events_) {
        if (event.at > last.at - ask_.period && event.at <= last.at) sum += event.units;
      }
      if (sum > ask_.amount) return "at " + std::to_string(last.at) + ": " + std::to_string(sum);
    }
    return "";
  }

  static constexpr Micros kKeep = 3 * kSecond;
  static constexpr Micros kQuarantine = kSecond / 2;
  static constexpr Micros kLag = kSecond / 2;

  reference::Dice dice_;
  LeaseKind kind_;
  LeaseAsk ask_;
  Micros now_ = kStart;
  TestBook book_;
  std::vector<TestBook> backups_;
  std::vector<LeaseCall> late_;
  std::vector<Node> nodes_;
  std::string run_ = "run0";
  int runs_ = 0;
  int births_ = 0;
  Micros healing_until_ = 0;
  std::vector<Spent> events_;
  std::int64_t spent_ = 0;
  std::string over_slots_;
};

}  // namespace weir::fleet
