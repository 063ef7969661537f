// Random walks over paths that overlap in every order: never over in any limit of any gate, all or
// none, no refusal without a limit that refuses or a waiter ahead, no lost wake-up, and everybody's
// wait ends exactly once.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <sstream>
#include <vector>

#include "core/random_limit.h"
#include "core/reference_model.h"
#include "core/sanitized_for_test.h"
#include "weir/gate/gate.h"
#include "weir/time/simulated_time.h"

namespace weir {
namespace {

using reference::Dice;

constexpr Nanos kScale = std::chrono::seconds{1};

// A gate, and what the promise of each of its limits leaves.
struct Watched {
  struct Ledger {
    Unit unit;
    Amount capacity;
    std::unique_ptr<reference::Model> model;  // none for slots
    Amount held = 0;

    Amount available(Instant now) const { return model ? model->available(now) : capacity - held; }
  };

  std::unique_ptr<Gate> gate;
  std::vector<Ledger> ledgers;
  bool closed = false;

  bool fits(const Cost& cost, Instant now) const {
    return std::ranges::all_of(ledgers, [&](const Ledger& ledger) {
      return cost[ledger.unit] == 0 || cost[ledger.unit] <= ledger.available(now);
    });
  }
  void charge(const Cost& cost, Instant now) {
    EXPECT_FALSE(closed);
    EXPECT_TRUE(fits(cost, now)) << "over in gate " << gate->name();
    for (Ledger& ledger : ledgers) {
      const Amount amount = cost[ledger.unit];
      if (!ledger.model) {
        ledger.held += amount;
      } else if (amount > 0) {
        ledger.model->charge(amount, now);
      }
    }
  }
  void settle(const Permit& permit, const Cost& actual, Instant now) {
    for (Ledger& ledger : ledgers) {
      if (!ledger.model || !actual.names(ledger.unit)) continue;
      const Amount excess = actual[ledger.unit] - permit.cost()[ledger.unit];
      if (excess > 0) ledger.model->charge(excess, now);
      if (excess < 0) ledger.model->refund(-excess, permit.charged_at(), now);
    }
  }
  void release(const Cost& cost) {
    for (Ledger& ledger : ledgers) {
      if (!ledger.model) ledger.held -= cost[Unit::kSlots];
    }
  }
};

class Walk {
 public:
  explicit Walk(std::uint64_t seed) : dice_(seed) {
    const auto count = dice_.between(2, 4);
    for (std::int64_t i = 0; i < count; ++i) gates_.push_back(random_gate(std::to_string(i)));
  }
  // Before the permits go: releasing them would serve others.
  ~Walk() {
    for (const Watched& watched : gates_) watched.gate->close();
  }

  void run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      SCOPED_TRACE(testing::Message() << "step " << i);
      step();
      expect_conserved();
      if (dice_.one_in(4)) expect_nobody_forgotten();
    }
    run_dry();
  }

 private:
  using Route = std::vector<std::size_t>;
  struct Held {
    Permit permit;
    Route route;
    bool settled = false;
    bool released = false;
  };

  Watched random_gate(std::string name) {
    using enum LimitSpec::Algorithm;
    std::vector<LimitSpec> specs;
    const auto count = dice_.between(1, 2);
    for (std::int64_t i = 0; i < count; ++i) {
      const Unit unit = dice_.pick({Unit::kTokens, Unit::kTokens, Unit::kRequests});
      const Rate rate{dice_.between(1, 12), kScale * dice_.between(1, 3) + Nanos{i}};
      switch (dice_.between(0, 5)) {
        case 0: specs.push_back(LimitSpec::concurrency(dice_.between(1, 4))); break;
        case 1:
          specs.push_back(
              LimitSpec::stepped(unit, {dice_.between(6, 20), rate.amount, rate.period}));
          break;
        case 2: specs.push_back(LimitSpec::fixed_window(unit, rate)); break;
        case 3: specs.push_back(LimitSpec::sliding_window(unit, rate)); break;
        default: specs.push_back(LimitSpec::token_bucket(unit, rate, dice_.between(6, 20))); break;
      }
      specs.back().name = std::to_string(i);
    }
    Watched watched;
    for (const LimitSpec& spec : specs) {
      const Limit limit = Limit::create(spec, time_.now()).value();
      watched.ledgers.push_back(
          {limit.unit(), limit.capacity(), reference::model_of(limit, time_.now())});
    }
    watched.gate = Gate::create({.name = std::move(name), .limits = specs}, time_.source()).value();
    return watched;
  }

