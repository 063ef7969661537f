#include "weir/core/warm_up.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/random_limit.h"
#include "core/timeline.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using reference::Dice;
using timeline::admits;
using timeline::owes;
using timeline::refunds;
using timeline::waits;

// SmoothWarmingUp as Guava writes it, in permits and floating point; times in nanoseconds.
class Guava {
 public:
  Guava(long double stable_interval, Nanos warm_up)
      : stable_(stable_interval),
        threshold_(0.5L * ns(warm_up) / stable_),
        max_(threshold_ + 2.0L * ns(warm_up) / (stable_ + kColdFactor * stable_)),
        slope_((kColdFactor * stable_ - stable_) / (max_ - threshold_)),
        cool_down_(ns(warm_up) / max_),
        stored_(max_) {}

  long double wait(Instant now) const { return std::max(next_free_ - ns(now), 0.0L); }

  void reserve(Amount permits, Instant now) {
    if (ns(now) > next_free_) {
      stored_ = std::min(max_, stored_ + (ns(now) - next_free_) / cool_down_);
      next_free_ = ns(now);
    }
    const auto wanted = static_cast<long double>(permits);
    const long double from_stored = std::min(wanted, stored_);
    next_free_ += stored_to_time(from_stored) + (wanted - from_stored) * stable_;
    stored_ -= from_stored;
  }

 private:
  static constexpr long double kColdFactor = 3;

  static long double ns(Nanos time) { return static_cast<long double>(time.count()); }
  static long double ns(Instant at) { return ns(at.time_since_epoch()); }

  long double stored_to_time(long double take) const {
    const long double above = stored_ - threshold_;
    long double time = 0;
    if (above > 0) {
      const long double sloped = std::min(above, take);
      time = sloped * (interval(above) + interval(above - sloped)) / 2;
      take -= sloped;
    }
    return time + stable_ * take;
  }
  long double interval(long double above) const { return stable_ + above * slope_; }

  long double stable_;
  long double threshold_;
  long double max_;
  long double slope_;
  long double cool_down_;
  long double stored_;
  long double next_free_ = 0;
};

// The waits of acquiring one permit `times` times over, each as soon as it is admitted.
std::vector<Nanos> acquire(const WarmUp& warm_up, WarmUp::State& state, Instant& now, int times) {
  std::vector<Nanos> waited;
  for (int i = 0; i < times; ++i) {
    const Nanos wait = warm_up.check(state, 1, now).retry_after;
    now += wait;
    EXPECT_TRUE(spend(warm_up, state, 1, now).admitted());
    waited.push_back(wait);
  }
  return waited;
}

const std::vector<Nanos> kColdStart = {0ns, 1375ms, 1125ms, 875ms, 625ms, 500ms, 500ms, 500ms};
const std::vector<Nanos> kWarmStart = {0ns, 500ms, 500ms, 500ms, 500ms, 500ms, 500ms, 500ms};

// S1.4: the figures of Guava's own testWarmUp, 2 a second with a warm-up of 4 s.
TEST(WarmUp, WaitsAsLongAsGuavaDoes) {
  const auto warm_up = WarmUp::create({{2, 1s}, 4s});
  ASSERT_TRUE(warm_up);
  Instant now{};
  auto state = warm_up->start(now);
  EXPECT_EQ(acquire(*warm_up, state, now, 8), kColdStart);
  now += 500ms + 4s;  // pays for the last one, then goes cold again
  EXPECT_EQ(acquire(*warm_up, state, now, 8), kColdStart);
  now += 500ms + 2s;  // two seconds more and it would have gone cold
  EXPECT_EQ(acquire(*warm_up, state, now, 8), kWarmStart);
}

// S1.4: the climb from cold to the stable rate takes the warm-up period.
TEST(WarmUp, ReachesTheStableRateAfterThePeriod) {
  const auto warm_up = WarmUp::create({{100, 1s}, 10s});
  ASSERT_TRUE(warm_up);
  Instant now{};
  auto state = warm_up->start(now);
  int admitted = 0;
  for (; now < Instant{10s}; ++admitted) (void)acquire(*warm_up, state, now, 1);
  EXPECT_NEAR(admitted, 500, 1);  // half of what the stable rate gives in that time
  EXPECT_EQ(acquire(*warm_up, state, now, 3), std::vector<Nanos>(3, 10ms));
}

