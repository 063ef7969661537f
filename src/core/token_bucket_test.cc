#include "weir/core/token_bucket.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/random_limit.h"
#include "core/timeline.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using reference::Dice;
using timeline::admits;
using timeline::never;
using timeline::owes;
using timeline::refunds;
using timeline::waits;

template <class Bucket>
class EveryTokenBucket : public testing::Test {};
using Buckets = testing::Types<TokenBucket, WideTokenBucket>;
TYPED_TEST_SUITE(EveryTokenBucket, Buckets);

// S1.9
TYPED_TEST(EveryTokenBucket, RefusesTheSixthOfABurstOfFive) {
  timeline::of(TypeParam::create({{10, 1s}, 5}))
      .runs({
          admits(0s, 1, 4),
          admits(0s, 1, 3),
          admits(0s, 1, 2),
          admits(0s, 1, 1),
          admits(0s, 1, 0),
          waits(0s, 1, 100ms, 0),
      });
}

// S1.9
TYPED_TEST(EveryTokenBucket, TakesFourHundredMillisecondsForFiveAtTenASecond) {
  timeline::of(TypeParam::create({{10, 1s}, 1}))
      .runs({
          admits(0s, 1, 0),
          waits(0s, 1, 100ms, 0),
          waits(100ms - 1ns, 1, 1ns, 0),
          admits(100ms, 1, 0),
          admits(200ms, 1, 0),
          admits(300ms, 1, 0),
          admits(400ms, 1, 0),
      });
}

// S1.2
TYPED_TEST(EveryTokenBucket, RefillsContinuouslyUpToItsBurst) {
  timeline::of(TypeParam::create({{3, 1s}, 10}))
      .runs({
          admits(0s, 10, 0),
          waits(0s, 1, 333'333'334ns, 0),
          waits(333'333'333ns, 1, 1ns, 0),
          admits(333'333'334ns, 1, 0),
          waits(1s - 1ns, 2, 1ns, 1),
          admits(1s, 2, 0),
          admits(2s, 3, 0),
          admits(1h, 10, 0),
          never(1h, 11, 0),
      });
}

