#include "weir/core/concurrency.h"

#include <gtest/gtest.h>

#include <string>

namespace weir {
namespace {

using namespace std::chrono_literals;

Concurrency slots(Amount max) { return Concurrency::create(max).value(); }

// S3.1
TEST(Concurrency, AdmitsAgainAsSoonAsASlotIsGivenBack) {
  const Concurrency five = slots(5);
  auto state = five.start(Instant{});
  for (Amount left = 4; left >= 0; --left) {
    EXPECT_TRUE(spend(five, state, 1, Instant{}).admitted());
    EXPECT_EQ(five.available(state, Instant{}), left);
  }
  EXPECT_EQ(spend(five, state, 1, Instant{1h}), Decision::wait_for_release());
  five.give_back(state, 1);
  EXPECT_TRUE(spend(five, state, 1, Instant{}).admitted());
}

TEST(Concurrency, DoesNotClaimToKnowWhenASlotComesBack) {
  const Concurrency one = slots(1);
  auto state = one.start(Instant{});
  one.take(state, 1, Instant{});
  const Decision decision = one.check(state, 1, Instant{});
  EXPECT_EQ(decision.kind, Decision::Kind::kWait);
  EXPECT_FALSE(decision.exact);
  EXPECT_EQ(decision.retry_after, 1s);
}

TEST(Concurrency, SaysNeverToMoreThanItsMaximum) {
  const Concurrency five = slots(5);
  EXPECT_EQ(five.check(five.start(Instant{}), 6, Instant{}), Decision::never());
}

TEST(Concurrency, NeverHoldsLessThanNothing) {
  const Concurrency five = slots(5);
  auto state = five.start(Instant{});
  five.take(state, 2, Instant{});
  five.give_back(state, 3);
  EXPECT_EQ(five.available(state, Instant{}), 5);
}

TEST(Concurrency, GivesNothingBackByRefund) {
  const Concurrency five = slots(5);
  auto state = five.start(Instant{});
  five.take(state, 2, Instant{});
  five.refund(state, 2, Instant{}, Instant{});
  EXPECT_EQ(five.available(state, Instant{}), 3);
}

TEST(Concurrency, SaturatesItsDebts) {
  const Concurrency five = slots(5);
  auto state = five.start(Instant{});
  for (int i = 0; i < 20'000; ++i) five.take(state, kAmountMax, Instant{});
  EXPECT_EQ(five.available(state, Instant{}), -kAmountMax);
  five.give_back(state, kAmountMax);
  EXPECT_EQ(five.available(state, Instant{}), 0);
}

TEST(Concurrency, RefusesAMaximumOutOfRangeAndNamesIt) {
  for (Amount max : {Amount{0}, Amount{-3}, kAmountMax + 1}) {
    const auto refused = Concurrency::create(max);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error(), Errc::kInvalidLimit);
    EXPECT_NE(refused.error().message.find(": " + std::to_string(max)), std::string::npos)
        << refused.error().message;
  }
  EXPECT_TRUE(Concurrency::create(1));
  EXPECT_TRUE(Concurrency::create(kAmountMax));
}

}  // namespace
}  // namespace weir
