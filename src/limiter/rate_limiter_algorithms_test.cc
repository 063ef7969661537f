// The other algorithms behind the same interface: warm-up (S1.4) and sliding windows (S1.6).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "limiter/rate_limiter_for_test.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

struct WarmUpTest : RateLimiterTest {
  RateLimiter make_warm_up(double rate, Nanos warm_up) {
    return make(Config{}.with_permits_per_second(rate).with_warmup_period(warm_up));
  }
};

// Guava's SmoothWarmingUp in its own words and in seconds; the cold factor is 3.
class SmoothWarmingUp {
 public:
  SmoothWarmingUp(double permits_per_second, double warm_up)
      : stable_interval_(1 / permits_per_second),
        warm_up_(warm_up),
        threshold_permits_(0.5 * warm_up / stable_interval_),
        max_permits_(threshold_permits_ + 2 * warm_up / (stable_interval_ + 3 * stable_interval_)),
        slope_((3 * stable_interval_ - stable_interval_) / (max_permits_ - threshold_permits_)),
        stored_permits_(max_permits_) {}

  // How long acquire(permits) sleeps at `now`.
  double acquire(double permits, double now) {
    if (now > next_free_) {
      stored_permits_ =
          std::min(max_permits_, stored_permits_ + (now - next_free_) / (warm_up_ / max_permits_));
      next_free_ = now;
    }
    const double sleep = next_free_ - now;
    const double stored = std::min(permits, stored_permits_);
    next_free_ += stored_permits_to_wait(stored) + (permits - stored) * stable_interval_;
    stored_permits_ -= stored;
    return sleep;
  }

 private:
  double stored_permits_to_wait(double permits) const {
    const double above = stored_permits_ - threshold_permits_;
    double wait = 0;
    if (above > 0) {
      const double taken = std::min(above, permits);
      wait = taken * (permits_to_time(above) + permits_to_time(above - taken)) / 2;
      permits -= taken;
    }
    return wait + stable_interval_ * permits;
  }
  double permits_to_time(double permits) const { return stable_interval_ + permits * slope_; }

  double stable_interval_;
  double warm_up_;
  double threshold_permits_;
  double max_permits_;
  double slope_;
  double stored_permits_;
  double next_free_ = 0;
};

// S1.4: Guava's own figures for 2 a second and a warm-up of 4 s.
TEST_F(WarmUpTest, WaitsAsLongAsGuavasTestSays) {
  RateLimiter limiter = make_warm_up(2.0, 4s);
  const std::vector<Nanos> cold{0ms, 1375ms, 1125ms, 875ms, 625ms, 500ms, 500ms, 500ms};
  EXPECT_EQ(acquire(limiter, 8), cold);
  time.advance(500ms + 4s);
  EXPECT_EQ(acquire(limiter, 8), cold) << "idle for the warm-up period: cold again";
  time.advance(500ms + 2s);
  EXPECT_EQ(acquire(limiter, 4), (std::vector<Nanos>{0ms, 500ms, 500ms, 500ms}))
      << "idle for half of it: still warm";
}

// S1.4
TEST_F(WarmUpTest, FollowsGuavasFormulaForAnyArrivals) {
  std::mt19937_64 random{20'251'115};
  const auto draw = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution{std::log(low), std::log(high)}(random));
  };
  for (int round = 0; round < 200; ++round) {
    const double rate = std::round(draw(1, 1e4));
    const Nanos warm_up{static_cast<std::int64_t>(draw(1e6, 1e12))};
    SCOPED_TRACE(testing::Message() << rate << "/s, warm-up " << warm_up.count() << " ns");
    RateLimiter limiter = make_warm_up(rate, warm_up);
    SmoothWarmingUp guava{rate, std::chrono::duration<double>(warm_up).count()};
    const Instant begin = time.now();
    for (int i = 0; i < 50 && !HasFailure(); ++i) {
      if (random() % 3 == 0) {
        time.advance(
            Nanos{static_cast<std::int64_t>(draw(1e-3, 2) * static_cast<double>(warm_up.count()))});
      }
      const auto permits = static_cast<Amount>(random() % 5 == 0 ? draw(1, 50) : 1);
      const double now = std::chrono::duration<double>(time.now() - begin).count();
      const double expected = guava.acquire(static_cast<double>(permits), now);
      const double waited =
          std::chrono::duration<double>(acquire_n(limiter, permits).value()).count();
      EXPECT_NEAR(waited, expected, (i + 2) * 1e-9 + expected * 1e-9) << "acquire " << i;
    }
  }
}

// S1.4
TEST_F(WarmUpTest, ClimbsFromAThirdOfTheRateToTheRate) {
  RateLimiter limiter = make_warm_up(100.0, 10s);
  ASSERT_TRUE(acquire_n(limiter, 1));
  const Nanos coldest = acquire_n(limiter, 1).value();
  EXPECT_NEAR(static_cast<double>(coldest.count()), 30e6, 0.1e6);
  Nanos last = coldest;
  while (elapsed() < 10s) {
    const Nanos waited = acquire_n(limiter, 1).value();
    ASSERT_LE(waited, last);
    last = waited;
  }
  EXPECT_EQ(acquire(limiter, 3), std::vector<Nanos>(3, 10ms));
}

