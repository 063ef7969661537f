#include "weir/time/simulated_time.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "time/call_alarm.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr Instant kStart = SimulatedTime::kStart;

struct SimulatedTimeTest : testing::Test {
  CallAlarm logging(std::string name) {
    return CallAlarm([this, name](Instant now) {
      EXPECT_EQ(now, time.now());
      log.emplace_back(name, now - kStart);
    });
  }

  using Log = std::vector<std::pair<std::string, Nanos>>;
  SimulatedTime time;
  Log log;
};

TEST_F(SimulatedTimeTest, StandsStillUntilToldToMove) {
  EXPECT_EQ(time.now(), kStart);
  EXPECT_EQ(time.now(), kStart);
  time.advance(5ns);
  EXPECT_EQ(time.now(), kStart + 5ns);
  time.advance_to(kStart + 1s);
  EXPECT_EQ(time.now(), kStart + 1s);
}

TEST_F(SimulatedTimeTest, StartsWhereItIsTold) {
  const CalendarTime wall{1'700'000'000s};
  const SimulatedTime other(Instant{7s}, wall);
  EXPECT_EQ(other.now(), Instant{7s});
  EXPECT_EQ(other.wall(), wall);
}

TEST_F(SimulatedTimeTest, AdvancingToThePastKeepsTheTime) {
  time.advance_to(kStart - 1s);
  EXPECT_EQ(time.now(), kStart);
}

TEST_F(SimulatedTimeTest, RingsInOrderOfInstantEachAtItsOwn) {
  CallAlarm late = logging("late");
  CallAlarm early = logging("early");
  CallAlarm beyond = logging("beyond");
  time.arm(late, kStart + 20ms);
  time.arm(early, kStart + 10ms);
  time.arm(beyond, kStart + 30ms + 1ns);
  time.advance(30ms);
  EXPECT_EQ(log, (Log{{"early", 10ms}, {"late", 20ms}}));
  EXPECT_EQ(time.now(), kStart + 30ms);
  time.advance(1ns);
  EXPECT_EQ(log.back(), (Log::value_type{"beyond", 30ms + 1ns}));
}

TEST_F(SimulatedTimeTest, TiesRingInOrderOfArming) {
  CallAlarm a = logging("a");
  CallAlarm b = logging("b");
  CallAlarm c = logging("c");
  for (CallAlarm* alarm : {&c, &a, &b}) time.arm(*alarm, kStart + 1s);
  time.arm(c, kStart + 1s);  // arming again is a new arming
  time.advance(1s);
  EXPECT_EQ(log, (Log{{"a", 1s}, {"b", 1s}, {"c", 1s}}));
}

TEST_F(SimulatedTimeTest, ArmingAgainReplacesTheInstant) {
  CallAlarm alarm = logging("alarm");
  time.arm(alarm, kStart + 1s);
  time.arm(alarm, kStart + 3s);
  EXPECT_EQ(time.next_alarm(), kStart + 3s);
  time.arm(alarm, kStart + 2s);
  EXPECT_EQ(time.next_alarm(), kStart + 2s);
  time.advance(10s);
  EXPECT_EQ(log, (Log{{"alarm", 2s}}));
}

TEST_F(SimulatedTimeTest, AnAlarmInThePastRingsAtNowInTheNextAdvance) {
  CallAlarm alarm = logging("alarm");
  time.arm(alarm, Instant{});
  EXPECT_TRUE(log.empty());
  time.advance(0ns);
  EXPECT_EQ(log, (Log{{"alarm", 0ns}}));
}

TEST_F(SimulatedTimeTest, ADisarmedAlarmIsSilent) {
  CallAlarm alarm = logging("alarm");
  time.arm(alarm, kStart + 1s);
  time.disarm(alarm);
  time.disarm(alarm);
  EXPECT_EQ(time.next_alarm(), std::nullopt);
  time.advance(2s);
  EXPECT_TRUE(log.empty());
}

TEST_F(SimulatedTimeTest, ARingMayArmAndDisarm) {
  CallAlarm victim = logging("victim");
  int rings = 0;
  CallAlarm every_second([&](Instant now) {
    ++rings;
    if (rings == 3) time.disarm(victim);
    if (rings < 5) time.arm(every_second, now + 1s);
    if (rings == 5) time.disarm(every_second);
  });
  time.arm(every_second, kStart + 1s);
  time.arm(victim, kStart + 3s + 1ns);
  time.advance(3s);
  EXPECT_EQ(rings, 3);
  EXPECT_EQ(time.next_alarm(), kStart + 4s);
  time.advance(10s);
  EXPECT_EQ(rings, 5);
  EXPECT_TRUE(log.empty());
}

TEST_F(SimulatedTimeTest, SteppingBackRingsNothingAndKeepsInstants) {
  CallAlarm alarm = logging("alarm");
  time.arm(alarm, kStart + 1s);
  time.step_back(10s);
  EXPECT_EQ(time.now(), kStart - 10s);
  EXPECT_EQ(time.wall(), SimulatedTime::kWallStart - 10s);
  EXPECT_EQ(time.next_alarm(), kStart + 1s);
  time.advance(11s - 1ns);
  EXPECT_TRUE(log.empty());
  time.advance(1ns);
  EXPECT_EQ(log, (Log{{"alarm", 1s}}));
}

TEST_F(SimulatedTimeTest, TheWallRunsWithTheClockAndJumpsWhenSet) {
  EXPECT_EQ(time.wall(), SimulatedTime::kWallStart);
  time.advance(90s);
  EXPECT_EQ(time.wall(), SimulatedTime::kWallStart + 90s);
  time.set_wall(SimulatedTime::kWallStart - 24h);
  EXPECT_EQ(time.now(), kStart + 90s);
  time.advance(1s);
  EXPECT_EQ(time.wall(), SimulatedTime::kWallStart - 24h + 1s);
}

TEST_F(SimulatedTimeTest, RunsFromAlarmToAlarmUntilNoneIsArmed) {
  CallAlarm second = logging("second");
  CallAlarm first([&](Instant now) { time.arm(second, now + 24h); });
  time.arm(first, kStart + 1h);
  EXPECT_TRUE(time.run_until_idle(kEndOfTime));
  EXPECT_EQ(log, (Log{{"second", 25h}}));
  EXPECT_EQ(time.now(), kStart + 25h);
}

TEST_F(SimulatedTimeTest, RunningStopsAtTheLimit) {
  int rings = 0;
  CallAlarm forever([&](Instant now) {
    ++rings;
    time.arm(forever, now + 1s);
  });
  time.arm(forever, kStart + 1s);
  EXPECT_FALSE(time.run_until_idle(kStart + 2500ms));
  EXPECT_EQ(rings, 2);
  EXPECT_EQ(time.now(), kStart + 2500ms);
  EXPECT_EQ(time.next_alarm(), kStart + 3s);
}

TEST_F(SimulatedTimeTest, RunningWhenIdleKeepsTheTime) {
  EXPECT_TRUE(time.run_until_idle(kStart + 1h));
  EXPECT_EQ(time.now(), kStart);
}

// Real threads: alarms come and go while another thread advances; each that is not disarmed
// rings exactly once, not before its instant, and none rings after its end.
TEST_F(SimulatedTimeTest, OtherThreadsArmAndDisarmWhileOneAdvances) {
  constexpr int kRounds = 300;
  std::atomic<int> running = 2;
  const auto arm_and_disarm = [&] {
    for (int i = 0; i < kRounds; ++i) {
      const Instant at = time.now() + Nanos{i % 5};
      std::atomic<int> rings = 0;
      CallAlarm alarm([&](Instant now) {
        EXPECT_GE(now, at);
        ++rings;
      });
      time.arm(alarm, at);
      if (i % 2 == 0) {
        while (rings == 0) std::this_thread::yield();
      }
      time.disarm(alarm);
      EXPECT_LE(rings, 1);
    }
    --running;
  };
  std::jthread a(arm_and_disarm);
  std::jthread b(arm_and_disarm);
  Instant last = time.now();
  while (running != 0) {
    time.advance(1ns);
    EXPECT_GT(time.now(), last);
    last = time.now();
  }
  EXPECT_EQ(time.next_alarm(), std::nullopt);
}

}  // namespace
}  // namespace weir
