// Sources that fail: back-off, breakers, and servers that say when to come back (S4.8).
#include "source/schedule_for_test.h"

namespace weir::source {
namespace {

TEST_F(ScheduleTest, AFailureBacksOffAndASuccessForgetsIt) {
  put("a", "free.org", 1h);
  Nanos longest{0};
  for (int failures = 1; failures <= 4; ++failures) {
    schedule.cycle();
    auto task = schedule.take();
    ASSERT_TRUE(task);
    const auto change = end(std::move(*task), kFailed);
    EXPECT_EQ(change.failed, failures == 1);
    const View view = schedule.view(*schedule.find("a"));
    EXPECT_EQ(view.failures, failures);
    EXPECT_EQ(view.state, "backing_off");
    const Nanos ceiling = 5s * (1 << (failures - 1));
    EXPECT_GE(view.due_in, ceiling / 2);
    EXPECT_LE(view.due_in, ceiling);
    longest = view.due_in;
    time.advance(view.due_in - 1ns);
    schedule.cycle();
    EXPECT_FALSE(schedule.take()) << "not before";
    time.advance(1ns);
  }
  EXPECT_GT(longest, 20s - 1ns);
  schedule.cycle();
  EXPECT_TRUE(end(std::move(*schedule.take()), kFetched).recovered);
  EXPECT_EQ(schedule.view(*schedule.find("a")).failures, 0);
  EXPECT_GT(schedule.view(*schedule.find("a")).due_in, 50min);
}

TEST_F(ScheduleTest, AServerThatIsOverloadedSaysWhenToComeBack) {
  put("a", "free.org", 1s);
  schedule.cycle();
  end(std::move(*schedule.take()), kFailed, 10min);
  EXPECT_EQ(schedule.view(*schedule.find("a")).due_in, 10min);
  EXPECT_EQ(schedule.view(*schedule.find("a")).failures, 1);
  time.advance(10min);
  schedule.cycle();
  end(std::move(*schedule.take()), kFailed, 1ms);
  EXPECT_GE(schedule.view(*schedule.find("a")).due_in, 5s) << "the pause is longer";
}

TEST_F(ScheduleTest, BackOffIsBounded) {
  put("a", "free.org", 1s);
  for (int i = 0; i < 60; ++i) {
    time.advance(2h);
    schedule.cycle();
    auto task = schedule.take();
    ASSERT_TRUE(task) << i;
    end(std::move(*task), kRefused);  // which leaves the breaker alone
    EXPECT_LE(schedule.view(*schedule.find("a")).due_in, 5min);
  }
}

TEST_F(ScheduleTest, ADomainThatKeepsFailingIsLeftAloneAndTriedByOne) {
  put_many(20, "down.org", 1s);
  put("other", "up.org", 1s);
  schedule.cycle();
  int failed = 0;
  std::optional<CircuitBreaker::State> told;
  while (auto task = schedule.take()) {
    const bool down = task->source->domain->host == "down.org";
    failed += down ? 1 : 0;
    const auto change = end(std::move(*task), down ? kFailed : kFetched);
    if (change.breaker) told = change.breaker;
  }
  EXPECT_EQ(failed, Schedule::kFailuresMax);
  EXPECT_EQ(told, CircuitBreaker::State::kOpen);
  EXPECT_EQ(schedule.summary().breakers_open, (std::vector<std::string>{"down.org"}));
  EXPECT_EQ(state("s00010"), "breaker_open");
  EXPECT_EQ(state("s00000"), "backing_off");
  time.advance(29s);
  EXPECT_EQ(cycle(), (std::vector<std::string>{"other"}));
  time.advance(1s);
  schedule.cycle();
  EXPECT_EQ(schedule.summary().queued, 2U);  // the other, and one of them
  std::list<Task> tasks;
  while (auto task = schedule.take()) tasks.push_back(std::move(*task));
  schedule.cycle();
  EXPECT_FALSE(schedule.take());
  for (Task& task : tasks) {
    const auto change = end(std::move(task), kFetched);
    if (change.breaker) told = change.breaker;
  }
  EXPECT_EQ(told, CircuitBreaker::State::kClosed);
  EXPECT_TRUE(schedule.summary().breakers_open.empty());
  EXPECT_GT(cycle().size(), 5U);
}

TEST_F(ScheduleTest, AFetchFromBeforeTheBreakerOpenedDoesNotDelayTheTrial) {
  put_many(Schedule::kFailuresMax + 2, "down.org", 1s);
  schedule.cycle();
  auto hanging = schedule.take();
  ASSERT_TRUE(hanging);
  while (auto task = schedule.take()) end(std::move(*task), kFailed);
  ASSERT_EQ(schedule.summary().breakers_open.size(), 1U);
  time.advance(Schedule::kOpenFor);
  schedule.cycle();
  auto trial = schedule.take();
  ASSERT_TRUE(trial);
  schedule.cycle();
  EXPECT_FALSE(schedule.take()) << "one at a time";
  end(std::move(*trial), kFetched);
  EXPECT_TRUE(schedule.summary().breakers_open.empty());
  end(std::move(*hanging), kStopped);
}

// A request that we did not send ourselves.
TEST_F(ScheduleTest, ARefusalOfOurOwnIsNoSuccessOfTheTrial) {
  put_many(Schedule::kFailuresMax, "down.org", 1s);
  schedule.cycle();
  while (auto task = schedule.take()) end(std::move(*task), kFailed);
  time.advance(Schedule::kOpenFor);
  schedule.cycle();
  end(std::move(*schedule.take()), kRefused);
  EXPECT_EQ(schedule.summary().breakers_open.size(), 1U);
  schedule.cycle();
  auto answered = schedule.take();
  ASSERT_TRUE(answered);
  schedule.admit(*answered);
  end(std::move(*answered), kRefused);
  EXPECT_TRUE(schedule.summary().breakers_open.empty());
}

TEST_F(ScheduleTest, ARefusalOfOneSourceDoesNotOpenItsDomainsBreaker) {
  put_many(20, "free.org");
  schedule.cycle();
  while (auto task = schedule.take()) end(std::move(*task), kRefused);
  EXPECT_TRUE(schedule.summary().breakers_open.empty());
  EXPECT_EQ(schedule.summary().failing, 20U);
}

TEST_F(ScheduleTest, AServerThatSaysTooFastIsLeftAloneThoughNobodyLimitsIt) {
  put_many(4, "free.org");
  schedule.cycle();
  end(std::move(*schedule.take()), kLimited, 30s);
  EXPECT_FALSE(schedule.take());
  EXPECT_EQ(schedule.view(*schedule.find("s00000")).failures, 0);
  EXPECT_EQ(schedule.view(*schedule.find("s00000")).rate_limited, 1U);
  time.advance(29s);
  EXPECT_TRUE(cycle().empty());
  time.advance(1s);
  EXPECT_EQ(cycle().size(), 4U);
  schedule.cycle();
}

TEST_F(ScheduleTest, ReplacingAHostsOnlySourceForgetsNotWhatItsServerSaid) {
  put("a", "free.org");
  schedule.cycle();
  end(std::move(*schedule.take()), kLimited, 1h);
  put("a", "free.org");
  EXPECT_TRUE(cycle().empty());
  time.advance(1h);
  EXPECT_EQ(cycle().size(), 1U);
}

}  // namespace
}  // namespace weir::source
