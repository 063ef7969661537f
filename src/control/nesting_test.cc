// Breaker and retry in any nesting, with any kind of callable. S1.8
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>

#include "control/jump_timer.h"
#include "weir/control/circuit_breaker.h"
#include "weir/control/retry.h"
#include "weir/time/simulated_time.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using State = CircuitBreaker::State;

struct NestingTest : testing::Test {
  SimulatedTime time;
  JumpTimer timer{time};
  std::unique_ptr<CircuitBreaker> breaker = CircuitBreaker::create({}, time).value();
  std::unique_ptr<Retry> retry =
      Retry::create({.max_attempts = 5, .seed = 1}, timer.source()).value();
  int calls = 0;

  Result<int> fails() {
    ++calls;
    return fail(Errc::kCallFailed);
  }
};

TEST_F(NestingTest, ABreakerInsideARetryCutsTheAttemptsShort) {
  const auto result = retry->run([&] { return breaker->run([&] { return fails(); }); });
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(result.error(), Errc::kBreakerOpen);
  EXPECT_EQ(breaker->counters().rejected, 2U);
}

TEST_F(NestingTest, ABreakerAroundARetryCountsARunOnce) {
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(breaker->state(time.now()), State::kClosed);
    EXPECT_EQ(breaker->run([&] { return retry->run([&] { return fails(); }); }).error(),
              Errc::kCallFailed);
    EXPECT_EQ(calls, 5 * i);
  }
  EXPECT_EQ(breaker->state(time.now()), State::kOpen);
}

TEST_F(NestingTest, ARetryThatWaitsLongEnoughGetsThroughTheHalfOpenBreaker) {
  retry = Retry::create({.max_attempts = 5,
                         .classify = [](const Error& error) -> Retry::Verdict {
                           return {.again = true,
                                   .not_before = error == Errc::kBreakerOpen ? Nanos{30s} : 0ns};
                         }},
                        timer.source())
              .value();
  const auto result = retry->run([&] {
    return breaker->run([&]() -> Result<int> { return calls == 3 ? Result<int>(7) : fails(); });
  });
  EXPECT_EQ(result, 7);
  EXPECT_EQ(breaker->state(time.now()), State::kClosed);
}

TEST_F(NestingTest, ResultsAreFlatAtAnyDepth) {
  const auto deep = [&](auto f) {
    return breaker->run(
        [&] { return retry->run([&] { return breaker->run([&] { return retry->run(f); }); }); });
  };
  static_assert(std::is_same_v<decltype(deep([] { return 7; })), Result<int>>);
  static_assert(std::is_same_v<decltype(deep([] {})), Result<void>>);
  EXPECT_EQ(deep([] { return 7; }), 7);
  EXPECT_TRUE(deep([] {}).has_value());
  EXPECT_EQ(*deep([] { return std::make_unique<int>(7); }).value(), 7);
  EXPECT_EQ(deep([]() -> Result<int> { return fail(Errc::kNeverFits, "9 > 5"); }).error().message,
            "9 > 5");
}

TEST_F(NestingTest, AnExceptionGoesThroughBoth) {
  const auto throws = [&]() -> int {
    ++calls;
    throw std::runtime_error("no");
  };
  EXPECT_THROW((void)breaker->run([&] { return retry->run(throws); }), std::runtime_error);
  EXPECT_EQ(calls, 5);
  // The breaker has counted one failure: two more open it, and the retry ends with its refusal.
  EXPECT_EQ(retry->run([&] { return breaker->run(throws); }).error(), Errc::kBreakerOpen);
  EXPECT_EQ(calls, 7);
}

}  // namespace
}  // namespace weir
