// Limits that change while waiters wait.
#include <gtest/gtest.h>

#include "gate/gate_for_test.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr Unit kTokens = Unit::kTokens;

LimitSpec named(LimitSpec spec, std::string name) {
  spec.name = std::move(name);
  return spec;
}

struct LimitsChangeTest : GateTest {
  LimitsChangeTest() : gate(open({a_token_a_second(10)})) {}

  Gate& gate;
};

TEST_F(LimitsChangeTest, ALimitKeepsItsTokensCappedAtTheNewTotal) {  // S0.3
  ASSERT_TRUE(gate.try_spend(4));
  ASSERT_TRUE(gate.set_limits({a_token_a_second(20)}));
  EXPECT_EQ(available(gate), 6);
  ASSERT_TRUE(gate.set_limits({a_token_a_second(3)}));
  EXPECT_EQ(available(gate), 3);
  time.advance(1h);
  EXPECT_EQ(available(gate), 3);
}

TEST_F(LimitsChangeTest, ADebtIsNotForgiven) {
  Permit permit = gate.try_acquire(tokens(10)).value();
  ASSERT_TRUE(permit.settle(tokens(17).cost));
  ASSERT_TRUE(gate.set_limits({a_token_a_second(20)}));
  EXPECT_EQ(available(gate), -7);
}

TEST_F(LimitsChangeTest, ANewLimitStartsFull) {  // S0.3
  ASSERT_TRUE(gate.try_spend(10));
  ASSERT_TRUE(gate.set_limits({named(a_token_a_second(7), "another")}));
  EXPECT_EQ(available(gate), 7);
}

TEST_F(LimitsChangeTest, MoreCapacityWakesAtOnce) {
  ASSERT_TRUE(gate.try_spend(10));
  ask(gate, tokens("a", 10));
  ASSERT_TRUE(gate.set_limits({LimitSpec::fixed_window(kTokens, {100, 60s})}));
  EXPECT_EQ(ended_now(), (Endings{{"a", 0s}}));
}

TEST_F(LimitsChangeTest, AFasterRateServesEarlierAndASlowerOneLater) {
  ASSERT_TRUE(gate.try_spend(10));
  ask(gate, tokens("a", 8));
  time.advance(2s);
  ASSERT_TRUE(gate.set_limits({LimitSpec::token_bucket(kTokens, {3, 1s}, 10)}));
  time.advance(1h);
  EXPECT_EQ(ended_now(), (Endings{{"a", 4s}}));

  const Nanos start = elapsed();
  ASSERT_TRUE(gate.try_spend(10));
  ask(gate, tokens("b", 6));
  ASSERT_TRUE(gate.set_limits({a_token_a_second(10)}));
  time.advance(1h);
  EXPECT_EQ(ended_now(), (Endings{{"b", start + 6s}}));
}

TEST_F(LimitsChangeTest, WaitersThatCanNeverFitAnyMoreEndAtOnceAndTheOthersAreServed) {  // S3.3
  ASSERT_TRUE(gate.try_spend(10));
  ask("large", gate, tokens("a", 6));
  ask("small", gate, tokens("a", 2));
  time.advance(3s);
  ASSERT_TRUE(gate.set_limits({a_token_a_second(5)}));
  EXPECT_EQ(ended_now(), (Endings{{"large", 3s, Errc::kNeverFits}, {"small", 3s}}));
  EXPECT_EQ(waiting(gate), 0U);
  EXPECT_EQ(available(gate), 1);
}

TEST_F(LimitsChangeTest, WaitersOfAPathThatCanNeverFitEndWhereverTheyQueue) {
  Gate& upper = open({LimitSpec::concurrency(1)});
  const Permit held = upper.try_acquire(slots("x")).value();
  ask(path({&upper, &gate}), {.cost = Cost::call(8), .agent = "a"});
  EXPECT_EQ(waiting(upper), 1U);
  ASSERT_TRUE(gate.set_limits({a_token_a_second(5)}));
  EXPECT_EQ(ended_now(), (Endings{{"a", 0s, Errc::kNeverFits}}));
  EXPECT_EQ(waiting(upper), 0U);
}

TEST_F(LimitsChangeTest, LimitsThatCannotBeChangeNothing) {
  ASSERT_TRUE(gate.try_spend(10));
  ask(gate, tokens("a", 5));
  EXPECT_EQ(gate.set_limits({LimitSpec::token_bucket(kTokens, {0, 1s})}).error(),
            Errc::kInvalidLimit);
  EXPECT_EQ(gate.set_limits({a_token_a_second(1), a_token_a_second(2)}).error(),
            Errc::kInvalidLimit);
  EXPECT_EQ(gate.metrics().limits.size(), 1U);
  time.advance(1h);
  EXPECT_EQ(ended_now(), (Endings{{"a", 5s}}));
}

