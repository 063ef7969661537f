// How a capacity grows back, and what else may happen to it meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "fleet/distributed_limiter_for_test.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using Status = DistributedLimiterStatus;
using DistributedLimiterRecoveryTest = DistributedLimiterTest;

// S0.9
TEST_F(DistributedLimiterRecoveryTest, RecoversByATenthEachInterval) {
  const auto a = noting_agent("a");
  const auto b = agent("b");
  announce(*a);
  time.advance(30s - 1ns);
  EXPECT_EQ(total(*a), 50);
  time.advance(1ns);
  for (const Amount expected : {55, 60, 66, 72, 79, 86, 94, 100, 100}) {
    EXPECT_EQ(total(*a), expected);
    EXPECT_EQ(total(*b), expected);
    time.advance(30s);
  }
  EXPECT_EQ(time.next_alarm(), std::nullopt) << "whole again, nothing is due";
  EXPECT_EQ(changes,
            (std::vector<std::string>{
                "api 100>50 429 by a", "api 50>55 recovery by a", "api 55>60 recovery by a",
                "api 60>66 recovery by a", "api 66>72 recovery by a", "api 72>79 recovery by a",
                "api 79>86 recovery by a", "api 86>94 recovery by a", "api 94>100 recovery by a"}));
  EXPECT_EQ(a->status().published, 1U) << "a recovery is nobody else's";
}

// S0.9
TEST_F(DistributedLimiterRecoveryTest, RecoversFromOne) {
  const auto a = agent("a");
  say(cut_to(1));
  for (const Amount expected : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}) {
    EXPECT_EQ(total(*a), expected);
    time.advance(30s);
  }
}

// S0.9
TEST_F(DistributedLimiterRecoveryTest, WaitsAnIntervalAfterTheLastCut) {
  const auto a = agent("a");
  say(cut_to(50));
  time.advance(29s);
  say(cut_to(40));
  time.advance(30s - 1ns);
  EXPECT_EQ(total(*a), 40);
  time.advance(1ns);
  EXPECT_EQ(total(*a), 44);
}

TEST_F(DistributedLimiterRecoveryTest, NeverFallsBelowOne) {
  const auto a = agent("a");
  const auto b = agent("b");
  for (const auto* each : {a.get(), b.get()}) EXPECT_EQ(total(*each), 100);
  ASSERT_TRUE(a->set_capacity("few", 2, 1s));
  ASSERT_TRUE(b->set_capacity("few", 2, 1s));
  for (int i = 0; i < 5; ++i) {
    announce(*a, "few");
    EXPECT_EQ(total(*a, "few"), 1);
    time.advance(20s);
  }
  EXPECT_EQ(total(*a, "few"), 1) << "each of them began the wait anew";
  EXPECT_EQ(a->status().published, 5U) << "and the others, who may have more, were told";
  EXPECT_EQ(total(*b, "few"), 1);
}

TEST_F(DistributedLimiterRecoveryTest, RecoversEachResourceInItsTime) {
  const auto a = agent("a");
  ASSERT_TRUE(a->set_capacity("other", 10, 1min));
  announce(*a);
  time.advance(20s);
  announce(*a, "other");
  time.advance(10s);
  EXPECT_EQ(total(*a), 55);
  EXPECT_EQ(total(*a, "other"), 5);
  time.advance(20s);
  EXPECT_EQ(total(*a), 55);
  EXPECT_EQ(total(*a, "other"), 6);
}

TEST_F(DistributedLimiterRecoveryTest, UsesItsOwnFactorsAndInterval) {
  DistributedLimiterConfig other = config("a");
  other.reduce_factor = 0.2;
  other.recovery_interval = 1s;
  other.recovery_factor = 2;
  other.max_recovery = false;
  const auto a = limiter(other);
  announce(*a);
  for (const Amount expected : {20, 40, 80, 160, 320}) {
    EXPECT_EQ(total(*a), expected);
    time.advance(1s);
  }
}

TEST_F(DistributedLimiterRecoveryTest, TheSameCapacityAgainKeepsTheCut) {
  const auto a = agent("a");
  announce(*a);
  ASSERT_TRUE(a->set_capacity("api", 100, 1min));
  EXPECT_EQ(total(*a), 50);
  time.advance(30s);
  EXPECT_EQ(total(*a), 55);
}

TEST_F(DistributedLimiterRecoveryTest, AnotherCapacityOrWindowIsWhole) {
  const auto a = agent("a");
  announce(*a);
  ASSERT_TRUE(a->set_capacity("api", 80, 1min));
  EXPECT_EQ(total(*a), 80);
  time.advance(30s);
  EXPECT_EQ(total(*a), 80);
  say(cut_to(81));
  EXPECT_EQ(a->status().above, 1U) << "80 is the original now";

  announce(*a);
  EXPECT_EQ(total(*a), 40);
  ASSERT_TRUE(a->set_capacity("api", 80, 2min));
  EXPECT_EQ(total(*a), 80);
  EXPECT_EQ(a->capacity("api").value().window, 2min);
}

