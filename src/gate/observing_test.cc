// What a gate tells those who watch it: events as they happen, and figures at any time.
#include <gtest/gtest.h>

#include <sstream>
#include <thread>

#include "gate/gate_for_test.h"
#include "gate/recorder_for_test.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

std::string kind_name(Event::Kind kind) {
  switch (kind) {
    case Event::Kind::kAdmitted: return "admitted";
    case Event::Kind::kRefused: return "refused";
    case Event::Kind::kQueued: return "queued";
    case Event::Kind::kAbandoned: return "abandoned";
    case Event::Kind::kReclaimed: return "reclaimed";
    case Event::Kind::kSettled: return "settled";
    case Event::Kind::kReleased: return "released";
  }
  return "?";
}

using Lines = std::vector<std::string>;

struct ObserverTest : GateTest {
  Gate& watched(std::string name, std::vector<LimitSpec> limits) {
    return open({.name = std::move(name), .limits = std::move(limits), .observer = &recorder});
  }
  // "gate kind agent span", the span in seconds if there is one; the limit where it is told.
  Lines told() {
    Lines lines;
    for (const RecordedEvent& event : recorder.take()) {
      std::ostringstream line;
      line << event.gate << " " << kind_name(event.kind);
      if (!event.agent.empty()) line << " " << event.agent;
      if (event.span != Nanos{0}) line << " " << event.span / 1s << "s";
      if (!event.limit.empty()) line << " (" << event.limit << ")";
      lines.push_back(line.str());
    }
    return lines;
  }

  Recorder recorder;
};

TEST_F(ObserverTest, HearsOfAttempts) {
  Gate& gate = watched("gate", {a_token_a_second(5)});
  EXPECT_TRUE(gate.try_acquire(tokens("a", 5)));
  EXPECT_FALSE(gate.try_acquire(tokens("b", 2)));
  EXPECT_FALSE(gate.try_acquire(tokens("c", 6)));
  EXPECT_EQ(told(), (Lines{"gate admitted a", "gate refused b 2s (tokens per 1s)",
                           "gate refused c (tokens per 1s)"}));
}

TEST_F(ObserverTest, HearsTheCost) {
  Gate& gate = watched("gate", {a_token_a_second(5)});
  EXPECT_TRUE(gate.try_acquire(tokens("a", 4)));
  EXPECT_FALSE(gate.try_acquire(tokens("a", 3)));
  const auto events = recorder.take();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].cost, tokens(4).cost);
  EXPECT_EQ(events[1].cost, tokens(3).cost);
}

TEST_F(ObserverTest, HearsOfAnAsyncRequestThatIsAdmittedAtOnce) {
  Gate& gate = watched("gate", {a_token_a_second(5)});
  ask(gate, tokens("a", 5));
  EXPECT_EQ(told(), (Lines{"gate admitted a"}));
}

TEST_F(ObserverTest, HearsOfABlockingCallThatIsAdmittedAtOnce) {
  Gate& gate = watched("gate", {a_token_a_second(5)});
  EXPECT_TRUE(gate.acquire(tokens("a", 5)));
  EXPECT_EQ(told(), (Lines{"gate admitted a"}));
}

TEST_F(ObserverTest, HearsOfSpending) {
  Gate& gate = watched("gate", {a_token_a_second(5)});
  EXPECT_TRUE(gate.try_spend(4));
  EXPECT_FALSE(gate.try_spend(3));
  EXPECT_EQ(told(), (Lines{"gate admitted", "gate refused 2s (tokens per 1s)"}));
}

TEST_F(ObserverTest, HearsHowLongAWaitWas) {
  Gate& gate = watched("gate", {a_token_a_second(5)});
  ask(gate, tokens("a", 5));
  told();
  ask(gate, tokens("b", 3));
  EXPECT_EQ(told(), (Lines{"gate queued b"}));
  time.advance(1h);
  EXPECT_EQ(told(), (Lines{"gate admitted b 3s"}));
}

