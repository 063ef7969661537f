#include "weir/limiter/rate_limiter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "limiter/moving_time.h"
#include "limiter/rate_limiter_for_test.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// S1.9
TEST_F(RateLimiterTest, FivePermitsAtTenASecondTake400Milliseconds) {
  RateLimiter limiter = make(10.0);
  EXPECT_EQ(acquire(limiter, 5), (std::vector<Nanos>{0ms, 100ms, 100ms, 100ms, 100ms}));
  EXPECT_EQ(elapsed(), 400ms);
}

// S1.9, S1.1
TEST(RateLimiterBlocking, FivePermitsAtTenASecondTake400Milliseconds) {
  MovingTime time;
  const Instant start = time.now();
  RateLimiter limiter = RateLimiter::create(10.0, time.source()).value();
  Nanos waited{0};
  time.run([&] {
    for (int i = 0; i < 5; ++i) waited += limiter.acquire().value();
  });
  EXPECT_EQ(waited, 400ms);
  EXPECT_EQ(time.now() - start, 400ms);
}

// S1.9
TEST_F(RateLimiterTest, ABurstOfFiveGivesFiveAtOnceAndRefusesTheSixth) {
  RateLimiter limiter = make(1.0, 5);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(limiter.try_acquire());
  EXPECT_FALSE(limiter.try_acquire());
  time.advance(1s - 1ns);
  EXPECT_FALSE(limiter.try_acquire());
  time.advance(1ns);
  EXPECT_TRUE(limiter.try_acquire());
  EXPECT_FALSE(limiter.try_acquire());
}

// S1.9
TEST_F(RateLimiterTest, OnePermitASecondRefusesTheSecond) {
  RateLimiter limiter = make(1.0);
  EXPECT_TRUE(limiter.try_acquire());
  EXPECT_FALSE(limiter.try_acquire());
}

// S1.2
TEST_F(RateLimiterTest, FillsContinuouslyUpToTheBurst) {
  RateLimiter limiter = make(10.0, 5);
  EXPECT_DOUBLE_EQ(limiter.available_permits(), 5.0);
  ASSERT_TRUE(limiter.try_acquire_n(5));
  EXPECT_DOUBLE_EQ(limiter.available_permits(), 0.0);
  time.advance(25ms);
  EXPECT_DOUBLE_EQ(limiter.available_permits(), 0.25);
  time.advance(10s);
  EXPECT_DOUBLE_EQ(limiter.available_permits(), 5.0);
}

// S1.1, S1.3
TEST_F(RateLimiterTest, UnlimitedAdmitsEverything) {
  RateLimiter limiter = RateLimiter::unlimited();
  for (int i = 0; i < 1'000; ++i) EXPECT_TRUE(limiter.try_acquire());
  EXPECT_TRUE(limiter.try_acquire_n(kAmountMax));
  EXPECT_EQ(limiter.acquire_n(kAmountMax), 0ns);
  EXPECT_EQ(limiter.estimated_wait(), 0ns);
  EXPECT_EQ(limiter.available_permits(), kInfinity);
  EXPECT_EQ(limiter.rate_per_second(), kInfinity);
  EXPECT_EQ(limiter.metrics().total_acquired, 1'002U);
}

// S1.1
TEST_F(RateLimiterTest, MoreThanTheBurstIsAdmittedOnDebtAndTheNextPays) {
  RateLimiter limiter = make(1.0, 5);
  EXPECT_EQ(acquire_n(limiter, 12), 0ns);
  EXPECT_DOUBLE_EQ(limiter.available_permits(), -7.0);
  EXPECT_EQ(limiter.estimated_wait(), 8s);
  EXPECT_FALSE(limiter.try_acquire());
  EXPECT_EQ(acquire_n(limiter, 1), 8s);
  EXPECT_EQ(acquire_n(limiter, 1), 1s);
}

// S1.1: the bucket is full before more than the burst is admitted.
TEST_F(RateLimiterTest, MoreThanTheBurstWaitsForAFullBucket) {
  RateLimiter limiter = make(1.0, 5);
  ASSERT_TRUE(limiter.try_acquire_n(3));
  EXPECT_EQ(acquire_n(limiter, 100), 3s);
  EXPECT_EQ(acquire_n(limiter, 5), 100s);
}

// S1.1: an attempt does not take debts.
TEST_F(RateLimiterTest, AnAttemptAtMoreThanTheBurstNeverFits) {
  RateLimiter limiter = make(1.0, 5);
  const Result<void> refused = limiter.try_acquire_n(6);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), Errc::kNeverFits);
  EXPECT_EQ(refused.error().message, "more permits than the burst of 5: 6");
  EXPECT_DOUBLE_EQ(limiter.available_permits(), 5.0);
  EXPECT_TRUE(limiter.try_acquire_n(5));
  EXPECT_EQ(limiter.try_acquire_n(1).error(), Errc::kCapacityExhausted);
}