TEST(WarmUp, AdmitsAnySizeOnceTheLastIsPaidFor) {
  timeline::of(WarmUp::create({{1, 1s}, 1ns}))
      .runs({
          admits(0s, 100, 0),
          waits(0s, 1, 100s + 1ns, 0),
          waits(0s, 1'000, 100s + 1ns, 0),
          admits(101s, 1'000, 0),
          waits(1'100s, 1, 1s + 1ns, 0),
      });
}

TEST(WarmUp, ChargesADebtToTheNext) {
  timeline::of(WarmUp::create({{2, 1s}, 4s}))
      .runs({
          admits(0s, 1, 0),
          owes(0s, 1, 0),
          waits(0s, 1, 2'500ms, 0),
          waits(2'500ms - 1ns, 1, 1ns, 0),
          admits(2'500ms, 1, 0),
      });
}

TEST(WarmUp, RefundsTheStablePriceOfAPermit) {
  timeline::of(WarmUp::create({{2, 1s}, 4s}))
      .runs({
          admits(0s, 1, 0),
          refunds(0s, 1, 0s, 0),
          waits(0s, 1, 875ms, 0),
          refunds(0s, 100, 0s, 1),
          admits(0s, 1, 0),
      });
}

// What a refund gives back beyond now is idle time, in which the rate cools down.
TEST(WarmUp, CoolsDownWhatIsRefundedTooLateToWaitLess) {
  timeline::of(WarmUp::create({{2, 1s}, 4s}))
      .runs({
          admits(0s, 1, 0),
          refunds(1'375ms, 1, 0s, 1),
          admits(1'375ms, 1, 0),
          waits(1'375ms, 1, 1'375ms, 0),
      });
}

TEST(WarmUp, MintsNothingWhenTheClockRunsBackwards) {
  timeline::of(WarmUp::create({{2, 1s}, 4s}))
      .runs({
          admits(10s, 1, 0),
          waits(5s, 1, 6'375ms, 0),
          refunds(11s, 100, 10s, 1),
          waits(9s, 1, 2s, 0),
          admits(11s, 1, 0),
      });
}

// S1.4
TEST(WarmUp, AgreesWithGuavaForRandomRatesAndArrivals) {
  for (std::uint64_t seed = 1; seed <= 500 && !HasFailure(); ++seed) {
    Dice dice{seed};
    const WarmUpSpec spec{{dice.amount(1'000'000), dice.period()}, dice.period()};
    SCOPED_TRACE(testing::Message()
                 << "seed " << seed << ": " << spec.rate.amount << " per "
                 << spec.rate.period.count() << " ns, warm-up " << spec.warm_up.count() << " ns");
    const auto warm_up = WarmUp::create(spec);
    if (!warm_up) continue;
    const auto& rate = warm_up->ticks();
    // Costs of which even a cold one is paid for within the longest debt.
    const Amount cost_max = rate.of_nanos(kPeriodMax) / 3 / rate.per_unit;
    if (cost_max == 0) continue;
    Guava guava{static_cast<long double>(rate.per_unit) / static_cast<long double>(rate.per_nano),
                spec.warm_up};
    Instant now{};
    auto state = warm_up->start(now);
    for (int i = 0; i < 100 && now < kInstantMax - kPeriodMax; ++i) {
      const Nanos wait = warm_up->check(state, 1, now).retry_after;
      // Each price is rounded up to a tick and each wait to a nanosecond.
      ASSERT_NEAR(static_cast<double>(static_cast<long double>(wait.count()) - guava.wait(now)), 0,
                  2.0 + i);
      now += wait;
      if (dice.one_in(3)) now += Nanos{dice.magnitude(2 * spec.warm_up.count())};
      now = clamp_instant(now);
      const Amount cost = dice.one_in(2) ? 1 : dice.magnitude(std::min<Amount>(cost_max, 1'000));
      warm_up->take(state, cost, now);
      guava.reserve(cost, now);
    }
  }
}

TEST(WarmUp, RefusesValuesOutOfRangeAndNamesThem) {
  const struct {
    WarmUpSpec spec;
    std::string named;
  } kRefused[] = {
      {{{1, 1s}, 0s}, "warm-up must be from 1 ns to 400 days: 0 ns"},
      {{{1, 1s}, -1s}, ": -1000000000 ns"},
      {{{1, 1s}, kPeriodMax + 1ns}, ": 34560000000000001 ns"},
      {{{0, 1s}, 1s}, ": 0"},
      {{{1, 0s}, 1s}, ": 0 ns"},
      {{{999'999'937, 1s}, 1s}, "999999937 per 1000000000 ns"},
  };
  for (const auto& [spec, named] : kRefused) {
    const auto warm_up = WarmUp::create(spec);
    ASSERT_FALSE(warm_up) << named;
    EXPECT_EQ(warm_up.error(), Errc::kInvalidLimit);
    EXPECT_NE(warm_up.error().message.find(named), std::string::npos) << warm_up.error().message;
  }
}

}  // namespace
}  // namespace weir
