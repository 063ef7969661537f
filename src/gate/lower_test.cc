// Limits that somebody else counts, too.
#include <gtest/gtest.h>

#include "gate/gate_for_test.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kTokensPerSecond = "tokens per 1s";

struct LowerTest : GateTest {
  LowerTest() : gate(open({a_token_a_second(10)})) {}
  void lower(Gate& which, Amount amount) { which.lower(kTokensPerSecond, amount, time.now()); }

  Gate& gate;
};

TEST_F(LowerTest, WhatIsLeftBecomesAtMostThat) {
  lower(gate, 4);
  EXPECT_EQ(available(gate), 4);
  EXPECT_TRUE(gate.try_spend(4));
  EXPECT_FALSE(gate.try_spend(1));
  time.advance(1s);
  EXPECT_TRUE(gate.try_spend(1));  // it fills as before
}

TEST_F(LowerTest, NothingIsEverRaised) {
  ASSERT_TRUE(gate.try_spend(8));
  lower(gate, 5);
  lower(gate, kAmountMax);
  EXPECT_EQ(available(gate), 2);
  lower(gate, -3);
  EXPECT_EQ(available(gate), 0);
}

TEST_F(LowerTest, ADebtStaysAsItIs) {
  Permit permit = gate.try_acquire(tokens(10)).value();
  ASSERT_TRUE(permit.settle(tokens(17).cost));
  lower(gate, 0);
  EXPECT_EQ(available(gate), -7);
}

TEST_F(LowerTest, SlotsAndUnknownNamesChangeNothing) {
  Gate& slotted = open({a_token_a_second(10), LimitSpec::concurrency(3)});
  slotted.lower("slots", 1, time.now());
  slotted.lower("requests per 1s", 1, time.now());
  slotted.lower("", 1, time.now());
  EXPECT_EQ(available(slotted, 0), 10);
  EXPECT_EQ(available(slotted, 1), 3);
}

TEST_F(LowerTest, OnlyTheLimitOfThatNameIsLowered) {
  Gate& both = open({LimitSpec::fixed_window(Unit::kTokens, {100, 1min}), a_token_a_second(10)});
  both.lower("tokens per 1m", 30, time.now());
  EXPECT_EQ(available(both, 0), 30);
  EXPECT_EQ(available(both, 1), 10);
  time.advance(1min);
  EXPECT_EQ(available(both, 0), 100);
}

TEST_F(LowerTest, WhoWaitsIsServedWhenTheLimitHasFilledAgain) {
  ASSERT_TRUE(gate.try_spend(8));
  ask(gate, tokens("a", 4));  // due in 2 s
  time.advance(1s);
  lower(gate, 1);
  EXPECT_EQ(ended_now(), Endings{});
  time.advance(1h);
  EXPECT_EQ(ended_now(), (Endings{{"a", 4s}}));
  expect_nobody_forgotten();
}

TEST_F(LowerTest, AHoldStaysAndTheFastPathComesBack) {
  gate.hold_until(at(3s));
  lower(gate, 1);
  EXPECT_FALSE(gate.try_spend(1));
  time.advance(3s);
  EXPECT_TRUE(gate.try_spend(4));
  EXPECT_FALSE(gate.try_spend(1));
}

}  // namespace
}  // namespace weir
