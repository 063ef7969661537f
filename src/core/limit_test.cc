#include "weir/core/limit.h"

#include <gtest/gtest.h>

#include <string>

#include "core/random_limit.h"
#include "core/timeline.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

Limit make(const LimitSpec& spec, Instant now = Instant{}) {
  return Limit::create(spec, now).value();
}

TEST(Limit, NamesItselfAfterItsUnitAndPeriod) {
  const struct {
    LimitSpec spec;
    std::string name;
  } kNames[] = {
      {LimitSpec::token_bucket(Unit::kTokens, {10, 1min}), "tokens per 1m"},
      {LimitSpec::token_bucket(Unit::kRequests, {10, 90s}), "requests per 90s"},
      {LimitSpec::stepped(Unit::kTokens, {9, 1, 6s}), "tokens per 6s"},
      {LimitSpec::fixed_window(Unit::kRequests, {10, 24h}), "requests per 1d"},
      {LimitSpec::sliding_window(Unit::kRequests, {10, 2h}), "requests per 2h"},
      {LimitSpec::sliding_log(Unit::kMicroUsd, {10, 1500ms}), "micro_usd per 1500ms"},
      {LimitSpec::warm_up_rate(Unit::kRequests, {{10, 7ns}, 1s}), "requests per 7ns"},
      {LimitSpec::concurrency(4), "slots"},
  };
  for (const auto& [spec, name] : kNames) EXPECT_EQ(make(spec).spec().name, name);
  LimitSpec named = LimitSpec::concurrency(4);
  named.name = "in flight";
  EXPECT_EQ(make(named).spec().name, "in flight");
}

TEST(Limit, CountsSlotsByConcurrencyAndNothingElseByIt) {
  LimitSpec slots = LimitSpec::token_bucket(Unit::kSlots, {10, 1s});
  EXPECT_EQ(Limit::create(slots, Instant{}).error(), Errc::kInvalidLimit);
  LimitSpec tokens = LimitSpec::concurrency(10);
  tokens.unit = Unit::kTokens;
  EXPECT_EQ(Limit::create(tokens, Instant{}).error(), Errc::kInvalidLimit);
  EXPECT_TRUE(make(LimitSpec::concurrency(10)).borrowed());
  EXPECT_FALSE(make(LimitSpec::token_bucket(Unit::kTokens, {10, 1s})).borrowed());
}

TEST(Limit, HoldsABurstOfTheAmountUnlessAnotherIsSaid) {
  EXPECT_EQ(make(LimitSpec::token_bucket(Unit::kTokens, {10, 1s})).capacity(), 10);
  EXPECT_EQ(make(LimitSpec::token_bucket(Unit::kTokens, {10, 1s}, 3)).capacity(), 3);
}

