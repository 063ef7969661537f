// Permits: settled once, released once, whatever the order.
#include "weir/gate/permit.h"

#include <gtest/gtest.h>

#include "gate/gate_for_test.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr Unit kTokens = Unit::kTokens;
constexpr Unit kRequests = Unit::kRequests;

struct PermitTest : GateTest {
  Permit take(Gate& gate, const Cost& cost) {
    auto permit = gate.try_acquire({.cost = cost, .agent = "a"});
    EXPECT_TRUE(permit);
    return permit ? std::move(*permit) : Permit{};
  }
};

TEST_F(PermitTest, SettlingRefundsWhatWasNotUsed) {  // S3.10
  for (Gate* gate :
       {&open({a_token_a_second(10)}), &open({a_token_a_second(10), LimitSpec::concurrency(1)})}) {
    Permit permit = take(*gate, Cost::call(9));
    EXPECT_TRUE(permit.settle(Cost::of(kTokens, 2)));
    EXPECT_EQ(available(*gate), 8);
  }
}

TEST_F(PermitTest, SettlingMoreThanWasEstimatedIsADebt) {
  for (Gate* gate :
       {&open({a_token_a_second(10)}), &open({a_token_a_second(10), LimitSpec::concurrency(1)})}) {
    Permit permit = take(*gate, Cost::call(9));
    EXPECT_TRUE(permit.settle(Cost::of(kTokens, 25)));
    EXPECT_EQ(available(*gate), -15);
    permit.release();
    const auto next = gate->try_acquire(tokens(1));
    ASSERT_FALSE(next);
    EXPECT_EQ(next.error().retry_after, 16s);
  }
}

TEST_F(PermitTest, AUnitThatSettlementDoesNotNameKeepsItsEstimate) {
  Gate& gate = open({a_token_a_second(10), LimitSpec::fixed_window(kRequests, {5, 60s})});
  Permit permit = take(gate, Cost::call(6));
  EXPECT_TRUE(permit.settle(Cost{}));
  EXPECT_EQ(available(gate, 0), 4);
  EXPECT_EQ(available(gate, 1), 4);
  Permit other = take(gate, Cost::call(4));
  EXPECT_TRUE(other.settle(Cost::of(kTokens, 0)));  // naming it with nothing is another matter
  EXPECT_EQ(available(gate, 0), 4);
  EXPECT_EQ(available(gate, 1), 3);
}

TEST_F(PermitTest, SettlementMayChargeAUnitThatWasNotEstimated) {
  Gate& gate = open({a_token_a_second(10), LimitSpec::fixed_window(kRequests, {5, 60s})});
  Permit permit = take(gate, Cost::of(kRequests, 1));
  EXPECT_TRUE(permit.settle(Cost::of(kTokens, 4)));
  EXPECT_EQ(available(gate, 0), 6);
  EXPECT_EQ(available(gate, 1), 4);
}

TEST_F(PermitTest, EveryLimitOfTheUnitIsSettled) {
  Gate& gate = open({a_token_a_second(10), LimitSpec::fixed_window(kTokens, {20, 60s}),
                     LimitSpec::sliding_log(kTokens, {30, 90s})});
  Permit permit = take(gate, Cost::of(kTokens, 10));
  EXPECT_TRUE(permit.settle(Cost::of(kTokens, 7)));
  EXPECT_EQ(available(gate, 0), 3);
  EXPECT_EQ(available(gate, 1), 13);
  EXPECT_EQ(available(gate, 2), 23);
}

TEST_F(PermitTest, SettlesOnlyOnce) {
  Gate& gate = open({a_token_a_second(10)});
  Permit permit = take(gate, Cost::of(kTokens, 10));
  EXPECT_TRUE(permit.settle(Cost::of(kTokens, 4)));
  const auto again = permit.settle(Cost::of(kTokens, 1));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error(), Errc::kInvalidCost);
  EXPECT_EQ(available(gate), 6);
}

TEST_F(PermitTest, AnInvalidSettlementChangesNothingAndMayBeCorrected) {
  Gate& gate = open({a_token_a_second(10)});
  Permit permit = take(gate, Cost::of(kTokens, 10));
  EXPECT_EQ(permit.settle(Cost::of(kTokens, -1)).error(), Errc::kInvalidCost);
  EXPECT_EQ(permit.settle(Cost::of(kTokens, kAmountMax + 1)).error(), Errc::kInvalidCost);
  EXPECT_EQ(available(gate), 0);
  EXPECT_TRUE(permit.settle(Cost::of(kTokens, 3)));
  EXPECT_EQ(available(gate), 7);
}

TEST_F(PermitTest, SettlingDoesNotReleaseAndReleasingDoesNotSettle) {
  Gate& gate = open({a_token_a_second(10), LimitSpec::concurrency(2)});
  Permit permit = take(gate, Cost::call(8));
  EXPECT_TRUE(permit.settle(Cost::call(3).with(Unit::kSlots, 0)));
  EXPECT_EQ(available(gate, 0), 7);
  EXPECT_EQ(available(gate, 1), 1);
  permit.release();
  EXPECT_EQ(available(gate, 0), 7);
  EXPECT_EQ(available(gate, 1), 2);
}

TEST_F(PermitTest, SettlesAfterRelease) {
  Gate& gate = open({a_token_a_second(10), LimitSpec::concurrency(2)});
  Permit permit = take(gate, Cost::call(8));
  permit.release();
  EXPECT_EQ(available(gate, 0), 2);
  EXPECT_TRUE(permit.settle(Cost::of(kTokens, 1)));
  EXPECT_EQ(available(gate, 0), 9);
  EXPECT_EQ(available(gate, 1), 2);
}

