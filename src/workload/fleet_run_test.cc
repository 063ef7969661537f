// Agents at a fake provider on real sockets, in real time: a second or two each.
#include "workload/fleet_run.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "server/server_for_test.h"
#include "workload/fake_provider.h"

namespace weir::workload {
namespace {

using namespace std::chrono_literals;

constexpr Nanos kLatency = 20ms;
constexpr Nanos kLatencyPerToken = 100us;

Plan plan_of(std::size_t agents, Nanos lasting, std::uint64_t seed = 1) {
  return Plan::draw(sample_trace(), {.agents = agents,
                                     .lasting = lasting,
                                     .latency = kLatency,
                                     .latency_per_token = kLatencyPerToken,
                                     .seed = seed});
}

Plan::Demand all(const Plan& plan) {
  Plan::Demand all;
  for (const Plan::Demand& demand : plan.demand) {
    all.calls += demand.calls;
    all.tokens += demand.tokens;
  }
  return all;
}

TEST(FleetPlan, ASeedGivesTheSameDemandAgain) {
  const Plan one = plan_of(5, 10s);
  const Plan same = plan_of(5, 10s);
  const Plan other = plan_of(5, 10s, 2);
  EXPECT_EQ(all(one).tokens, all(same).tokens);
  EXPECT_NE(all(one).tokens, all(other).tokens);
}

TEST(FleetPlan, TheGreedyAgentWantsMoreThanAnyOther) {
  const Plan plan = plan_of(24, 20s);
  for (std::size_t i = 1; i < plan.agents.size(); ++i) {
    EXPECT_GT(plan.demand[0].tokens, 2 * plan.demand[i].tokens);
  }
}

TEST(FleetPlan, DemandIsMoreThanTheQuotaAllowsAndEveryCallFits) {
  for (const std::size_t agents : {2U, 24U, 200U}) {
    for (const Nanos lasting : {Nanos{1s}, Nanos{40s}}) {
      const Plan plan = plan_of(agents, lasting);
      const Quota quota = Quota::for_plan(plan);
      EXPECT_NEAR(static_cast<double>(all(plan).tokens) / quota.tokens_in(lasting), Quota::kDemand,
                  0.1);
      const std::vector<LimitSpec> limits = quota.limits(Quota::kSafeBurst);
      for (const Lane& lane : plan.lanes) {
        for (const PlannedCall& call : lane.calls) EXPECT_LE(call.charge(), limits[1].burst);
      }
    }
  }
}

TEST(FleetPlan, ALaneHasWholeTasks) {
  for (const Lane& lane : plan_of(24, 1s).lanes) {
    EXPECT_EQ(lane.calls.size() % Plan::kCallsOfATask, 0U);
    EXPECT_TRUE(lane.calls.back().ends_task);
  }
}

class FleetRunTest : public ::testing::Test {
 protected:
  // Each lane has one task, begun at once, of so many calls of 500 tokens, and an hour for it.
  static Plan plan_with(std::size_t calls, std::size_t lanes = 1) {
    Plan plan = plan_of(2, 1s);
    Lane lane{.agent = 1, .calls = std::vector(calls, PlannedCall{.input = 500, .output = 7})};
    lane.calls.back().ends_task = true;
    lane.calls.push_back({.pause = 24h, .ends_task = true});
    plan.lanes.assign(lanes, lane);
    plan.lasting = 1h;
    return plan;
  }
  void start(std::vector<LimitSpec> limits) {
    auto started = FakeProvider::start(
        {.limits = std::move(limits), .latency = kLatency, .latency_per_token = kLatencyPerToken},
        time, log);
    ASSERT_TRUE(started) << started.error().message;
    provider = std::move(*started);
  }
  Tally run(const Plan& plan, const std::stop_token& stop = {}) {
    auto fleet =
        FleetRun::create(plan, {.url = provider->url(), .told = told, .time_over = {}}, time);
    EXPECT_TRUE(fleet);
    return (*fleet)->run(stop).tally;
  }

