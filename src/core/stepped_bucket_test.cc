#include "weir/core/stepped_bucket.h"

#include <gtest/gtest.h>

#include <string>

#include "core/timeline.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using timeline::admits;
using timeline::never;
using timeline::owes;
using timeline::refunds;
using timeline::waits;

// The document's bucket: 90% of tokens_per_minute, a tenth of it every 6 s.
constexpr SteppedSpec provider(Amount tokens_per_minute) {
  return {tokens_per_minute * 9 / 10, tokens_per_minute / 10, 6s};
}

// S3.1
TEST(SteppedBucket, RefillsATenthOfTheMinuteEverySixSecondsUpToNineTenths) {
  timeline::of(SteppedBucket::create(provider(100'000)))
      .runs({
          admits(0s, 90'000, 0),
          waits(0s, 1, 6s, 0),
          waits(6s - 1ns, 1, 1ns, 0),
          admits(6s, 4'000, 6'000),
          admits(6s, 6'000, 0),
          waits(7s, 25'000, 17s, 0),
          waits(24s - 1ns, 25'000, 1ns, 20'000),
          admits(24s, 25'000, 5'000),
          admits(10min, 90'000, 0),
      });
}

// S3.1: no burst above the maximum, however long nobody came.
TEST(SteppedBucket, NeverRefillsPastItsMaximum) {
  timeline::of(SteppedBucket::create(provider(100'000)))
      .runs({
          admits(0s, 1, 89'999),
          admits(6s, 1, 89'999),
          admits(1h, 90'000, 0),
      });
}

// S3.3
TEST(SteppedBucket, SaysNeverToMoreThanItsMaximum) {
  timeline::of(SteppedBucket::create(provider(100'000))).runs({never(0s, 90'001, 90'000)});
}

TEST(SteppedBucket, StepsOnTheGridThatBeganWithItsStart) {
  timeline::of(SteppedBucket::create({10, 5, 6s}), 100s)
      .runs({
          admits(103s, 10, 0),
          waits(103s, 1, 3s, 0),  // the step of 106 s
          admits(106s, 5, 0),
          admits(129s, 10, 0),  // 112, 118 and 124 s have filled it
          waits(129s, 6, 7s, 0),
          admits(136s, 10, 0),
      });
}

TEST(SteppedBucket, PaysADebtStepByStep) {
  timeline::of(SteppedBucket::create({10, 4, 1s}))
      .runs({
          owes(0s, 19, -9),
          waits(0s, 1, 3s, -9),
          waits(2s, 3, 1s, -1),
          admits(3s, 3, 0),
      });
}

TEST(SteppedBucket, RefundsUpToItsMaximum) {
  timeline::of(SteppedBucket::create({10, 4, 1s}))
      .runs({
          admits(0s, 8, 2),
          refunds(0s, 3, 0s, 5),
          refunds(1s, 5, 0s, 10),
          admits(1s, 10, 0),
      });
}

TEST(SteppedBucket, MintsNothingWhenTheClockRunsBackwards) {
  timeline::of(SteppedBucket::create({10, 4, 1s}))
      .runs({
          admits(5s, 10, 0),
          waits(2s, 1, 4s, 0),
          waits(5s, 1, 1s, 0),
          admits(6s, 4, 0),
      });
}

TEST(SteppedBucket, SaysAWaitBeyondTheTimeLineWithoutOverflow) {
  const auto bucket = SteppedBucket::create({kAmountMax, 1, kPeriodMax});
  ASSERT_TRUE(bucket);
  auto state = bucket->start(Instant{});
  for (int i = 0; i < 3; ++i) bucket->take(state, kAmountMax, Instant{});
  EXPECT_EQ(bucket->available(state, Instant{}), -kAmountMax);
  const Decision decision = bucket->check(state, kAmountMax, Instant{});
  EXPECT_EQ(decision.kind, Decision::Kind::kWait);
  EXPECT_GT(decision.retry_after, kTenYears);  // not an instant at which it would be admitted
}

TEST(SteppedBucket, RefusesValuesOutOfRangeAndNamesThem) {
  const struct {
    SteppedSpec spec;
    std::string named;
  } kRefused[] = {
      {{0, 1, 1s}, "maximum must be from 1 to 1000000000000000: 0"},
      {{kAmountMax + 1, 1, 1s}, ": 1000000000000001"},
      {{1, 0, 1s}, "amount must be from 1 to 1000000000000000: 0"},
      {{1, kAmountMax + 1, 1s}, ": 1000000000000001"},
      {{1, 1, 0s}, ": 0 ns"},
      {{1, 1, kPeriodMax + 1ns}, ": 34560000000000001 ns"},
  };
  for (const auto& [spec, named] : kRefused) {
    const auto bucket = SteppedBucket::create(spec);
    ASSERT_FALSE(bucket) << named;
    EXPECT_EQ(bucket.error(), Errc::kInvalidLimit);
    EXPECT_NE(bucket.error().message.find(named), std::string::npos) << bucket.error().message;
  }
}

}  // namespace
}  // namespace weir
