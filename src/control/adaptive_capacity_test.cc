#include "weir/control/adaptive_capacity.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace weir {
namespace {

using namespace std::chrono_literals;
using Config = AdaptiveCapacity::Config;

constexpr Instant kT0{1h};

AdaptiveCapacity make(const Config& config) { return AdaptiveCapacity::create(config).value(); }

// S0.7, S0.9
TEST(AdaptiveCapacityTest, HalvesAndGrowsBackByATenthEveryHalfMinute) {
  AdaptiveCapacity capacity = make({.original = 100});
  EXPECT_EQ(capacity.capacity(), 100);
  EXPECT_EQ(capacity.next_recovery(), kEndOfTime);
  EXPECT_TRUE(capacity.reduce(kT0));
  std::vector<Amount> seen{capacity.capacity()};
  for (int i = 1; i <= 9; ++i) {
    EXPECT_EQ(capacity.recover(kT0 + i * 30s), i <= 8);
    seen.push_back(capacity.capacity());
  }
  EXPECT_EQ(seen, (std::vector<Amount>{50, 55, 60, 66, 72, 79, 86, 94, 100, 100}));
  EXPECT_EQ(capacity.next_recovery(), kEndOfTime);
}

TEST(AdaptiveCapacityTest, RecoversNotANanosecondEarly) {
  AdaptiveCapacity capacity = make({.original = 100});
  capacity.reduce(kT0);
  EXPECT_EQ(capacity.next_recovery(), kT0 + 30s);
  EXPECT_FALSE(capacity.recover(kT0 + 30s - 1ns));
  EXPECT_EQ(capacity.capacity(), 50);
  EXPECT_TRUE(capacity.recover(kT0 + 30s));
  EXPECT_FALSE(capacity.recover(kT0 + 60s - 1ns));
  EXPECT_EQ(capacity.next_recovery(), kT0 + 60s);
}

TEST(AdaptiveCapacityTest, CatchesUpOnIntervalsMissed) {
  AdaptiveCapacity capacity = make({.original = 100});
  capacity.reduce(kT0);
  EXPECT_TRUE(capacity.recover(kT0 + 95s));
  EXPECT_EQ(capacity.capacity(), 66);
  EXPECT_EQ(capacity.next_recovery(), kT0 + 120s);
}

TEST(AdaptiveCapacityTest, ACutMakesRecoveryWaitAWholeIntervalAgain) {
  AdaptiveCapacity capacity = make({.original = 100});
  capacity.reduce(kT0);
  capacity.reduce(kT0 + 29s);
  EXPECT_EQ(capacity.capacity(), 25);
  EXPECT_FALSE(capacity.recover(kT0 + 59s - 1ns));
  EXPECT_TRUE(capacity.recover(kT0 + 59s));
  EXPECT_EQ(capacity.capacity(), 27);
}

// S0.9
TEST(AdaptiveCapacityTest, RecoversFromOne) {
  AdaptiveCapacity capacity = make({.original = 3});
  capacity.reduce(kT0);
  EXPECT_EQ(capacity.capacity(), 1);
  capacity.recover(kT0 + 30s);
  EXPECT_EQ(capacity.capacity(), 2);
  capacity.recover(kT0 + 60s);
  EXPECT_EQ(capacity.capacity(), 3);
}

TEST(AdaptiveCapacityTest, IsNeverCutBelowOne) {
  AdaptiveCapacity capacity = make({.original = 2});
  EXPECT_TRUE(capacity.reduce(kT0));
  EXPECT_FALSE(capacity.reduce(kT0 + 10s));
  EXPECT_EQ(capacity.capacity(), 1);
  EXPECT_EQ(capacity.next_recovery(), kT0 + 40s);
  EXPECT_FALSE(capacity.reduce_to(0, kT0 + 20s));
  EXPECT_FALSE(capacity.reduce_to(-5, kT0 + 20s));
  EXPECT_EQ(capacity.capacity(), 1);
  EXPECT_EQ(capacity.next_recovery(), kT0 + 40s);
}

TEST(AdaptiveCapacityTest, AnOriginalOfOneHasNothingToRecover) {
  AdaptiveCapacity capacity = make({.original = 1});
  EXPECT_FALSE(capacity.reduce(kT0));
  EXPECT_EQ(capacity.next_recovery(), kEndOfTime);
}

TEST(AdaptiveCapacityTest, TenAnswersOf429WithinAWindowAreOneEvent) {
  AdaptiveCapacity capacity = make({.original = 100, .window = 10s});
  int cuts = 0;
  for (int i = 0; i < 10; ++i) cuts += capacity.reduce(kT0 + i * 1s);
  EXPECT_EQ(cuts, 1);
  EXPECT_EQ(capacity.capacity(), 50);
  EXPECT_EQ(capacity.next_recovery(), kT0 + 30s);
  EXPECT_FALSE(capacity.reduce(kT0 + 10s - 1ns));
  EXPECT_TRUE(capacity.reduce(kT0 + 10s));
  EXPECT_EQ(capacity.capacity(), 25);
}

// S0.8
TEST(AdaptiveCapacityTest, AnotherAgentsCutOnlyEverLowers) {
  AdaptiveCapacity capacity = make({.original = 100, .window = 10s});
  EXPECT_FALSE(capacity.reduce_to(101, kT0));
  EXPECT_FALSE(capacity.reduce_to(100, kT0));
  EXPECT_TRUE(capacity.reduce_to(40, kT0));
  EXPECT_FALSE(capacity.reduce_to(50, kT0 + 1s));
  EXPECT_EQ(capacity.capacity(), 40);
  EXPECT_EQ(capacity.next_recovery(), kT0 + 30s);
  EXPECT_FALSE(capacity.reduce(kT0 + 1s)) << "the same event, told by two";
  capacity.recover(kT0 + 30s);
  EXPECT_EQ(capacity.capacity(), 44);
}

TEST(AdaptiveCapacityTest, WithoutTheCeilingItGrowsPastTheOriginalAndStopsAtTheLargestAmount) {
  AdaptiveCapacity capacity =
      make({.original = 100, .recovery_factor = 1000, .max_recovery = false});
  capacity.reduce(kT0);
  capacity.recover(kT0 + 30s);
  EXPECT_EQ(capacity.capacity(), 50'000);
  capacity.recover(kInstantMax);
  EXPECT_EQ(capacity.capacity(), kAmountMax);
  EXPECT_EQ(capacity.next_recovery(), kEndOfTime);
}

TEST(AdaptiveCapacityTest, TheLargestAmountsDoNotOverflow) {
  AdaptiveCapacity capacity =
      make({.original = kAmountMax, .reduce_factor = 0.999999, .recovery_factor = 1e6});
  capacity.reduce(kT0);
  EXPECT_EQ(capacity.capacity(), kAmountMax / 1'000'000 * 999'999);
  capacity.recover(kT0 + 30s);
  EXPECT_EQ(capacity.capacity(), kAmountMax);
}

TEST(AdaptiveCapacityTest, AClockThatRunsBackwardsNeitherCutsTwiceNorHastensRecovery) {
  AdaptiveCapacity capacity = make({.original = 100});
  capacity.reduce(kT0);
  EXPECT_FALSE(capacity.reduce(kT0 - 1s));
  EXPECT_FALSE(capacity.recover(kT0 - 1h));
  EXPECT_TRUE(capacity.reduce_to(20, kT0 - 10s));
  EXPECT_EQ(capacity.next_recovery(), kT0 + 30s);
}

TEST(AdaptiveCapacityTest, RefusesWhatIsOutOfRangeAndNamesIt) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const struct {
    Config config;
    Errc code;
    const char* names;
  } rows[] = {
      {{.original = 0}, Errc::kInvalidCapacity, "not 0"},
      {{.original = kAmountMax + 1}, Errc::kInvalidCapacity, "not 1000000000000001"},
      {{.original = 1, .reduce_factor = 0}, Errc::kInvalidConfig, "reduce_factor"},
      {{.original = 1, .reduce_factor = 1}, Errc::kInvalidConfig, "not 1.0"},
      {{.original = 1, .reduce_factor = nan}, Errc::kInvalidConfig, "not nan"},
      {{.original = 1, .recovery_interval = 0s}, Errc::kInvalidConfig, "recovery_interval"},
      {{.original = 1, .recovery_interval = kPeriodMax + 1ns}, Errc::kInvalidConfig, "400 days"},
      {{.original = 1, .recovery_factor = 1}, Errc::kInvalidConfig, "recovery_factor"},
      {{.original = 1, .recovery_factor = 2e6}, Errc::kInvalidConfig, "not 2000000"},
      {{.original = 1, .recovery_factor = nan}, Errc::kInvalidConfig, "not nan"},
      {{.original = 1, .window = -1ns}, Errc::kInvalidConfig, "not -1 ns"},
  };
  for (const auto& row : rows) {
    const auto made = AdaptiveCapacity::create(row.config);
    ASSERT_FALSE(made.has_value()) << row.names;
    EXPECT_EQ(made.error(), row.code) << row.names;
    EXPECT_NE(made.error().message.find(row.names), std::string::npos) << made.error().message;
  }
}

}  // namespace
}  // namespace weir