TEST(Limit, TakesTheOneWordBucketWhereTheRateFitsAndTheWideOneElsewhere) {
  EXPECT_NE(make(LimitSpec::token_bucket(Unit::kTokens, {99'991, 1min})).bucket(), nullptr);
  const Limit wide = make(LimitSpec::token_bucket(Unit::kTokens, {999'999'937, 1s}));
  EXPECT_EQ(wide.bucket(), nullptr);
  EXPECT_EQ(wide.capacity(), 999'999'937);
  EXPECT_EQ(make(LimitSpec::fixed_window(Unit::kTokens, {10, 1s})).bucket(), nullptr);
}

TEST(Limit, SharesItsBucketStateWithWhoKeepsItInAWord) {
  Limit limit = make(LimitSpec::token_bucket(Unit::kTokens, {1, 1s}, 5));
  limit.bucket_state() = limit.bucket()->spent(limit.bucket_state(), 3, 0);
  EXPECT_EQ(limit.available(Instant{}), 2);
}

TEST(Limit, AdmitsACostOfZeroWhateverTheState) {
  Limit limit = make(LimitSpec::token_bucket(Unit::kTokens, {1, 1s}, 5));
  limit.take(50, Instant{});
  limit.take(0, Instant{});
  limit.refund(0, Instant{}, Instant{});
  EXPECT_EQ(limit.available(Instant{}), -45);
  EXPECT_EQ(limit.check(0, Instant{}), Decision::admit());
  EXPECT_EQ(limit.share(0), 0);
}

// S1.1
TEST(Limit, AdmitsMoreThanItsBurstOnDebtOnceItIsFull) {
  LimitSpec spec = LimitSpec::token_bucket(Unit::kRequests, {1, 1s}, 5);
  EXPECT_EQ(make(spec).check(6, Instant{}), Decision::never());
  spec.oversize = LimitSpec::Oversize::kOnDebt;
  Limit limit = make(spec);
  limit.take(1, Instant{});
  EXPECT_EQ(limit.check(20, Instant{}), Decision::wait(1s));
  EXPECT_TRUE(limit.check(20, Instant{1s}).admitted());
  limit.take(20, Instant{1s});
  EXPECT_EQ(limit.check(1, Instant{1s}), Decision::wait(16s));
}

// S1.1
TEST(Limit, AdmitsMoreThanAWindowOnDebtOnceItIsEmpty) {
  LimitSpec spec = LimitSpec::sliding_log(Unit::kRequests, {5, 10s});
  spec.oversize = LimitSpec::Oversize::kOnDebt;
  Limit limit = make(spec);
  limit.take(1, Instant{});
  EXPECT_EQ(limit.check(20, Instant{4s}), Decision::wait(6s));
  EXPECT_TRUE(limit.check(20, Instant{10s}).admitted());
}

TEST(Limit, GivesBackSlotsAndNothingElse) {
  Limit slots = make(LimitSpec::concurrency(3));
  slots.take(2, Instant{});
  slots.refund(1, Instant{}, Instant{});
  EXPECT_EQ(slots.available(Instant{}), 1);
  slots.give_back(1);
  EXPECT_EQ(slots.available(Instant{}), 2);

  Limit tokens = make(LimitSpec::token_bucket(Unit::kTokens, {1, 1s}, 3));
  tokens.take(2, Instant{});
  tokens.give_back(2);
  EXPECT_EQ(tokens.available(Instant{}), 1);
}

TEST(Limit, SaysAShareOfItselfInThirtyTwoBitsOfFraction) {
  const Limit limit = make(LimitSpec::token_bucket(Unit::kTokens, {1'000, 1s}));
  constexpr std::int64_t kOne = std::int64_t{1} << 32;
  EXPECT_EQ(limit.share(1'000), kOne);
  EXPECT_EQ(limit.share(250), kOne / 4);
  EXPECT_EQ(limit.share(2'000), 2 * kOne);
  const Limit small_burst = make(LimitSpec::token_bucket(Unit::kTokens, {1'000, 1s}, 10));
  EXPECT_EQ(small_burst.share(10), kOne / 100);
  const Limit warm_up = make(LimitSpec::warm_up_rate(Unit::kTokens, {{1'000, 1s}, 1s}));
  EXPECT_EQ(warm_up.share(250), kOne / 4);
  const Limit stepped = make(LimitSpec::stepped(Unit::kTokens, {900, 100, 6s}));
  EXPECT_EQ(stepped.share(450), kOne / 2);
  const Limit vast = make(LimitSpec::fixed_window(Unit::kTokens, {kAmountMax, 1s}));
  EXPECT_EQ(vast.share(1), 1);
}

// 10^15 of a limit of 1 is more than 32 bits before the point: it saturates, and stays larger
// than any share below it.
TEST(Limit, SaturatesAShareFarAboveTheLimit) {
  LimitSpec spec = LimitSpec::token_bucket(Unit::kTokens, {1, 1s});
  spec.oversize = LimitSpec::Oversize::kOnDebt;
  const Limit limit = make(spec);
  std::int64_t before = 0;
  for (Amount cost = 1; cost <= kAmountMax; cost *= 10) {
    EXPECT_GE(limit.share(cost), before) << cost;
    before = limit.share(cost);
  }
  EXPECT_GE(before, limit.share(1'000'000));
  EXPECT_GT(before, limit.share(100'000));
}

TEST(Limit, RefusesACalendarForAnythingButAFixedWindow) {
  const auto fixed = LimitSpec::fixed_window(Unit::kTokens, {5, 1min});
  EXPECT_TRUE(Limit::create(reference::on_calendar(fixed), Instant{}));
  const auto bucket = LimitSpec::token_bucket(Unit::kTokens, {5, 1min});
  EXPECT_EQ(Limit::create(reference::on_calendar(bucket), Instant{}).error(), Errc::kInvalidLimit);
}

TEST(Limit, ShowsFractionsOfATokenInItsLevel) {
  Limit bucket = make(LimitSpec::token_bucket(Unit::kTokens, {1, 1s}, 5));
  bucket.take(5, Instant{});
  EXPECT_DOUBLE_EQ(bucket.level(Instant{1500ms}), 1.5);
  Limit wide = make(LimitSpec::token_bucket(Unit::kTokens, {999'999'937, 1s}));
  wide.take(999'999'937, Instant{});
  EXPECT_NEAR(wide.level(Instant{1ns}), 0.999999937, 1e-12);
  Limit window = make(LimitSpec::fixed_window(Unit::kTokens, {5, 1s}));
  window.take(2, Instant{});
  EXPECT_DOUBLE_EQ(window.level(Instant{}), 3.0);
}

}  // namespace
}  // namespace weir
