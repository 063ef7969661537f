// Real time and real threads: nothing here asserts that an alarm is on time, only that it is not
// early, in order, and ended by disarm().
#include "weir/time/thread_timer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "time/call_alarm.h"
#include "weir/time/system_clock.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

class CountingClock final : public Clock {
 public:
  CalendarTime wall() const override { return inner_.wall(); }
  int reads() const { return reads_; }

 private:
  Instant read() const override {
    ++reads_;
    return inner_.now();
  }

  MonotonicClock inner_;
  mutable std::atomic<int> reads_ = 0;
};

struct ThreadTimerRealTime : testing::Test {
  void let_pass(Nanos time) const {
    const Instant until = clock.now() + time;
    while (clock.now() < until) std::this_thread::yield();
  }
  // Long enough for the timer's thread, as a rule.
  void let_it_fall_asleep() const { let_pass(2ms); }

  MonotonicClock clock;
  ThreadTimer timer{clock};
};

TEST_F(ThreadTimerRealTime, NeedsNoThreadToBeMadeAndDestroyed) {
  CallAlarm alarm([](Instant) {});
  timer.disarm(alarm);
}

TEST_F(ThreadTimerRealTime, RingsInOrderAndNeverEarly) {
  const Instant start = clock.now();
  std::latch rung(3);
  std::vector<int> order;
  const auto expect_at = [&](int name, Instant at) {
    return CallAlarm([&, name, at](Instant now) {
      EXPECT_GE(now, at);
      EXPECT_GE(clock.now(), now);
      order.push_back(name);
      rung.count_down();
    });
  };
  CallAlarm third = expect_at(3, start + 30ms);
  CallAlarm first = expect_at(1, start + 10ms);
  CallAlarm second = expect_at(2, start + 20ms);
  timer.arm(third, start + 30ms);
  timer.arm(first, start + 10ms);
  timer.arm(second, start + 20ms);
  rung.wait();
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
}

TEST_F(ThreadTimerRealTime, AnEarlierAlarmWakesAThreadAsleepForALaterOne) {
  std::latch rung(1);
  CallAlarm tomorrow([](Instant) { FAIL() << "a day early"; });
  CallAlarm soon([&](Instant) { rung.count_down(); });
  timer.arm(tomorrow, clock.now() + 24h);
  let_it_fall_asleep();
  timer.arm(soon, clock.now() + 1ms);
  rung.wait();
  timer.disarm(tomorrow);
}

TEST_F(ThreadTimerRealTime, ArmingAgainReplacesTheInstant) {
  std::latch rung(1);
  CallAlarm moved([&](Instant) { rung.count_down(); });
  timer.arm(moved, clock.now() + 24h);
  let_it_fall_asleep();
  timer.arm(moved, clock.now() + 1ms);
  rung.wait();  // a second ring would end the latch's count below zero

  for (bool in_time = false; !in_time;) {  // a busy machine may be too late to postpone it
    int rings = 0;
    std::latch later(1);
    CallAlarm postponed([&](Instant) { ++rings; });
    CallAlarm witness([&](Instant) { later.count_down(); });
    const Instant now = clock.now();
    timer.arm(postponed, now + 5ms);
    timer.arm(postponed, now + 24h);
    in_time = clock.now() < now + 5ms;
    timer.arm(witness, now + 10ms);
    later.wait();
    timer.disarm(postponed);
    EXPECT_TRUE(rings == 0 || !in_time);
  }
}

TEST_F(ThreadTimerRealTime, ADisarmedAlarmIsSilent) {
  for (bool in_time = false; !in_time;) {  // a busy machine may be too late to disarm it
    std::latch rung(1);
    int rings = 0;
    CallAlarm silent([&](Instant) { ++rings; });
    CallAlarm witness([&](Instant) { rung.count_down(); });
    const Instant now = clock.now();
    timer.arm(silent, now + 5ms);
    timer.arm(witness, now + 10ms);
    timer.disarm(silent);
    in_time = clock.now() < now + 5ms;
    rung.wait();
    EXPECT_TRUE(rings == 0 || !in_time);
  }
}

