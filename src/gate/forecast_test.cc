// retry_after with waiters in the queue: the first instant at which the same attempt succeeds if
// nobody else comes, those who wait included.
#include <gtest/gtest.h>

#include "gate/gate_for_test.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr Unit kTokens = Unit::kTokens;

struct ForecastTest : GateTest {
  // Comes back when told, and a nanosecond earlier in vain.
  void expect_first_success_after(Nanos expected, Gate& gate, const Request& request) {
    const auto refused = gate.try_acquire(request);
    ASSERT_FALSE(refused);
    EXPECT_TRUE(refused.error().exact);
    EXPECT_EQ(refused.error().retry_after, expected);
    EXPECT_EQ(refused.error().gate, &gate);
    if (request.priority == 0) {
      EXPECT_EQ(gate.forecast(request.cost, time.now()).retry_after, expected);
    }
    time.advance(refused.error().retry_after - 1ns);
    EXPECT_FALSE(gate.try_acquire(request));
    time.advance(1ns);
    EXPECT_TRUE(gate.try_acquire(request));
  }
  void expect_a_guess(Gate& gate, const Request& request) {
    const auto refused = gate.try_acquire(request);
    ASSERT_FALSE(refused);
    EXPECT_FALSE(refused.error().exact);
    EXPECT_GE(refused.error().retry_after, 1s);
  }
};

TEST_F(ForecastTest, CountsTheWaitersAhead) {
  Gate& gate = open({a_token_a_second(10)});
  ASSERT_TRUE(gate.try_spend(10));
  ask(gate, tokens("a", 5));
  ask(gate, tokens("b", 3));
  expect_first_success_after(10s, gate, tokens("c", 2));
}

TEST_F(ForecastTest, AnAttemptThatFitsWaitsForTheLastOneAhead) {
  Gate& gate = open({a_token_a_second(10), LimitSpec::fixed_window(Unit::kRequests, {5, 60s})});
  ASSERT_TRUE(gate.try_spend(10));
  ask(gate, tokens("a", 5));
  expect_first_success_after(5s, gate, {.cost = Cost::of(Unit::kRequests, 1)});
}

// Of six, six, four and four in windows of ten, two windows are filled in one order and three in
// another: the agents' turns decide.
TEST_F(ForecastTest, FollowsTheOrderInWhichAgentsTakeTurns) {
  Gate& gate = open({LimitSpec::fixed_window(kTokens, {10, 60s})});
  ASSERT_TRUE(gate.try_spend(10));
  ask(gate, tokens("a", 4));
  ask(gate, tokens("a", 4));
  ask(gate, tokens("b", 5));
  ask(gate, tokens("b", 6));  // served as a 4, b 5 | a 4, b 6
  expect_first_success_after(180s, gate, tokens("c", 1));
}

TEST_F(ForecastTest, WaitersOfLowerPriorityTakeTheirShareMeanwhile) {
  Gate& gate = open({a_token_a_second(10)});
  ASSERT_TRUE(gate.try_spend(10));
  ask(gate, tokens("low", 1));
  ask(gate, tokens("low", 9));
  expect_first_success_after(5s, gate, tokens("high", 4, 1));
}

TEST_F(ForecastTest, AWaiterOfLowerPriorityIsPassedWhenTheAttemptFitsFirst) {
  Gate& gate = open({a_token_a_second(10)});
  ASSERT_TRUE(gate.try_spend(10));
  ask(gate, tokens("low", 9), at(20s));
  expect_first_success_after(4s, gate, tokens("high", 4, 1));
}

TEST_F(ForecastTest, WaitersOfHigherPriorityComeFirst) {
  Gate& gate = open({a_token_a_second(10)});
  ASSERT_TRUE(gate.try_spend(10));
  ask(gate, tokens("low", 1, 0));
  ask(gate, tokens("high", 6, 2));
  expect_first_success_after(9s, gate, tokens("middle", 2, 1));  // low takes its one at 7 s
}

TEST_F(ForecastTest, ItIsAGuessWhenSomeoneAheadWillHoldASlot) {
  Gate& gate = open({a_token_a_second(10), LimitSpec::concurrency(1)});
  ASSERT_TRUE(gate.try_spend(10));
  ask(gate, {.cost = Cost::call(2), .agent = "a"});
  expect_a_guess(gate, {.cost = Cost::call(1), .agent = "b"});
}

TEST_F(ForecastTest, ItIsAGuessWhenSomeoneAheadWillGiveUp) {
  Gate& gate = open({a_token_a_second(10)});
  ASSERT_TRUE(gate.try_spend(10));
  ask(gate, tokens("a", 8), at(5s));
  expect_a_guess(gate, tokens("b", 1));
}

// At 6 s the large one gives up, and the next one takes what the attempt had counted on.
TEST_F(ForecastTest, ItIsAGuessWhenAWaiterOfLowerPriorityWillGiveUpAtThatInstant) {
  Gate& gate = open({a_token_a_second(10)});
  ASSERT_TRUE(gate.try_spend(10));
  ask(gate, tokens("a", 9), at(6s));
  ask(gate, tokens("a", 5));
  const auto refused = gate.try_acquire(tokens("b", 6, 1));
  ASSERT_FALSE(refused);
  EXPECT_FALSE(refused.error().exact);
}

TEST_F(ForecastTest, ItIsExactWhenThoseAheadAreServedBeforeTheirDeadlines) {
  Gate& gate = open({a_token_a_second(10)});
  ASSERT_TRUE(gate.try_spend(10));
  ask(gate, tokens("a", 8), at(8s));
  expect_first_success_after(9s, gate, tokens("b", 1));
}

TEST_F(ForecastTest, ItIsAGuessWhenSomeoneAheadHasOtherGatesToPass) {
  Gate& gate = open({a_token_a_second(10)});
  Gate& other = open({a_token_a_second(10)});
  ASSERT_TRUE(gate.try_spend(10));
  ask(path({&gate, &other}), tokens("a", 8));
  expect_a_guess(gate, tokens("b", 1));
}

TEST_F(ForecastTest, ItIsAGuessOnAPathWhereSomebodyWaits) {
  Gate& gate = open({a_token_a_second(10)});
  Gate& other = open({a_token_a_second(10)});
  ASSERT_TRUE(gate.try_spend(10));
  ask(gate, tokens("a", 8));
  const auto refused = path({&gate, &other}).try_acquire(tokens("b", 1));
  ASSERT_FALSE(refused);
  EXPECT_FALSE(refused.error().exact);
  EXPECT_EQ(refused.error().retry_after, 9s);
}

TEST_F(ForecastTest, BehindHundredsItIsAGuessOfTheRightSize) {
  Gate& gate = open({a_token_a_second(10)});
  ASSERT_TRUE(gate.try_spend(10));
  for (int i = 0; i < 1000; ++i) ask(gate, tokens("a", 2));
  const auto refused = gate.try_acquire(tokens("b", 1));
  ASSERT_FALSE(refused);
  EXPECT_FALSE(refused.error().exact);
  EXPECT_GT(refused.error().retry_after, 1900s);
  EXPECT_LT(refused.error().retry_after, 2100s);
}

}  // namespace
}  // namespace weir
