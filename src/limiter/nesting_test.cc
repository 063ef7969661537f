// Limiters, breakers and retries around a blocking call, in every order. S1.8
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "limiter/moving_time.h"
#include "weir/control/circuit_breaker.h"
#include "weir/control/retry.h"
#include "weir/limiter/rate_limiter.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using State = CircuitBreaker::State;

struct LimiterNesting : testing::Test {
  MovingTime time;
  const Instant start = time.now();
  std::unique_ptr<CircuitBreaker> breaker =
      CircuitBreaker::create({.failure_threshold = 3}, time.source().clock).value();
  std::unique_ptr<Retry> retry =
      Retry::create({.max_attempts = 5, .seed = 1}, time.source()).value();
  RateLimiter limiter = RateLimiter::create(1.0, time.source()).value();
  int calls = 0;

  Result<int> fails() {
    ++calls;
    return fail(Errc::kCallFailed, "no");
  }
  std::uint64_t permits() const { return limiter.metrics().total_acquired; }
};

// The document's example: each attempt takes a permit, and the breaker cuts the attempts short.
TEST_F(LimiterNesting, RetryAroundBreakerAroundLimiter) {
  const auto result = time.run([&] {
    return retry->run(
        [&] { return breaker->run([&] { return limiter.with_limit([&] { return fails(); }); }); });
  });
  EXPECT_EQ(result.error(), Errc::kBreakerOpen);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(permits(), 3U);
  EXPECT_EQ(breaker->counters().rejected, 2U);
}

TEST_F(LimiterNesting, RetryAroundLimiterAroundBreakerPaysForRefusedCallsToo) {
  const auto result = time.run([&] {
    return retry->run(
        [&] { return limiter.with_limit([&] { return breaker->run([&] { return fails(); }); }); });
  });
  EXPECT_EQ(result.error(), Errc::kBreakerOpen);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(permits(), 5U);
}

TEST_F(LimiterNesting, LimiterAroundRetryPaysOnce) {
  for (const bool breaker_inside : {true, false}) {
    const auto retried = [&] { return retry->run([&] { return fails(); }); };
    const auto result = time.run([&] {
      return limiter.with_limit([&] {
        return breaker_inside ? retry->run([&] { return breaker->run([&] { return fails(); }); })
                              : breaker->run(retried);
      });
    });
    EXPECT_FALSE(result);
  }
  EXPECT_EQ(permits(), 2U);
}

TEST_F(LimiterNesting, BreakerOutsideTakesNoPermitWhileOpen) {
  const auto limited_retry = [&] {
    return breaker->run(
        [&] { return retry->run([&] { return limiter.with_limit([&] { return fails(); }); }); });
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(time.run(limited_retry).error(), Errc::kCallFailed);
  }
  EXPECT_EQ(calls, 15);
  EXPECT_EQ(permits(), 15U);
  EXPECT_EQ(time.run(limited_retry).error(), Errc::kBreakerOpen);
  EXPECT_EQ(permits(), 15U);
}

TEST_F(LimiterNesting, BreakerAroundLimiterAroundRetryCountsARunOnce) {
  const auto call = [&] {
    return breaker->run(
        [&] { return limiter.with_limit([&] { return retry->run([&] { return fails(); }); }); });
  };
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(breaker->state(time.now()), State::kClosed);
    EXPECT_EQ(time.run(call).error(), Errc::kCallFailed);
    EXPECT_EQ(calls, 5 * i);
    EXPECT_EQ(permits(), static_cast<std::uint64_t>(i));
  }
  EXPECT_EQ(breaker->state(time.now()), State::kOpen);
}

// Whatever the order, a call that succeeds in the end gives its value.
TEST_F(LimiterNesting, EveryOrderGivesTheValueOfTheThirdAttempt) {
  enum Tool { kBreaker, kLimiter, kRetry };
  std::vector<Tool> order{kBreaker, kLimiter, kRetry};
  do {
    calls = 0;
    std::function<Result<int>()> call = [&] { return calls == 2 ? Result<int>{7} : fails(); };
    for (const Tool tool : order) {
      call = [this, tool, inner = call]() -> Result<int> {
        if (tool == kBreaker) return breaker->run(inner);
        if (tool == kLimiter) return limiter.with_limit(inner);
        return retry->run(inner);
      };
    }
    EXPECT_EQ(time.run(call), 7);
    EXPECT_EQ(calls, 2);
    EXPECT_EQ(breaker->state(time.now()), State::kClosed);
  } while (std::ranges::next_permutation(order).found);
}

TEST_F(LimiterNesting, ALimitersOwnRefusalIsNeitherRetriedNorTheServicesFailure) {
  limiter.close();
  for (int i = 0; i < 5; ++i) {
    const auto result = retry->run(
        [&] { return breaker->run([&] { return limiter.with_limit([&] { return fails(); }); }); });
    EXPECT_EQ(result.error(), Errc::kClosed);
  }
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(breaker->state(time.now()), State::kClosed);
  EXPECT_EQ(time.now(), start);
}

// The document's 100,000 tokens a minute with a burst of 10,000: a call pays for what it estimates.
TEST_F(LimiterNesting, WeightedUseForTokensOfAModel) {
  RateLimiter tokens = RateLimiter::with_burst(100'000.0 / 60.0, 10'000, time.source()).value();
  const auto chat = [&](Amount estimate) {
    return time.run([&] {
      return retry->run(
          [&] { return tokens.with_limit_n(estimate, [&] { return time.now() - start; }); });
    });
  };
  EXPECT_EQ(chat(4'000), 0s);
  EXPECT_EQ(chat(6'000), 0s);
  EXPECT_EQ(chat(1'000), 600ms);
  EXPECT_EQ(chat(5'000), 3600ms);
  EXPECT_EQ(chat(20'000), 9600ms) << "more than the burst: on debt, from a full bucket";
  EXPECT_EQ(chat(10'000), 21'600ms) << "and the next pays";
}

}  // namespace
}  // namespace weir
