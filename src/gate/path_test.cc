// Paths: several gates as one, all or nothing, and where a waiter queues on them.
#include "weir/gate/path.h"

#include <gtest/gtest.h>

#include "gate/gate_for_test.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr Unit kTokens = Unit::kTokens;

using PathTest = GateTest;

TEST_F(PathTest, AdmitsByAllGatesOrByNone) {  // S3.2
  Gate& upper = open({a_token_a_second(10)});
  Gate& middle = open({LimitSpec::concurrency(9)});
  Gate& lower = open({a_token_a_second(6), LimitSpec::fixed_window(Unit::kRequests, {9, 60s})});
  const Path all = path({&upper, &middle, &lower});
  const auto permit = all.try_acquire({.cost = Cost::call(4)});
  ASSERT_TRUE(permit);
  EXPECT_FALSE(all.try_acquire({.cost = Cost::call(4)}));
  EXPECT_EQ(available(upper), 6);
  EXPECT_EQ(available(middle), 8);
  EXPECT_EQ(available(lower, 0), 2);
  EXPECT_EQ(available(lower, 1), 8);
}

TEST_F(PathTest, TheGateThatTakesLongestSaysWhenToComeBack) {
  Gate& upper = open({a_token_a_second(10)});
  Gate& lower = open({LimitSpec::token_bucket(kTokens, {1, 5s}, 10)});
  const Path both = path({&upper, &lower});
  ASSERT_TRUE(both.try_acquire(tokens(10)));
  const auto refused = both.try_acquire(tokens(3));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().gate, &lower);
  EXPECT_EQ(refused.error().retry_after, 15s);
  EXPECT_TRUE(refused.error().exact);
  EXPECT_FALSE(both.try_acquire(tokens(3), at(15s - 1ns)));
  EXPECT_TRUE(both.try_acquire(tokens(3), at(15s)));
}

TEST_F(PathTest, NeverIsSaidAtOnceWhicheverGateSaysIt) {  // S3.3
  Gate& busy = open({LimitSpec::concurrency(1)});
  Gate& small = open({a_token_a_second(5)});
  const auto held = busy.try_acquire(slots("x"));
  for (const Path& both : {path({&busy, &small}), path({&small, &busy})}) {
    const auto refused = both.try_acquire({.cost = Cost::call(6)});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, Refusal::Kind::kNever);
    EXPECT_EQ(refused.error().gate, &small);
    EXPECT_EQ(both.acquire({.cost = Cost::call(6)}).error(), Errc::kNeverFits);
  }
}

TEST_F(PathTest, RefusesPathsThatCannotBe) {
  Gate& one = open({a_token_a_second(1)});
  EXPECT_EQ(Path::create({}).error(), Errc::kInvalidConfig);
  Gate* twice[] = {&one, &one};
  EXPECT_EQ(Path::create(twice).error(), Errc::kInvalidConfig);
  std::vector<Gate*> many;
  for (int i = 0; i < 8; ++i) many.push_back(&open({a_token_a_second(1)}));
  EXPECT_TRUE(Path::create(many));
  EXPECT_TRUE(Path::create(many)->try_acquire(tokens(1)));
  many.push_back(&one);
  EXPECT_EQ(Path::create(many).error(), Errc::kInvalidConfig);
}

TEST_F(PathTest, QueuesAtTheTopmostGateThatRefuses) {
  Gate& upper = open({a_token_a_second(10)});
  Gate& lower = open({a_token_a_second(10)});
  ASSERT_TRUE(upper.try_spend(10));
  ASSERT_TRUE(lower.try_spend(10));
  ask(path({&upper, &lower}), tokens("a", 2));
  EXPECT_EQ(waiting(upper), 1U);
  EXPECT_EQ(waiting(lower), 0U);
  ask(path({&lower, &upper}), tokens("a", 2));
  EXPECT_EQ(waiting(lower), 1U);
}