TEST_F(DistributedLimiterRecoveryTest, ARefusedCapacityChangesNothing) {
  const auto a = agent("a");
  announce(*a);
  EXPECT_EQ(a->set_capacity("api", kAmountMax + 1, 1min).error(), Errc::kInvalidCapacity);
  EXPECT_EQ(a->set_capacity("api", 100, kPeriodMax + 1ns).error(), Errc::kInvalidWindow);
  EXPECT_EQ(total(*a), 50);
  time.advance(30s);
  EXPECT_EQ(total(*a), 55);
}

TEST_F(DistributedLimiterRecoveryTest, WhatIsRemovedIsUnknown) {
  const auto a = agent("a");
  announce(*a);
  ASSERT_TRUE(a->set_capacity("api", 0, 1min));
  say(cut_to(10));
  EXPECT_EQ(a->status().unknown, 1U);
  time.advance(1min);  // its recovery was due
  EXPECT_EQ(a->capacity("api").error(), Errc::kResourceUnknown);
  announce(*a);
  EXPECT_EQ(a->status().published, 1U);
  ASSERT_TRUE(a->set_capacity("api", 100, 1min));
  EXPECT_EQ(total(*a), 100);
}

TEST_F(DistributedLimiterRecoveryTest, TellsAgainAfterEachStepWhatTheBusDidNotTake) {
  const auto a = agent("a");
  const auto b = agent("b");
  bus->cut_off = true;
  announce(*a);
  EXPECT_EQ(total(*a), 50) << "the cut here needs no bus";
  time.advance(30s);
  EXPECT_EQ(a->status().publish_failed, 2U);
  time.advance(29s);
  bus->cut_off = false;
  EXPECT_EQ(a->status().publish_failed, 2U) << "no more often than once a step";
  EXPECT_EQ(total(*b), 100);

  time.advance(1s);
  bus->settle();
  EXPECT_EQ(total(*a), 60);
  EXPECT_EQ(total(*b), 60) << "as the capacity of now";
  EXPECT_EQ(a->status().published, 1U);
  time.advance(30s);
  EXPECT_EQ(a->status().published, 1U) << "once it is told it is told";
}

TEST_F(DistributedLimiterRecoveryTest, ForgetsWhatWasNotToldOnceItIsWhole) {
  const auto a = agent("a");
  bus->cut_off = true;
  announce(*a);
  time.advance(8 * 30s);
  EXPECT_EQ(total(*a), 100);
  EXPECT_EQ(a->status().publish_failed, 8U) << "the first, and those at 55 to 94";
  bus->cut_off = false;
  say(cut_to(50));
  time.advance(30s);
  EXPECT_EQ(a->status().published, 0U);
}

TEST_F(DistributedLimiterRecoveryTest, WhatItSaysIsInOrderThoughTheWallIsSetBack) {
  const auto a = agent("a");
  const auto b = agent("b");
  announce(*a);
  time.set_wall(time.wall() - 1min - 10s);
  time.advance(1min);  // ten seconds before the last
  announce(*a);
  EXPECT_EQ(total(*b), 30);
  EXPECT_EQ(b->status().stale, 0U);
}

// Those whose clocks were a day ahead are neither mute nor deaf for a day.
TEST_F(DistributedLimiterRecoveryTest, FollowsAWallThatIsSetRight) {
  const auto a = agent("a");
  const auto b = agent("b");
  time.set_wall(time.wall() + 24h);
  announce(*a);
  time.set_wall(time.wall() - 24h);
  time.advance(1min);
  announce(*a);
  EXPECT_EQ(total(*a), 30);
  EXPECT_EQ(total(*b), 30);
}

TEST_F(DistributedLimiterRecoveryTest, CannotTellWhatNobodyCouldRead) {
  const auto a = agent("a");
  ASSERT_TRUE(a->set_capacity("latin: \xe9", 100, 1min));
  announce(*a, "latin: \xe9");
  EXPECT_EQ(total(*a, "latin: \xe9"), 50);
  EXPECT_EQ(a->status().publish_failed, 1U);
}

// S0.8: from inside, everything may be called.
TEST_F(DistributedLimiterRecoveryTest, TheCallbackMayUseTheLimiter) {
  DistributedLimiter* made = nullptr;
  Amount seen = 0;
  DistributedLimiterConfig calling = config("a");
  calling.on_capacity_change = [&](const CapacityChange&) {
    seen = total(*made);
    EXPECT_TRUE(made->set_capacity("api", 200, 1min));
    made->announce_reduced("api", "again");
    EXPECT_GT(made->status().published + made->status().received, 0U);
  };
  const auto a = limiter(calling);
  made = a.get();
  announce(*a);
  EXPECT_EQ(seen, 100) << "of 200, cut by the callback itself";
  say(cut_to(10));
  EXPECT_EQ(seen, 10);
}

