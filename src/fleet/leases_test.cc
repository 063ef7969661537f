#include "fleet/leases.h"

#include <gtest/gtest.h>

#include "fleet/simulated_fleet_for_test.h"

namespace weir::fleet {
namespace {

using namespace std::chrono_literals;

class LeasesTest : public testing::Test {
 protected:
  SimulatedNode& add(std::vector<LimitSpec> limits, Fallback fallback = Fallback::kDeny,
                     Observer* observer = nullptr) {
    nodes_.push_back(std::make_unique<SimulatedNode>(
        server_, time_, agenda_, random_, 0,
        Leases::Config{.node = "node-" + std::to_string(nodes_.size()), .fallback = fallback},
        GateConfig{
            .name = "api", .limits = std::move(limits), .stale_after = 10s, .observer = observer}));
    return *nodes_.back();
  }
  // Spends until `units` have been admitted.
  void warm_up(SimulatedNode& node, Amount units) {
    for (int i = 0; i < 1000 && units > 0; ++i) {
      units -= node.gate->try_spend(1) ? 1 : 0;
      time_.advance(5ms);
    }
    ASSERT_EQ(units, 0);
  }
  // Takes all the slots it can get within a second.
  void take_slots(SimulatedNode& node, std::vector<Permit>& held) {
    for (int i = 0; i < 100; ++i) {
      if (auto permit = node.gate->try_acquire({.cost = Cost::of(Unit::kSlots, 1)})) {
        held.push_back(std::move(*permit));
      }
      time_.advance(10ms);
    }
  }
  // How many of `attempts`, one each `every`, are admitted.
  Amount spend(SimulatedNode& node, int attempts, Nanos every) {
    Amount admitted = 0;
    for (int i = 0; i < attempts; ++i) {
      admitted += node.gate->try_spend(1) ? 1 : 0;
      time_.advance(every);
    }
    return admitted;
  }