TEST_F(PathTest, MovesToALowerGateWhenItsTurnHasComeAbove) {
  Gate& upper = open({a_token_a_second(10)});
  Gate& lower = open({a_token_a_second(10)});
  ASSERT_TRUE(upper.try_spend(10));
  ask(path({&upper, &lower}), tokens("a", 2));
  ASSERT_TRUE(lower.try_spend(10));
  time.advance(1s);
  ASSERT_TRUE(lower.try_spend(1));
  time.advance(1s);  // upper would admit; lower has one
  EXPECT_EQ(waiting(upper), 0U);
  EXPECT_EQ(waiting(lower), 1U);
  EXPECT_EQ(available(upper), 2);
  EXPECT_EQ(ended_now(), Endings{});
  time.advance(1h);
  EXPECT_EQ(ended_now(), (Endings{{"a", 3s}}));
  EXPECT_EQ(permits["a"].charged_at(), at(3s));
}

TEST_F(PathTest, WhoHasHadItsTurnAboveIsServedFirstWhenItComesBack) {
  Gate& upper = open({a_token_a_second(10)});
  Gate& lower = open({a_token_a_second(10)});
  const Path both = path({&upper, &lower});
  ASSERT_TRUE(upper.try_spend(10));
  ASSERT_TRUE(lower.try_spend(10));
  ask("moved", both, tokens("a", 2));
  time.advance(1s);
  ASSERT_TRUE(lower.try_spend(1));
  time.advance(1s);
  ASSERT_EQ(waiting(lower), 1U);
  ASSERT_TRUE(upper.try_spend(2));  // takes from above what the waiter had been promised
  ask("above", upper, tokens("b", 1));
  time.advance(1s);  // lower has two, upper one, which would do for the other waiter
  EXPECT_EQ(waiting(upper), 2U);
  ask("later", upper, tokens("b", 1));
  time.advance(1h);
  EXPECT_EQ(ended_now(), (Endings{{"moved", 4s}, {"above", 5s}, {"later", 6s}}));
}

// A waiter that moves to another queue may be the first to fit there.
TEST_F(PathTest, WhoMovesToAGateThatWouldAdmitItIsServedAtOnce) {
  Gate& upper = open({a_token_a_second(10)});
  Gate& lower = open({a_token_a_second(10)});
  ASSERT_TRUE(upper.try_spend(10));
  ASSERT_TRUE(lower.try_spend(10));
  ask(lower, tokens("large", 10));
  ask(path({&upper, &lower}), tokens("small", 2));
  time.advance(2s);
  // Lower has two tokens, and its turn is before the large one's.
  EXPECT_EQ(ended_now(), (Endings{{"small", 2s}}));
  expect_nobody_forgotten();
  time.advance(1h);
  EXPECT_EQ(ended_now(), (Endings{{"large", 12s}}));
}

TEST_F(PathTest, ClosingAnyGateEndsItsWaitersWhereverTheyQueue) {
  for (std::size_t closed = 0; closed < 3; ++closed) {
    SCOPED_TRACE(closed);
    std::vector<Gate*> gates;
    for (int i = 0; i < 3; ++i) gates.push_back(&open({a_token_a_second(10)}));
    ASSERT_TRUE(gates[1]->try_spend(10));
    ask("path", path(gates), tokens("a", 5));
    ask("other", *gates[1], tokens("b", 6));
    ASSERT_EQ(waiting(*gates[1]), 2U);
    gates[closed]->close(Errc::kResourceUnknown);
    if (closed == 1) {
      EXPECT_EQ(ended_now().size(), 2U);
    } else {
      EXPECT_EQ(ended_now(), (Endings{{"path", elapsed(), Errc::kResourceUnknown}}));
      time.advance(6s);
      EXPECT_EQ(ended_now(), (Endings{{"other", elapsed()}}));
    }
    EXPECT_EQ(waiting(*gates[1]), 0U);
    const auto refused = path(gates).try_acquire(tokens(1));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::kResourceUnknown);
    EXPECT_EQ(refused.error().gate, gates[closed]);
  }
}

TEST_F(PathTest, PermitsSettleAndReleaseInAllGates) {
  Gate& upper = open({a_token_a_second(10), LimitSpec::concurrency(1)});
  Gate& lower = open({LimitSpec::fixed_window(kTokens, {20, 60s}), LimitSpec::concurrency(1)});
  Permit permit = path({&upper, &lower}).try_acquire({.cost = Cost::call(8)}).value();
  ASSERT_TRUE(permit.settle(tokens(3).cost));
  EXPECT_EQ(available(upper, 0), 7);
  EXPECT_EQ(available(lower, 0), 17);
  EXPECT_EQ(available(upper, 1), 0);
  EXPECT_EQ(available(lower, 1), 0);
  permit.release();
  permit.release();
  EXPECT_EQ(available(upper, 1), 1);
  EXPECT_EQ(available(lower, 1), 1);
}

