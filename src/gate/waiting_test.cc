// Waiting at one gate: who is served when, in which order, and how a wait can end.
#include <gtest/gtest.h>

#include <stop_token>
#include <thread>

#include "gate/gate_for_test.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

struct WaitingTest : GateTest {
  // A gate of a token a second with a burst of ten, and nothing left in it.
  Gate& empty_gate(std::size_t waiters_max = 100) {
    Gate& gate =
        open({.name = "gate", .limits = {a_token_a_second(10)}, .waiters_max = waiters_max});
    EXPECT_TRUE(gate.try_spend(10));
    return gate;
  }
};

TEST_F(WaitingTest, AWaiterIsServedAtTheFirstInstantAtWhichItFits) {  // S0.6
  Gate& gate = empty_gate();
  ask(gate, tokens("a", 3));
  EXPECT_EQ(waiting(gate), 1U);
  time.advance(3s - 1ns);
  EXPECT_EQ(ended_now(), Endings{});
  time.advance(1h);
  EXPECT_EQ(ended_now(), (Endings{{"a", 3s}}));
  EXPECT_EQ(waiting(gate), 0U);
  EXPECT_EQ(permits["a"].charged_at(), at(3s));
  EXPECT_EQ(permits["a"].cost(), Cost::of(Unit::kTokens, 3));
}

TEST_F(WaitingTest, WhoFitsAtOnceDoesNotWait) {
  Gate& gate = open({a_token_a_second(10)});
  ask(gate, tokens("a", 10));
  EXPECT_EQ(ended_now(), (Endings{{"a", 0s}}));
  EXPECT_EQ(time.next_alarm(), std::nullopt);
}

TEST_F(WaitingTest, NoTimerIsArmedWhenNobodyWaits) {
  Gate& gate = empty_gate();
  EXPECT_FALSE(gate.try_acquire(tokens(1)));
  EXPECT_EQ(time.next_alarm(), std::nullopt);
  ask(gate, tokens("a", 2));
  EXPECT_EQ(time.next_alarm(), at(2s));
  time.advance(2s);
  EXPECT_EQ(time.next_alarm(), std::nullopt);
}

TEST_F(WaitingTest, WaitersOfOneAgentAreServedInOrderOfArrival) {
  Gate& gate = empty_gate();
  ask("first", gate, tokens("a", 5));
  ask("second", gate, tokens("a", 1));
  ask("third", gate, tokens("a", 2));
  time.advance(1h);
  EXPECT_EQ(ended_now(), (Endings{{"first", 5s}, {"second", 6s}, {"third", 8s}}));
}

TEST_F(WaitingTest, AgentsOfEqualWeightTakeTurns) {
  Gate& gate = empty_gate();
  for (int i = 0; i < 3; ++i) ask(gate, tokens("a", 2));
  for (int i = 0; i < 3; ++i) ask(gate, tokens("b", 2));
  time.advance(1h);
  const Endings all = ended_now();
  ASSERT_EQ(all.size(), 6U);
  for (std::size_t i = 0; i < 6; i += 2) EXPECT_NE(all[i].who, all[i + 1].who) << i;
}

TEST_F(WaitingTest, ALargeHeadBlocksThoseBehindIt) {
  Gate& gate = empty_gate();
  ask("large", gate, tokens("a", 8));
  ask("small", gate, tokens("a", 1));
  time.advance(5s);
  EXPECT_EQ(ended_now(), Endings{});
  time.advance(1h);
  EXPECT_EQ(ended_now(), (Endings{{"large", 8s}, {"small", 9s}}));
}

TEST_F(WaitingTest, PriorityIsStrict) {
  Gate& gate = empty_gate();
  ask("low", gate, tokens("a", 1, -1));
  ask("high", gate, tokens("b", 4, 7));
  ask("middle", gate, tokens("c", 1, 3));
  time.advance(2s);
  ask("highest", gate, tokens("d", 3, 8));
  time.advance(1h);
  EXPECT_EQ(ended_now(), (Endings{{"highest", 3s}, {"high", 7s}, {"middle", 8s}, {"low", 9s}}));
}