// S1.1
TEST_F(RateLimiterTest, NoPermitsSucceedAtOnce) {
  RateLimiter limiter = make(1.0);
  EXPECT_EQ(limiter.acquire_n(0), 0ns);
  EXPECT_TRUE(limiter.try_acquire_n(0));
  EXPECT_DOUBLE_EQ(limiter.available_permits(), 1.0);

  ASSERT_TRUE(limiter.try_acquire());
  std::vector<Amount> served;
  for (const Amount permits : {1, 0}) {
    limiter.acquire_async(permits, kEndOfTime, [&served, permits](const Result<Nanos>& waited) {
      if (waited) served.push_back(permits);
    });
  }
  EXPECT_EQ(served, std::vector<Amount>{0}) << "whoever else waits";
  EXPECT_TRUE(limiter.try_acquire_n(0));
  time.advance(1s);
  EXPECT_EQ(served, (std::vector<Amount>{0, 1}));
}

// S1.1
TEST_F(RateLimiterTest, ANegativeCountIsAnError) {
  RateLimiter limiter = make(1.0);
  const auto expect_named = [](const Error& error, Amount permits) {
    EXPECT_EQ(error, Errc::kInvalidCost);
    EXPECT_NE(error.message.find(std::to_string(permits)), std::string::npos) << error.message;
  };
  for (const Amount permits : {Amount{-1}, std::numeric_limits<Amount>::min(), kAmountMax + 1}) {
    expect_named(limiter.try_acquire_n(permits).error(), permits);
    expect_named(limiter.acquire_n(permits).error(), permits);
    expect_named(acquire_n(limiter, permits).error(), permits);
    const auto call = [] { ADD_FAILURE() << "called"; };
    expect_named(limiter.with_limit_n(permits, call).error(), permits);
  }
  EXPECT_DOUBLE_EQ(limiter.available_permits(), 1.0);
}

// A clock that never says the same twice, as real ones.
class TickingClock final : public Clock {
 public:
  CalendarTime wall() const override { return {}; }

 private:
  Instant read() const override { return Instant{Nanos{++ticks_}}; }
  mutable std::int64_t ticks_ = 0;
};

// S1.1: 0 if no wait was needed, whatever the clock does meanwhile.
TEST_F(RateLimiterTest, WhoDidNotWaitIsToldZero) {
  TickingClock clock;
  RateLimiter fast = RateLimiter::with_burst(1.0, 5, {clock, time}).value();
  RateLimiter exact =
      RateLimiter::create(
          Config{}.with_permits_per_second(5.0).with_algorithm(Algorithm::kSlidingLog),
          {clock, time})
          .value();
  EXPECT_EQ(fast.acquire(), 0ns);
  EXPECT_EQ(exact.acquire(), 0ns);
  EXPECT_EQ(acquire_n(fast, 1), 0ns);
  EXPECT_EQ(acquire_n(exact, 1), 0ns);
}

