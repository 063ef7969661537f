// Who comes, waits, is served and leaves, in stepped time.
#include "provider/activity.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "weir/time/simulated_time.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using Holds = Activity::Visit::Holds;

struct ActivityTest : testing::Test {
  Activity::Visit arrive(std::string_view agent, Amount tokens = 0) {
    return activity.arrive({.agent = agent, .model = "m", .cost = Cost::call(tokens)}, time.now());
  }
  // One that is admitted at once and takes so long.
  void call(std::string_view agent, Amount tokens, Nanos takes) {
    auto visit = arrive(agent, tokens);
    visit.admitted(time.now(), Holds::kSomething);
    time.advance(takes);
    visit.ended(time.now());
  }
  // One that waits so long and then holds nothing.
  bool wait(std::string_view agent, Nanos span) {
    auto visit = arrive(agent);
    visit.queued(time.now());
    time.advance(span);
    return visit.admitted(time.now(), Holds::kNothing);
  }
  Activity::View view() const { return activity.view(time.now()); }

  SimulatedTime time;
  Activity activity;
};

TEST_F(ActivityTest, OfWhichNobodyHasComeIsEmptyAndNotUsed) {
  EXPECT_FALSE(activity.used());
  EXPECT_EQ(view().totals.arrived, 0U);
  EXPECT_EQ(activity.sample().waiting_max, 0U);
  EXPECT_EQ(activity.busy(time.now()).waiting, 0U);
}

TEST_F(ActivityTest, WhatCallersClaimDoesNotOverflow) {
  const Cost most = Cost::of(Unit::kTokens, kAmountMax).with(Unit::kMicroUsd, kAmountMax);
  for (int i = 0; i < 10'000; ++i) {
    const std::string agent = i % 2 == 0 ? "a" : "b";
    auto visit = activity.arrive({.agent = agent, .cost = most}, time.now());
    visit.admitted(time.now(), Holds::kSomething);
    visit.settled(most);
    visit.ended(time.now());
  }
  EXPECT_EQ(view().totals.tokens, std::numeric_limits<Amount>::max());
  EXPECT_EQ(view().minute.micro_usd, std::numeric_limits<Amount>::max());
  EXPECT_NEAR(view().agents[0].share, 0.5, 0.05);
}

