// Attempts at one gate while nobody waits: several limits taken as one.
#include "weir/gate/gate.h"

#include <gtest/gtest.h>

#include "gate/gate_for_test.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr Unit kTokens = Unit::kTokens;
constexpr Unit kRequests = Unit::kRequests;

LimitSpec requests_a_minute(Amount amount) {
  return LimitSpec::fixed_window(kRequests, {amount, 60s});
}

TEST_F(GateTest, RefusesTheSixthOfABurstOfFive) {  // S1.9
  Gate& gate = open({a_token_a_second(5)});
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(gate.try_acquire(tokens(1)));
  const auto sixth = gate.try_acquire(tokens(1));
  ASSERT_FALSE(sixth);
  EXPECT_EQ(sixth.error().kind, Refusal::Kind::kWait);
  EXPECT_EQ(sixth.error().code, Errc::kCapacityExhausted);
  EXPECT_EQ(sixth.error().retry_after, 1s);
  EXPECT_TRUE(sixth.error().exact);
  EXPECT_EQ(sixth.error().gate, &gate);
  EXPECT_FALSE(gate.try_acquire(tokens(1), at(1s - 1ns)));
  EXPECT_TRUE(gate.try_acquire(tokens(1), at(1s)));
}

TEST_F(GateTest, IsAtRestOnceNothingItKnowsMatters) {
  Gate& fast = open({a_token_a_second(5)});
  EXPECT_TRUE(fast.at_rest());
  ASSERT_TRUE(fast.try_spend(2));
  time.advance(2s - 1ns);
  EXPECT_FALSE(fast.at_rest());
  time.advance(1ns);
  EXPECT_TRUE(fast.at_rest());
  fast.hold_until(time.now() + 1s);
  EXPECT_FALSE(fast.at_rest());

  Gate& slotted = open({LimitSpec::concurrency(1), requests_a_minute(2)});
  Permit held = slotted.try_acquire({}).value();
  ask("path", path({&fast, &slotted}), {});
  held.release();
  time.advance(60s);
  EXPECT_FALSE(slotted.at_rest());
  give_up("path");
  time.advance(60s);
  EXPECT_TRUE(slotted.at_rest());
  ASSERT_TRUE(slotted.set_limits({}));
  held = slotted.try_acquire({}).value();
  EXPECT_TRUE(slotted.at_rest());
}

TEST_F(GateTest, TakesAllUnitsOrNone) {  // S3.2
  Gate& gate = open({a_token_a_second(10), requests_a_minute(2), LimitSpec::concurrency(5)});
  const auto first = gate.try_acquire({.cost = Cost::call(4)});
  const auto second = gate.try_acquire({.cost = Cost::call(4)});
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(gate.try_acquire({.cost = Cost::call(1)}));  // no request left
  EXPECT_EQ(available(gate, 0), 2);
  EXPECT_EQ(available(gate, 1), 0);
  EXPECT_EQ(available(gate, 2), 3);
}

TEST_F(GateTest, TheLimitThatTakesLongestDecides) {
  Gate& gate = open({a_token_a_second(10), requests_a_minute(1),
                     LimitSpec::token_bucket(Unit::kInputTokens, {1, 10s}, 3)});
  const Request request{
      .cost = Cost{}.with(kTokens, 10).with(kRequests, 1).with(Unit::kInputTokens, 3)};
  ASSERT_TRUE(gate.try_acquire(request));
  auto refused = gate.try_acquire(request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(gate.limit_name(refused.error().limit), "requests per 1m");
  EXPECT_EQ(refused.error().retry_after, 60s);
  const Request without_requests{.cost = Cost{}.with(kTokens, 10).with(Unit::kInputTokens, 3)};
  refused = gate.try_acquire(without_requests);
  ASSERT_FALSE(refused);
  EXPECT_EQ(gate.limit_name(refused.error().limit), "input_tokens per 10s");
  EXPECT_EQ(refused.error().retry_after, 30s);
}

TEST_F(GateTest, TwoLimitsOfOneUnitBothCount) {
  Gate& gate = open({LimitSpec::token_bucket(kTokens, {10, 1s}, 10),
                     LimitSpec::fixed_window(kTokens, {15, 60s})});
  EXPECT_TRUE(gate.try_acquire(tokens(10)));
  time.advance(1s);
  auto refused = gate.try_acquire(tokens(6));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().retry_after, 59s);
  EXPECT_TRUE(gate.try_acquire(tokens(5)));
  EXPECT_EQ(available(gate, 0), 5);
  EXPECT_EQ(available(gate, 1), 0);
}

TEST_F(GateTest, AUnitNobodyLimitsIsFree) {
  Gate& gate = open({requests_a_minute(1)});
  EXPECT_TRUE(gate.try_acquire(tokens(kAmountMax)));
  EXPECT_EQ(available(gate), 1);
}

