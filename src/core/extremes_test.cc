// Every limit at the ends of the accepted ranges. What these tests assert is half of it: the other
// half is that the sanitizers find no overflow on the way.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/random_limit.h"
#include "core/timeline.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using reference::Dice;

class ExtremeLimit : public testing::TestWithParam<LimitSpec::Algorithm> {};

Instant extreme_instant(Dice& dice) {
  return dice.pick<Instant>({Instant::min(), Instant{-1ns}, Instant{}, Instant{1ns},
                             Instant{Nanos{dice.magnitude(kTenYears.count())}}, kInstantMax - 1ns,
                             kInstantMax, kInstantMax + 1ns, kEndOfTime});
}

Amount extreme_amount(Dice& dice) {
  return dice.pick<Amount>({1, 2, kAmountMax - 1, kAmountMax, dice.magnitude(kAmountMax)});
}

void expect_sound(const Limit& limit, Amount cost, Instant now) {
  const Decision decision = limit.check(cost, now);
  const bool on_debt = limit.spec().oversize == LimitSpec::Oversize::kOnDebt;
  ASSERT_EQ(decision.kind == Decision::Kind::kNever, cost > limit.capacity() && !on_debt);
  if (decision.kind == Decision::Kind::kWait) {
    ASSERT_GT(decision.retry_after, 0ns);
    ASSERT_LE(decision.retry_after, TickRate<std::int64_t>::kLatest);
    const Instant due = clamp_instant(now) + decision.retry_after;
    if (decision.exact && due <= kInstantMax) {
      ASSERT_TRUE(limit.check(cost, due).admitted());
      ASSERT_EQ(limit.check(cost, due - 1ns), Decision::wait(1ns));
    }
  }
  const Amount available = limit.available(now);
  ASSERT_LE(available, limit.capacity());
  ASSERT_GE(available, -4 * kAmountMax);
  ASSERT_TRUE(std::isfinite(limit.level(now)));
  const std::int64_t share = limit.share(cost);
  ASSERT_GE(share, 1);
  ASSERT_LE(share, std::numeric_limits<std::int64_t>::max() / 1024);
  const bool by_rate = limit.spec().algorithm == LimitSpec::Algorithm::kTokenBucket ||
                       limit.spec().algorithm == LimitSpec::Algorithm::kWarmUp;
  const Amount whole = by_rate ? limit.spec().amount : limit.capacity();
  if (cost <= whole) {
    const double part = static_cast<double>(cost) / static_cast<double>(whole);
    ASSERT_NEAR(static_cast<double>(share), std::ldexp(part, 32), 1.0);
  }
}

TEST_P(ExtremeLimit, AnswersSoundlyWhateverItIsAsked) {
  for (std::uint64_t seed = 1; seed <= 400 && !HasFatalFailure(); ++seed) {
    Dice dice{seed};
    LimitSpec spec = reference::random_limit(GetParam(), dice, Instant{}).spec();
    if (dice.one_in(4)) spec.oversize = LimitSpec::Oversize::kOnDebt;
    Limit limit = Limit::create(spec, extreme_instant(dice)).value();
    SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << spec.amount << " per "
                                    << spec.period.count() << " ns, burst " << spec.burst);
    Instant charged_at{};
    for (int i = 0; i < 60; ++i) {
      const Instant now = extreme_instant(dice);
      const Amount amount = extreme_amount(dice);
      switch (dice.between(0, 4)) {
        case 0:
        case 1:
          if (!limit.check(amount, now).admitted()) break;
          limit.take(amount, now);
          charged_at = now;
          break;
        case 2: limit.take(amount, now); break;
        case 3: limit.refund(amount, charged_at, now); break;
        case 4: limit.give_back(amount); break;
      }
      ASSERT_NO_FATAL_FAILURE(expect_sound(limit, extreme_amount(dice), extreme_instant(dice)));
    }
  }
}