// S1.1
TEST_F(RateLimiterTest, WithLimitGivesWhatTheCallableGives) {
  RateLimiter limiter = make(1.0, 10);
  EXPECT_EQ(limiter.with_limit([] { return 7; }), 7);
  EXPECT_EQ(*limiter.with_limit([] { return std::make_unique<int>(7); }).value(), 7);
  EXPECT_TRUE(limiter.with_limit([] {}));
  EXPECT_EQ(limiter.with_limit([]() -> Result<int> { return fail(Errc::kCallFailed, "no"); })
                .error()
                .message,
            "no");
  EXPECT_EQ(limiter.with_limit_n(6, [] { return 7; }), 7);
  EXPECT_DOUBLE_EQ(limiter.available_permits(), 0.0);
}

// S1.1
TEST_F(RateLimiterTest, TheEstimateCountsThoseAhead) {
  RateLimiter limiter = make(2.0);
  EXPECT_EQ(limiter.estimated_wait(), 0ns);
  ASSERT_TRUE(limiter.try_acquire());
  EXPECT_EQ(limiter.estimated_wait(), 500ms);
  for (int i = 0; i < 3; ++i) limiter.acquire_async(1, kEndOfTime, [](const Result<Nanos>&) {});
  EXPECT_EQ(limiter.estimated_wait(), 2s);
  EXPECT_EQ(acquire_n(limiter, 1), 2s);
}

TEST_F(RateLimiterTest, WhoWaitsIsServedInOrderOfArrivalAndNotOvertaken) {
  RateLimiter limiter = make(1.0, 10);
  ASSERT_TRUE(limiter.try_acquire_n(10));
  std::vector<std::pair<Amount, Nanos>> served;
  for (const Amount permits : {3, 1, 2}) {
    limiter.acquire_async(permits, kEndOfTime, [&, permits](const Result<Nanos>& waited) {
      served.emplace_back(permits, waited.value());
    });
  }
  time.advance(2s);
  EXPECT_FALSE(limiter.try_acquire()) << "two permits are there, but for the one who waits for 3";
  time.advance(4s);
  EXPECT_EQ(served, (std::vector<std::pair<Amount, Nanos>>{{3, 3s}, {1, 4s}, {2, 6s}}));
}

// S1.1, S1.5
TEST_F(RateLimiterTest, AWaitThatIsGivenUpLeavesNoTrace) {
  RateLimiter limiter = make(1.0);
  ASSERT_TRUE(limiter.try_acquire());
  std::vector<Result<Nanos>> ended;
  const auto note = [&](Result<Nanos> result) { ended.push_back(std::move(result)); };
  Ticket ticket = limiter.acquire_async(1, kEndOfTime, note);
  limiter.acquire_async(1, start + 999ms, note);
  ticket.cancel();
  time.advance(999ms);
  ASSERT_EQ(ended.size(), 2U);
  EXPECT_EQ(ended[0].error(), Errc::kCancelled);
  EXPECT_EQ(ended[1].error(), Errc::kDeadlineExceeded);
  EXPECT_EQ(limiter.estimated_wait(), 1ms);
  EXPECT_EQ(acquire_n(limiter, 1), 1ms);
}

TEST_F(RateLimiterTest, WhoIsDueAtItsDeadlineIsServed) {
  RateLimiter limiter = make(1.0);
  ASSERT_TRUE(limiter.try_acquire());
  std::optional<Result<Nanos>> ended;
  limiter.acquire_async(1, start + 1s, [&](Result<Nanos> result) { ended = std::move(result); });
  time.advance(1s);
  ASSERT_TRUE(ended);
  EXPECT_EQ(*ended, 1s);
}

TEST(RateLimiterBlocking, EndsAtItsDeadline) {
  MovingTime time;
  const Instant start = time.now();
  RateLimiter limiter = RateLimiter::create(1.0, time.source()).value();
  ASSERT_TRUE(limiter.try_acquire());
  const auto waited = time.run([&] { return limiter.acquire({.deadline = start + 500ms}); });
  EXPECT_EQ(waited.error(), Errc::kDeadlineExceeded);
  EXPECT_EQ(time.now() - start, 500ms);
}

// Real threads: one waits, the other stops it.
TEST_F(RateLimiterTest, ABlockedThreadIsStopped) {
  RateLimiter limiter = make(1.0);
  ASSERT_TRUE(limiter.try_acquire());
  std::stop_source stop;
  Result<Nanos> waited;
  std::thread thread{[&] { waited = limiter.acquire({.stop = stop.get_token()}); }};
  stop.request_stop();
  thread.join();
  EXPECT_EQ(waited.error(), Errc::kCancelled);
  EXPECT_EQ(elapsed(), 0s);
}