  Route random_route() {
    Route route;
    for (std::size_t i = 0; i < gates_.size(); ++i) route.push_back(i);
    for (std::size_t i = route.size(); i > 1; --i) {
      std::swap(
          route[i - 1],
          route[static_cast<std::size_t>(dice_.between(0, static_cast<std::int64_t>(i) - 1))]);
    }
    route.resize(
        static_cast<std::size_t>(dice_.between(1, static_cast<std::int64_t>(route.size()))));
    return route;
  }
  Path path_of(const Route& route) const {
    std::vector<Gate*> gates;
    for (std::size_t i : route) gates.push_back(gates_[i].gate.get());
    return Path::create(gates).value();
  }
  Request random_request() {
    return {.cost = Cost{}
                        .with(Unit::kTokens, dice_.between(0, 6))
                        .with(Unit::kRequests, dice_.between(0, 2))
                        .with(Unit::kSlots, dice_.between(0, 1)),
            .agent = dice_.pick<const char*>({"a", "b", "c"}),
            .priority = dice_.pick({0, 0, 0, 1})};
  }

  void step() {
    switch (dice_.between(0, 11)) {
      case 0:
      case 1: return attempt();
      case 2:
      case 3:
      case 4: return wait();
      case 5: return settle();
      case 6:
      case 7: return release(dice_.between(0, 1'000'000));
      case 8:
        if (!tickets_.empty()) {
          tickets_[static_cast<std::size_t>(
                       dice_.between(0, static_cast<std::int64_t>(tickets_.size()) - 1))]
              .cancel();
        }
        return;
      case 9:
        if (dice_.one_in(60)) {
          Watched& watched = gates_[static_cast<std::size_t>(
              dice_.between(0, static_cast<std::int64_t>(gates_.size()) - 1))];
          watched.closed = true;
          watched.gate->close();
        }
        return;
      default:
        time_.advance(
            Nanos{dice_.pick<std::int64_t>({1, dice_.magnitude(kScale.count()), kScale.count(),
                                            dice_.between(1, kScale.count())})});
    }
  }

  void attempt() {
    const Route route = random_route();
    const Request request = random_request();
    const bool somebody_waits = std::ranges::any_of(
        route, [&](std::size_t i) { return gates_[i].gate->metrics().waiting > 0; });
    const auto all_fit = [&](Instant at) {
      return std::ranges::all_of(route,
                                 [&](std::size_t i) { return gates_[i].fits(request.cost, at); });
    };
    const bool closed = std::ranges::any_of(route, [&](std::size_t i) { return gates_[i].closed; });
    auto permit = path_of(route).try_acquire(request);
    if (permit) return admitted(std::move(*permit), route);
    const Refusal& refusal = permit.error();
    EXPECT_TRUE(closed ? refusal.kind != Refusal::Kind::kWait
                       : refusal.kind != Refusal::Kind::kEnded);
    if (refusal.kind != Refusal::Kind::kWait || somebody_waits) return;
    EXPECT_FALSE(all_fit(time_.now())) << "refused though it fits and nobody waits";
    if (!refusal.exact) return;
    EXPECT_TRUE(all_fit(time_.now() + refusal.retry_after));
    EXPECT_FALSE(all_fit(time_.now() + refusal.retry_after - Nanos{1}));
  }