TEST_F(ObserverTest, HearsOfWaitsThatEndWithoutAPermit) {
  Gate& gate = watched("gate", {a_token_a_second(5)});
  ASSERT_TRUE(gate.try_spend(5));
  Ticket cancelled = ask(gate, tokens("cancelled", 5));
  ask(gate, tokens("late", 5), at(2s));
  ask(gate, tokens("closed", 5));
  told();
  time.advance(1s);
  cancelled.cancel();
  time.advance(2s);
  gate.close();
  EXPECT_EQ(told(), (Lines{"gate abandoned cancelled 1s", "gate abandoned late 2s",
                           "gate abandoned closed 3s"}));
}

TEST_F(ObserverTest, HearsOfSettlementAndRelease) {
  Gate& gate = watched("gate", {a_token_a_second(5), LimitSpec::concurrency(1)});
  Permit permit = gate.try_acquire({.cost = Cost::call(5), .agent = "a"}).value();
  told();
  ASSERT_TRUE(permit.settle(tokens(2).cost));
  const auto events = recorder.take();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, Event::Kind::kSettled);
  EXPECT_EQ(events[0].cost, Cost::call(2));
  permit.release();
  EXPECT_EQ(told(), (Lines{"gate released a"}));
}

TEST_F(ObserverTest, EveryGateOfAPathHearsOfAnAdmission) {
  Gate& upper = watched("upper", {LimitSpec::concurrency(9)});
  Gate& lower = watched("lower", {a_token_a_second(5)});
  const Path both = path({&upper, &lower});
  EXPECT_TRUE(both.try_acquire(tokens("a", 2)));
  EXPECT_EQ(told(), (Lines{"upper admitted a", "lower admitted a"}));
  ask(both, tokens("b", 3));
  EXPECT_EQ(told(), (Lines{"upper admitted b", "lower admitted b"}));
  ask(both, tokens("c", 1));
  EXPECT_EQ(told(), (Lines{"lower queued c"}));
  time.advance(1s);
  EXPECT_EQ(told(), (Lines{"upper admitted c 1s", "lower admitted c 1s"}));
  EXPECT_FALSE(both.try_acquire(tokens("d", 1)));
  EXPECT_EQ(told(), (Lines{"lower refused d 1s (tokens per 1s)"}));
}

using MetricsTest = GateTest;

TEST_F(MetricsTest, CountAttemptsAndHits) {  // S1.7, S3.6
  for (Gate* gate :
       {&open({a_token_a_second(5)}), &open({a_token_a_second(5), LimitSpec::concurrency(3)})}) {
    EXPECT_TRUE(gate->try_acquire(tokens(3)));
    EXPECT_TRUE(gate->try_spend(2));
    EXPECT_FALSE(gate->try_acquire(tokens(1)));
    EXPECT_FALSE(gate->try_spend(1));
    EXPECT_FALSE(gate->try_acquire(tokens(6)));  // never
    const GateMetrics metrics = gate->metrics();
    EXPECT_EQ(metrics.acquired, 2U);
    EXPECT_EQ(metrics.rejected, 3U);
    EXPECT_EQ(metrics.waited, 0U);
    EXPECT_EQ(metrics.limits[0].hits, 2U);
    EXPECT_EQ(metrics.limits[0].name, "tokens per 1s");
    EXPECT_EQ(metrics.limits[0].unit, Unit::kTokens);
    EXPECT_EQ(metrics.limits[0].capacity, 5);
    EXPECT_EQ(metrics.average_wait(), 0s);
  }
}

TEST_F(MetricsTest, AHitIsCountedForEveryLimitThatRefuses) {  // S3.6
  Gate& gate = open({a_token_a_second(5), LimitSpec::concurrency(1),
                     LimitSpec::fixed_window(Unit::kRequests, {9, 60s})});
  Permit held = gate.try_acquire({.cost = Cost::call(5)}).value();
  EXPECT_FALSE(gate.try_acquire({.cost = Cost::call(1)}));
  EXPECT_FALSE(gate.try_acquire(slots("a")));
  const GateMetrics metrics = gate.metrics();
  EXPECT_EQ(metrics.limits[0].hits, 1U);
  EXPECT_EQ(metrics.limits[1].hits, 2U);
  EXPECT_EQ(metrics.limits[2].hits, 0U);
}