TEST_F(WaitingTest, AnAttemptIsRefusedWhileAWaiterOfEqualOrHigherPriorityIsQueued) {
  for (Gate* gate :
       {&open({a_token_a_second(10)}), &open({a_token_a_second(10), LimitSpec::concurrency(9)})}) {
    ASSERT_TRUE(gate->try_spend(10));
    ask(*gate, tokens("a", 5, 3));
    time.advance(2s);  // two tokens are there, and kept for the waiter
    EXPECT_FALSE(gate->try_acquire(tokens("b", 1, 3)));
    EXPECT_FALSE(gate->try_acquire(tokens("b", 1, 2)));
    EXPECT_FALSE(gate->try_acquire(tokens("a", 1, 3)));
    EXPECT_FALSE(gate->try_spend(1));
    EXPECT_TRUE(gate->try_acquire(tokens("b", 1, 4)));
    time.advance(4s - 1ns);
    EXPECT_EQ(ended_now(), Endings{});
    time.advance(1ns);
    EXPECT_EQ(ended_now(), (Endings{{"a", elapsed()}}));
  }
}

TEST_F(WaitingTest, AWaiterOfLowerPriorityDoesNotKeepAnotherWaiting) {
  Gate& gate = empty_gate();
  ask(gate, tokens("low", 10, 0));
  time.advance(4s);
  ask(gate, tokens("high", 4, 1));
  EXPECT_EQ(ended_now(), (Endings{{"high", 4s}}));
}

TEST_F(WaitingTest, NeverIsSaidAtOnceWithAQueueToo) {  // S3.3
  Gate& gate = empty_gate();
  ask(gate, tokens("a", 5));
  EXPECT_EQ(gate.try_acquire(tokens("b", 11)).error().kind, Refusal::Kind::kNever);
  EXPECT_EQ(gate.acquire(tokens("b", 11)).error(), Errc::kNeverFits);
  EXPECT_EQ(gate.forecast(tokens(11).cost, time.now()).kind, Decision::Kind::kNever);
  ask(gate, tokens("b", 11));
  EXPECT_EQ(ended_now(), (Endings{{"b", 0s, Errc::kNeverFits}}));
}

TEST_F(WaitingTest, ADeadlineEndsTheWaitAndLeavesNoTrace) {
  Gate& gate = empty_gate();
  ask("late", gate, tokens("a", 8), at(4s));
  ask("next", gate, tokens("a", 5));
  time.advance(4s);
  EXPECT_EQ(ended_now(), (Endings{{"late", 4s, Errc::kDeadlineExceeded}}));
  EXPECT_EQ(available(gate), 4);
  time.advance(1h);
  EXPECT_EQ(ended_now(), (Endings{{"next", 5s}}));
}

TEST_F(WaitingTest, ADeadlineOfTheHeadServesTheNextAtThatInstant) {
  Gate& gate = empty_gate();
  ask("late", gate, tokens("a", 8), at(4s));
  ask("next", gate, tokens("a", 3));
  time.advance(1h);
  EXPECT_EQ(ended_now(), (Endings{{"late", 4s, Errc::kDeadlineExceeded}, {"next", 4s}}));
}

TEST_F(WaitingTest, WhoIsDueAtItsDeadlineIsServed) {
  Gate& gate = empty_gate();
  ask("a", gate, tokens("a", 4), at(4s));
  ask("b", gate, tokens("a", 2), at(6s - 1ns));
  time.advance(1h);
  EXPECT_EQ(ended_now(), (Endings{{"a", 4s}, {"b", 6s - 1ns, Errc::kDeadlineExceeded}}));
}

TEST_F(WaitingTest, OfOneDeadlineTheEarlierArrivalEndsFirst) {
  Gate& gate = empty_gate();
  // In whatever order they lie in memory: the first ends, the second then fits.
  for (int round = 0; round < 20; ++round) {
    const Nanos start = elapsed();
    ask("large", gate, tokens("a", 8), at(start + 4s));
    ask("small", gate, tokens("a", 4), at(start + 4s));
    time.advance(4s);
    ASSERT_EQ(ended_now(),
              (Endings{{"large", start + 4s, Errc::kDeadlineExceeded}, {"small", start + 4s}}));
  }
}

TEST_F(WaitingTest, ADeadlineInThePastIsOverUnlessItFitsAtOnce) {
  Gate& gate = open({a_token_a_second(10)});
  ask("fits", gate, tokens("a", 10), at(-1s));
  ask("late", gate, tokens("a", 1), at(0s));
  EXPECT_EQ(ended_now(), (Endings{{"fits", 0s}, {"late", 0s, Errc::kDeadlineExceeded}}));
  EXPECT_EQ(waiting(gate), 0U);
}