TEST_F(PathTest, AReleaseServesWhoWaitsForBothGates) {
  Gate& upper = open({LimitSpec::concurrency(1)});
  Gate& lower = open({LimitSpec::concurrency(1)});
  const Path both = path({&upper, &lower});
  ask("first", both, slots("a"));
  ask("second", both, slots("b"));
  ask("third", lower, slots("c"));
  EXPECT_EQ(ended_now(), (Endings{{"first", 0s}}));
  give_up("first");
  expect_nobody_forgotten();
  ASSERT_EQ(ended.size(), 1U);
  give_up(ended_now().front().who);
  EXPECT_EQ(ended.size(), 1U);
  expect_nobody_forgotten();
}

TEST_F(PathTest, CancellationAndDeadlinesWorkWhereverItQueues) {
  Gate& upper = open({a_token_a_second(10)});
  Gate& lower = open({a_token_a_second(10)});
  const Path both = path({&upper, &lower});
  ASSERT_TRUE(upper.try_spend(10));
  ASSERT_TRUE(lower.try_spend(10));
  Ticket ticket = ask("moved", both, tokens("a", 2), at(1h));
  ask("late", both, tokens("b", 9), at(8s));
  time.advance(1s);
  ASSERT_TRUE(lower.try_spend(1));
  time.advance(1s);
  ASSERT_EQ(waiting(lower), 1U);
  ticket.cancel();
  EXPECT_EQ(ended_now(), (Endings{{"moved", 2s, Errc::kCancelled}}));
  time.advance(1h);
  EXPECT_EQ(ended_now(), (Endings{{"late", 8s, Errc::kDeadlineExceeded}}));
  EXPECT_EQ(available(upper), 10);
  EXPECT_EQ(time.next_alarm(), std::nullopt);
}

TEST_F(PathTest, StaleSlotsAreTakenBackInTheGateThatLacksThem) {  // S3.5
  Gate& upper = open({.name = "upper", .limits = {LimitSpec::concurrency(2)}, .stale_after = 5s});
  Gate& lower = open({.name = "lower", .limits = {LimitSpec::concurrency(1)}, .stale_after = 10s});
  const Path both = path({&upper, &lower});
  Permit lost = both.try_acquire(slots("lost")).value();
  ask(both, slots("b"));
  EXPECT_EQ(waiting(lower), 1U);
  time.advance(1h);
  EXPECT_EQ(ended_now(), (Endings{{"b", 10s + 1ns}}));
  EXPECT_EQ(upper.metrics().reclaimed, 0U);
  EXPECT_EQ(lower.metrics().reclaimed, 1U);
  lost.release();  // still holds the slot above
  EXPECT_EQ(available(upper), 1);
  EXPECT_EQ(available(lower), 0);
}

// Its turn was in one gate; settling must not pay it back in another's queue.
TEST_F(PathTest, SettlementCorrectsTurnsOnlyWhereTheyWereTaken) {
  Gate& upper = open({a_token_a_second(10)});
  Gate& lower = open({a_token_a_second(10)});
  ASSERT_TRUE(upper.try_spend(10));
  ask("a1", path({&upper, &lower}), tokens("a", 10));
  time.advance(10s);
  ASSERT_EQ(ended_now(), (Endings{{"a1", 10s}}));  // it waited above only; lower is empty now
  ask("a2", lower, tokens("a", 3));
  ask("b1", lower, tokens("b", 2));
  ask("b2", lower, tokens("b", 2));
  Permit a1 = std::move(permits["a1"]);
  ASSERT_TRUE(a1.settle(tokens(0).cost));
  EXPECT_EQ(ended_now(), (Endings{{"b1", 10s}, {"a2", 10s}, {"b2", 10s}}));
}

}  // namespace
}  // namespace weir