TEST_F(MetricsTest, AWaiterHitsALimitOnceHoweverLongItWaits) {
  Gate& gate = open({a_token_a_second(5), LimitSpec::concurrency(2)});
  Permit held = gate.try_acquire({.cost = Cost::call(5)}).value();
  ask(gate, {.cost = Cost::call(3), .agent = "a"});
  ask(gate, {.cost = Cost::call(2), .agent = "a"});  // its slot is there now, but not in its turn
  for (int i = 0; i < 4; ++i) {
    time.advance(1s);
    gate.reconsider();
  }
  held.release();
  time.advance(1h);
  EXPECT_EQ(ended.size(), 2U);
  const GateMetrics metrics = gate.metrics();
  EXPECT_EQ(metrics.limits[0].hits, 2U);
  EXPECT_EQ(metrics.limits[1].hits, 1U);
  EXPECT_EQ(metrics.rejected, 0U);
}

TEST_F(MetricsTest, AWaiterOnAPathHitsTheLimitsWhereItWaits) {
  Gate& upper = open({a_token_a_second(5)});
  Gate& lower = open({a_token_a_second(5)});
  ASSERT_TRUE(upper.try_spend(5));
  ASSERT_TRUE(lower.try_spend(5));
  ask(path({&upper, &lower}), tokens("a", 2));
  EXPECT_EQ(upper.metrics().limits[0].hits, 1U);
  EXPECT_EQ(lower.metrics().limits[0].hits, 0U);
  time.advance(1s);
  ASSERT_TRUE(lower.try_spend(1));
  time.advance(1h);
  EXPECT_EQ(ended_now(), (Endings{{"a", 3s}}));
  EXPECT_EQ(upper.metrics().limits[0].hits, 1U);
  EXPECT_EQ(lower.metrics().limits[0].hits, 1U);
}

TEST_F(MetricsTest, AnAttemptOnAPathHitsEveryLimitThatRefuses) {
  Gate& upper = open({a_token_a_second(5)});
  Gate& lower = open({a_token_a_second(5)});
  const Path both = path({&upper, &lower});
  ASSERT_TRUE(both.try_acquire(tokens(5)));
  EXPECT_FALSE(both.try_acquire(tokens(1)));
  EXPECT_EQ(upper.metrics().limits[0].hits, 1U);
  EXPECT_EQ(lower.metrics().limits[0].hits, 1U);
}

TEST_F(MetricsTest, CountWaits) {  // S1.7
  Gate& gate = open({a_token_a_second(5)});
  ask(gate, tokens("a", 5));
  ask(gate, tokens("a", 2));
  ask(gate, tokens("a", 4));
  EXPECT_EQ(waiting(gate), 2U);
  time.advance(1h);
  const GateMetrics metrics = gate.metrics();
  EXPECT_EQ(metrics.waiting, 0U);
  EXPECT_EQ(metrics.acquired, 3U);
  EXPECT_EQ(metrics.waited, 2U);
  EXPECT_EQ(metrics.total_wait, 2s + 6s);
  EXPECT_EQ(metrics.average_wait(), Nanos{8s} / 3);
  EXPECT_EQ(metrics.rejected, 0U);
}

TEST_F(MetricsTest, ABlockingCallThatWaitedWasNotRejected) {
  Gate& gate = open({a_token_a_second(5)});
  ASSERT_TRUE(gate.try_spend(5));
  std::jthread caller{[&] { EXPECT_TRUE(gate.acquire(tokens(2))); }};
  while (waiting(gate) == 0) std::this_thread::yield();
  time.advance(2s);
  caller.join();
  const GateMetrics metrics = gate.metrics();
  EXPECT_EQ(metrics.acquired, 2U);
  EXPECT_EQ(metrics.rejected, 0U);
  EXPECT_EQ(metrics.waited, 1U);
  EXPECT_EQ(metrics.limits[0].hits, 1U);
}

TEST_F(MetricsTest, LevelShowsFractions) {
  Gate& gate = open({a_token_a_second(5), LimitSpec::concurrency(3)});
  ASSERT_TRUE(gate.try_acquire({.cost = Cost::call(5)}));
  time.advance(1500ms);
  EXPECT_DOUBLE_EQ(gate.level(0), 1.5);
  EXPECT_DOUBLE_EQ(gate.level(1), 3.0);
}

}  // namespace
}  // namespace weir