TEST_F(RateLimiterTest, ClosingEndsEveryWaitAndRefusesFromThenOn) {
  RateLimiter limiter = make(1.0);
  ASSERT_TRUE(limiter.try_acquire());
  std::vector<Errc> ended;
  for (int i = 0; i < 3; ++i) {
    limiter.acquire_async(
        1, kEndOfTime, [&](const Result<Nanos>& result) { ended.push_back(result.error().code); });
  }
  limiter.close();
  EXPECT_EQ(ended, std::vector<Errc>(3, Errc::kClosed));
  time.advance(10s);
  EXPECT_EQ(limiter.acquire().error(), Errc::kClosed);
  EXPECT_FALSE(limiter.try_acquire());
  EXPECT_EQ(limiter.try_acquire_n(1).error(), Errc::kClosed);
  EXPECT_EQ(limiter.with_limit([] { ADD_FAILURE() << "called"; }).error(), Errc::kClosed);
}

// S1.7
TEST_F(RateLimiterTest, CountsWhatWasAcquiredRejectedAndWaited) {
  RateLimiter limiter = make(10.0, 2);
  EXPECT_EQ(limiter.metrics().average_wait_time, 0ns);
  ASSERT_TRUE(limiter.try_acquire_n(2));
  EXPECT_FALSE(limiter.try_acquire());
  EXPECT_FALSE(limiter.try_acquire_n(2));
  EXPECT_EQ(acquire_n(limiter, 1), 100ms);
  EXPECT_EQ(acquire_n(limiter, 2), 200ms);
  const RateLimiterMetrics metrics = limiter.metrics();
  EXPECT_EQ(metrics.total_acquired, 3U);
  EXPECT_EQ(metrics.total_rejected, 2U);
  EXPECT_EQ(metrics.total_wait_time, 300ms);
  EXPECT_EQ(metrics.average_wait_time, 100ms);
}

