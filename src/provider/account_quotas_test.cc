// What headers teach an account.
#include "provider/account_for_test.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

using AccountQuotasTest = AccountTest;

Quota tokens(Amount limit, std::optional<Amount> remaining = {}) {
  return {.unit = Unit::kTokens, .period = 1min, .limit = limit, .remaining = remaining};
}
Quota window(Amount limit, Amount remaining, Nanos reset_in) {
  return {.unit = Unit::kTokens,
          .period = 1min,
          .limit = limit,
          .remaining = remaining,
          .reset_in = reset_in,
          .fixed_window = true};
}

TEST_F(AccountQuotasTest, AStatedLimitIsKeptFromThenOn) {
  answer(stating(tokens(6'000)));
  const auto learned = limit("tokens per 1m");
  ASSERT_TRUE(learned);
  EXPECT_EQ(learned->amount, 6'000);
  EXPECT_EQ(learned->capacity, 6'000);
  EXPECT_TRUE(passes(6'000));
  EXPECT_FALSE(passes(100));
  time.advance(1s);
  EXPECT_TRUE(passes(100));
}

TEST_F(AccountQuotasTest, AStatedLimitIsFollowedDownAndUp) {
  answer(stating(tokens(6'000)));
  ASSERT_TRUE(passes(1'000));
  answer(stating(tokens(600)));
  EXPECT_EQ(limit("tokens per 1m")->amount, 600);
  EXPECT_EQ(limit("tokens per 1m")->available, 600);
  answer(stating(tokens(9'000)));
  EXPECT_EQ(limit("tokens per 1m")->amount, 9'000);
  EXPECT_EQ(limit("tokens per 1m")->available, 600);  // what it earns comes with time
}

TEST_F(AccountQuotasTest, WhatRemainsLowersAndNeverRaises) {
  answer(stating(tokens(6'000, 2'000)));
  EXPECT_EQ(limit("tokens per 1m")->available, 2'000);
  answer(stating(tokens(6'000, 5'000)));
  EXPECT_EQ(limit("tokens per 1m")->available, 2'000);
  answer(stating(tokens(6'000, 0)));
  EXPECT_FALSE(passes(1));
  time.advance(10s);
  EXPECT_EQ(limit("tokens per 1m")->available, 1'000);
}

TEST_F(AccountQuotasTest, WhatRemainsOfAQuotaWithoutALimitIsNotFollowed) {
  answer(stating({.unit = Unit::kTokens, .period = 1min, .remaining = 0}));
  EXPECT_TRUE(passes(1'000));
  answer(stating(tokens(0, 0)));
  EXPECT_TRUE(passes(1'000));
}

TEST_F(AccountQuotasTest, ACallLargerThanAStatedLimitWaitsUntilItIsFullAndIsPaidForAfterwards) {
  answer(stating(tokens(6'000, 3'000)));
  EXPECT_FALSE(passes(12'000));
  time.advance(30s);
  EXPECT_TRUE(passes(12'000));
  EXPECT_EQ(limit("tokens per 1m")->available, -6'000);
}

TEST_F(AccountQuotasTest, AWindowEndsWhenItIsSaidTo) {
  answer(stating(window(6'000, 0, 20s)));
  EXPECT_FALSE(passes(1));
  time.advance(20s - 1ns);
  EXPECT_FALSE(passes(1));
  time.advance(1ns);
  EXPECT_TRUE(passes(6'000));
  EXPECT_FALSE(passes(1));
  time.advance(1min);
  EXPECT_TRUE(passes(6'000));
}

TEST_F(AccountQuotasTest, AWindowWhoseEndIsSaidInWholeSecondsStaysTheSame) {
  answer(stating(window(6'000, 5'000, 20s)));
  ASSERT_TRUE(passes(5'000));
  time.advance(18'400ms);
  answer(stating(window(6'000, 1'000, 1s)));  // and not 1.6 s
  time.advance(1'599ms);
  EXPECT_FALSE(passes(1));
  time.advance(1ms);
  EXPECT_TRUE(passes(6'000));
}

TEST_F(AccountQuotasTest, WhatRemainsOfAWindowThatIsAboutToEndSaysNothingOfTheNext) {
  answer(stating(window(6'000, 6'000, 20s)));
  time.advance(20s);
  answer(stating(window(6'000, 0, 0s)));
  EXPECT_TRUE(passes(6'000));
}

TEST_F(AccountQuotasTest, AQuotaOfNoKnownPeriodHoldsUntilItsResetWhenNothingIsLeft) {
  answer(stating({.limit = 100, .remaining = 1, .reset_in = 7s, .fixed_window = true}));
  EXPECT_TRUE(passes());
  answer(stating({.limit = 100, .remaining = 0, .reset_in = 7s, .fixed_window = true}));
  EXPECT_EQ(held_for(), 7s);
  answer(stating({.limit = 100, .remaining = 0, .reset_in = 100h, .fixed_window = true}));
  EXPECT_EQ(held_for(), 1h);
}

TEST_F(AccountQuotasTest, TheQuotasStatedLongestAgoMakeRoomForOthers) {
  for (int i = 1; i <= 20; ++i) {
    answer(stating({.period = i * 1min, .limit = 10}));
    answer(stating({.period = 1min, .limit = 10}));
    time.advance(1s);
  }
  EXPECT_EQ(account->gate().metrics().limits.size(), Signals::kQuotasMax);
  EXPECT_TRUE(limit("requests per 1m"));
  EXPECT_TRUE(limit("requests per 20m"));
  EXPECT_FALSE(limit("requests per 2m"));
}

TEST_F(AccountQuotasTest, ThePaceAndTheStatedLimitsHoldTogether) {
  account->set_known_rate(Rate{600, 1min});
  answer(stating({.period = 1min, .limit = 60, .remaining = 30}));
  answer(limited(10s));
  wait(200);
  time.advance(10s);
  EXPECT_EQ(admitted.size(), 10U);
  time.advance(10s);
  EXPECT_EQ(admitted.size(), 30U + 20U);
}

}  // namespace
}  // namespace weir
