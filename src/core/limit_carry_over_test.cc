// Changing a limit while it is in use: Limit::carry_over.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/random_limit.h"
#include "core/timeline.h"
#include "weir/core/limit.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using reference::Dice;
using Algorithm = LimitSpec::Algorithm;

Limit make(const LimitSpec& spec, Instant now = Instant{}) {
  return Limit::create(spec, now).value();
}
Limit changed(const Limit& old, const LimitSpec& spec, Instant now) {
  Limit limit = make(spec, now);
  limit.carry_over(old, now);
  return limit;
}

// S0.3
TEST(CarryOver, KeepsTheTokensCappedAtTheNewTotal) {
  const LimitSpec hundred = LimitSpec::token_bucket(Unit::kRequests, {100, 1min});
  const LimitSpec fifty = LimitSpec::token_bucket(Unit::kRequests, {50, 1min});
  Limit limit = make(hundred);
  EXPECT_EQ(changed(limit, fifty, Instant{}).available(Instant{}), 50);
  limit.take(70, Instant{});
  EXPECT_EQ(changed(limit, fifty, Instant{}).available(Instant{}), 30);
  EXPECT_EQ(changed(changed(limit, fifty, Instant{}), hundred, Instant{}).available(Instant{}), 30);
}

TEST(CarryOver, KeepsFractionsOfATokenHoweverOftenABucketIsChanged) {
  const LimitSpec narrow = LimitSpec::token_bucket(Unit::kRequests, {10, 1s}, 5);
  const LimitSpec wide = LimitSpec::token_bucket(Unit::kRequests, {999'999'937, 1s}, 5);
  ASSERT_EQ(make(wide).bucket(), nullptr);
  Limit limit = make(narrow);
  limit.take(5, Instant{});
  Instant now{};
  for (int i = 0; i < 30; ++i) {
    now += 10ms;  // a tenth of a token
    limit = changed(changed(limit, wide, now), narrow, now);
  }
  EXPECT_NEAR(limit.level(now), 3.0, 1e-6);
}

TEST(CarryOver, KeepsADebt) {
  Limit limit = make(LimitSpec::token_bucket(Unit::kRequests, {10, 1s}, 5));
  limit.take(25, Instant{});
  const Limit slower = changed(limit, LimitSpec::token_bucket(Unit::kRequests, {1, 1s}, 5), {});
  EXPECT_EQ(slower.available(Instant{}), -20);
  EXPECT_EQ(slower.check(1, Instant{}), Decision::wait(21s));
}

TEST(CarryOver, KeepsHeldSlotsEvenAboveTheNewMaximum) {
  Limit limit = make(LimitSpec::concurrency(10));
  limit.take(7, Instant{});
  Limit fewer = changed(limit, LimitSpec::concurrency(5), Instant{});
  EXPECT_EQ(fewer.available(Instant{}), -2);
  fewer.give_back(3);
  EXPECT_EQ(fewer.available(Instant{}), 1);
}

TEST(CarryOver, LetsTheWindowRunOn) {
  for (const auto& window :
       {LimitSpec::fixed_window, LimitSpec::sliding_window, LimitSpec::sliding_log}) {
    Limit limit = make(window(Unit::kRequests, {10, 1min}));
    limit.take(6, Instant{10s});
    Limit more = changed(limit, window(Unit::kRequests, {100, 1min}), Instant{30s});
    EXPECT_EQ(more.available(Instant{30s}), 94);
    Limit less = changed(more, window(Unit::kRequests, {4, 1min}), Instant{40s});
    EXPECT_EQ(less.available(Instant{40s}), -2);
    EXPECT_EQ(less.available(Instant{180s}), 4);
  }
}

TEST(CarryOver, EndsAWindowWhenItWouldHaveEndedHoweverOftenItIsChanged) {
  for (const auto& window : {LimitSpec::fixed_window, LimitSpec::sliding_log}) {
    Limit limit = make(window(Unit::kRequests, {10, 1min}));
    limit.take(10, Instant{10s});
    for (Nanos at = 10s; at <= 60s; at += 10s) {
      limit = changed(limit, window(Unit::kRequests, {10 + at / 10s, 1min}), Instant{at});
    }
    EXPECT_EQ(limit.check(7, Instant{60s}), Decision::wait(10s));
    EXPECT_TRUE(limit.check(16, Instant{70s}).admitted());
  }
}

