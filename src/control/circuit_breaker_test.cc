#include "weir/control/circuit_breaker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "weir/time/simulated_time.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using State = CircuitBreaker::State;

struct CircuitBreakerTest : testing::Test {
  void configure(CircuitBreaker::Config config) {
    breaker = CircuitBreaker::create(std::move(config), time).value();
  }
  State state() const { return breaker->state(time.now()); }
  void fail_once() { breaker->try_enter().value().failure(); }
  void open() {
    while (state() != State::kOpen) fail_once();
  }

  SimulatedTime time;
  std::unique_ptr<CircuitBreaker> breaker = CircuitBreaker::create({}, time).value();
};

// S1.8, S2.4
TEST_F(CircuitBreakerTest, OpensAfterThreeFailuresInARowAndTriesAgainAfterHalfAMinute) {
  for (int i = 0; i < 2; ++i) fail_once();
  EXPECT_EQ(state(), State::kClosed);
  fail_once();
  EXPECT_EQ(state(), State::kOpen);

  time.advance(30s - 1ns);
  EXPECT_EQ(state(), State::kOpen);
  EXPECT_EQ(breaker->try_enter().error(), Errc::kBreakerOpen);
  time.advance(1ns);
  EXPECT_EQ(state(), State::kHalfOpen);

  breaker->try_enter().value().success();
  EXPECT_EQ(state(), State::kClosed);
  for (int i = 0; i < 2; ++i) fail_once();
  EXPECT_EQ(state(), State::kClosed) << "closing starts the count anew";
}

TEST_F(CircuitBreakerTest, ASuccessInBetweenStartsTheCountAnew) {
  for (int i = 0; i < 10; ++i) {
    fail_once();
    fail_once();
    breaker->try_enter().value().success();
  }
  EXPECT_EQ(state(), State::kClosed);
  EXPECT_EQ(breaker->counters().opened, 0U);
}

// S2.4
TEST_F(CircuitBreakerTest, HalfOpenLetsOnlyTheSetNumberTryAtOnce) {
  configure({.half_open_calls = 2});
  open();
  time.advance(30s);
  auto first = breaker->try_enter();
  auto second = breaker->try_enter();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(breaker->try_enter().error(), Errc::kBreakerOpen);
  EXPECT_EQ(state(), State::kHalfOpen);
  second->success();
  EXPECT_EQ(state(), State::kClosed);
  EXPECT_TRUE(breaker->try_enter().has_value());
}

TEST_F(CircuitBreakerTest, AFailedTrialOpensItForAnotherWholeTime) {
  open();
  time.advance(40s);
  fail_once();
  EXPECT_EQ(state(), State::kOpen);
  time.advance(30s - 1ns);
  EXPECT_EQ(state(), State::kOpen);
  time.advance(1ns);
  EXPECT_EQ(state(), State::kHalfOpen);
  EXPECT_EQ(breaker->counters().opened, 2U);
}

TEST_F(CircuitBreakerTest, ATrialWithoutAnOutcomeGivesItsPlaceBack) {
  open();
  time.advance(30s);
  {
    const auto undecided = breaker->try_enter().value();
  }
  EXPECT_EQ(state(), State::kHalfOpen);
  auto trial = breaker->try_enter();
  ASSERT_TRUE(trial.has_value());
  EXPECT_FALSE(breaker->try_enter().has_value());
  trial->success();
  EXPECT_EQ(state(), State::kClosed);
}

TEST_F(CircuitBreakerTest, ACallWithoutAnOutcomeCountsNeitherWay) {
  fail_once();
  fail_once();
  {
    const auto undecided = breaker->try_enter().value();
  }
  EXPECT_EQ(state(), State::kClosed);
  fail_once();
  EXPECT_EQ(state(), State::kOpen);
}

TEST_F(CircuitBreakerTest, ThePassSpeaksOnce) {
  auto pass = breaker->try_enter().value();
  auto moved = std::move(pass);
  for (int i = 0; i < 5; ++i) moved.failure();
  EXPECT_EQ(state(), State::kClosed);
  fail_once();
  EXPECT_EQ(state(), State::kClosed);
  fail_once();
  EXPECT_EQ(state(), State::kOpen);
}