  const TimeSource time = TimeSource::system();
  server::Log log{-1, server::Log::Format::kText, time.clock};
  std::unique_ptr<FakeProvider> provider;
  std::function<void(const FleetRun::Progress&)> told;
};

TEST_F(FleetRunTest, SaysHowMuchItOverslept) {
  start({});
  bool held_up = false;
  told = [&](const FleetRun::Progress&) {
    if (std::exchange(held_up, true)) return;
    const Instant until = time.clock.now() + 500ms;
    while (time.clock.now() < until) {
    }
  };
  const Plan plan = plan_of(2, 1s);
  auto fleet =
      FleetRun::create(plan, {.url = provider->url(), .told = told, .time_over = {}}, time);
  EXPECT_GE((*fleet)->run({}).late, 300ms);
}

TEST_F(FleetRunTest, WithEnoughQuotaEveryCallIsDone) {
  start({});
  Plan plan = plan_of(8, 1s);
  plan.lasting = 1h;
  plan.lanes.back().calls.pop_back();  // its last task does not come to its end
  std::uint64_t calls = 0;
  std::uint64_t tasks = 0;
  for (Lane& lane : plan.lanes) {
    calls += lane.calls.size();
    for (PlannedCall& call : lane.calls) {
      call.pause = std::min<Nanos>(call.pause, 20ms);
      tasks += call.ends_task ? 1 : 0;
    }
    lane.calls.push_back({.pause = 24h, .ends_task = true});
  }
  const Tally tally = run(plan);
  const FakeProvider::Truth truth = provider->truth();
  EXPECT_EQ(tally.asked, calls);
  EXPECT_EQ(tally.done, calls);
  EXPECT_EQ(truth.answered, calls);
  EXPECT_EQ(tally.tokens, truth.input + truth.output);
  EXPECT_EQ(tally.waits.spread().count, calls);
  EXPECT_GT(tally.micro_usd, 0);
  EXPECT_EQ(tally.tasks_done, tasks);
  EXPECT_GT(tally.used_tokens, 0);
  EXPECT_LT(tally.used_tokens, tally.tokens) << "not every task has come to its end";
  EXPECT_EQ(tally.given_up, 0U);
  EXPECT_EQ(tally.wasted_micro_usd, 0);
}

TEST_F(FleetRunTest, NothingIsAskedOnceTheTimeIsOver) {
  start({});
  const Tally tally = run(plan_of(8, 1s));
  const FakeProvider::Truth truth = provider->truth();
  EXPECT_LE(tally.asked, tally.wanted);
  EXPECT_EQ(tally.asked, truth.answered);
  // Some may have come when the time was over.
  EXPECT_LE(tally.done, tally.asked);
  EXPECT_LE(tally.tokens, truth.input + truth.output);
  EXPECT_LE(tally.used_tokens, tally.tokens);
  EXPECT_EQ(tally.waits.spread().count, tally.done);
  EXPECT_EQ(tally.given_up, 0U);
  EXPECT_EQ(tally.wasted_micro_usd, 0);
}

TEST_F(FleetRunTest, WhatTheProviderCountsIsWhatWasPlanned) {
  start({});
  const Plan plan = plan_with(2);
  const Tally tally = run(plan);
  EXPECT_EQ(tally.done, 2U);
  EXPECT_EQ(tally.tasks_done, 1U);
  EXPECT_EQ(tally.tokens, 2 * 507);
  EXPECT_EQ(tally.used_tokens, 2 * 507);
  EXPECT_EQ(provider->truth().input, 2 * 500);
  EXPECT_EQ(provider->truth().output, 2 * 7);
  EXPECT_EQ(provider->truth().tokens, 2 * plan.lanes[0].calls[0].charge());
}

TEST_F(FleetRunTest, ACallIsSentThreeTimesAndThenGivenUpWithItsTask) {
  // One call's worth of tokens, and the next a day later: as long as no SDK waits.
  start({LimitSpec::token_bucket(Unit::kTokens, {500, 24h})});
  const Tally tally = run(plan_with(3));
  EXPECT_EQ(tally.asked, 2U);
  EXPECT_EQ(tally.done, 1U);
  EXPECT_EQ(tally.given_up, 1U);
  EXPECT_EQ(provider->truth().refused, 3U);
  EXPECT_EQ(tally.tasks_done, 0U);
  EXPECT_EQ(tally.used_tokens, 0);
  EXPECT_EQ(tally.wasted_tokens, 507);
  EXPECT_EQ(tally.wasted_micro_usd, tally.micro_usd);
}

TEST_F(FleetRunTest, OnesWhoAreToldWhenComeBackThen) {
  // One call fits, and one more after 50 ms.
  start({LimitSpec::token_bucket(Unit::kTokens, {500, 50ms})});
  const Tally tally = run(plan_with(1, 2));
  EXPECT_EQ(tally.done, 2U);
  EXPECT_EQ(tally.given_up, 0U);
}

TEST_F(FleetRunTest, ACallThatWaitsWhenTheTimeIsOverIsNeitherDoneNorGivenUp) {
  start({LimitSpec::token_bucket(Unit::kTokens, {500, 24h})});
  Plan plan = plan_with(1, 2);
  plan.lasting = 300ms;  // less than an SDK waits
  const Tally tally = run(plan);
  EXPECT_EQ(tally.asked, 2U);
  EXPECT_LE(tally.done, 1U);
  EXPECT_EQ(tally.given_up, 0U);
  EXPECT_EQ(provider->truth().refused, 1U);
}

TEST_F(FleetRunTest, EndsAtOnceWhenStopped) {
  start({});
  std::stop_source stop;
  told = [&](const FleetRun::Progress&) { stop.request_stop(); };
  const Plan plan = plan_of(4, 1h);
  const Tally tally = run(plan, stop.get_token());
  EXPECT_LT(tally.done, tally.wanted);
}

TEST_F(FleetRunTest, AProviderThatIsAwayIsGivenUp) {
  start({});
  const std::string url = provider->url();
  provider.reset();
  const Plan plan = plan_with(1);
  auto fleet = FleetRun::create(plan, {.url = url, .told = {}, .time_over = {}}, time);
  ASSERT_TRUE(fleet);
  const Tally tally = (*fleet)->run({}).tally;
  EXPECT_EQ(tally.given_up, 1U);
  EXPECT_EQ(tally.done, 0U);
}

TEST_F(FleetRunTest, WhatIsNoUrlIsRefused) {
  const Plan plan = plan_of(2, 1s);
  EXPECT_FALSE(FleetRun::create(plan, {.url = "localhost", .told = {}, .time_over = {}}, time));
}

}  // namespace
}  // namespace weir::workload