  std::mt19937_64 random_{7};
  SimulatedTime time_;
  Agenda agenda_{time_};
  SimulatedServer server_{time_};
  std::vector<std::unique_ptr<SimulatedNode>> nodes_;
};

LimitSpec window(Amount amount, Nanos period) {
  return LimitSpec::fixed_window(Unit::kRequests, {amount, period});
}

TEST_F(LeasesTest, OneNodeUsesAWholeWindowAndNoMore) {
  SimulatedNode& node = add({window(1000, 1min)});
  EXPECT_EQ(spend(node, 20'000, 1ms), 1000);
  time_.advance(1min);
  EXPECT_EQ(spend(node, 20'000, 1ms), 1000);
}

TEST_F(LeasesTest, ThreeNodesTogetherUseAWholeWindowAndNoMore) {
  for (int i = 0; i < 3; ++i) add({window(3000, 1min)});
  Amount admitted = 0;
  for (int i = 0; i < 20'000; ++i) {
    for (auto& node : nodes_) admitted += node->gate->try_spend(1) ? 1 : 0;
    time_.advance(1ms);
  }
  EXPECT_EQ(admitted, 3000);
}

TEST_F(LeasesTest, ABusyNodeAsksRarely) {
  SimulatedNode& node = add({window(600'000, 1min)});
  const Amount admitted = spend(node, 100'000, 100us);
  EXPECT_GT(admitted, 99'000);
  EXPECT_LT(server_.calls, 50U);
}

TEST_F(LeasesTest, NodesThatWantMoreThanThereIsUseItAllAskRarelyAndShareIt) {
  for (int i = 0; i < 4; ++i) {
    add({LimitSpec::token_bucket(Unit::kRequests, {600'000, 1min}, 10'000)});
  }
  const auto demand = [&](Nanos time) {
    for (const Instant end = time_.now() + time; time_.now() < end;) {
      for (auto& node : nodes_) {
        for (int i = 0; i < 3; ++i) node->gate->try_spend(1);
      }
      time_.advance(1ms);
    }
  };
  const auto admitted = [&](const auto& node) {
    return static_cast<Amount>(node->gate->metrics().acquired);
  };
  demand(6s);  // and the burst is spent
  const std::uint64_t calls = server_.calls;
  std::vector<Amount> before;
  for (auto& node : nodes_) before.push_back(admitted(node));
  demand(10s);
  Amount all = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Amount part = admitted(nodes_[i]) - before[i];
    EXPECT_GT(part, 20'000) << i;
    all += part;
  }
  EXPECT_GT(all, 98'000);
  EXPECT_LT(server_.calls - calls, 500U);
}

TEST_F(LeasesTest, WhatIsNotNeededGoesBack) {
  SimulatedNode& busy = add({window(1000, 1h)});
  SimulatedNode& idle = add({window(1000, 1h)});
  spend(idle, 100, 10ms);
  time_.advance(5s);
  EXPECT_EQ(idle.leases->share("api")->parts[0].leased, 0);
  const Amount before = static_cast<Amount>(idle.gate->metrics().acquired);
  EXPECT_EQ(spend(busy, 10'000, 5ms), 1000 - before);
}

TEST_F(LeasesTest, AWaiterIsServedByWhatAnotherNodeReturns) {
  SimulatedNode& first = add({window(10, 1h)});
  SimulatedNode& second = add({window(10, 1h)});
  time_.advance(10ms);
  first.gate->try_spend(10);
  time_.advance(10ms);
  bool served = false;
  second.gate->acquire_async({.cost = Cost::of(Unit::kRequests, 1)}, kEndOfTime,
                             [&](const Result<Permit>& permit) { served = permit.has_value(); });
  time_.advance(500ms);
  EXPECT_FALSE(served);
  time_.advance(2s);
  EXPECT_TRUE(served);
}

TEST_F(LeasesTest, TheLimitTellsOfTheWholeFleet) {
  SimulatedNode& first = add({window(100, 1min)});
  SimulatedNode& second = add({window(100, 1min)});
  warm_up(first, 100);
  second.gate->try_spend(1);
  time_.advance(20ms);
  const auto refused = second.gate->try_acquire({.cost = Cost::of(Unit::kRequests, 1)});
  ASSERT_FALSE(refused);
  EXPECT_FALSE(refused.error().for_backing);
  EXPECT_GT(refused.error().retry_after, 50s);
  EXPECT_LT(refused.error().retry_after, 60s);
  EXPECT_EQ(second.gate->metrics().limits[0].available, 0);
}

TEST_F(LeasesTest, SlotsAreSharedAndComeBack) {
  SimulatedNode& first = add({LimitSpec::concurrency(4)});
  SimulatedNode& second = add({LimitSpec::concurrency(4)});
  std::vector<Permit> held;
  const auto take = [&](SimulatedNode& node) { take_slots(node, held); };
  take(first);
  EXPECT_EQ(held.size(), 4U);
  take(second);
  EXPECT_EQ(held.size(), 4U);
  held.resize(1);
  take(second);
  take(second);
  EXPECT_EQ(held.size(), 4U);
  EXPECT_EQ(first.leases->share("api")->parts[0].leased, 1);
  EXPECT_EQ(second.leases->share("api")->parts[0].leased, 3);
}

TEST_F(LeasesTest, ABusyNodeYieldsSlotsToWhoHasNone) {
  SimulatedNode& busy = add({LimitSpec::concurrency(4)});
  SimulatedNode& late = add({LimitSpec::concurrency(4)});
  const Request request{.cost = Cost::of(Unit::kSlots, 1)};
  // Each of eight callers holds a slot for 20 ms and comes back at once.
  std::function<void(SimulatedNode&, int&)> call = [&](SimulatedNode& node, int& served) {
    node.gate->acquire_async(request, kEndOfTime, [&](Result<Permit> permit) {
      if (!permit) return;
      ++served;
      agenda_.after(20ms, [&, held = std::make_shared<Permit>(std::move(*permit))] {
        held->release();
        call(node, served);
      });
    });
  };
  int busy_served = 0;
  int late_served = 0;
  for (int i = 0; i < 8; ++i) call(busy, busy_served);
  time_.advance(2s);
  EXPECT_EQ(busy.leases->share("api")->parts[0].leased, 4);
  for (int i = 0; i < 8; ++i) call(late, late_served);
  time_.advance(10s);
  EXPECT_GT(late_served, 600);
  EXPECT_GT(busy_served, 600);
  for (auto& node : nodes_) node->gate->close();
  time_.advance(1s);  // permits go before their gates
}

TEST_F(LeasesTest, LargeRequestsOneAfterAnotherNeedNotWait) {
  SimulatedNode& node = add({window(600, 1h)});
  int admitted = 0;
  for (int i = 0; i < 20; ++i) {
    node.gate->acquire_async({.cost = Cost::of(Unit::kRequests, 30)}, time_.now() + 50ms,
                             [&](const Result<Permit>& permit) { admitted += permit ? 1 : 0; });
    time_.advance(50ms);
  }
  EXPECT_EQ(admitted, 20);
}

TEST_F(LeasesTest, WhoWasCutOffForLongHasNoSlotsButThoseInUse) {
  SimulatedNode& first = add({LimitSpec::concurrency(4)});
  SimulatedNode& second = add({LimitSpec::concurrency(4)});
  std::vector<Permit> held;
  const auto take = [&](SimulatedNode& node) { take_slots(node, held); };
  take(first);
  ASSERT_EQ(held.size(), 4U);
  first.book.reachable = false;  // and the call under way is repeated later
  time_.advance(1100ms);
  held.clear();
  time_.advance(60s);
  take(second);
  ASSERT_EQ(held.size(), 4U);
  first.book.reachable = true;
  take(first);
  EXPECT_EQ(held.size(), 4U);
}

TEST_F(LeasesTest, SlotsOfACrashedNodeAreFreeAfterAWhile) {
  SimulatedNode& first = add({LimitSpec::concurrency(2)});
  SimulatedNode& second = add({LimitSpec::concurrency(2)});
  std::vector<Permit> held;
  const auto take = [&](SimulatedNode& node) { take_slots(node, held); };
  take(first);
  ASSERT_EQ(held.size(), 2U);
  held.clear();  // before its gate goes
  take(first);
  held.clear();
  first.crash();
  take(second);
  EXPECT_LE(held.size(), 1U);
  time_.advance(40s);
  take(second);
  EXPECT_EQ(held.size(), 2U);
}

TEST_F(LeasesTest, DenyingWhileTheBookIsAway) {
  SimulatedNode& node = add({window(1000, 1min)});
  warm_up(node, 10);
  server_.stop();
  node.book.disconnect();
  const Amount left = node.leases->share("api")->parts[0].leased;
  EXPECT_EQ(spend(node, 100, 1ms), left);
  const auto refused = node.gate->try_acquire({.cost = Cost::of(Unit::kRequests, 1)});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kUnavailable);
}

TEST_F(LeasesTest, TheReserveIsForTheTimeWithoutABook) {
  SimulatedNode& node = add({window(1000, 1min)}, Fallback::kReserve);
  warm_up(node, 10);
  const auto part = node.leases->share("api")->parts[0];
  EXPECT_EQ(part.reserve, 10);
  server_.stop();
  node.book.disconnect();
  EXPECT_EQ(spend(node, 100, 1ms), part.leased + 10);
}

TEST_F(LeasesTest, TheReserveIsSpentAtTheEndOfTheWindow) {
  SimulatedNode& node = add({window(1000, 1min)}, Fallback::kReserve);
  EXPECT_EQ(spend(node, 59'000, 1ms), 1000);
}

TEST_F(LeasesTest, AShareOfTheLimitWhileTheBookIsAway) {
  for (int i = 0; i < 4; ++i) add({window(400, 1min)}, Fallback::kShare);
  for (auto& node : nodes_) {
    node->gate->try_spend(1);
    time_.advance(100ms);
    node->gate->try_spend(1);
  }
  time_.advance(1500ms);
  for (auto& node : nodes_) node->gate->try_spend(1);
  time_.advance(10ms);
  server_.stop();
  for (auto& node : nodes_) node->book.disconnect();
  const Amount admitted = spend(*nodes_[3], 1000, 1ms);
  EXPECT_GE(admitted, 95);
  EXPECT_LE(admitted, 101);
}

TEST_F(LeasesTest, EverythingWhileTheBookIsAway) {
  SimulatedNode& node = add({window(10, 1min)}, Fallback::kOpen);
  warm_up(node, 3);
  server_.stop();
  node.book.disconnect();
  EXPECT_EQ(spend(node, 1000, 1ms), 1000);
  server_.restart();
  time_.advance(4s);
  // And what was used meanwhile counts.
  EXPECT_EQ(spend(node, 1000, 1ms), 0);
  EXPECT_EQ(node.gate->metrics().limits[0].amount, 10);
}

TEST_F(LeasesTest, AFullLimitOfItsOwnWhileTheBookIsAway) {
  SimulatedNode& node = add({window(100, 1min)}, Fallback::kLocal);
  warm_up(node, 10);
  server_.stop();
  node.book.disconnect();
  EXPECT_EQ(spend(node, 1000, 1ms), 90);
}

TEST_F(LeasesTest, ComesBackByItselfWhenTheBookDoes) {
  SimulatedNode& node = add({window(1000, 1min)});
  warm_up(node, 10);
  server_.save();
  server_.stop();
  node.book.disconnect();
  spend(node, 100, 1ms);
  server_.fail_over();
  time_.advance(200ms);
  EXPECT_EQ(spend(node, 100, 1ms), 0);  // in quarantine: others might know more
  EXPECT_EQ(node.leases->status().state, SharedQuotaStatus::State::kQuarantine);
  time_.advance(3s);
  EXPECT_GT(spend(node, 100, 1ms), 50);
  EXPECT_EQ(node.leases->status().state, SharedQuotaStatus::State::kShared);
}

TEST_F(LeasesTest, ALostAnswerIsAskedForAgain) {
  SimulatedNode& node = add({window(100, 1min)});
  node.book.weather.lost = 0.1;
  const Amount admitted = spend(node, 59'000, 1ms);
  EXPECT_LE(admitted, 100);
  EXPECT_GE(admitted, 90);
}

TEST_F(LeasesTest, ABudgetEndsWithItsCalendarDay) {
  struct Days final : WindowEnds {
    Instant after(Instant now) const override { return now - now.time_since_epoch() % 1h + 1h; }
  };
  LimitSpec spec = window(50, 1h);
  spec.ends = std::make_shared<Days>();
  SimulatedNode& node = add({spec});
  EXPECT_EQ(spend(node, 3599, 1s), 50);
  EXPECT_EQ(spend(node, 1000, 10ms), 50);
}

TEST_F(LeasesTest, AllOrNothingOverSeveralLimits) {
  SimulatedNode& node =
      add({window(100, 1min), LimitSpec::fixed_window(Unit::kTokens, {50, 1min})});
  const Request request{.cost = Cost{}.with(Unit::kRequests, 1).with(Unit::kTokens, 10)};
  int admitted = 0;
  for (int i = 0; i < 1000; ++i) {
    admitted += node.gate->try_acquire(request) ? 1 : 0;
    time_.advance(1ms);
  }
  EXPECT_EQ(admitted, 5);
  time_.advance(5s);
  EXPECT_EQ(node.leases->share("api")->parts[0].leased, 0);
  EXPECT_EQ(node.leases->share("api")->parts[0].free, 95);
}

TEST_F(LeasesTest, ADebtIsToldToTheBook) {
  SimulatedNode& first = add({LimitSpec::fixed_window(Unit::kTokens, {1000, 1min})});
  SimulatedNode& second = add({LimitSpec::fixed_window(Unit::kTokens, {1000, 1min})});
  const Request request{.cost = Cost::of(Unit::kTokens, 100)};
  auto permit = first.gate->try_acquire(request);
  time_.advance(10ms);
  permit = first.gate->try_acquire(request);
  ASSERT_TRUE(permit);
  permit->settle(Cost::of(Unit::kTokens, 900));
  time_.advance(200ms);
  second.gate->try_acquire(request);
  time_.advance(10ms);
  EXPECT_LE(second.gate->metrics().limits[0].available, 100);
}

}  // namespace
}  // namespace weir::fleet