  void wait() {
    const Route route = random_route();
    const Instant deadline =
        dice_.one_in(3) ? time_.now() + Nanos{dice_.magnitude(5 * kScale.count())} : kEndOfTime;
    const std::size_t id = ended_.size();
    ended_.push_back(0);
    ++open_;
    tickets_.push_back(path_of(route).acquire_async(
        random_request(), deadline, [this, id, route, deadline](Result<Permit> outcome) {
          EXPECT_EQ(++ended_[id], 1) << "ended twice";
          --open_;
          ++changes_;
          if (outcome) return admitted(std::move(*outcome), route);
          if (outcome.error() == Errc::kDeadlineExceeded) {
            EXPECT_EQ(time_.now(), deadline);
          }
        }));
  }

  void admitted(Permit permit, const Route& route) {
    for (std::size_t i : route) gates_[i].charge(permit.cost(), time_.now());
    held_.push_back(std::make_unique<Held>(std::move(permit), route));
  }

  void settle() {
    if (held_.empty()) return;
    Held& held = *held_[static_cast<std::size_t>(
        dice_.between(0, static_cast<std::int64_t>(held_.size()) - 1))];
    if (held.settled) return;
    held.settled = true;
    // A refund serves waiters gate by gate, in the midst of which the ledgers would lose track.
    const bool debt_only = held.route.size() > 1 && open_ > 0;
    const Amount least = debt_only ? held.permit.cost()[Unit::kTokens] : 0;
    const Cost actual = Cost::of(Unit::kTokens, dice_.between(least, 8));
    for (std::size_t i : held.route) gates_[i].settle(held.permit, actual, time_.now());
    ASSERT_TRUE(held.permit.settle(actual));
  }

  void release(std::int64_t which) {
    if (held_.empty()) return;
    Held& held = *held_[static_cast<std::size_t>(which) % held_.size()];
    if (held.released) return;
    held.released = true;
    for (std::size_t i : held.route) gates_[i].release(held.permit.cost());
    held.permit.release();
  }

  void expect_conserved() {
    std::size_t waiting = 0;
    for (const Watched& watched : gates_) {
      const GateMetrics metrics = watched.gate->metrics();
      waiting += metrics.waiting;
      for (std::size_t i = 0; i < metrics.limits.size(); ++i) {
        EXPECT_EQ(metrics.limits[i].available, watched.ledgers[i].available(time_.now()))
            << "gate " << watched.gate->name() << ", limit " << i;
      }
    }
    EXPECT_EQ(waiting, open_);
  }
  void expect_nobody_forgotten() {
    const int before = changes_;
    for (const Watched& watched : gates_) watched.gate->reconsider();
    EXPECT_EQ(changes_, before) << "somebody waited though it fitted";
  }

  void run_dry() {
    SCOPED_TRACE("run dry");
    for (int round = 0; open_ > 0 && round < 100'000 && !testing::Test::HasFailure(); ++round) {
      for (std::size_t i = 0; i < held_.size(); ++i) release(static_cast<std::int64_t>(i));
      if (const auto alarm = time_.next_alarm()) time_.advance_to(*alarm);
      expect_conserved();
    }
    EXPECT_EQ(open_, 0U);
    for (std::size_t i = 0; i < held_.size(); ++i) release(static_cast<std::int64_t>(i));
    expect_conserved();
    for (int ended : ended_) EXPECT_EQ(ended, 1);
  }

  Dice dice_;
  SimulatedTime time_;
  std::vector<Watched> gates_;
  std::vector<std::unique_ptr<Held>> held_;
  std::vector<Ticket> tickets_;
  std::vector<int> ended_;  // how often each wait has ended
  std::size_t open_ = 0;
  int changes_ = 0;
};

TEST(PathPropertyTest, WhateverComesAllGatesOrNone) {
  for (std::uint64_t seed = 0; seed < (kSanitized ? 50 : 2'000) && !testing::Test::HasFailure();
       ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Walk{seed}.run(100);
  }
}

}  // namespace
}  // namespace weir