TEST_F(PermitTest, ReleasesExactlyOnce) {  // S3.4
  Gate& gate = open({LimitSpec::concurrency(3)});
  Permit permit = take(gate, Cost::of(Unit::kSlots, 2));
  Permit other = take(gate, Cost::of(Unit::kSlots, 1));
  permit.release();
  permit.release();
  EXPECT_EQ(available(gate), 2);
  Permit third = take(gate, Cost::of(Unit::kSlots, 2));  // in the place of the first
  permit.release();
  EXPECT_EQ(available(gate), 0);
}

TEST_F(PermitTest, DestroyingReleases) {  // S3.4
  Gate& gate = open({LimitSpec::concurrency(1)});
  {
    const Permit permit = take(gate, Cost::call());
    EXPECT_TRUE(permit);
    EXPECT_EQ(available(gate), 0);
  }
  EXPECT_EQ(available(gate), 1);
}

TEST_F(PermitTest, MovingHandsTheSlotsOver) {
  Gate& gate = open({a_token_a_second(10), LimitSpec::concurrency(2)});
  Permit permit = take(gate, Cost::call(5));
  Permit moved = std::move(permit);
  EXPECT_FALSE(permit);  // NOLINT(bugprone-use-after-move): what it says is the test
  EXPECT_TRUE(permit.settle(Cost::of(kTokens, 0)));
  permit.release();
  EXPECT_EQ(available(gate, 0), 5);
  EXPECT_EQ(available(gate, 1), 1);
  EXPECT_TRUE(moved.settle(Cost::of(kTokens, 1)));
  EXPECT_EQ(available(gate, 0), 9);

  permit = take(gate, Cost::call(1));
  EXPECT_EQ(available(gate, 1), 0);
  permit = std::move(moved);  // releases what it held
  EXPECT_EQ(available(gate, 1), 1);
  EXPECT_FALSE(permit.settle(Cost::of(kTokens, 0))) << "settled before it was moved";
  Permit& same = permit;
  permit = std::move(same);
  EXPECT_EQ(available(gate, 1), 1);
  permit = Permit{};
  EXPECT_EQ(available(gate, 1), 2);
}

TEST_F(PermitTest, AnEmptyPermitDoesNothing) {
  Permit nothing;
  EXPECT_FALSE(nothing);
  EXPECT_TRUE(nothing.settle(Cost::call(5)));
  nothing.release();
}

TEST_F(PermitTest, ARefundIsDroppedOnceTheWindowHasRolled) {
  Gate& gate = open({LimitSpec::fixed_window(kTokens, {10, 60s})});
  Permit early = take(gate, Cost::of(kTokens, 6));
  Permit late = take(gate, Cost::of(kTokens, 4));
  time.advance(59s);
  EXPECT_TRUE(early.settle(Cost::of(kTokens, 1)));
  EXPECT_EQ(available(gate), 5);
  time.advance(1s);
  Permit next = take(gate, Cost::of(kTokens, 7));
  EXPECT_TRUE(late.settle(Cost::of(kTokens, 0)));
  EXPECT_EQ(available(gate), 3);
}

TEST_F(PermitTest, ADebtIsChargedToTheCurrentWindow) {
  Gate& gate = open({LimitSpec::fixed_window(kTokens, {10, 60s})});
  Permit permit = take(gate, Cost::of(kTokens, 6));
  time.advance(61s);
  EXPECT_TRUE(permit.settle(Cost::of(kTokens, 20)));
  EXPECT_EQ(available(gate), -4);
  EXPECT_FALSE(gate.try_acquire(tokens(1)));
}

TEST_F(PermitTest, ARefundIsCappedAtTheCapacity) {
  Gate& gate = open({a_token_a_second(10)});
  Permit permit = take(gate, Cost::of(kTokens, 8));
  time.advance(5s);
  EXPECT_TRUE(permit.settle(Cost::of(kTokens, 0)));
  EXPECT_EQ(available(gate), 10);
}

TEST_F(PermitTest, ReleasingWakesWhoWaitsForASlot) {
  Gate& gate = open({LimitSpec::concurrency(2)});
  Permit one = take(gate, Cost::call());
  Permit two = take(gate, Cost::call());
  ask("first", gate, slots("b"));
  ask("second", gate, slots("b"));
  EXPECT_EQ(time.next_alarm(), std::nullopt);  // nothing to wait for but a release
  one.release();
  EXPECT_EQ(ended_now(), (Endings{{"first", 0s}}));
  give_up("first");
  EXPECT_EQ(ended_now(), (Endings{{"second", 0s}}));
}

TEST_F(PermitTest, AWaiterForSeveralSlotsIsNotPassedBySmallerOnes) {
  Gate& gate = open({LimitSpec::concurrency(2)});
  Permit one = take(gate, Cost::call());
  Permit two = take(gate, Cost::call());
  ask("pair", gate, slots("b", 2));
  ask("single", gate, slots("b", 1));
  one.release();
  EXPECT_EQ(ended_now(), Endings{});
  EXPECT_FALSE(gate.try_acquire(slots("c")));
  two.release();
  EXPECT_EQ(ended_now(), (Endings{{"pair", 0s}}));
}

}  // namespace
}  // namespace weir
