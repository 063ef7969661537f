#include "weir/control/retry.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "control/jump_timer.h"
#include "weir/time/simulated_time.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

struct RetryTest : testing::Test {
  std::unique_ptr<Retry> make(Retry::Config config) {
    if (!config.seed) config.seed = 1;
    return Retry::create(std::move(config), timer.source()).value();
  }

  // Fails `failures` times, then gives 7; notes when it was called.
  auto flaky(int failures, Errc code = Errc::kUnavailable) {
    return [this, failures, code, call = 0]() mutable -> Result<int> {
      calls.push_back(time.now() - SimulatedTime::kStart);
      if (++call <= failures) return fail(code, "failure " + std::to_string(call));
      return 7;
    };
  }

  SimulatedTime time;
  JumpTimer timer{time};
  std::vector<Nanos> calls;  // since the start
};

TEST_F(RetryTest, ASuccessIsNotRepeated) {
  EXPECT_EQ(make({})->run(flaky(0)), 7);
  EXPECT_EQ(calls, (std::vector<Nanos>{0ns}));
  EXPECT_EQ(time.now(), SimulatedTime::kStart);
}

// S1.8
TEST_F(RetryTest, RepeatsWithGrowingJitteredDelaysUntilItSucceeds) {
  EXPECT_EQ(make({})->run(flaky(3)), 7);
  ASSERT_EQ(calls.size(), 4U);
  const auto retry = make({});
  Backoff same = retry->backoff();
  Nanos at = 0ns;
  for (std::size_t i = 1; i < calls.size(); ++i) EXPECT_EQ(calls[i], at += same.next());
  EXPECT_LE(calls[1] - calls[0], 100ms);
  EXPECT_LE(calls[2] - calls[1], 200ms);
  EXPECT_LE(calls[3] - calls[2], 400ms);
  EXPECT_GT(at, 0ns);
}

// S1.8
TEST_F(RetryTest, GivesTheLastErrorAfterTheLastAttempt) {
  const auto result = make({.max_attempts = 3})->run(flaky(100));
  EXPECT_EQ(calls.size(), 3U);
  EXPECT_EQ(result.error(), Errc::kUnavailable);
  EXPECT_EQ(result.error().message, "failure 3");
}

TEST_F(RetryTest, OneAttemptIsNoRetry) {
  EXPECT_FALSE(make({.max_attempts = 1})->run(flaky(1)).has_value());
  EXPECT_EQ(calls.size(), 1U);
}

TEST_F(RetryTest, TheSameSeedGivesTheSameTimesAndEachRunOthers) {
  const auto times = [&](Retry& retry) {
    calls.clear();
    (void)retry.run(flaky(3));
    std::vector<Nanos> delays;
    for (std::size_t i = 1; i < calls.size(); ++i) delays.push_back(calls[i] - calls[i - 1]);
    return delays;
  };
  const auto one = make({.seed = 5});
  const auto two = make({.seed = 5});
  const auto first = times(*one);
  EXPECT_EQ(first, times(*two));
  const auto second = times(*one);
  EXPECT_NE(first, second);
  EXPECT_EQ(second, times(*two));
}

TEST_F(RetryTest, WithoutASeedTwoRetriesAreNotInStep) {
  const auto one = Retry::create({}, timer.source()).value();
  const auto two = Retry::create({}, timer.source()).value();
  EXPECT_NE(one->backoff().next(), two->backoff().next());  // alike once in 10^8 runs
}

TEST_F(RetryTest, RepeatsOnlyWhatMayPass) {
  for (const Errc code : {Errc::kClosed, Errc::kResourceUnknown, Errc::kNeverFits, Errc::kCancelled,
                          Errc::kInvalidCapacity, Errc::kInvalidWindow, Errc::kInvalidConfig,
                          Errc::kInvalidLimit, Errc::kInvalidCost}) {
    calls.clear();
    EXPECT_EQ(make({})->run(flaky(1, code)).error(), code);
    EXPECT_EQ(calls.size(), 1U) << name(code);
  }
  for (const Errc code : {Errc::kCapacityExhausted, Errc::kDeadlineExceeded, Errc::kUnavailable,
                          Errc::kBreakerOpen, Errc::kCallFailed}) {
    calls.clear();
    EXPECT_EQ(make({})->run(flaky(1, code)), 7) << name(code);
    EXPECT_EQ(calls.size(), 2U) << name(code);
  }
}