TEST_F(DistributedLimiterRecoveryTest, TheCallbackMayCloseTheLimiter) {
  for (const bool by_recovery : {false, true}) {
    DistributedLimiter* made = nullptr;
    int calls = 0;
    DistributedLimiterConfig closing = config("a");
    closing.on_capacity_change = [&](const CapacityChange& change) {
      ++calls;
      if ((change.reason == "recovery") == by_recovery) made->close();
    };
    const auto a = limiter(closing);
    made = a.get();
    say(cut_to(50, by_recovery ? "x" : "y"));
    time.advance(5min);
    EXPECT_EQ(calls, by_recovery ? 2 : 1);
    EXPECT_EQ(a->capacity("api").error(), Errc::kClosed);
  }
}

TEST_F(DistributedLimiterRecoveryTest, AWaiterThatIsServedMayUseTheLimiter) {
  const auto a = agent("a");
  ASSERT_TRUE(a->set_capacity("one", 1, 1min));
  ASSERT_TRUE(a->try_acquire("one"));
  Result<void> result{};
  const Ticket ticket = a->acquire_async("one", kEndOfTime, [&](const Result<void>& ended) {
    result = ended;
    EXPECT_TRUE(a->set_capacity("one", 7, 1min));
    a->announce_reduced("api", "429");
  });
  ASSERT_TRUE(a->set_capacity("one", 0, 1min));
  EXPECT_EQ(result.error(), Errc::kResourceUnknown);
  EXPECT_EQ(total(*a), 50);
}

// S0.5
TEST_F(DistributedLimiterRecoveryTest, ClosesOnceAndForAll) {
  const auto a = noting_agent("a");
  announce(*a);
  while (a->try_acquire("api")) {
  }
  Result<void> waited{};
  const Ticket ticket =
      a->acquire_async("api", kEndOfTime, [&](const Result<void>& result) { waited = result; });
  a->close();
  a->close();
  EXPECT_EQ(waited.error(), Errc::kClosed);
  EXPECT_EQ(a->acquire("api").error(), Errc::kClosed);
  EXPECT_EQ(a->set_capacity("api", 50, 1min).error(), Errc::kClosed);
  EXPECT_EQ(a->set_capacity("api", 100, 1min).error(), Errc::kClosed);
  EXPECT_EQ(a->capacity("api").error(), Errc::kClosed);
  const Status before = a->status();
  say(cut_to(10));
  a->announce_reduced("api", "429");
  time.advance(5min);
  EXPECT_EQ(a->status().received, before.received);
  EXPECT_EQ(a->status().published, before.published);
  EXPECT_EQ(changes.size(), 1U);
  EXPECT_EQ(time.next_alarm(), std::nullopt);
}

TEST_F(DistributedLimiterRecoveryTest, OutlivesItsBus) {
  const auto a = agent("a");
  bus->close();
  announce(*a);
  EXPECT_EQ(total(*a), 50);
  EXPECT_EQ(a->status().publish_failed, 1U);
  EXPECT_TRUE(a->acquire("api"));
}

// Everything at once, from real threads: no lock is held where it may not be, and in the end the
// limiter enforces what it believes.
TEST_F(DistributedLimiterRecoveryTest, EnforcesWhatItBelievesAfterAnyInterleaving) {
  std::atomic<Amount> before = 0;
  DistributedLimiterConfig noting = config("a");
  noting.recovery_interval = 1ms;
  noting.on_capacity_change = [&](const CapacityChange& change) { before = change.before; };
  const auto a = limiter(noting);
  const auto b = agent("b");
  for (int round = 0; round < 20; ++round) {
    std::vector<std::jthread> threads;
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) a->announce_reduced("api", "429");
    });
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) EXPECT_TRUE(a->set_capacity("api", 1'000 + i % 2, 1us));
    });
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        EXPECT_TRUE(a->set_capacity("gone", i % 2, 1us));
        b->announce_reduced("api", "429");
      }
    });
    threads.emplace_back([&] {
      for (int i = 0; i < 1'000; ++i) static_cast<void>(a->try_acquire("api"));
    });
    for (int i = 0; i < 200; ++i) {
      time.advance(1ms);
      EXPECT_TRUE(bus->publish(fleet::kCapacitySubject,
                               fleet::format_capacity_update(cut_to(500 + i, "c")).value()));
    }
    threads.clear();
    bus->settle();
    time.advance(1us);
    const Amount enforced = total(*a);
    before = 0;
    a->announce_reduced("api", "429");
    EXPECT_EQ(before, enforced);
    EXPECT_EQ(total(*a), std::max(enforced / 2, Amount{1}));
    bus->settle();
    time.advance(1s);
  }
}

}  // namespace
}  // namespace weir