TEST_F(CircuitBreakerTest, OutcomesFromBeforeAChangeOfStateAreIgnored) {
  std::vector<CircuitBreaker::Pass> early;
  for (int i = 0; i < 4; ++i) early.push_back(breaker->try_enter().value());
  open();
  early[0].failure();
  early[1].success();
  EXPECT_EQ(state(), State::kOpen);
  EXPECT_EQ(breaker->counters().opened, 1U);

  time.advance(30s);
  auto trial = breaker->try_enter().value();
  early[2].success();
  EXPECT_EQ(state(), State::kHalfOpen);
  early[3].failure();
  EXPECT_EQ(state(), State::kHalfOpen);
  EXPECT_FALSE(breaker->try_enter().has_value()) << "the place is the trial's";
  trial.success();
  EXPECT_EQ(state(), State::kClosed);
}

TEST_F(CircuitBreakerTest, ATrialThatOutlastsItsHalfOpenStateIsIgnored) {
  configure({.failure_threshold = 1, .half_open_calls = 2});
  open();
  time.advance(30s);
  auto fails = breaker->try_enter().value();
  auto late = breaker->try_enter().value();
  fails.failure();
  late.success();
  EXPECT_EQ(state(), State::kOpen);
}

TEST_F(CircuitBreakerTest, SaysWhenItTriesAgain) {
  open();
  time.advance(29s + 1ns);
  EXPECT_NE(breaker->try_enter().error().message.find("in 1000 ms"), std::string::npos)
      << breaker->try_enter().error().message;
  time.advance(1s);
  const auto trial = breaker->try_enter().value();
  EXPECT_NE(breaker->try_enter().error().message.find("1 trial"), std::string::npos);
}

TEST_F(CircuitBreakerTest, RunGivesWhatTheCallableGives) {
  static_assert(std::is_same_v<decltype(breaker->run([] { return 7; })), Result<int>>);
  static_assert(std::is_same_v<decltype(breaker->run([] {})), Result<void>>);
  EXPECT_EQ(breaker->run([] { return 7; }), 7);
  EXPECT_EQ(breaker->run([]() -> Result<int> { return 7; }), 7);
  EXPECT_EQ(*breaker->run([] { return std::make_unique<int>(7); }).value(), 7);
  EXPECT_TRUE(breaker->run([] {}).has_value());
  EXPECT_EQ(breaker->run([]() -> Result<int> { return fail(Errc::kUnavailable); }).error(),
            Errc::kUnavailable);
}