TEST_F(RetryTest, WaitsAtLeastAsLongAsItIsTold) {
  const auto retry = make({.classify = [](const Error&) -> Retry::Verdict {
    return {.again = true, .not_before = 90s};
  }});
  EXPECT_EQ(retry->run(flaky(1)), 7);
  EXPECT_GE(calls[1], 90s) << "although max_delay is 30 s";
  EXPECT_LE(calls[1], 90s + 100ms);
  EXPECT_GT(calls[1], 90s) << "jitter is added";
}

TEST_F(RetryTest, ANegativeHintIsNone) {
  const auto retry = make({.classify = [](const Error&) -> Retry::Verdict {
    return {.again = true, .not_before = -90s};
  }});
  Backoff delays = retry->backoff();
  EXPECT_GE(retry->delay_after(1, {Errc::kUnavailable, ""}, delays), 0ns);
}

TEST_F(RetryTest, RepeatsAfterAnExceptionAndLetsTheLastOneGoOn) {
  int attempts = 0;
  const auto throwing = [&](int failures) {
    return [&attempts, failures] {
      if (++attempts <= failures) throw std::runtime_error("no " + std::to_string(attempts));
      return 7;
    };
  };
  EXPECT_EQ(make({})->run(throwing(3)), 7);
  EXPECT_EQ(attempts, 4);

  attempts = 0;
  try {
    (void)make({})->run(throwing(100));
    FAIL() << "nothing thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "no 4");
  }
  EXPECT_EQ(attempts, 4);
}

TEST_F(RetryTest, ClassifiesAnExceptionAsAFailedCall) {
  std::vector<Error> seen;
  const auto retry = make({.classify = [&](const Error& error) -> Retry::Verdict {
    seen.push_back(error);
    return {};
  }});
  EXPECT_THROW((void)retry->run([] { throw std::runtime_error("boom"); }), std::runtime_error);
  EXPECT_THROW((void)retry->run([] { throw 7; }), int);
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0], Errc::kCallFailed);
  EXPECT_EQ(seen[0].message, "boom");
  EXPECT_EQ(seen[1], Errc::kCallFailed);
}

TEST_F(RetryTest, GivesWhatTheCallableGives) {
  const auto retry = make({});
  static_assert(std::is_same_v<decltype(retry->run([] {})), Result<void>>);
  EXPECT_TRUE(retry->run([] {}).has_value());
  EXPECT_EQ(*retry->run([] { return std::make_unique<int>(7); }).value(), 7);
  EXPECT_EQ(*retry->run([]() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(7); })
                 .value(),
            7);
}

TEST_F(RetryTest, StoppedBeforeItBeginsItCallsNothing) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(make({})->run(flaky(0), stop.get_token()).error(), Errc::kCancelled);
  EXPECT_TRUE(calls.empty());
}

TEST_F(RetryTest, StoppedBetweenAttemptsItSaysWhatItWasWaitingAfter) {
  std::stop_source stop;
  const auto result = make({})->run(
      [&]() -> Result<int> {
        stop.request_stop();
        return fail(Errc::kUnavailable, "no route");
      },
      stop.get_token());
  EXPECT_EQ(result.error(), Errc::kCancelled);
  EXPECT_NE(result.error().message.find("unavailable: no route"), std::string::npos);
}

// Real threads: the sleeping one is woken by time or by its token.
TEST_F(RetryTest, SleepsInSimulatedTimeAndWakesWhenStopped) {
  const auto retry = Retry::create({.seed = 1}, time.source()).value();
  std::jthread caller([&](std::stop_token stop) {
    EXPECT_EQ(retry->run(flaky(100), stop).error(), Errc::kCancelled);
  });
  while (!time.next_alarm()) std::this_thread::yield();
  const Instant first = *time.next_alarm();
  time.advance_to(first);
  while (!time.next_alarm()) std::this_thread::yield();
  caller.request_stop();
  caller.join();
  EXPECT_EQ(calls, (std::vector<Nanos>{0ns, first - SimulatedTime::kStart}));
}

TEST_F(RetryTest, RefusesWhatIsOutOfRangeAndNamesIt) {
  const struct {
    Retry::Config config;
    const char* names;
  } rows[] = {
      {{.max_attempts = 0}, "max_attempts must be at least 1, not 0"},
      {{.backoff = {.factor = 0}}, "factor"},
      {{.classify = nullptr}, "classify"},
  };
  for (const auto& row : rows) {
    const auto made = Retry::create(row.config, timer.source());
    ASSERT_FALSE(made.has_value()) << row.names;
    EXPECT_EQ(made.error(), Errc::kInvalidConfig);
    EXPECT_NE(made.error().message.find(row.names), std::string::npos) << made.error().message;
  }
}

}  // namespace
}  // namespace weir
