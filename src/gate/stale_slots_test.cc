// Slots that nobody gives back: taken from their holder when others need them (S3.5).
#include <gtest/gtest.h>

#include "gate/gate_for_test.h"
#include "gate/recorder_for_test.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

struct StaleSlotsTest : GateTest {
  Gate& gate_of(Amount slots_max) {
    return open({.name = "gate",
                 .limits = {LimitSpec::concurrency(slots_max)},
                 .stale_after = 10s,
                 .observer = &recorder});
  }
  Permit take(Gate& gate, std::string_view agent, Amount count = 1) {
    return gate.try_acquire(slots(agent, count)).value();
  }
  std::vector<std::string> reclaimed() {
    return recorder.take(Event::Kind::kReclaimed, [](const RecordedEvent& event) {
      return event.agent + " after " + std::to_string(event.span.count());
    });
  }

  Recorder recorder;
};

TEST_F(StaleSlotsTest, TakesBackOnlyWhatIsHeldStrictlyLonger) {
  Gate& gate = gate_of(1);
  Permit lost = take(gate, "lost");
  time.advance(10s);
  EXPECT_FALSE(gate.try_acquire(slots("b")));
  EXPECT_EQ(gate.metrics().reclaimed, 0U);
  time.advance(1ns);
  EXPECT_TRUE(gate.try_acquire(slots("b")));
  EXPECT_EQ(gate.metrics().reclaimed, 1U);
  EXPECT_EQ(reclaimed(), (std::vector<std::string>{"lost after 10000000001"}));
}

TEST_F(StaleSlotsTest, AForecastKnowsWhatAnAttemptWouldTakeBack) {
  Gate& gate = gate_of(2);
  Permit lost = take(gate, "lost", 2);
  EXPECT_FALSE(gate.forecast(slots("b").cost, at(10s)).admitted());
  EXPECT_TRUE(gate.forecast(slots("b", 2).cost, at(10s + 1ns)).admitted());
  EXPECT_EQ(gate.metrics().reclaimed, 0U);
}

TEST_F(StaleSlotsTest, TakesBackNothingWhileSlotsAreFree) {
  Gate& gate = gate_of(2);
  Permit slow = take(gate, "slow");
  time.advance(1h);
  EXPECT_TRUE(gate.try_acquire(slots("b")));
  EXPECT_EQ(gate.metrics().reclaimed, 0U);
  EXPECT_EQ(available(gate), 1);
}

TEST_F(StaleSlotsTest, TakesBackAllStaleOnesAndNoFreshOne) {
  Gate& gate = gate_of(4);
  Permit first = take(gate, "first", 2);
  time.advance(1s);
  Permit second = take(gate, "second");
  time.advance(9s);
  Permit fresh = take(gate, "fresh");
  time.advance(1s + 1ns);
  EXPECT_TRUE(gate.try_acquire(slots("b")));
  EXPECT_EQ(reclaimed(),
            (std::vector<std::string>{"first after 11000000001", "second after 10000000001"}));
  EXPECT_EQ(available(gate), 3);
}

TEST_F(StaleSlotsTest, ALateReleaseChangesNothing) {
  Gate& gate = gate_of(1);
  Permit lost = take(gate, "lost");
  time.advance(11s);
  const Permit next = take(gate, "next");
  EXPECT_EQ(available(gate), 0);
  lost.release();
  EXPECT_EQ(available(gate), 0);
  EXPECT_FALSE(gate.try_acquire(slots("c")));
}

TEST_F(StaleSlotsTest, ALateSettlementStillCounts) {
  Gate& gate = open({.name = "gate",
                     .limits = {LimitSpec::concurrency(1), a_token_a_second(100)},
                     .stale_after = 10s});
  Permit lost = gate.try_acquire({.cost = Cost::call(100)}).value();
  time.advance(11s);
  const Permit next = take(gate, "next");
  EXPECT_TRUE(lost.settle(Cost::of(Unit::kTokens, 60)));
  EXPECT_EQ(available(gate, 1), 51);
}

TEST_F(StaleSlotsTest, ATimerAtTheOldestHoldersStaleInstantServesWhoWaits) {
  Gate& gate = gate_of(2);
  Permit lost = take(gate, "lost");
  time.advance(3s);
  Permit other = take(gate, "other");
  EXPECT_EQ(time.next_alarm(), std::nullopt);  // armed only while somebody waits
  Ticket waiter = ask(gate, slots("b"));
  EXPECT_EQ(time.next_alarm(), at(10s + 1ns));
  time.advance(10s);
  EXPECT_EQ(ended_now(), (Endings{{"b", 10s + 1ns}}));
  EXPECT_EQ(reclaimed(), (std::vector<std::string>{"lost after 10000000001"}));
  EXPECT_EQ(time.next_alarm(), std::nullopt);
}

TEST_F(StaleSlotsTest, AReleaseMovesTheTimerToTheNextOldest) {
  Gate& gate = gate_of(3);
  Permit first = take(gate, "first");
  time.advance(1s);
  Permit second = take(gate, "second");
  time.advance(1s);
  Permit third = take(gate, "third");
  ask(gate, slots("b", 2));
  first.release();
  time.advance(1h);
  EXPECT_EQ(ended_now(), (Endings{{"b", 11s + 1ns}}));
  EXPECT_EQ(reclaimed(), (std::vector<std::string>{"second after 10000000001"}));
}

TEST_F(StaleSlotsTest, ServesAWaiterFromWhomAHigherPriorityTookTheSlots) {
  Gate& gate = open({.name = "gate",
                     .limits = {LimitSpec::concurrency(2), a_token_a_second(20)},
                     .stale_after = 10s});
  Permit lost = gate.try_acquire({.cost = Cost::call(20), .agent = "lost"}).value();
  ask(gate, {.cost = Cost::call(15), .agent = "b"});  // there is a slot for it, but no tokens
  time.advance(12s);
  const Permit passed = gate.try_acquire(slots("c", 1, 1)).value();
  EXPECT_EQ(available(gate), 0);
  time.advance(1h);
  EXPECT_EQ(ended_now(), (Endings{{"b", 15s}}));
  EXPECT_EQ(gate.metrics().reclaimed, 1U);
}

TEST_F(StaleSlotsTest, WithoutASettingNothingIsEverStale) {
  Gate& gate = open({LimitSpec::concurrency(1)});
  Permit held = take(gate, "slow");
  ask(gate, slots("b"));
  time.advance(24h);
  EXPECT_EQ(ended_now(), Endings{});
  EXPECT_EQ(time.next_alarm(), std::nullopt);
}

TEST_F(StaleSlotsTest, AnAgeOutOfRangeIsRefusedAtCreation) {
  for (const Nanos age : {Nanos{-1}, kPeriodMax + 1ns, Nanos::max()}) {
    const auto gate =
        Gate::create({.name = "gate", .limits = {}, .stale_after = age}, time.source());
    ASSERT_FALSE(gate) << age.count();
    EXPECT_EQ(gate.error(), Errc::kInvalidConfig);
  }
}

TEST_F(StaleSlotsTest, AHolderThatComesAndGoesIsNotMistakenForALostOne) {
  Gate& gate = gate_of(1);
  for (int i = 0; i < 5; ++i) {
    Permit permit = take(gate, "busy");
    time.advance(9s);
    permit.release();
  }
  Permit permit = take(gate, "busy");
  time.advance(9s);
  EXPECT_FALSE(gate.try_acquire(slots("b")));
  EXPECT_EQ(gate.metrics().reclaimed, 0U);
}

}  // namespace
}  // namespace weir