TEST(CarryOver, KeepsEachChargeOfALogThatOutgrowsItsMemoryOrShrinksBelowIt) {
  const auto log = [](Amount limit) {
    return LimitSpec::sliding_log(Unit::kRequests, {limit, 1min});
  };
  Limit limit = make(log(6'000));
  for (int i = 0; i < 100; ++i) limit.take(1, Instant{i * 100ms});
  const Limit small = changed(limit, log(10), Instant{10s});  // remembers twelve
  EXPECT_EQ(small.available(Instant{10s}), 10 - 100);
  EXPECT_GE(small.check(1, Instant{10s}).retry_after, 59s);
  EXPECT_EQ(small.available(Instant{70s}), 10);
}

TEST(CarryOver, PutsARunningWindowOnTheCalendarWithoutEndingItEarlier) {
  const LimitSpec free = LimitSpec::fixed_window(Unit::kRequests, {10, 1min});
  const LimitSpec calendar = reference::on_calendar(free);  // ends at 80, 120, 200, 240 s
  Limit limit = make(free);
  limit.take(6, Instant{10s});
  Limit later = changed(limit, calendar, Instant{15s});  // would have ended at 70 s
  EXPECT_EQ(later.available(Instant{79s}), 4);
  later.refund(2, Instant{10s}, Instant{79s});
  EXPECT_EQ(later.available(Instant{79s}), 6);
  EXPECT_EQ(later.available(Instant{80s}), 10);

  limit.take(6, Instant{110s});
  later = changed(limit, calendar, Instant{115s});  // ends at 170 s as it would have
  EXPECT_EQ(later.check(5, Instant{120s}), Decision::wait(50s));
  later.take(10, Instant{170s});
  EXPECT_EQ(later.check(1, Instant{170s}), Decision::wait(30s));

  const Limit freed = changed(later, free, Instant{171s});
  EXPECT_EQ(freed.check(1, Instant{171s}), Decision::wait(29s));
}

TEST(CarryOver, EndsNoWindowEarlierHoweverOftenItsCalendarChanges) {
  const LimitSpec free = LimitSpec::fixed_window(Unit::kRequests, {10, 1min});
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice{seed};
    Limit limit = make(free);
    Instant now{1h};
    Amount spent = 0;
    Instant promised{};  // nothing is due before
    for (int i = 0; i < 50; ++i) {
      now += Nanos{dice.magnitude(20'000'000'000)};
      if (now >= promised) spent = 0;
      if (limit.check(3, now).admitted()) {
        limit.take(3, now);
        spent += 3;
        ASSERT_LE(spent, 10);
      }
      if (limit.available(now) < 3) promised = now + limit.check(10, now).retry_after;
      limit = changed(limit,
                      dice.one_in(3) ? free
                                     : reference::on_calendar(
                                           free, Nanos{dice.between(0, 119)} * 1'000'000'000),
                      now);
      if (now < promised) {
        ASSERT_GE(now + limit.check(10, now).retry_after, promised);
      }
    }
  }
}

// S3.1
TEST(CarryOver, KeepsTheStepsOfASteppedBucketHoweverOftenItIsChanged) {
  Limit limit = make(LimitSpec::stepped(Unit::kTokens, {90, 10, 6s}));
  limit.take(90, Instant{});
  for (Nanos at = 4s; at <= 20s; at += 4s) {
    limit = changed(limit, LimitSpec::stepped(Unit::kTokens, {90 + at / 1s, 10, 6s}), Instant{at});
  }
  EXPECT_EQ(limit.available(Instant{20s}), 30);  // the steps of 6, 12 and 18 s
  EXPECT_EQ(limit.check(40, Instant{20s}), Decision::wait(4s));
}

TEST(CarryOver, KeepsWhatTheLastAdmissionOfAWarmUpHasYetToPay) {
  const LimitSpec spec = LimitSpec::warm_up_rate(Unit::kRequests, {{2, 1s}, 4s});
  Limit limit = make(spec);
  limit.take(100, Instant{});
  const Nanos wait = limit.check(1, Instant{}).retry_after;
  EXPECT_EQ(changed(limit, spec, Instant{}).check(1, Instant{}), Decision::wait(wait));
  const LimitSpec faster = LimitSpec::warm_up_rate(Unit::kRequests, {{14, 1s}, 2s});
  EXPECT_EQ(changed(limit, faster, Instant{5s}).check(1, Instant{5s}), Decision::wait(wait - 5s));
}

// As Guava's setRate: what was stored keeps its part of the whole.
TEST(CarryOver, NeitherWarmsNorCoolsAWarmUp) {
  const LimitSpec spec = LimitSpec::warm_up_rate(Unit::kRequests, {{2, 1s}, 4s});
  Limit limit = make(spec);
  limit.take(4, Instant{});  // down to the half below which a permit has the stable price
  const Limit twice =
      changed(limit, LimitSpec::warm_up_rate(Unit::kRequests, {{4, 1s}, 8s}), Instant{4s});
  const auto price = [](Limit of, Instant now) {
    of.take(1, now);
    return of.check(1, now).retry_after;
  };
  EXPECT_EQ(price(limit, Instant{4s}), 500ms);
  EXPECT_EQ(price(twice, Instant{4s}), 250ms);
  EXPECT_EQ(price(changed(limit, spec, Instant{8s}), Instant{8s}), price(limit, Instant{8s}));
}

TEST(CarryOver, MakesAWarmUpWaitUntilTheOldLimitWouldHaveAdmitted) {
  Limit bucket = make(LimitSpec::token_bucket(Unit::kRequests, {1, 10s}, 3));
  bucket.take(4, Instant{});
  const Limit warm_up =
      changed(bucket, LimitSpec::warm_up_rate(Unit::kRequests, {{2, 1s}, 4s}), Instant{5s});
  EXPECT_EQ(warm_up.check(1, Instant{5s}), Decision::wait(15s));
}

// Windows that run on keep their count, and slots theirs: what a higher limit adds is free at once,
// and no window ever has more than its limit.
bool runs_on(const LimitSpec& old, const LimitSpec& spec) {
  const bool counts =
      spec.algorithm == Algorithm::kFixedWindow || spec.algorithm == Algorithm::kSlidingWindow ||
      spec.algorithm == Algorithm::kSlidingLog || spec.algorithm == Algorithm::kConcurrency;
  return counts && old.algorithm == spec.algorithm && old.period == spec.period;
}

TEST(CarryOver, MintsNothingBetweenAnyTwoLimits) {
  for (Algorithm from : reference::kAlgorithms) {
    for (Algorithm to : reference::kAlgorithms) {
      if ((from == Algorithm::kConcurrency) != (to == Algorithm::kConcurrency)) continue;
      for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        SCOPED_TRACE(testing::Message() << reference::name(from) << " to " << reference::name(to)
                                        << ", seed " << seed);
        Dice dice{seed};
        Instant now = dice.instant();
        Limit old = reference::random_limit(from, dice, now);
        LimitSpec spec = reference::random_limit(to, dice, now).spec();
        if (dice.one_in(2) && from == to) {
          LimitSpec same_period = spec;
          same_period.period = old.spec().period;
          if (Limit::create(same_period, now)) spec = same_period;
        }
        if (spec.algorithm == Algorithm::kFixedWindow && dice.one_in(2)) {
          spec = reference::on_calendar(spec);
        }
        for (int i = 0; i < 8; ++i) {
          now = clamp_instant(now + Nanos{dice.magnitude(1'000'000'000'000)});
          old.take(dice.magnitude(std::min(old.capacity(), kAmountMax / 10)), now);
        }
        const Amount before = old.available(now);
        const Limit limit = changed(old, spec, now);
        const Amount after = limit.available(now);
        ASSERT_LE(after, limit.capacity());
        if (runs_on(old.spec(), spec)) {
          ASSERT_EQ(after, limit.capacity() - (old.capacity() - before));
        } else if (before >= 0) {
          ASSERT_LE(after, before);
        } else {
          ASSERT_LE(after, 0);  // a debt may saturate, or fade at once where windows are short
        }
        const bool exact = from != Algorithm::kWarmUp && to != Algorithm::kWarmUp;
        if (exact && before >= 0 && !runs_on(old.spec(), spec)) {
          ASSERT_EQ(after, std::min(before, limit.capacity()));
        }
      }
    }
  }
}

TEST(CarryOver, SurvivesTheEndsOfTheRanges) {
  for (Algorithm from : reference::kAlgorithms) {
    for (Algorithm to : reference::kAlgorithms) {
      for (Instant now : {Instant::min(), Instant{}, kInstantMax, kEndOfTime}) {
        SCOPED_TRACE(testing::Message() << reference::name(from) << " to " << reference::name(to));
        Dice dice{3};
        Limit old = reference::random_limit(from, dice, now);
        for (int i = 0; i < 10'000; ++i) old.take(kAmountMax, now);
        const Limit limit = changed(old, reference::random_limit(to, dice, now).spec(), now);
        if ((from == Algorithm::kConcurrency) == (to == Algorithm::kConcurrency)) {
          ASSERT_LE(limit.available(now), 0);
        }
        (void)limit.check(1, now);
      }
    }
  }
}

}  // namespace
}  // namespace weir