TEST_F(GateTest, WithoutLimitsAdmitsEverything) {
  Gate& gate = open(std::vector<LimitSpec>{});
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(gate.try_acquire({.cost = Cost::call(kAmountMax)}));
  EXPECT_TRUE(gate.try_spend(kAmountMax));
  EXPECT_EQ(gate.metrics().acquired, 1001U);
  EXPECT_TRUE(gate.metrics().limits.empty());
}

TEST_F(GateTest, ACostOfNothingIsAdmittedWhateverTheState) {
  for (Gate* gate :
       {&open({a_token_a_second(1)}), &open({a_token_a_second(1), requests_a_minute(1)})}) {
    ASSERT_TRUE(gate->try_acquire({.cost = Cost{}.with(kTokens, 1).with(kRequests, 1)}));
    ASSERT_FALSE(gate->try_acquire(tokens(1)));
    EXPECT_TRUE(gate->try_acquire({.cost = Cost{}}));
    EXPECT_TRUE(gate->try_acquire(tokens(0)));
    EXPECT_TRUE(gate->acquire(tokens(0)));
  }
}

TEST_F(GateTest, AnInvalidCostIsRefusedInEveryInterface) {
  for (Gate* gate :
       {&open({a_token_a_second(5)}), &open({a_token_a_second(5), requests_a_minute(5)})}) {
    for (const Cost& cost : {Cost::of(kTokens, -1), Cost::of(kTokens, kAmountMax + 1),
                             Cost{}.with(kTokens, 1).with(Unit::kMicroUsd, -7)}) {
      const auto refused = gate->try_acquire({.cost = cost});
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().kind, Refusal::Kind::kEnded);
      EXPECT_EQ(refused.error().code, Errc::kInvalidCost);
      EXPECT_EQ(gate->acquire({.cost = cost}).error(), Errc::kInvalidCost);
      ask("async", *gate, {.cost = cost});
      EXPECT_EQ(ended_now(), (Endings{{"async", 0s, Errc::kInvalidCost}}));
    }
    EXPECT_EQ(available(*gate), 5);
  }
}

TEST_F(GateTest, SaysNeverAtOnceInEveryInterface) {  // S3.3
  for (Gate* gate :
       {&open({a_token_a_second(5)}), &open({a_token_a_second(5), LimitSpec::concurrency(2)})}) {
    const auto refused = gate->try_acquire(tokens(6));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, Refusal::Kind::kNever);
    EXPECT_EQ(refused.error().code, Errc::kNeverFits);
    EXPECT_EQ(gate->limit_name(refused.error().limit), "tokens per 1s");
    EXPECT_FALSE(gate->try_spend(6));
    const auto blocking = gate->acquire(tokens(6));
    EXPECT_EQ(blocking.error(), Errc::kNeverFits);
    EXPECT_NE(blocking.error().message.find("tokens per 1s"), std::string::npos);
    EXPECT_EQ(gate->forecast(Cost::of(kTokens, 6), time.now()).kind, Decision::Kind::kNever);
    ask("async", *gate, tokens(6));
    EXPECT_EQ(ended_now(), (Endings{{"async", 0s, Errc::kNeverFits}}));
    EXPECT_EQ(available(*gate), 5);
  }
}

TEST_F(GateTest, MoreSlotsThanThereAreIsNever) {
  Gate& gate = open({LimitSpec::concurrency(3)});
  EXPECT_EQ(gate.try_acquire(slots("a", 4)).error().kind, Refusal::Kind::kNever);
}

TEST_F(GateTest, SlotsSuggestASecondAndSayThatItIsNotExact) {
  Gate& gate = open({LimitSpec::concurrency(1), a_token_a_second(10)});
  const auto held = gate.try_acquire({.cost = Cost::call(10)});
  ASSERT_TRUE(held);
  auto refused = gate.try_acquire(slots("a"));
  ASSERT_FALSE(refused);
  EXPECT_FALSE(refused.error().exact);
  EXPECT_EQ(refused.error().retry_after, 1s);
  // The tokens take longer, but the slot is still nobody's to promise.
  refused = gate.try_acquire({.cost = Cost::call(7)});
  ASSERT_FALSE(refused);
  EXPECT_FALSE(refused.error().exact);
  EXPECT_EQ(refused.error().retry_after, 7s);
}

TEST_F(GateTest, OversizeOnDebtIsAdmittedWhenFullAndPaidByTheNext) {  // S1.1
  LimitSpec spec = a_token_a_second(5);
  spec.oversize = LimitSpec::Oversize::kOnDebt;
  Gate& gate = open({spec});
  EXPECT_TRUE(gate.try_acquire(tokens(12)));
  EXPECT_EQ(available(gate), -7);
  const auto next = gate.try_acquire(tokens(1));
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().retry_after, 8s);
}