// S1.4: as in Guava, an attempt needs the last one to be paid for, whatever its own size.
TEST_F(WarmUpTest, AnAttemptOfAnySizeIsAdmittedOnceTheLastIsPaidFor) {
  RateLimiter limiter = make_warm_up(2.0, 4s);
  EXPECT_TRUE(limiter.try_acquire_n(1'000));
  EXPECT_EQ(limiter.try_acquire_n(1).error(), Errc::kCapacityExhausted);
  const Nanos debt = limiter.estimated_wait();
  EXPECT_EQ(debt, 1'000 * 500ms + 2s);  // the warm-up adds half of itself
  time.advance(debt - 1ns);
  EXPECT_FALSE(limiter.try_acquire());
  time.advance(1ns);
  EXPECT_TRUE(limiter.try_acquire());
}

struct SlidingTest : RateLimiterTest {
  RateLimiter make_sliding(Algorithm algorithm, double rate, Nanos window = 1s) {
    return make(
        Config{}.with_permits_per_second(rate).with_algorithm(algorithm).with_window(window));
  }
};

// S1.6
TEST_F(SlidingTest, TheLogAdmitsTheLimitInEveryWindow) {
  RateLimiter limiter = make_sliding(Algorithm::kSlidingLog, 3.0);
  const std::vector<std::pair<Nanos, bool>> timeline{
      {0ms, true},     {400ms, true},   {800ms, true},  {900ms, false},  {999'999'999ns, false},
      {1000ms, true},  {1399ms, false}, {1400ms, true}, {1500ms, false}, {1800ms, true},
      {1800ms, false},
  };
  for (const auto& [at, admitted] : timeline) {
    time.advance_to(start + at);
    EXPECT_EQ(limiter.try_acquire(), admitted) << at.count() << " ns";
  }
  EXPECT_EQ(limiter.estimated_wait(), 200ms);
  EXPECT_EQ(acquire_n(limiter, 1), 200ms);
}

// S1.6: previous × overlap + current, with the document's 7, 25% and 3.
TEST_F(SlidingTest, TheCounterWeighsThePreviousWindowByItsOverlap) {
  RateLimiter limiter = make_sliding(Algorithm::kSlidingWindow, 10.0);
  ASSERT_TRUE(limiter.try_acquire_n(7));
  time.advance(1750ms);
  ASSERT_TRUE(limiter.try_acquire_n(3));  // 7 × 0.25 + 3 = 4.75 of 10
  EXPECT_EQ(limiter.available_permits(), 5.0);
  EXPECT_EQ(limiter.try_acquire_n(6).error(), Errc::kCapacityExhausted);
  EXPECT_TRUE(limiter.try_acquire_n(5));
  EXPECT_EQ(limiter.available_permits(), 0.0);
}

// S1.6
TEST_F(SlidingTest, TheInterfaceIsTheSame) {
  for (const Algorithm algorithm : {Algorithm::kSlidingLog, Algorithm::kSlidingWindow}) {
    RateLimiter limiter = make_sliding(algorithm, 0.5, 10s);
    EXPECT_EQ(limiter.rate_per_second(), 0.5);
    EXPECT_EQ(limiter.available_permits(), 5.0);
    EXPECT_EQ(limiter.try_acquire_n(6).error(), Errc::kNeverFits);
    EXPECT_EQ(acquire(limiter, 5), std::vector<Nanos>(5, 0ns));
    EXPECT_EQ(limiter.try_acquire_n(1).error(), Errc::kCapacityExhausted);
    const Nanos estimate = limiter.estimated_wait();
    EXPECT_GT(estimate, 0ns);
    EXPECT_EQ(acquire_n(limiter, 1), estimate);
    EXPECT_EQ(limiter.with_limit_n(0, [] { return 7; }), 7);
    const RateLimiterMetrics metrics = limiter.metrics();
    EXPECT_EQ(metrics.total_acquired, 6U);
    EXPECT_EQ(metrics.total_wait_time, estimate);

    time.advance(1h);
    EXPECT_EQ(acquire_n(limiter, 12), 0ns) << "on debt";
    EXPECT_LT(limiter.available_permits(), 0.0);
    EXPECT_FALSE(limiter.try_acquire());
    EXPECT_GE(acquire_n(limiter, 1).value(), 10s);
  }
}

// S1.6: a third of a permit a second is one in 3 s, although 1/3 × 3 is not 1 in binary.
TEST_F(SlidingTest, AWindowHoldsWholePermits) {
  for (const auto& [rate, window, permits] :
       {std::tuple{1.0 / 3, Nanos{3s}, 1.0}, {0.1, Nanos{30s}, 3.0}, {2.5, Nanos{1s}, 2.0}}) {
    EXPECT_EQ(make_sliding(Algorithm::kSlidingLog, rate, window).available_permits(), permits);
  }
}

}  // namespace
}  // namespace weir