TEST_F(CircuitBreakerTest, RunCountsErrorsAndDoesNotCallWhenOpen) {
  int calls = 0;
  const auto failing = [&]() -> Result<int> {
    ++calls;
    return fail(Errc::kCallFailed);
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(breaker->run(failing).error(), Errc::kCallFailed);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(breaker->run(failing).error(), Errc::kBreakerOpen);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(breaker->counters().opened, 1U);
  EXPECT_EQ(breaker->counters().rejected, 4U);
  time.advance(30s);
  EXPECT_TRUE(breaker->run([] {}).has_value());
  EXPECT_EQ(state(), State::kClosed);
}

TEST_F(CircuitBreakerTest, AnExceptionIsAFailureAndGoesOn) {
  const auto throwing = []() -> int { throw std::runtime_error("no"); };
  for (int i = 0; i < 3; ++i) EXPECT_THROW(breaker->run(throwing), std::runtime_error);
  EXPECT_EQ(state(), State::kOpen);
  EXPECT_EQ(breaker->run(throwing).error(), Errc::kBreakerOpen);
}

TEST_F(CircuitBreakerTest, WeirsOwnRefusalsAreNotTheServicesFault) {
  configure({.failure_threshold = 1});
  for (const Errc code :
       {Errc::kClosed, Errc::kResourceUnknown, Errc::kCapacityExhausted, Errc::kNeverFits,
        Errc::kCancelled, Errc::kInvalidCapacity, Errc::kInvalidWindow, Errc::kInvalidConfig,
        Errc::kInvalidLimit, Errc::kInvalidCost}) {
    (void)breaker->run([&]() -> Result<int> { return fail(code); });
    EXPECT_EQ(state(), State::kClosed) << name(code);
  }
  for (const Errc code :
       {Errc::kDeadlineExceeded, Errc::kUnavailable, Errc::kBreakerOpen, Errc::kCallFailed}) {
    configure({.failure_threshold = 1});
    (void)breaker->run([&]() -> Result<int> { return fail(code); });
    EXPECT_EQ(state(), State::kOpen) << name(code);
  }
}

TEST_F(CircuitBreakerTest, ARefusalOfOursDoesNotCloseAHalfOpenBreaker) {
  open();
  time.advance(30s);
  (void)breaker->run([]() -> Result<int> { return fail(Errc::kCancelled); });
  EXPECT_EQ(state(), State::kHalfOpen);
  EXPECT_TRUE(breaker->run([] {}).has_value());
  EXPECT_EQ(state(), State::kClosed);
}

TEST_F(CircuitBreakerTest, AnotherPredicateDecidesOtherwise) {
  configure({.failure_threshold = 1,
             .is_failure = [](const Error& error) { return error == Errc::kCancelled; }});
  (void)breaker->run([]() -> Result<int> { return fail(Errc::kCallFailed); });
  EXPECT_EQ(state(), State::kClosed);
  (void)breaker->run([]() -> Result<int> { return fail(Errc::kCancelled); });
  EXPECT_EQ(state(), State::kOpen);
}

TEST_F(CircuitBreakerTest, AClockThatRunsBackwardsDoesNotOpenTheWayEarly) {
  open();
  time.step_back(10s);
  time.advance(30s);
  EXPECT_EQ(state(), State::kOpen);
  time.advance(10s);
  EXPECT_EQ(state(), State::kHalfOpen);
}

TEST_F(CircuitBreakerTest, RefusesWhatIsOutOfRangeAndNamesIt) {
  const struct {
    CircuitBreaker::Config config;
    const char* names;
  } rows[] = {
      {{.failure_threshold = 0}, "failure_threshold must be at least 1, not 0"},
      {{.open_for = 0s}, "open_for"},
      {{.open_for = kPeriodMax + 1ns}, "not 34560000000000001"},
      {{.half_open_calls = -1}, "half_open_calls must be at least 1, not -1"},
      {{.is_failure = nullptr}, "is_failure"},
  };
  for (const auto& row : rows) {
    const auto made = CircuitBreaker::create(row.config, time);
    ASSERT_FALSE(made.has_value()) << row.names;
    EXPECT_EQ(made.error(), Errc::kInvalidConfig);
    EXPECT_NE(made.error().message.find(row.names), std::string::npos) << made.error().message;
  }
}

// Real threads, in rounds: in each half-open state all try before anyone is done.
TEST_F(CircuitBreakerTest, ManyThreadsGetExactlyTheHalfOpenPlaces) {
  constexpr int kThreads = 8;
  constexpr int kPlaces = 3;
  constexpr int kRounds = 100;
  configure({.failure_threshold = 1, .half_open_calls = kPlaces});
  open();
  std::atomic<int> entered = 0;
  const auto next_round = [&]() noexcept { time.advance(30s); };
  const auto check = [&]() noexcept { EXPECT_EQ(entered.exchange(0), kPlaces); };
  std::barrier start(kThreads, next_round);
  std::barrier all_have_tried(kThreads, check);
  std::barrier done(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        for (int round = 0; round < kRounds; ++round) {
          start.arrive_and_wait();
          auto pass = breaker->try_enter();
          if (pass) ++entered;
          all_have_tried.arrive_and_wait();
          if (pass) pass->failure();
          done.arrive_and_wait();
        }
      });
    }
  }
  EXPECT_EQ(breaker->counters().opened, 1U + kRounds);
  EXPECT_EQ(breaker->counters().rejected, std::uint64_t{(kThreads - kPlaces) * kRounds});
}

// Real threads, all at once: every call is either run or rejected, and the breaker still works.
TEST_F(CircuitBreakerTest, NothingIsLostWhenThreadsHammerIt) {
  constexpr int kCalls = 5000;
  configure({.open_for = 5us, .half_open_calls = 2});
  std::atomic<std::uint64_t> run = 0;
  std::atomic<std::uint64_t> rejected = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kCalls; ++i) {
          const auto result = breaker->run([&]() -> Result<void> {
            ++run;
            switch ((i * 7 + t) % 8) {
              case 0: return {};
              case 1: return fail(Errc::kCancelled);
              default: return fail(Errc::kCallFailed);
            }
          });
          if (!result && result.error() == Errc::kBreakerOpen) ++rejected;
        }
      });
    }
    while (run + rejected < 4 * kCalls) time.advance(1us);
  }
  EXPECT_EQ(run + rejected, std::uint64_t{4 * kCalls});
  EXPECT_EQ(breaker->counters().rejected, rejected);
  EXPECT_GT(breaker->counters().opened, 0U);
  time.advance(5us);
  EXPECT_TRUE(breaker->run([] {}).has_value());
  EXPECT_EQ(state(), State::kClosed);
}

}  // namespace
}  // namespace weir
