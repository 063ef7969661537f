// Gates that are held, and waits that are ended from outside.
#include <gtest/gtest.h>

#include "gate/gate_for_test.h"
#include "gate/recorder_for_test.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

struct HoldTest : GateTest {
  HoldTest() : gate(open({a_token_a_second(10)})) {}

  static void expect_held(const Gate& gate, const Refusal& refusal, Nanos retry_after) {
    EXPECT_EQ(refusal.kind, Refusal::Kind::kWait);
    EXPECT_TRUE(refusal.exact);
    EXPECT_EQ(refusal.limit, Gate::kHeld);
    EXPECT_EQ(refusal.gate, &gate);
    EXPECT_EQ(refusal.retry_after, retry_after);
  }

  Gate& gate;
};

TEST_F(HoldTest, AdmitsNothingBeforeItsEndAndEverythingFromThenOn) {  // S3.10
  ASSERT_TRUE(gate.try_spend(1));
  gate.hold_until(at(30s));
  EXPECT_FALSE(gate.try_spend(1));
  expect_held(gate, gate.try_acquire(tokens(1)).error(), 30s);
  EXPECT_EQ(gate.forecast(tokens(1).cost, time.now()), Decision::wait(30s));
  EXPECT_EQ(gate.limit_name(Gate::kHeld), "hold");
  time.advance(30s - 1ns);
  expect_held(gate, gate.try_acquire(tokens(1)).error(), 1ns);
  time.advance(1ns);
  EXPECT_TRUE(gate.try_acquire(tokens(10)));
  EXPECT_FALSE(gate.try_spend(1));
}

TEST_F(HoldTest, HoldsAGateOfSeveralLimitsAndOneOfNone) {
  for (Gate* held : {&open({a_token_a_second(10), LimitSpec::concurrency(2)}),
                     &open(std::vector<LimitSpec>{})}) {
    const Instant start = time.now();
    held->hold_until(start + 5s);
    expect_held(*held, held->try_acquire(tokens(1)).error(), 5s);
    EXPECT_FALSE(held->try_spend(1));
    time.advance(5s);
    EXPECT_TRUE(held->try_acquire(tokens(1)));
  }
}

TEST_F(HoldTest, SaysTheLaterOfItsEndAndWhatTheLimitsSay) {
  ASSERT_TRUE(gate.try_spend(10));
  gate.hold_until(at(3s));
  expect_held(gate, gate.try_acquire(tokens(2)).error(), 3s);
  const Refusal refusal = gate.try_acquire(tokens(7)).error();
  EXPECT_EQ(refusal.retry_after, 7s);
  EXPECT_TRUE(refusal.exact);
  EXPECT_EQ(refusal.limit, 0);
  EXPECT_EQ(gate.forecast(tokens(7).cost, time.now()), Decision::wait(7s));
}

TEST_F(HoldTest, KnowsNoInstantForSlotsThatAreTaken) {
  Gate& slotted = open({LimitSpec::concurrency(1)});
  const Permit held = slotted.try_acquire(slots("a")).value();
  slotted.hold_until(at(3s));
  const Refusal refusal = slotted.try_acquire(slots("b")).error();
  EXPECT_FALSE(refusal.exact);
  EXPECT_EQ(refusal.retry_after, 3s);
}

TEST_F(HoldTest, TheLaterOfTwoHoldsWins) {
  gate.hold_until(at(30s));
  gate.hold_until(at(10s));
  expect_held(gate, gate.try_acquire(tokens(1)).error(), 30s);
  gate.hold_until(at(40s));
  expect_held(gate, gate.try_acquire(tokens(1)).error(), 40s);
  time.advance(39s);
  EXPECT_FALSE(gate.try_spend(1));
  time.advance(1s);
  EXPECT_TRUE(gate.try_spend(1));
}

TEST_F(HoldTest, AHoldThatHasEndedAlreadyIsNone) {
  time.advance(5s);
  gate.hold_until(at(5s));
  EXPECT_FALSE(gate.metrics().held);
  EXPECT_TRUE(gate.try_spend(1));
}

TEST_F(HoldTest, APauseSaysThatNobodyKnowsItsEndUntilResume) {
  gate.hold_until(kEndOfTime);
  time.advance(24h);
  const Refusal refusal = gate.try_acquire(tokens(1)).error();
  EXPECT_EQ(refusal.limit, Gate::kHeld);
  EXPECT_FALSE(refusal.exact);
  EXPECT_EQ(refusal.retry_after, 1s);
  EXPECT_EQ(gate.forecast(tokens(1).cost, time.now()), Decision::wait_for_release());
  ask(gate, tokens("a", 1));
  EXPECT_EQ(gate.try_acquire(tokens(1)).error().retry_after, 1s);
  EXPECT_EQ(time.next_alarm(), std::nullopt);
  gate.resume();
  EXPECT_EQ(ended_now(), (Endings{{"a", 24h}}));
  EXPECT_TRUE(gate.try_spend(9));
}

TEST_F(HoldTest, WaitersStayAndAreServedAtItsEndAsTheLimitsAllow) {
  ASSERT_TRUE(gate.try_spend(8));
  gate.hold_until(at(3s));
  ask(gate, tokens("a", 4));
  ask(gate, tokens("b", 3));
  EXPECT_EQ(gate.try_acquire(tokens(1)).error().retry_after, 6s);
  time.advance(3s - 1ns);
  EXPECT_EQ(waiting(gate), 2U);
  time.advance(1h);
  EXPECT_EQ(ended_now(), (Endings{{"b", 3s}, {"a", 5s}}));
  expect_nobody_forgotten();
}