TEST_P(ExtremeLimit, SaturatesDebtsAndRefunds) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    Dice dice{seed};
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Instant now = dice.instant();
    Limit limit = reference::random_limit(GetParam(), dice, now);
    Amount before = limit.available(now);
    for (int i = 0; i < 10'000; ++i) {  // of 10^15 each: more than 64 bits hold
      limit.take(kAmountMax, now);
      const Amount after = limit.available(now);
      ASSERT_LE(after, before) << "debt " << i;
      before = after;
    }
    for (int i = 0; i < 10'000; ++i) {
      limit.refund(kAmountMax, now, now);
      limit.give_back(kAmountMax);
      const Amount after = limit.available(now);
      ASSERT_GE(after, before) << "refund " << i;
      before = after;
    }
    ASSERT_LE(limit.available(now), limit.capacity());
  }
}

TEST_P(ExtremeLimit, AcceptsTheEndsOfItsRanges) {
  int accepted = 0;
  for (Amount amount : {Amount{1}, kAmountMax}) {
    for (Nanos period : {1ns, kPeriodMax}) {
      for (Amount burst : {Amount{1}, kAmountMax}) {
        LimitSpec spec{.unit = Unit::kTokens,
                       .algorithm = GetParam(),
                       .amount = amount,
                       .period = period,
                       .burst = burst,
                       .warm_up = period};
        if (GetParam() == LimitSpec::Algorithm::kConcurrency) spec.unit = Unit::kSlots;
        auto limit = Limit::create(spec, kInstantMax);
        if (!limit) continue;
        ++accepted;
        limit->take(limit->capacity(), kInstantMax);
        expect_sound(*limit, limit->capacity(), kInstantMax);
        expect_sound(*limit, 1, Instant{});
      }
    }
  }
  // A bucket refuses to fill in 10^15 periods of 400 days; warm-up refuses a rate of 10^15 a ns.
  EXPECT_GE(accepted, GetParam() == LimitSpec::Algorithm::kTokenBucket ? 7 : 4);
}

TEST_P(ExtremeLimit, RefusesValuesOutOfRangeAndNamesThemAndItself) {
  const auto valid = [] {
    LimitSpec spec{.unit = Unit::kTokens,
                   .algorithm = GetParam(),
                   .amount = 5,
                   .period = 1s,
                   .burst = 5,
                   .warm_up = 1s,
                   .name = "mine"};
    if (GetParam() == LimitSpec::Algorithm::kConcurrency) spec.unit = Unit::kSlots;
    return spec;
  };
  const auto expect_refused = [](const LimitSpec& spec, const std::string& value) {
    const auto limit = Limit::create(spec, Instant{});
    ASSERT_FALSE(limit) << value;
    EXPECT_EQ(limit.error(), Errc::kInvalidLimit);
    EXPECT_TRUE(limit.error().message.starts_with("mine: ")) << limit.error().message;
    EXPECT_NE(limit.error().message.find(": " + value), std::string::npos) << limit.error().message;
  };
  ASSERT_TRUE(Limit::create(valid(), Instant{}));
  for (Amount amount : {std::numeric_limits<Amount>::min(), Amount{-1}, Amount{0}, kAmountMax + 1,
                        std::numeric_limits<Amount>::max()}) {
    LimitSpec spec = valid();
    spec.amount = amount;
    expect_refused(spec, std::to_string(amount));
  }
  if (GetParam() == LimitSpec::Algorithm::kConcurrency) return;
  for (Nanos period : {Nanos::min(), -1ns, 0ns, kPeriodMax + 1ns, Nanos::max()}) {
    LimitSpec spec = valid();
    spec.period = period;
    expect_refused(spec, std::to_string(period.count()) + " ns");
  }
}

INSTANTIATE_TEST_SUITE_P(Ends, ExtremeLimit, testing::ValuesIn(reference::kAlgorithms),
                         [](const auto& tested) { return reference::name(tested.param); });

}  // namespace
}  // namespace weir