TEST_F(LimitsChangeTest, AGateThatWasFastCountsOnWithoutItsWord) {
  ASSERT_TRUE(gate.try_spend(3));
  ASSERT_TRUE(gate.set_limits({a_token_a_second(10)}));
  EXPECT_TRUE(gate.try_spend(7));
  EXPECT_FALSE(gate.try_spend(1));
  EXPECT_FALSE(gate.try_acquire(tokens(1)));
  time.advance(1s);
  EXPECT_TRUE(gate.try_acquire(tokens(1)));
}

TEST_F(LimitsChangeTest, SpendsTheUnitOfTheNewFirstLimit) {
  ASSERT_TRUE(
      gate.set_limits({LimitSpec::fixed_window(Unit::kRequests, {5, 60s}), a_token_a_second(10)}));
  EXPECT_TRUE(gate.try_spend(2));
  EXPECT_EQ(available(gate, 0), 3);
  EXPECT_EQ(available(gate, 1), 10);
}

TEST_F(LimitsChangeTest, HitsStayWithTheLimitThatHadThem) {
  ASSERT_TRUE(gate.try_spend(10));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(gate.try_spend(1));
  ASSERT_TRUE(
      gate.set_limits({LimitSpec::fixed_window(Unit::kRequests, {5, 60s}), a_token_a_second(10)}));
  EXPECT_FALSE(gate.try_acquire(tokens(1)));
  const GateMetrics metrics = gate.metrics();
  EXPECT_EQ(metrics.limits[0].hits, 0U);
  EXPECT_EQ(metrics.limits[1].hits, 4U);
  EXPECT_EQ(metrics.rejected, 4U);
}

TEST_F(LimitsChangeTest, SlotsThatAreHeldStayHeld) {
  Gate& slotted = open({LimitSpec::concurrency(3)});
  Permit one = slotted.try_acquire(slots("a")).value();
  Permit two = slotted.try_acquire(slots("a")).value();
  ASSERT_TRUE(slotted.set_limits({LimitSpec::concurrency(1)}));
  EXPECT_EQ(available(slotted), -1);
  one.release();
  EXPECT_FALSE(slotted.try_acquire(slots("b")));
  two.release();
  EXPECT_TRUE(slotted.try_acquire(slots("b")));
}

TEST_F(LimitsChangeTest, ANewLimitOnSlotsCountsThoseThatAreHeld) {
  Gate& slotted = open({LimitSpec::concurrency(3)});
  Permit before = slotted.try_acquire(slots("a", 2)).value();
  ASSERT_TRUE(slotted.set_limits({}));
  ASSERT_TRUE(slotted.set_limits({named(LimitSpec::concurrency(3), "renamed")}));
  EXPECT_EQ(available(slotted), 1);
  const Permit after = slotted.try_acquire(slots("a")).value();
  EXPECT_FALSE(slotted.try_acquire(slots("b")));
  before.release();
  EXPECT_EQ(available(slotted), 2);  // and not 3: `after` still holds one
}

TEST_F(LimitsChangeTest, APermitFromBeforeSettlesInTheLimitsOfNow) {
  Permit permit = gate.try_acquire(tokens(6)).value();
  ASSERT_TRUE(gate.set_limits({a_token_a_second(20)}));
  ASSERT_TRUE(permit.settle(tokens(1).cost));
  EXPECT_EQ(available(gate), 9);
}

TEST_F(LimitsChangeTest, APermitFromBeforeGivesNothingBackToALimitThatNeverChargedIt) {
  Permit before = gate.try_acquire({.cost = Cost::call(6)}).value();
  const auto requests = LimitSpec::token_bucket(Unit::kRequests, {1, 1h}, 2);
  ASSERT_TRUE(gate.set_limits({requests, a_token_a_second(10)}));
  time.advance(1s);
  Permit after = gate.try_acquire({.cost = Cost::call(1)}).value();
  ASSERT_TRUE(gate.try_acquire({.cost = Cost::call(1)}));
  EXPECT_EQ(available(gate, 0), 0);
  ASSERT_TRUE(before.settle(Cost::of(Unit::kRequests, 0).with(kTokens, 5)));
  EXPECT_EQ(available(gate, 0), 0);
  EXPECT_EQ(available(gate, 1), 4);
  ASSERT_TRUE(after.settle(Cost::of(Unit::kRequests, 0)));
  EXPECT_EQ(available(gate, 0), 1);
}

TEST_F(LimitsChangeTest, WithoutLimitsAllWhoWaitAreServed) {
  ASSERT_TRUE(gate.try_spend(10));
  for (int i = 0; i < 3; ++i) ask(gate, tokens("a", 10));
  ASSERT_TRUE(gate.set_limits({}));
  EXPECT_EQ(ended_now(), (Endings{{"a", 0s}, {"a", 0s}, {"a", 0s}}));
}

}  // namespace
}  // namespace weir