TEST_F(HoldTest, CountsThoseWhoWaitFromItsEndOn) {
  gate.hold_until(at(3s));
  ask(gate, tokens("a", 10));
  EXPECT_EQ(gate.try_acquire(tokens(1)).error().retry_after, 4s);
}

TEST_F(HoldTest, ResumeServesAtOnceAndGivesTheFastPathBack) {
  gate.hold_until(at(1h));
  ask(gate, tokens("a", 10));
  time.advance(1s);
  gate.resume();
  EXPECT_EQ(ended_now(), (Endings{{"a", 1s}}));
  gate.hold_until(at(2s));
  EXPECT_FALSE(gate.try_spend(1));
  time.advance(1s);
  EXPECT_TRUE(gate.try_spend(1));
  time.advance(2h);  // past the first hold
  EXPECT_TRUE(gate.try_spend(10));
}

TEST_F(HoldTest, DeadlinesAndCancellingEndWaitsMeanwhile) {
  gate.hold_until(at(1h));
  ask(gate, tokens("a", 1), at(5s));
  Ticket ticket = ask(gate, tokens("b", 1));
  time.advance(10s);
  ticket.cancel();
  EXPECT_EQ(ended_now(),
            (Endings{{"a", 5s, Errc::kDeadlineExceeded}, {"b", 10s, Errc::kCancelled}}));
  EXPECT_FALSE(gate.try_spend(1));
  time.advance(1h);
  EXPECT_TRUE(gate.try_spend(10));
}

TEST_F(HoldTest, NeverIsStillSaidAtOnce) {
  gate.hold_until(kEndOfTime);
  EXPECT_EQ(gate.try_acquire(tokens(11)).error().kind, Refusal::Kind::kNever);
  EXPECT_EQ(gate.forecast(tokens(11).cost, time.now()), Decision::never());
  ask(gate, tokens("a", 11));
  EXPECT_EQ(ended_now(), (Endings{{"a", 0s, Errc::kNeverFits}}));
}

TEST_F(HoldTest, OutlastsAChangeOfLimits) {
  gate.hold_until(at(10s));
  ask(gate, tokens("a", 10));
  ASSERT_TRUE(gate.set_limits({LimitSpec::fixed_window(Unit::kTokens, {10, 1min})}));
  time.advance(1h);
  EXPECT_EQ(ended_now(), (Endings{{"a", 10s}}));
}

TEST_F(HoldTest, HoldsAPathAndCostsItsOtherGatesNothing) {
  Gate& upper = open({a_token_a_second(5)});
  const Path both = path({&upper, &gate});
  gate.hold_until(at(4s));
  expect_held(gate, both.try_acquire(tokens(1)).error(), 4s);
  EXPECT_EQ(available(upper), 5);
  ask(both, tokens("a", 5));
  EXPECT_EQ(waiting(gate), 1U);
  EXPECT_TRUE(upper.try_spend(2));
  time.advance(1h);
  EXPECT_EQ(ended_now(), (Endings{{"a", 4s}}));
}

TEST_F(HoldTest, MetricsShowIt) {
  EXPECT_FALSE(gate.metrics().held);
  gate.hold_until(at(30s));
  time.advance(10s);
  EXPECT_TRUE(gate.metrics().held);
  EXPECT_EQ(gate.metrics().held_for, 20s);
  time.advance(20s);
  EXPECT_FALSE(gate.metrics().held);
  EXPECT_EQ(gate.metrics().held_for, 0s);
  gate.hold_until(kEndOfTime);
  EXPECT_EQ(gate.metrics().held_for, Nanos::max());
  gate.resume();
  EXPECT_FALSE(gate.metrics().held);
}

TEST_F(HoldTest, ObserversHearThatItRefused) {
  Recorder recorder;
  Gate& watched =
      open({.name = "watched", .limits = {a_token_a_second(10)}, .observer = &recorder});
  watched.hold_until(at(30s));
  EXPECT_FALSE(watched.try_acquire(tokens(1)));
  EXPECT_EQ(recorder.take(Event::Kind::kRefused, [](const auto& event) { return event.limit; }),
            std::vector<std::string>{"hold"});
}

TEST_F(HoldTest, EndedWaitersLeaveAnOpenGateAndNobodyIsServedInTheirPlace) {  // S3.11
  ASSERT_TRUE(gate.try_spend(8));
  ask("large", gate, tokens("a", 10));
  ask("small", gate, tokens("a", 1));
  gate.end_waiters(Errc::kCancelled);
  EXPECT_EQ(ended_now(),
            (Endings{{"large", 0s, Errc::kCancelled}, {"small", 0s, Errc::kCancelled}}));
  EXPECT_EQ(available(gate), 2);
  EXPECT_TRUE(gate.try_spend(2));
}

TEST_F(HoldTest, EndsTheWaitsOfItsPathsWhereverTheyQueue) {
  Gate& upper = open({a_token_a_second(5)});
  ASSERT_TRUE(upper.try_spend(5));
  ask("path", path({&upper, &gate}), tokens("a", 5));
  ask("upper", upper, tokens("a", 1));
  time.advance(1s);
  EXPECT_EQ(ended_now(), Endings{});
  gate.end_waiters(Errc::kResourceUnknown);
  EXPECT_EQ(ended_now(), (Endings{{"path", 1s, Errc::kResourceUnknown}, {"upper", 1s}}));
}

}  // namespace
}  // namespace weir