TYPED_TEST(EveryTokenBucket, PaysADebtBeforeItAdmits) {
  timeline::of(TypeParam::create({{1, 1s}, 5}))
      .runs({
          owes(0s, 8, -3),
          waits(0s, 1, 4s, -3),
          waits(2s + 500ms, 1, 1'500ms, -1),
          waits(3s, 1, 1s, 0),
          admits(4s, 1, 0),
      });
}

TYPED_TEST(EveryTokenBucket, RefundsUpToItsBurst) {
  timeline::of(TypeParam::create({{1, 1s}, 5}))
      .runs({
          admits(0s, 4, 1),
          refunds(0s, 2, 0s, 3),
          refunds(0s, 4, 0s, 5),
          never(0s, 6, 5),
          admits(0s, 5, 0),
          waits(0s, 1, 1s, 0),
      });
}

TYPED_TEST(EveryTokenBucket, MintsNothingWhenTheClockRunsBackwards) {
  timeline::of(TypeParam::create({{1, 1s}, 5}))
      .runs({
          admits(10s, 5, 0),
          waits(7s, 1, 4s, -3),
          waits(10s, 1, 1s, 0),
          admits(11s, 1, 0),
      });
}

TYPED_TEST(EveryTokenBucket, DropsTheRestOfARefundForGoodEvenIfTheClockRunsBackwards) {
  timeline::of(TypeParam::create({{1, 1s}, 10}))
      .runs({
          admits(0s, 10, 0),
          refunds(5s, 10, 0s, 10),
          waits(3s, 10, 2s, 8),
          admits(3s, 8, 0),
          waits(5s, 3, 1s, 2),
      });
}

TYPED_TEST(EveryTokenBucket, IsLeftAsItWasByARefundWhileFull) {
  timeline::of(TypeParam::create({{1, 1s}, 10}))
      .runs({
          admits(0s, 2, 8),
          refunds(20s, 2, 0s, 10),
          admits(2s, 10, 0),
      });
}

TYPED_TEST(EveryTokenBucket, CountsAnInstantBeforeZeroAsZeroAndOneAfterTenYearsAsTenYears) {
  timeline::of(TypeParam::create({{1, 1s}, 5}))
      .runs({
          admits(-1h, 5, 0),
          waits(-1s, 1, 1s, 0),
          waits(0s, 1, 1s, 0),
          admits(Nanos::max(), 5, 0),
          waits(kTenYears, 1, 1s, 0),
          waits(Nanos::max(), 1, 1s, 0),
          waits(Nanos::min(), 1, kTenYears + 1s, -kTenYears / 1s),
      });
}

TYPED_TEST(EveryTokenBucket, RefusesABurstOutOfRangeAndNamesIt) {
  for (Amount burst : {Amount{0}, Amount{-7}, kAmountMax + 1}) {
    const auto bucket = TypeParam::create({{1, 1s}, burst});
    ASSERT_FALSE(bucket);
    EXPECT_EQ(bucket.error(), Errc::kInvalidLimit);
    EXPECT_NE(bucket.error().message.find(": " + std::to_string(burst)), std::string::npos)
        << bucket.error().message;
  }
}

TYPED_TEST(EveryTokenBucket, RefusesABurstThatTakesLongerThanFourHundredDaysToFill) {
  EXPECT_TRUE(TypeParam::create({{1, 24h}, 400}));
  const auto bucket = TypeParam::create({{1, 24h}, 401});
  ASSERT_FALSE(bucket);
  EXPECT_EQ(bucket.error(), Errc::kInvalidLimit);
  EXPECT_NE(bucket.error().message.find("401"), std::string::npos) << bucket.error().message;
}

TYPED_TEST(EveryTokenBucket, RefusesARateOutOfRange) {
  EXPECT_FALSE(TypeParam::create({{0, 1s}, 1}));
  EXPECT_FALSE(TypeParam::create({{1, 0s}, 1}));
}

TYPED_TEST(EveryTokenBucket, OffersItsStepsToAnAtomicWord) {
  const auto bucket = TypeParam::create({{3, 1s}, 10});
  ASSERT_TRUE(bucket);
  auto state = bucket->start(Instant{1s});
  Dice dice{7};
  Instant now{1s};
  for (int i = 0; i < 1000; ++i) {
    now += Nanos{dice.magnitude(2'000'000'000)};
    const Amount cost = dice.between(1, 10);
    const auto ticks = bucket->ticks().at(now);
    const bool admitted = bucket->lateness(state, cost, ticks) <= 0;
    ASSERT_EQ(admitted, bucket->check(state, cost, now).admitted());
    if (!admitted) continue;
    const auto spent = bucket->spent(state, cost, ticks);
    bucket->take(state, cost, now);
    ASSERT_TRUE(spent.full_at == state.full_at);
  }
}

TYPED_TEST(EveryTokenBucket, KeepsItsStateAtOrAboveZeroSoThatTheSignIsFree) {
  const auto bucket = TypeParam::create({{1, 1s}, 10});
  ASSERT_TRUE(bucket);
  auto state = bucket->start(Instant{-5s});
  EXPECT_TRUE(state.full_at >= 0);
  bucket->take(state, 1, Instant{-5s});
  bucket->refund(state, kAmountMax, Instant{-5s}, Instant{-5s});
  EXPECT_TRUE(state.full_at >= 0);
}

// The rate asked for, not the one in force: in every interval, at most burst + rate·t.
template <class Bucket>
void expect_never_over_in_any_interval(std::uint64_t seed) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Dice dice{seed};
  BucketSpec spec{{dice.amount(), dice.period()}, dice.amount()};
  auto bucket = Bucket::create(spec);
  while (!bucket) {
    spec = {{dice.amount(), dice.period()}, dice.amount()};
    bucket = Bucket::create(spec);
  }
  struct Event {
    Instant at;
    Amount amount;
    bool asked;
  };
  std::vector<Event> events;
  Instant now = dice.instant();
  auto state = bucket->start(now);
  for (int i = 0; i < 150; ++i) {
    const Amount cost = dice.pick<Amount>({1, spec.burst, dice.magnitude(spec.burst)});
    const Decision decision = spend(*bucket, state, cost, now);
    if (decision.admitted()) {
      events.push_back({now, cost, true});
      continue;
    }
    if (dice.one_in(8)) {
      bucket->refund(state, cost, now, now);
      events.push_back({now, -cost, false});
    } else if (dice.one_in(20)) {
      bucket->take(state, cost, now);
      events.push_back({now, cost, false});
    } else if (dice.one_in(10)) {
      now = clamp_instant(now - Nanos{dice.magnitude(decision.retry_after.count())});
    } else {
      now = clamp_instant(now + decision.retry_after);
    }
  }
  for (std::size_t last = 0; last < events.size(); ++last) {
    if (!events[last].asked) continue;
    Int128 total = 0;
    for (std::size_t first = last + 1; first-- > 0;) {
      total += events[first].amount;
      const Nanos elapsed = std::max(events[last].at - events[first].at, 0ns);
      ASSERT_TRUE(total * spec.rate.period.count() <=
                  static_cast<Int128>(spec.burst) * spec.rate.period.count() +
                      static_cast<Int128>(spec.rate.amount) * elapsed.count())
          << "events " << first << " to " << last << " at " << spec.rate.amount << " per "
          << spec.rate.period.count() << " ns, burst " << spec.burst;
    }
  }
}

TYPED_TEST(EveryTokenBucket, NeverAdmitsMoreThanBurstPlusTheAskedRateInAnyInterval) {
  for (std::uint64_t seed = 1; seed <= 300 && !this->HasFailure(); ++seed) {
    expect_never_over_in_any_interval<TypeParam>(seed);
  }
}

// Where both widths hold a rate exactly, they are one algorithm.
TEST(TokenBucket, AgreesWithTheWideOneOnExactRates) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Dice dice{seed};
    const BucketSpec spec{{dice.between(1, 20), dice.period()}, dice.amount()};
    const auto narrow = TokenBucket::create(spec);
    const auto wide = WideTokenBucket::create(spec);
    ASSERT_EQ(narrow.has_value(), wide.has_value());
    if (!narrow) continue;
    Instant now = dice.instant();
    auto narrow_state = narrow->start(now);
    auto wide_state = wide->start(now);
    for (int i = 0; i < 50; ++i) {
      const Amount cost = dice.magnitude(spec.burst);
      const Decision decision = spend(*narrow, narrow_state, cost, now);
      ASSERT_EQ(decision, spend(*wide, wide_state, cost, now));
      ASSERT_EQ(narrow->available(narrow_state, now), wide->available(wide_state, now));
      now = clamp_instant(now + (dice.one_in(2) ? decision.retry_after : dice.period()));
    }
  }
}