TEST_F(WaitingTest, CancellingLeavesNoTraceAndWakesTheNext) {
  Gate& gate = empty_gate();
  Ticket head = ask("head", gate, tokens("a", 8));
  Ticket middle = ask("middle", gate, tokens("a", 1));
  ask("last", gate, tokens("a", 3));
  time.advance(3s);
  middle.cancel();
  EXPECT_EQ(ended_now(), (Endings{{"middle", 3s, Errc::kCancelled}}));
  head.cancel();
  EXPECT_EQ(ended_now(), (Endings{{"head", 3s, Errc::kCancelled}, {"last", 3s}}));
  EXPECT_EQ(waiting(gate), 0U);
  EXPECT_EQ(available(gate), 0);
}

TEST_F(WaitingTest, CancellingWhatHasEndedDoesNothing) {
  Gate& gate = empty_gate();
  Ticket served = ask("served", gate, tokens("a", 1));
  Ticket cancelled = ask("cancelled", gate, tokens("a", 1));
  cancelled.cancel();
  time.advance(1s);
  ended_now();
  served.cancel();
  cancelled.cancel();
  Ticket{}.cancel();
  EXPECT_EQ(ended_now(), Endings{});
  EXPECT_EQ(permits.size(), 1U);
}

TEST_F(WaitingTest, CancellingAfterTheGateIsGoneDoesNothing) {
  Ticket ticket;
  std::optional<Errc> why;
  {
    const auto gate =
        Gate::create({.name = "short", .limits = {a_token_a_second(1)}}, time.source()).value();
    ASSERT_TRUE(gate->try_spend(1));
    ticket = gate->acquire_async(tokens(1), kEndOfTime,
                                 [&](Result<Permit> outcome) { why = outcome.error().code; });
  }
  EXPECT_EQ(why, Errc::kClosed);
  ticket.cancel();
  time.advance(1h);
}

TEST_F(WaitingTest, ClosingEndsEveryWaitWithItsReason) {  // S0.5, S3.11
  Gate& gate = empty_gate();
  ask(gate, tokens("a", 8));
  ask(gate, tokens("b", 2, 1), at(1h));
  ask(gate, tokens("c", 1, 2));
  gate.close(Errc::kResourceUnknown);
  EXPECT_EQ(ended_now(), (Endings{{"c", 0s, Errc::kResourceUnknown},
                                  {"b", 0s, Errc::kResourceUnknown},
                                  {"a", 0s, Errc::kResourceUnknown}}));
  EXPECT_EQ(waiting(gate), 0U);
}

TEST_F(WaitingTest, ClosingServesNobodyWhomALargerHeadKeptWaiting) {
  Gate& gate = empty_gate();
  ask("large", gate, tokens("a", 8));
  ask("small", gate, tokens("a", 2));
  time.advance(5s);
  gate.close();
  EXPECT_EQ(ended_now(), (Endings{{"large", 5s, Errc::kClosed}, {"small", 5s, Errc::kClosed}}));
  EXPECT_EQ(available(gate), 5);
}

TEST_F(WaitingTest, PermitsStayValidAfterClosing) {
  Gate& gate = open({a_token_a_second(10), LimitSpec::concurrency(2)});
  auto permit = gate.try_acquire({.cost = Cost::call(6)});
  ASSERT_TRUE(permit);
  gate.close();
  EXPECT_TRUE(permit->settle(Cost::of(Unit::kTokens, 1)));
  permit->release();
  EXPECT_EQ(available(gate, 0), 9);
  EXPECT_EQ(available(gate, 1), 2);
}

TEST_F(WaitingTest, NoMoreThanWaitersMaxWait) {
  Gate& gate = empty_gate(2);
  Ticket first = ask(gate, tokens("a", 1));
  ask(gate, tokens("b", 1));
  ask(gate, tokens("c", 1, 9));
  EXPECT_EQ(ended_now(), (Endings{{"c", 0s, Errc::kCapacityExhausted}}));
  first.cancel();
  ended_now();
  ask(gate, tokens("d", 1));
  EXPECT_EQ(waiting(gate), 2U);
  time.advance(1h);
  EXPECT_EQ(ended_now(), (Endings{{"b", 1s}, {"d", 2s}}));
}