TEST_F(GateTest, ForecastsWhatAnAttemptWouldBeToldWithoutMakingIt) {
  for (Gate* gate :
       {&open({a_token_a_second(5)}), &open({a_token_a_second(5), requests_a_minute(9)})}) {
    EXPECT_EQ(gate->forecast(Cost::of(kTokens, 5), time.now()), Decision::admit());
    ASSERT_TRUE(gate->try_acquire(tokens(5)));
    EXPECT_EQ(gate->forecast(Cost::of(kTokens, 3), time.now()), Decision::wait(3s));
    EXPECT_EQ(gate->forecast(Cost::of(kTokens, 3), at(2s)), Decision::wait(1s));
    EXPECT_EQ(gate->forecast(Cost::of(kTokens, 3), at(3s)), Decision::admit());
    EXPECT_EQ(available(*gate), 0);
    EXPECT_EQ(gate->metrics().rejected, 0U);
  }
}

TEST_F(GateTest, SpendsOfTheFirstLimitsUnit) {
  for (Gate* gate :
       {&open({a_token_a_second(5)}), &open({a_token_a_second(5), requests_a_minute(9)})}) {
    EXPECT_TRUE(gate->try_spend(3));
    EXPECT_FALSE(gate->try_spend(3));
    EXPECT_EQ(available(*gate), 2);
    EXPECT_FALSE(gate->try_spend(3, at(1s - 1ns)));
    EXPECT_TRUE(gate->try_spend(3, at(1s)));
  }
}

TEST_F(GateTest, AClockThatRunsBackwardsMintsNothing) {
  for (Gate* gate : {&open({a_token_a_second(5)}),
                     &open({a_token_a_second(5), LimitSpec::sliding_log(kTokens, {5, 10s})})}) {
    ASSERT_TRUE(gate->try_acquire(tokens(5)));
    time.step_back(30min);
    EXPECT_FALSE(gate->try_acquire(tokens(1)));
    EXPECT_FALSE(gate->try_spend(1));
    time.advance(30min);
    EXPECT_FALSE(gate->try_acquire(tokens(1)));
  }
}

TEST_F(GateTest, RefundsWhatNoPermitStandsForNeverPastTheCapacity) {  // S0.4
  for (Gate* gate :
       {&open({a_token_a_second(5)}), &open({a_token_a_second(5), LimitSpec::concurrency(2)})}) {
    const auto permit = gate->try_acquire({.cost = Cost::call(4)});
    gate->refund(Cost::of(kTokens, 3));
    EXPECT_EQ(available(*gate), 4);
    gate->refund(Cost::of(kTokens, 3).with(Unit::kSlots, 1));
    EXPECT_EQ(available(*gate), 5);
  }
  // Slots are given back, not refunded: one is still held.
}

TEST_F(GateTest, RefusesLimitsThatCannotBe) {
  const auto create = [&](std::vector<LimitSpec> limits) {
    return Gate::create({.name = "bad", .limits = std::move(limits)}, time.source());
  };
  const auto negative = create({LimitSpec::token_bucket(kTokens, {-3, 1s})});
  ASSERT_FALSE(negative);
  EXPECT_EQ(negative.error(), Errc::kInvalidLimit);
  EXPECT_NE(negative.error().message.find("-3"), std::string::npos);

  const auto twice = create({a_token_a_second(1), a_token_a_second(2)});
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error(), Errc::kInvalidLimit);
  EXPECT_NE(twice.error().message.find("tokens per 1s"), std::string::npos);

  std::vector<LimitSpec> many;
  for (int i = 0; i < 17; ++i) {
    many.push_back(a_token_a_second(1));
    many.back().name = std::to_string(i);
  }
  EXPECT_EQ(create(many).error(), Errc::kInvalidLimit);
  many.pop_back();
  EXPECT_TRUE(create(many));
}

TEST_F(GateTest, AClosedGateRefusesEverythingWithItsReason) {
  for (Gate* gate :
       {&open({a_token_a_second(5)}), &open({a_token_a_second(5), requests_a_minute(9)})}) {
    gate->close(Errc::kResourceUnknown);
    gate->close(Errc::kCancelled);  // the first reason stands
    const auto refused = gate->try_acquire(tokens(1));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, Refusal::Kind::kEnded);
    EXPECT_EQ(refused.error().code, Errc::kResourceUnknown);
    EXPECT_FALSE(gate->try_spend(1));
    EXPECT_EQ(gate->acquire(tokens(1)).error(), Errc::kResourceUnknown);
    EXPECT_EQ(available(*gate), 5);
  }
}

}  // namespace
}  // namespace weir
