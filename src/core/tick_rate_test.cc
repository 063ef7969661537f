#include "weir/core/tick_rate.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <string>

#include "core/random_limit.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using reference::Dice;
using Narrow = TickRate<std::int64_t>;
using Wide = TickRate<Int128>;

TEST(TickRate, ReducesToLowestTermsWhereItsTicksRunForTenYears) {
  const struct {
    Rate rate;
    std::int64_t per_nano;
    std::int64_t per_unit;
  } kExact[] = {
      {{10, 1s}, 1, 100'000'000},  {{3, 1s}, 3, 1'000'000'000},
      {{1, 3s}, 1, 3'000'000'000}, {{7, 11min}, 7, 660'000'000'000},
      {{1'000'000'000, 1s}, 1, 1}, {{90'000, 1min}, 3, 2'000'000},
      {{21, 1ns}, 21, 1},          {{kAmountMax, 11'000'000s}, 1, 11},
  };
  for (const auto& [rate, per_nano, per_unit] : kExact) {
    const auto ticks = Narrow::of(rate);
    ASSERT_TRUE(ticks) << rate.amount;
    EXPECT_EQ(ticks->per_nano, per_nano) << rate.amount;
    EXPECT_EQ(ticks->per_unit, per_unit) << rate.amount;
  }
}

// rate in force / rate asked, as a fraction: per_nano·period / (per_unit·amount).
Int128 in_force(Int128 per_nano, Rate rate) { return per_nano * rate.period.count(); }
Int128 asked(Int128 per_unit, Rate rate) { return per_unit * rate.amount; }

void expect_lower_by_a_millionth_at_most(const Narrow& ticks, Rate rate) {
  const Int128 force = in_force(ticks.per_nano, rate);
  const Int128 ask = asked(ticks.per_unit, rate);
  EXPECT_TRUE(force <= ask) << "faster than " << rate.amount << " per " << rate.period.count();
  EXPECT_TRUE((ask - force) * 1'000'000 <= ask) << rate.amount << " per " << rate.period.count();
}

TEST(TickRate, RoundsNinetyNineThousandNineHundredNinetyOneAMinuteDownByLessThanAMillionth) {
  const Rate rate{99'991, 1min};
  const auto ticks = Narrow::of(rate);
  ASSERT_TRUE(ticks);
  EXPECT_TRUE(in_force(ticks->per_nano, rate) < asked(ticks->per_unit, rate));
  expect_lower_by_a_millionth_at_most(*ticks, rate);
}

TEST(TickRate, HoldsPrimeRatesUpToTwentyThousandASecondInOneWord) {
  for (Amount prime : {9'973, 17'389, 19'937, 19'997}) {
    const Rate rate{prime, 1s};
    const auto ticks = Narrow::of(rate);
    ASSERT_TRUE(ticks) << prime;
    expect_lower_by_a_millionth_at_most(*ticks, rate);
  }
}

TEST(TickRate, RefusesInOneWordAndNamesTheRateItWouldChangeByMore) {
  const auto ticks = Narrow::of({999'999'937, 1s});
  ASSERT_FALSE(ticks);
  EXPECT_EQ(ticks.error(), Errc::kInvalidLimit);
  EXPECT_NE(ticks.error().message.find("999999937 per 1000000000 ns"), std::string::npos)
      << ticks.error().message;
}

TEST(TickRate, TakesTheNearestLowerRateThatFitsOrRefuses) {
  constexpr Int128 kPerNanoMax =
      std::numeric_limits<std::int64_t>::max() / Narrow::kHorizon.count();
  int held = 0;
  int refused = 0;
  for (std::uint64_t seed = 1; seed <= 5'000; ++seed) {
    Dice dice{seed};
    const Rate rate{dice.amount(), dice.period()};
    const auto ticks = Narrow::of(rate);
    bool fits = false;
    for (Int128 per_nano = 1; per_nano <= kPerNanoMax; ++per_nano) {
      const Int128 per_unit = ceil_div(in_force(per_nano, rate), rate.amount);
      const Int128 excess = asked(per_unit, rate) - in_force(per_nano, rate);
      fits |= excess * 1'000'000 <= in_force(per_nano, rate);
      if (!ticks) continue;
      // per_nano/per_unit is no faster than what was chosen.
      ASSERT_TRUE(per_nano * ticks->per_unit <= ticks->per_nano * per_unit) << "seed " << seed;
    }
    ASSERT_EQ(ticks.has_value(), fits) << "seed " << seed;
    (ticks ? held : refused) += 1;
    if (!ticks) continue;
    expect_lower_by_a_millionth_at_most(*ticks, rate);
    ASSERT_LE(ticks->per_nano, kPerNanoMax);
  }
  EXPECT_GT(held, 1'000);
  EXPECT_GT(refused, 100);
}

TEST(TickRate, IsExactInTwoWords) {
  for (std::uint64_t seed = 1; seed <= 1'000; ++seed) {
    Dice dice{seed};
    const Rate rate{dice.amount(), dice.period()};
    const auto ticks = Wide::of(rate);
    ASSERT_TRUE(ticks) << "seed " << seed;
    const std::int64_t divisor = std::gcd(rate.amount, rate.period.count());
    ASSERT_TRUE(ticks->per_nano == rate.amount / divisor) << "seed " << seed;
    ASSERT_TRUE(ticks->per_unit == rate.period.count() / divisor) << "seed " << seed;
  }
}

TEST(TickRate, RoundsAWaitUpToTheFirstWholeNanosecond) {
  const auto third = Narrow::of({3, 1s});
  ASSERT_TRUE(third);
  EXPECT_EQ(third->nanos(0), 0ns);
  EXPECT_EQ(third->nanos(1), 1ns);
  EXPECT_EQ(third->nanos(3), 1ns);
  EXPECT_EQ(third->nanos(4), 2ns);
  EXPECT_EQ(Narrow::of({1, 1s})->nanos(4), 4ns);
}

TEST(TickRate, TakesAnInstantOutsideTheTimeLineAsItsNearerEnd) {
  const auto third = Narrow::of({3, 1s});
  ASSERT_TRUE(third);
  EXPECT_EQ(third->at(Instant{7ns}), 21);
  EXPECT_EQ(third->at(Instant::min()), 0);
  EXPECT_EQ(third->at(Instant::max()), 3 * kTenYears.count());
}

TEST(Rate, IsRefusedOutsideItsRangeWithTheValueNamed) {
  const struct {
    Rate rate;
    std::string message;
  } kRefused[] = {
      {{0, 1s}, "amount must be from 1 to 1000000000000000: 0"},
      {{-5, 1s}, "amount must be from 1 to 1000000000000000: -5"},
      {{kAmountMax + 1, 1s}, "amount must be from 1 to 1000000000000000: 1000000000000001"},
      {{1, 0s}, "period must be from 1 ns to 400 days: 0 ns"},
      {{1, -1s}, "period must be from 1 ns to 400 days: -1000000000 ns"},
      {{1, kPeriodMax + 1ns}, "period must be from 1 ns to 400 days: 34560000000000001 ns"},
  };
  for (const auto& [rate, message] : kRefused) {
    const auto good = check_rate(rate);
    ASSERT_FALSE(good) << message;
    EXPECT_EQ(good.error(), Errc::kInvalidLimit);
    EXPECT_EQ(good.error().message, message);
    EXPECT_FALSE(Narrow::of(rate));
    EXPECT_FALSE(Wide::of(rate));
  }
  EXPECT_TRUE(check_rate({1, 1ns}));
  EXPECT_TRUE(check_rate({kAmountMax, kPeriodMax}));
}

TEST(Int128, DividesTowardsMinusAndPlusInfinity) {
  for (int a = -7; a <= 7; ++a) {
    for (int b = 1; b <= 3; ++b) {
      const auto floor = static_cast<int>(floor_div(a, b));
      const auto ceil = static_cast<int>(ceil_div(a, b));
      EXPECT_TRUE(floor * b <= a && a < (floor + 1) * b) << a << " / " << b;
      EXPECT_TRUE((ceil - 1) * b < a && a <= ceil * b) << a << " / " << b;
    }
  }
}

}  // namespace
}  // namespace weir