TEST_F(WaitingTest, ACallbackMayAskAgainCancelAndRelease) {
  Gate& gate = open({LimitSpec::concurrency(1)});
  std::vector<int> order;
  constexpr int kChain = 50'000;  // each inside the one before would need more stack than there is
  std::move_only_function<void(int)> next = [&](int n) {
    gate.acquire_async(slots("a"), kEndOfTime, [&, n](Result<Permit> permit) {
      ASSERT_TRUE(permit);
      order.push_back(n);
    });
  };
  Permit held = gate.try_acquire(slots("a")).value();
  for (int i = 0; i < kChain; ++i) next(i);
  held.release();
  ASSERT_EQ(order.size(), static_cast<std::size_t>(kChain));
  EXPECT_TRUE(std::ranges::is_sorted(order));
  EXPECT_EQ(available(gate), 1);
}

TEST_F(WaitingTest, ABlockingCallerParksUntilItIsServed) {
  Gate& gate = empty_gate();
  Result<Permit> outcome;
  std::jthread caller{[&] { outcome = gate.acquire(tokens(4)); }};
  while (waiting(gate) == 0) std::this_thread::yield();
  time.advance(4s);
  caller.join();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->charged_at(), at(4s));
  outcome = Permit{};
}

TEST_F(WaitingTest, AStopTokenEndsABlockingWait) {  // S0.1
  Gate& gate = empty_gate();
  std::stop_source stop;
  Result<Permit> outcome;
  std::jthread caller{[&] { outcome = gate.acquire(tokens(4), {.stop = stop.get_token()}); }};
  while (waiting(gate) == 0) std::this_thread::yield();
  ask(gate, tokens("next", 10));
  stop.request_stop();
  caller.join();
  EXPECT_EQ(outcome.error(), Errc::kCancelled);
  EXPECT_EQ(waiting(gate), 1U);
  time.advance(10s);
  EXPECT_EQ(ended_now(), (Endings{{"next", 10s}}));
}

TEST_F(WaitingTest, AStopRequestedBeforehandEndsTheWaitAtOnce) {
  Gate& gate = empty_gate();
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(gate.acquire(tokens(1), {.stop = stop.get_token()}).error(), Errc::kCancelled);
  EXPECT_EQ(waiting(gate), 0U);
}

TEST_F(WaitingTest, ADeadlineEndsABlockingWait) {  // S0.1
  Gate& gate = empty_gate();
  Result<Permit> outcome;
  std::jthread caller{[&] { outcome = gate.acquire(tokens(4), {.deadline = at(2s)}); }};
  while (waiting(gate) == 0) std::this_thread::yield();
  time.advance(2s - 1ns);
  EXPECT_EQ(waiting(gate), 1U);
  time.advance(1ns);
  caller.join();
  EXPECT_EQ(outcome.error(), Errc::kDeadlineExceeded);
}

TEST_F(WaitingTest, AClockThatRanBackwardsServesAtTheInstantItPromised) {
  Gate& gate = empty_gate();
  ask(gate, tokens("a", 3));
  time.advance(2s);
  time.step_back(30min);
  ask(gate, tokens("a", 1));
  time.advance(30min);
  EXPECT_EQ(ended_now(), Endings{});
  time.advance(1h);
  EXPECT_EQ(ended_now(), (Endings{{"a", 3s}, {"a", 4s}}));
}

TEST_F(WaitingTest, SettlingAndRefundingWakeWhoFitsNow) {
  Gate& gate = open({a_token_a_second(10)});
  Permit permit = gate.try_acquire(tokens(10)).value();
  ask(gate, tokens("a", 6));
  ask(gate, tokens("b", 3));
  ASSERT_TRUE(permit.settle(tokens(3).cost));
  EXPECT_EQ(ended_now().size(), 1U);
  gate.refund(tokens(2).cost);
  EXPECT_EQ(waiting(gate), 0U);
  EXPECT_EQ(available(gate), 0);
}

TEST_F(WaitingTest, ACallbackIsLetGoOfOnceItHasBeenCalled) {
  Gate& gate = empty_gate();
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> watched = held;
  const Ticket ticket =
      gate.acquire_async(tokens(1), kEndOfTime, [held = std::move(held)](const Result<Permit>&) {});
  EXPECT_FALSE(watched.expired());
  time.advance(1s);
  EXPECT_TRUE(watched.expired()) << "though somebody still has the ticket";
}

}  // namespace
}  // namespace weir