TEST_F(ActivityTest, CallsThatTakeCenturiesTogetherAreStillSummed) {
  constexpr Nanos kYear = 24h * 365;
  std::vector<Activity::Visit> visits;
  for (int i = 0; i < 1'000; ++i) visits.push_back(arrive("a"));
  for (auto& visit : visits) visit.queued(time.now());
  time.advance(kYear);
  for (auto& visit : visits) visit.admitted(time.now(), Holds::kSomething);
  time.advance(kYear);
  for (auto& visit : visits) visit.ended(time.now());
  EXPECT_EQ(view().totals.waited, 1'000 * Activity::Total{kYear / 1us});
  EXPECT_EQ(view().totals.upstream, 1'000 * Activity::Total{kYear / 1us});
}

TEST_F(ActivityTest, CountsWhatBecameOfEachCallOnce) {
  arrive("a").admitted(time.now(), Holds::kNothing);
  arrive("a").refused(time.now());
  {
    auto left = arrive("a");
  }  // abandoned before anything
  {
    auto left = arrive("a");
    left.queued(time.now());
  }
  {
    auto late = arrive("a");
    late.queued(time.now());
    late.refused(time.now());
    late.refused(time.now());
  }
  auto under_way = arrive("a");
  under_way.admitted(time.now(), Holds::kSomething);
  auto waiting = arrive("a");
  waiting.queued(time.now());

  const auto now = view();
  EXPECT_EQ(now.totals.arrived, 7U);
  EXPECT_EQ(now.totals.admitted, 2U);
  EXPECT_EQ(now.totals.refused, 2U);
  EXPECT_EQ(now.totals.abandoned, 2U);
  EXPECT_EQ(now.waiting, 1U);
  EXPECT_EQ(now.in_flight, 1U);
  EXPECT_EQ(now.upstream.count, 0U);
  ASSERT_EQ(now.agents.size(), 1U);
  EXPECT_EQ(now.agents[0].waiting, 1U);
  EXPECT_EQ(now.agents[0].in_flight, 1U);
}

TEST_F(ActivityTest, KnowsHowLongCallsHaveBeenUnderWay) {
  EXPECT_EQ(view().in_flight_age, 0s);
  auto first = arrive("a");
  first.admitted(time.now(), Holds::kSomething);
  time.advance(40s);
  auto second = arrive("b");
  second.admitted(time.now(), Holds::kSomething);
  EXPECT_EQ(view().in_flight_age, 20s);
  time.advance(20s);
  EXPECT_EQ(view().in_flight_age, 40s);
  first.queued(time.now());  // the provider refused it
  EXPECT_EQ(view().in_flight_age, 20s);
  time.advance(10s);
  first.admitted(time.now(), Holds::kSomething);
  EXPECT_EQ(view().in_flight_age, 15s);
  EXPECT_EQ(activity.view(time.now() - 1h).in_flight_age, 0s);
  second.ended(time.now());
  first.ended(time.now());
  EXPECT_EQ(view().in_flight_age, 0s);
}

TEST_F(ActivityTest, AMovedVisitIsStillOneVisit) {
  auto first = arrive("a");
  first.queued(time.now());
  auto second = std::move(first);
  second.admitted(time.now(), Holds::kSomething);
  Activity::Visit third;
  third = std::move(second);
  EXPECT_EQ(view().in_flight, 1U);
  third = {};
  EXPECT_EQ(view().in_flight, 0U);
  EXPECT_EQ(view().totals.abandoned, 0U);
  EXPECT_EQ(view().upstream.count, 0U) << "nobody knows when it ended";
}

TEST_F(ActivityTest, TellsWaitingFromTheTimeUpstream) {
  auto visit = arrive("a");
  visit.queued(time.now());
  time.advance(2s);
  visit.admitted(time.now(), Holds::kSomething);
  time.advance(5s);
  visit.ended(time.now());
  const auto now = view();
  EXPECT_EQ(now.wait.count, 1U);
  EXPECT_EQ(now.wait.mean, 2s);
  EXPECT_EQ(now.wait.max, 2s);
  EXPECT_EQ(now.upstream.mean, 5s);
  EXPECT_EQ(now.totals.waited, 2s);
  EXPECT_EQ(now.totals.upstream, 5s);
}

TEST_F(ActivityTest, ACallThatIsRefusedUpstreamWaitsAgainAndIsOneCall) {
  auto visit = arrive("a");
  visit.admitted(time.now(), Holds::kSomething);
  time.advance(1s);
  visit.queued(time.now());
  EXPECT_EQ(view().in_flight, 0U);
  EXPECT_EQ(view().waiting, 1U);
  time.advance(3s);
  visit.admitted(time.now(), Holds::kSomething);
  visit.ended(time.now());
  const auto now = view();
  EXPECT_EQ(now.totals.arrived, 1U);
  EXPECT_EQ(now.totals.admitted, 1U);
  EXPECT_EQ(now.wait.max, 3s);
  EXPECT_EQ(now.in_flight, 0U);
}

TEST_F(ActivityTest, PercentilesAreWithinFivePerCent) {
  std::mt19937_64 random{1};
  std::lognormal_distribution<double> spread{0, 1.5};
  std::vector<Nanos> waits;
  WaitHistogram histogram;
  for (int i = 0; i < 100'000; ++i) {
    waits.push_back(
        std::chrono::duration_cast<Nanos>(std::chrono::duration<double>{spread(random)}));
    histogram.add(waits.back());
  }
  std::ranges::sort(waits);
  const auto near = [](Nanos got, Nanos wanted) {
    EXPECT_NEAR(static_cast<double>(got.count()) / static_cast<double>(wanted.count()), 1, 0.05);
  };
  near(histogram.spread().p50, waits[49'999]);
  near(histogram.spread().p99, waits[98'999]);
  EXPECT_EQ(histogram.spread().max, waits.back());
}

TEST_F(ActivityTest, AHistogramHoldsAnyWait) {
  for (const Nanos wait : {Nanos{-1}, Nanos{0}, Nanos{1}, Nanos{100us}, Nanos{1599us},
                           Nanos{1600us}, Nanos{1h}, Nanos{29h}, Nanos{400 * 24h}, Nanos::max()}) {
    WaitHistogram histogram;
    histogram.add(wait);
    EXPECT_EQ(histogram.spread().max, std::max(wait, Nanos{0}));
    EXPECT_LE(histogram.spread().p99, std::max(wait, Nanos{0}));
    if (wait > 1ms && wait <= 29h) {
      EXPECT_NEAR(static_cast<double>(histogram.spread().p50.count()),
                  static_cast<double>(wait.count()), 0.04 * static_cast<double>(wait.count()));
    }
    histogram += histogram;
    EXPECT_GE(histogram.spread().mean, Nanos{0}) << "the sum overflows";
  }
}

TEST_F(ActivityTest, TheLastMinuteForgetsAndTheTotalsDoNot) {
  for (int i = 0; i < 12; ++i) {
    call("a", 100, 1s);
    time.advance(9s);
  }
  EXPECT_EQ(view().totals.admitted, 12U);
  EXPECT_EQ(view().minute.admitted, 5U) << "the running slice is empty yet";
  EXPECT_EQ(view().minute.tokens, 500);
  time.advance(10min);
  EXPECT_EQ(view().minute.admitted, 0U);
  EXPECT_EQ(view().wait.count, 0U);
  EXPECT_EQ(view().totals.admitted, 12U);
  EXPECT_EQ(view().totals.tokens, 1'200);
}

TEST_F(ActivityTest, SharesAreOfTokensWhereAnyWereChargedAndElseOfRequests) {
  arrive("a").admitted(time.now(), Holds::kNothing);
  for (int i = 0; i < 3; ++i) arrive("b").admitted(time.now(), Holds::kNothing);
  EXPECT_EQ(view().agents[0].name, "b");
  EXPECT_EQ(view().agents[0].share, 0.75);
  arrive("a", 100).admitted(time.now(), Holds::kNothing);
  EXPECT_EQ(view().agents[0].name, "a");
  EXPECT_EQ(view().agents[0].share, 1);
  EXPECT_EQ(view().agents[1].admitted, 3U);
  time.advance(9min);
  EXPECT_EQ(view().agents.size(), 2U);
  time.advance(1min);
  EXPECT_EQ(view().agents.size(), 0U) << "ten minutes are over";
  EXPECT_EQ(view().agents_total, 0U);
}

TEST_F(ActivityTest, AShareIsOfWhatWasUsedAndNotOfWhatWasReserved) {
  auto visit = arrive("a", 1'000);
  visit.admitted(time.now(), Holds::kSomething);
  visit.settled(Cost::of(Unit::kTokens, 100));
  visit.ended(time.now());
  call("b", 300, 0s);  // never settled
  EXPECT_EQ(view().agents[0].name, "b");
  EXPECT_EQ(view().agents[0].share, 0.75);
  EXPECT_EQ(view().minute.tokens, 400);
  EXPECT_EQ(view().minute.estimated, 1'000);
  EXPECT_EQ(view().minute.settled, 100);
}

TEST_F(ActivityTest, ShowsTwelveAgentsAndTheRestAsOne) {
  for (int i = 0; i < 20; ++i) {
    arrive("agent-" + std::to_string(i), 100 - i).admitted(time.now(), Holds::kNothing);
  }
  const auto now = view();
  ASSERT_EQ(now.agents.size(), 12U);
  EXPECT_EQ(now.agents[0].name, "agent-0");
  EXPECT_EQ(now.agents_total, 20U);
  EXPECT_EQ(now.others.admitted, 8U);
  double all = now.others.share;
  for (const auto& agent : now.agents) all += agent.share;
  EXPECT_NEAR(all, 1, 1e-9);
}

TEST_F(ActivityTest, ForgetsIdleAgentsForNewOnesAndCountsTooManyTogether) {
  std::vector<Activity::Visit> held;
  for (std::size_t i = 0; i < Activity::kAgentsMax + 5; ++i) {
    const std::string agent = "agent-" + std::to_string(i);
    held.push_back(arrive(agent));
    held.back().admitted(time.now(), Holds::kSomething);
  }
  EXPECT_EQ(view().agents_total, Activity::kAgentsMax + 1) << "those too many are one";
  EXPECT_EQ(view().in_flight, Activity::kAgentsMax + 5);
  held.erase(held.begin() + 1, held.end());
  time.advance(20min);
  arrive("fresh").admitted(time.now(), Holds::kNothing);
  EXPECT_EQ(view().agents_total, 2U) << "one is still under way";
  EXPECT_EQ(view().agents[0].name, "fresh");
}

TEST_F(ActivityTest, TheQueueIsShownTheLongestWaitFirst) {
  std::vector<Activity::Visit> waiting;
  for (int i = 0; i < 30; ++i) {
    const std::string agent = "agent-" + std::to_string(i);
    waiting.push_back(arrive(agent, i));
    waiting.back().queued(time.now());
    time.advance(1s);
  }
  auto now = view();
  EXPECT_EQ(now.waiting, 30U);
  ASSERT_EQ(now.queue.size(), Activity::kQueueShown);
  EXPECT_EQ(now.queue[0].agent, "agent-0");
  EXPECT_EQ(now.queue[0].model, "m");
  EXPECT_EQ(time.now() - now.queue[0].since, 30s);
  waiting[0].admitted(time.now(), Holds::kNothing);
  waiting.erase(waiting.begin() + 1);
  now = view();
  EXPECT_EQ(now.queue[0].agent, "agent-2");
  EXPECT_EQ(now.queue[0].cost[Unit::kTokens], 2);
}

TEST_F(ActivityTest, KeepsTheFiveSlowestWaitsOfAnHour) {
  EXPECT_FALSE(wait("nobody", 0s));
  for (int i = 1; i <= 5; ++i) EXPECT_TRUE(wait("a" + std::to_string(i), std::chrono::seconds{i}));
  EXPECT_FALSE(wait("quick", 500ms));
  auto slow = arrive("slow");
  slow.queued(time.now());
  time.advance(10s);
  EXPECT_TRUE(slow.admitted(time.now(), Holds::kSomething));
  slow.waited_for("tokens per 1m");
  const auto now = view();
  ASSERT_EQ(now.slowest.size(), 5U);
  EXPECT_EQ(now.slowest[0].agent, "slow");
  EXPECT_EQ(now.slowest[0].limit, "tokens per 1m");
  EXPECT_EQ(now.slowest[0].waited, 10s);
  EXPECT_EQ(now.slowest[0].at, time.now());
  EXPECT_EQ(now.slowest[4].agent, "a2");
  EXPECT_EQ(now.slowest[4].limit, "");
  time.advance(61min);
  EXPECT_TRUE(view().slowest.empty());
  wait("later", 1s);
  EXPECT_EQ(view().slowest.size(), 1U);
}

TEST_F(ActivityTest, ASampleHasTheMostThatWaitedSinceTheLast) {
  std::vector<Activity::Visit> waiting(3);
  for (auto& visit : waiting) {
    visit = arrive("a");
    visit.queued(time.now());
  }
  time.advance(1s);
  for (auto& visit : waiting) visit.admitted(time.now(), Holds::kSomething);
  waiting.resize(1);
  auto sample = activity.sample();
  EXPECT_EQ(sample.waiting_max, 3U);
  EXPECT_EQ(sample.in_flight_max, 3U);
  sample = activity.sample();
  EXPECT_EQ(sample.waiting_max, 0U);
  EXPECT_EQ(sample.in_flight_max, 1U);
}

TEST_F(ActivityTest, WhoNeedNotWaitDoesNotCountAsWaiting) {
  wait("a", 0s);
  EXPECT_EQ(activity.sample().waiting_max, 0U);
}

TEST_F(ActivityTest, OfManyAnswersOf429OneASecondIsToldAndAllAreCounted) {
  EXPECT_TRUE(activity.limited(time.now()));
  EXPECT_FALSE(activity.limited(time.now()));
  time.advance(999ms);
  EXPECT_FALSE(activity.limited(time.now()));
  time.advance(1ms);
  EXPECT_TRUE(activity.limited(time.now()));
  EXPECT_EQ(view().minute.limited, 4U);
}

TEST_F(ActivityTest, APermitThatExpiredHasNoTimeUpstream) {
  auto visit = arrive("a");
  visit.admitted(time.now(), Holds::kSomething);
  time.advance(6min);
  visit.expired(time.now());
  EXPECT_EQ(view().totals.expired, 1U);
  EXPECT_EQ(view().expired_at, time.now());
  EXPECT_EQ(view().upstream.count, 0U);
  EXPECT_EQ(view().in_flight, 0U);
}

TEST_F(ActivityTest, AClockThatRunsBackwardsLosesNothing) {
  call("a", 10, 1s);
  time.step_back(5min);
  call("a", 10, 1s);
  wait("b", 1s);
  EXPECT_EQ(view().totals.admitted, 3U);
}

// Real threads.
TEST_F(ActivityTest, ManyThreadsLoseNoVisit) {
  constexpr int kThreads = 4;
  constexpr int kCalls = 2'000;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([this, i] {
        for (int call = 0; call < kCalls; ++call) {
          const std::string agent = "agent-" + std::to_string((i + call) % 7);
          auto visit = arrive(agent, 3);
          if (call % 3 == 0) visit.queued(time.now());
          if (call % 5 == 0) {
            visit.refused(time.now());
            continue;
          }
          visit.admitted(time.now(), Holds::kSomething);
          if (call % 2 == 0) visit.ended(time.now());
          if (call % 100 == 0) (void)view();
        }
      });
    }
  }
  const auto now = view();
  EXPECT_EQ(now.totals.arrived, static_cast<std::uint64_t>(kThreads * kCalls));
  EXPECT_EQ(now.totals.refused, now.totals.arrived / 5);
  EXPECT_EQ(now.totals.admitted, now.totals.arrived - now.totals.refused);
  EXPECT_EQ(now.waiting, 0U);
  EXPECT_EQ(now.in_flight, 0U);
}

}  // namespace
}  // namespace weir