TEST_F(ThreadTimerRealTime, AnAlarmForNeverSleepsAndCanBeMoved) {
  std::latch rung(1);
  CallAlarm alarm([&](Instant) { rung.count_down(); });
  timer.arm(alarm, kEndOfTime);
  let_it_fall_asleep();
  timer.arm(alarm, Instant::min());
  rung.wait();
}

TEST_F(ThreadTimerRealTime, DisarmWaitsForTheRingOfAnotherThread) {
  std::latch ringing(1);
  std::atomic<bool> disarming = false;
  bool rang = false;
  CallAlarm slow([&](Instant) {
    ringing.count_down();
    while (!disarming) std::this_thread::yield();
    let_pass(5ms);
    rang = true;
  });
  timer.arm(slow, clock.now());
  ringing.wait();
  disarming = true;
  timer.disarm(slow);
  EXPECT_TRUE(rang);
}

TEST_F(ThreadTimerRealTime, AnAlarmMayDisarmItselfWhileItRings) {
  std::latch rung(1);
  CallAlarm alarm([&](Instant now) {
    timer.arm(alarm, now + 24h);
    timer.disarm(alarm);
    rung.count_down();
  });
  timer.arm(alarm, clock.now());
  rung.wait();
}

TEST_F(ThreadTimerRealTime, DisarmEndsAnAlarmThatArmsItselfInEveryRing) {
  std::latch ringing(1);
  std::atomic<bool> disarming = false;
  int rings = 0;
  CallAlarm busy([&](Instant) {
    if (++rings == 1) ringing.count_down();
    while (!disarming) std::this_thread::yield();
    let_pass(5ms);
    timer.arm(busy, Instant{});
  });
  timer.arm(busy, Instant{});
  ringing.wait();
  disarming = true;
  timer.disarm(busy);
  EXPECT_EQ(rings, 1);
  std::latch later(1);
  CallAlarm witness([&](Instant) { later.count_down(); });
  timer.arm(witness, clock.now() + 5ms);
  later.wait();
  EXPECT_EQ(rings, 1);
}

TEST_F(ThreadTimerRealTime, AnAlarmAlwaysDueDoesNotStarveOthers) {
  std::latch rung(10);
  std::vector<std::unique_ptr<CallAlarm>> others;
  CallAlarm busy([&](Instant) { timer.arm(busy, Instant{}); });
  timer.arm(busy, Instant{});
  for (int i = 0; i < 10; ++i) {
    others.push_back(std::make_unique<CallAlarm>([&](Instant) { rung.count_down(); }));
    timer.arm(*others.back(), clock.now() + i * 1ms);
  }
  rung.wait();
  timer.disarm(busy);
}

TEST_F(ThreadTimerRealTime, SleepsInsteadOfPolling) {
  const CountingClock counting;
  ThreadTimer sleeper(counting);
  std::latch rung(1);
  CallAlarm alarm([&](Instant) { rung.count_down(); });
  sleeper.arm(alarm, counting.now() + 30ms);
  rung.wait();
  EXPECT_LE(counting.reads(), 8);  // two here, one before the sleep and one after, and to spare
}

TEST_F(ThreadTimerRealTime, DestroyingItEndsTheSleep) {
  CallAlarm alarm([](Instant) { FAIL() << "a day early"; });
  {
    ThreadTimer shortlived(clock);
    shortlived.arm(alarm, clock.now() + 24h);
  }
}

// Each alarm lives on the heap for one round: a ring after disarm() is a use after free, which
// the sanitizers see.
TEST_F(ThreadTimerRealTime, NoAlarmRingsAfterDisarmWithManyThreadsArming) {
  std::atomic<int> rings = 0;
  std::vector<std::jthread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::minstd_rand random(seed + 1);
      for (int i = 0; i < 500; ++i) {
        int own_rings = 0;
        auto alarm = std::make_unique<CallAlarm>([&](Instant) {
          ++own_rings;
          ++rings;
        });
        timer.arm(*alarm, clock.now() + Nanos{random() % 50'000});
        if (i % 3 == 0) timer.arm(*alarm, clock.now() + Nanos{random() % 50'000});
        let_pass(Nanos{random() % 100'000});
        timer.disarm(*alarm);
        EXPECT_LE(own_rings, 2);
      }
    });
  }
  threads.clear();
  EXPECT_GT(rings, 0);
}

}  // namespace
}  // namespace weir
