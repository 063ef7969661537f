// A simulated year of a caller who takes whatever it can get: no rounding adds up, whatever the
// rate. The costs are large, so that a year is some ten thousand steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/random_limit.h"
#include "core/sanitized_for_test.h"
#include "weir/core/limit.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using reference::Dice;

// Under a sanitizer a month, which makes the same mistakes.
constexpr Nanos kYear = std::chrono::days{kSanitized ? 30 : 365};
constexpr Instant kStart{1'234'567'891ns};
constexpr Instant kEnd = kStart + kYear;

// Spends costs from `least` to `most` as soon as each is due, and at the year's end what is left.
template <Algorithm A>
Int128 admitted_in_a_year(const A& algorithm, Amount least, Amount most) {
  Dice dice{1};
  Instant now = kStart;
  auto state = algorithm.start(now);
  Int128 total = 0;
  for (int steps = 0; steps < 5'000'000; ++steps) {
    const Amount cost = dice.between(least, most);
    const Decision decision = spend(algorithm, state, cost, now);
    if (decision.admitted()) {
      total += cost;
      continue;
    }
    now += decision.retry_after;
    if (now > kEnd) return total + std::max<Amount>(algorithm.available(state, kEnd), 0);
  }
  ADD_FAILURE() << "the year does not end";
  return total;
}

class Year : public testing::TestWithParam<Rate> {
 protected:
  static Rate rate() { return GetParam(); }
  // floor(amount · year / period)
  static Int128 earned() {
    return static_cast<Int128>(rate().amount) * kYear.count() / rate().period.count();
  }
  // As large whatever the year is.
  static Amount burst() {
    const int bursts = kSanitized ? 1'644 : 20'000;
    return std::max<Amount>(static_cast<Amount>(earned() / bursts), 100);
  }
};

template <class Ticks>
void expect_all_that_is_earned(const BasicTokenBucket<Ticks>& bucket, Rate asked) {
  const Amount burst = bucket.capacity();
  // Half the burst, so that the bucket is never full and nothing spills.
  const Int128 total = admitted_in_a_year(bucket, burst / 4, burst / 2);
  const Int128 in_force =
      static_cast<Int128>(bucket.ticks().per_nano) * kYear.count() / bucket.ticks().per_unit;
  EXPECT_TRUE(total == burst + in_force);
  const Int128 allowed =
      burst + static_cast<Int128>(asked.amount) * kYear.count() / asked.period.count();
  EXPECT_TRUE(total <= allowed);
  EXPECT_TRUE((allowed - total) * 1'000'000 <= allowed);
}

TEST_P(Year, OfATokenBucketAdmitsWhatTheRateEarnsToAMillionth) {
  const auto bucket = TokenBucket::create({rate(), burst()});
  if (!bucket) {  // only rates that change by more than a millionth in one word
    EXPECT_FALSE(TickRate<std::int64_t>::of(rate()));
    return;
  }
  expect_all_that_is_earned(*bucket, rate());
}

TEST_P(Year, OfAWideTokenBucketAdmitsExactlyWhatTheRateEarns) {
  const auto bucket = WideTokenBucket::create({rate(), burst()});
  ASSERT_TRUE(bucket);
  expect_all_that_is_earned(*bucket, rate());
  EXPECT_TRUE(admitted_in_a_year(*bucket, burst() / 4, burst() / 2) == burst() + earned());
}

TEST_P(Year, OfASteppedBucketAdmitsItsMaximumAndEveryStep) {
  const Amount max = std::min(1'000 * rate().amount, kAmountMax);
  const auto bucket = SteppedBucket::create({max, rate().amount, rate().period});
  ASSERT_TRUE(bucket);
  const Int128 steps = kYear / rate().period;
  EXPECT_TRUE(admitted_in_a_year(*bucket, max / 4, max / 2) == max + steps * rate().amount);
}

TEST_P(Year, OfAWarmUpAdmitsTheStableRateButForTheWarmUpItself) {
  constexpr Nanos kWarmUp = 1h;
  const auto warm_up = WarmUp::create({rate(), kWarmUp});
  if (!warm_up) {
    EXPECT_FALSE(TickRate<std::int64_t>::of(rate()));
    return;
  }
  // A cold start takes half the warm-up longer than the stable rate does.
  const Int128 allowed = static_cast<Int128>(warm_up->ticks().per_nano) *
                         (kYear - kWarmUp / 2).count() / warm_up->ticks().per_unit;
  const Amount cost = burst();
  const Int128 total = admitted_in_a_year(*warm_up, cost, cost);
  EXPECT_TRUE(total >= allowed);
  EXPECT_TRUE(total <= allowed + cost + 1);
}

// A year has too many short windows, so each rate is stated for longer ones.
Rate in_long_windows(Rate rate) {
  const auto times = std::max<std::int64_t>(10min / rate.period, 1);
  return {rate.amount * times, rate.period * times};
}

TEST_P(Year, OfAFixedWindowAdmitsItsLimitInEachWindow) {
  const Rate window = in_long_windows(rate());
  const auto fixed = FixedWindow::create(window);
  ASSERT_TRUE(fixed);
  const Int128 windows = kYear / window.period + 1;
  EXPECT_TRUE(admitted_in_a_year(*fixed, window.amount, window.amount) == windows * window.amount);
}

TEST_P(Year, OfASlidingLogAdmitsItsLimitInEachPeriod) {
  const Rate window = in_long_windows(rate());
  const auto log = SlidingLog::create(window);
  ASSERT_TRUE(log);
  const Int128 periods = kYear / window.period + 1;
  EXPECT_TRUE(admitted_in_a_year(*log, window.amount, window.amount) == periods * window.amount);
}

// A cost that fits at the very end of a window falls into the next one: up to one is lost in each.
TEST_P(Year, OfASlidingWindowAdmitsItsLimitInEachWindowButForOneCost) {
  const Rate window = in_long_windows(rate());
  const auto sliding = SlidingWindow::create(window);
  ASSERT_TRUE(sliding);
  const Amount cost = std::max<Amount>(window.amount / 5, 1);
  const Int128 windows = kYear / window.period;
  const Int128 total = admitted_in_a_year(*sliding, cost, cost);
  EXPECT_TRUE(total >= windows * (window.amount / cost * cost - cost));
  EXPECT_TRUE(total <= (windows + 1) * window.amount);
}

INSTANTIATE_TEST_SUITE_P(Of, Year,
                         testing::Values(Rate{1, 3s}, Rate{7, 11min}, Rate{99'991, 1min},
                                         Rate{1'000'000'000, 1s}, Rate{2, 1s}, Rate{9'973, 1s},
                                         Rate{19'997, 1s}, Rate{999'983, 1s},
                                         Rate{999'999'937, 1s}),
                         [](const auto& tested) {
                           return std::to_string(tested.param.amount) + "Per" +
                                  std::to_string(tested.param.period / 1s) + "s";
                         });

}  // namespace
}  // namespace weir
