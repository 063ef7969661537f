#include "weir/time/sleep.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "weir/time/simulated_time.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

TEST(SleepTest, ReturnsAtOnceWhenTheTimeHasCome) {
  SimulatedTime time;
  EXPECT_EQ(sleep_until(time.source(), time.now()), Woken::kTime);
  EXPECT_EQ(sleep_until(time.source(), Instant{}), Woken::kTime);
  EXPECT_EQ(time.next_alarm(), std::nullopt);
}

TEST(SleepTest, ReturnsAtOnceWhenStoppedBefore) {
  SimulatedTime time;
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(sleep_until(time.source(), kEndOfTime, stop.get_token()), Woken::kStopped);
  EXPECT_EQ(sleep_until(time.source(), Instant{}, stop.get_token()), Woken::kStopped);
  EXPECT_EQ(time.next_alarm(), std::nullopt);
}

TEST(SleepTest, WakesAtItsInstantOfSimulatedTime) {
  SimulatedTime time;
  const Instant at = time.now() + 1h;
  std::atomic<bool> awake = false;
  std::jthread sleeper([&] {
    EXPECT_EQ(sleep_until(time.source(), at), Woken::kTime);
    awake = true;
  });
  while (time.next_alarm() != at) std::this_thread::yield();
  time.advance(1h - 1ns);
  EXPECT_EQ(time.next_alarm(), at);
  EXPECT_FALSE(awake);
  time.advance(1ns);
  sleeper.join();
  EXPECT_TRUE(awake);
}

TEST(SleepTest, AStopEndsTheSleepAndDisarms) {
  SimulatedTime time;
  std::jthread sleeper([&](std::stop_token stop) {
    EXPECT_EQ(sleep_until(time.source(), time.now() + 1h, stop), Woken::kStopped);
  });
  while (time.next_alarm() == std::nullopt) std::this_thread::yield();
  sleeper.request_stop();
  sleeper.join();
  EXPECT_EQ(time.next_alarm(), std::nullopt);
}

// Sleepers go to sleep while time runs past their instants: none may oversleep for ever.
TEST(SleepTest, NoSleeperIsLostWhileTimeRuns) {
  SimulatedTime time;
  const Instant end = time.now() + 20us;
  {
    std::vector<std::jthread> sleepers;
    for (int i = 0; i < 2; ++i) {
      sleepers.emplace_back([&] {
        for (Instant now = time.now(); now < end; now = time.now()) {
          sleep_until(time.source(), now + 1ns);
        }
      });
    }
    while (time.now() < end) time.advance(1ns);
  }
  EXPECT_EQ(time.next_alarm(), std::nullopt);
}

TEST(SleepRealTime, DoesNotWakeEarly) {
  const TimeSource time = TimeSource::system();
  const Instant at = time.clock.now() + 5ms;
  EXPECT_EQ(sleep_until(time, at), Woken::kTime);
  EXPECT_GE(time.clock.now(), at);
}

}  // namespace
}  // namespace weir
