#include "weir/core/cost.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string_view>

#include "weir/core/error.h"
#include "weir/core/time.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

TEST(Cost, OfACallIsOneRequestInOneSlotAndItsTokens) {
  const Cost cost = Cost::call(250);
  EXPECT_EQ(cost[Unit::kRequests], 1);
  EXPECT_EQ(cost[Unit::kSlots], 1);
  EXPECT_EQ(cost[Unit::kTokens], 250);
  EXPECT_EQ(cost[Unit::kMicroUsd], 0);
  EXPECT_FALSE(Cost::call().names(Unit::kTokens));
}

TEST(Cost, TellsZeroTokensFromTokensNotMentioned) {
  const Cost zero = Cost::of(Unit::kTokens, 0);
  EXPECT_TRUE(zero.names(Unit::kTokens));
  EXPECT_FALSE(Cost{}.names(Unit::kTokens));
  EXPECT_EQ(zero[Unit::kTokens], Cost{}[Unit::kTokens]);
  EXPECT_NE(zero, Cost{});
}

TEST(Cost, HoldsEveryUnitApart) {
  Cost cost;
  for (std::size_t i = 0; i < kUnitCount; ++i) {
    cost = cost.with(static_cast<Unit>(i), static_cast<Amount>(i) + 10);
  }
  for (std::size_t i = 0; i < kUnitCount; ++i) {
    EXPECT_EQ(cost[static_cast<Unit>(i)], static_cast<Amount>(i) + 10);
    EXPECT_TRUE(cost.names(static_cast<Unit>(i)));
  }
  EXPECT_EQ(cost.with(Unit::kSlots, 1)[Unit::kSlots], 1);
}

TEST(Cost, IsValidFromZeroToTheLargestAmount) {
  for (std::size_t i = 0; i < kUnitCount; ++i) {
    const auto unit = static_cast<Unit>(i);
    EXPECT_TRUE(Cost::of(unit, 0).valid());
    EXPECT_TRUE(Cost::of(unit, kAmountMax).valid());
    EXPECT_FALSE(Cost::of(unit, kAmountMax + 1).valid());
    EXPECT_FALSE(Cost::of(unit, -1).valid());
    EXPECT_FALSE(Cost::of(unit, std::numeric_limits<Amount>::min()).valid());
  }
}

TEST(Unit, HasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kUnitCount; ++i) names.insert(name(static_cast<Unit>(i)));
  EXPECT_EQ(names.size(), kUnitCount);
  EXPECT_EQ(name(Unit::kMicroUsd), "micro_usd");
  EXPECT_EQ(name(Unit::kSlots), "slots");
}

// S0.5
TEST(Errc, HasTheNamesThatUsersSee) {
  EXPECT_EQ(name(Errc::kClosed), "closed");
  EXPECT_EQ(name(Errc::kResourceUnknown), "resource_unknown");
  EXPECT_EQ(name(Errc::kCapacityExhausted), "capacity_exhausted");
  EXPECT_EQ(name(Errc::kInvalidCapacity), "invalid_capacity");
  EXPECT_EQ(name(Errc::kInvalidWindow), "invalid_window");
  EXPECT_EQ(name(Errc::kInvalidConfig), "invalid_config");
  EXPECT_EQ(name(Errc::kCancelled), "cancelled");
  EXPECT_EQ(name(Errc::kDeadlineExceeded), "deadline_exceeded");
}

TEST(Instant, IsTakenAsTheNearerEndOfTheTimeLineWhenOutside) {
  EXPECT_EQ(clamp_instant(Instant::min()), Instant{});
  EXPECT_EQ(clamp_instant(Instant{-1ns}), Instant{});
  EXPECT_EQ(clamp_instant(Instant{5s}), Instant{5s});
  EXPECT_EQ(clamp_instant(kInstantMax + 1ns), kInstantMax);
  EXPECT_EQ(clamp_instant(kEndOfTime), kInstantMax);
}

}  // namespace
}  // namespace weir