TEST(TokenBucket, HoldsFractionsOfATokenTakenOverFromAnotherBucket) {
  const auto from = WideTokenBucket::create({{3, 1s}, 10});
  const auto into = TokenBucket::create({{7, 11min}, 4});
  ASSERT_TRUE(from && into);
  auto old = from->start(Instant{});
  from->take(old, 10, Instant{});
  const Instant now{500ms};  // 1.5 tokens
  const auto state = into->holding(from->level(old, now), from->ticks().per_unit, now);
  EXPECT_EQ(into->available(state, now), 1);
  EXPECT_EQ(into->level(state, now), 3 * into->ticks().per_unit / 2);
}

TEST(TokenBucket, HoldsNoMoreThanItsOwnBurst) {
  const auto bucket = TokenBucket::create({{1, 1s}, 4});
  ASSERT_TRUE(bucket);
  EXPECT_EQ(bucket->available(bucket->holding(100, 1, Instant{5s}), Instant{5s}), 4);
  EXPECT_EQ(bucket->available(bucket->holding(-3, 1, Instant{5s}), Instant{5s}), -3);
}

TEST(WideTokenBucket, KeepsTheRateThatOneWordRefuses) {
  const BucketSpec spec{{999'999'937, 1s}, 999'999'937};
  EXPECT_FALSE(TokenBucket::create(spec));
  timeline::of(WideTokenBucket::create(spec))
      .runs({
          admits(0s, 999'999'937, 0),
          waits(0s, 1, 2ns, 0),
          waits(0s, 999'999'937, 1s, 0),
          waits(1s - 1ns, 999'999'937, 1ns, 999'999'936),
          admits(1s, 999'999'937, 0),
      });
}

TEST(WideTokenBucket, StaysInDebtHoweverOftenTheLargestCostIsOwed) {
  const auto bucket = WideTokenBucket::create({{kAmountMax, 1ns}, kAmountMax});
  ASSERT_TRUE(bucket);
  auto state = bucket->start(Instant{});
  Amount before = bucket->available(state, Instant{});
  for (int i = 0; i < 20'000; ++i) {
    bucket->take(state, kAmountMax, Instant{});
    const Amount after = bucket->available(state, Instant{});
    ASSERT_LE(after, before);
    before = after;
  }
  EXPECT_LT(before, 0);
}

}  // namespace
}  // namespace weir