// S1.3
TEST_F(RateLimiterTest, RefusesAConfigurationAndNamesTheValue) {
  const Config config;
  const struct {
    Config config;
    std::string named;
  } kBad[] = {
      {config.with_permits_per_second(0.0), "permits_per_second must be positive: 0"},
      {config.with_permits_per_second(-0.0), "permits_per_second must be positive: -0"},
      {config.with_permits_per_second(-1.5), "permits_per_second must be positive: -1.5"},
      {config.with_permits_per_second(-kInfinity), "permits_per_second must be positive: -inf"},
      {config.with_permits_per_second(std::nan("")), "permits_per_second must be positive: nan"},
      {config.with_permits_per_second(kInfinity), "inf"},
      {config.with_permits_per_second(1'000'000'001.0), "1000000001"},
      {config.with_permits_per_second(1e-300), "1e-300"},
      {config.with_permits_per_second(2.8e-8), "2.8e-08"},
      {config.with_burst_size(0), "burst_size must be at least 1: 0"},
      {config.with_burst_size(-7), "burst_size must be at least 1: -7"},
      {config.with_burst_size(kAmountMax + 1), std::to_string(kAmountMax + 1)},
      {config.with_warmup_period(-1ns), "warmup_period must not be negative: -1 ns"},
      {config.with_warmup_period(401 * 24h), std::to_string(Nanos{401 * 24h}.count())},
      {config.with_warmup_period(1s).with_burst_size(2),
       "burst_size must be 1 with a warmup_period: 2"},
      {config.with_algorithm(Algorithm::kSlidingLog).with_window(0ns),
       "window must be positive: 0 ns"},
      {config.with_algorithm(Algorithm::kSlidingWindow).with_window(-1s), "-1000000000 ns"},
      {config.with_algorithm(Algorithm::kSlidingWindow).with_window(401 * 24h),
       std::to_string(Nanos{401 * 24h}.count())},
      {config.with_algorithm(Algorithm::kSlidingLog).with_permits_per_second(0.5), "0.5/s in 1 s"},
      {config.with_algorithm(Algorithm::kSlidingLog).with_warmup_period(1s), "1000000000 ns"},
      {config.with_algorithm(Algorithm::kSlidingWindow).with_burst_size(5), "burst_size"},
  };
  for (const auto& [bad, named] : kBad) {
    const auto limiter = RateLimiter::create(bad, time.source());
    ASSERT_FALSE(limiter) << named;
    EXPECT_EQ(limiter.error(), Errc::kInvalidConfig);
    EXPECT_NE(limiter.error().message.find(named), std::string::npos)
        << '"' << limiter.error().message << "\" does not say \"" << named << '"';
  }
  EXPECT_EQ(RateLimiter::create(-1.0).error(), Errc::kInvalidConfig);
  EXPECT_EQ(RateLimiter::with_burst(1.0, 0).error(), Errc::kInvalidConfig);
}

// S1.3
TEST(RateLimiterConfig, BuildersChangeACopy) {
  using Algorithm = RateLimiterConfig::Algorithm;
  const RateLimiterConfig plain;
  const RateLimiterConfig changed = plain.with_permits_per_second(2.5)
                                        .with_burst_size(3)
                                        .with_warmup_period(4s)
                                        .with_algorithm(Algorithm::kSlidingLog)
                                        .with_window(5s);
  EXPECT_EQ(changed.permits_per_second, 2.5);
  EXPECT_EQ(changed.burst_size, 3);
  EXPECT_EQ(changed.warmup_period, 4s);
  EXPECT_EQ(changed.algorithm, Algorithm::kSlidingLog);
  EXPECT_EQ(changed.window, 5s);
  EXPECT_EQ(plain.burst_size, 1);
  EXPECT_EQ(plain.warmup_period, 0s);
  EXPECT_EQ(plain.algorithm, Algorithm::kTokenBucket);
}

// S1.3: any rate from 1 in 400 days to 10^9 a second is kept, never faster and at most a millionth
// slower.
TEST_F(RateLimiterTest, KeepsTheRateItWasGivenAsADouble) {
  constexpr double kSlowest = 1.0 / (400 * 86'400);
  for (const double rate :
       {1.0 / 3, 2.0 / 3, 7.0 / 660, 1666.6667, 99'991.0 / 60, 100'000.0 / 60, 0.1, 12'345.678,
        20'011.0, 999'983.0, 1e6 / 7, 3.3e8, 999'999'937.0, 1e9, 1e-3, 1e-7, kSlowest}) {
    SCOPED_TRACE(rate);
    constexpr Amount kBurst = 1;
    RateLimiter limiter = make(rate, kBurst);
    EXPECT_EQ(limiter.rate_per_second(), rate);
    const int times = rate < 1e-5 ? 3 : 1'000;
    const Instant begin = time.now();
    for (int i = 0; i < times; ++i) ASSERT_TRUE(acquire_n(limiter, 1));
    const Amount lump = std::max<Amount>(static_cast<Amount>(std::min(rate, 1e12) * 10), 1);
    ASSERT_TRUE(acquire_n(limiter, lump));
    ASSERT_TRUE(acquire_n(limiter, 1));
    const double took = std::chrono::duration<double, std::nano>(time.now() - begin).count();
    const double exact = static_cast<double>(times + lump) / rate * 1e9;
    EXPECT_GE(took, exact * (1 - 1e-11) - 1);
    EXPECT_LE(took, exact * (1 + 1.1e-6) + 1);
  }
}

// S1.1 with a caller's own now.
TEST_F(RateLimiterTest, AnAttemptAtACallersNowNeedsNoClock) {
  RateLimiter limiter = make(1.0);
  EXPECT_TRUE(limiter.try_acquire(start));
  EXPECT_FALSE(limiter.try_acquire(start + 999ms));
  EXPECT_TRUE(limiter.try_acquire(start + 1s));
  EXPECT_FALSE(limiter.try_acquire(start)) << "an earlier now mints nothing";
}

}  // namespace
}  // namespace weir
