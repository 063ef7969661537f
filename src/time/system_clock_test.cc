// Real time: the subject is the machine's own clocks. Bounds are loose.
#include "weir/time/system_clock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "weir/time/cached_clock.h"
#include "weir/time/simulated_time.h"
#include "weir/time/sleep.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

// The processor may read its counter while an earlier load is under way; the test of the counter
// must not.
void finish_loads() {
#if defined(__x86_64__)
  __builtin_ia32_lfence();
#endif
}

TEST(MonotonicClockRealTime, RunsForwardAndItsWallIsInThisCentury) {
  const MonotonicClock clock;
  const Instant before = clock.now();
  EXPECT_GE(clock.now(), before);
  EXPECT_GT(clock.wall(), CalendarTime{1'700'000'000s});
  EXPECT_LT(clock.wall(), CalendarTime{4'102'444'800s});
}

TEST(BootClockRealTime, RunsForwardAndIsNotBehindTheMonotonicClock) {
  const MonotonicClock monotonic;
  const BootClock boot;
  const Instant running = monotonic.now();
  const Instant before = boot.now();
  EXPECT_GE(boot.now(), before);
  EXPECT_GE(before, running) << "it counts what the other counts, and suspension";
  EXPECT_LT(boot.wall() - monotonic.wall(), 1s);
  EXPECT_EQ(sleep_until(TimeSource::since_boot(), before + 1ms), Woken::kTime);
  EXPECT_GE(boot.now(), before + 1ms);
}

TEST(TscClockRealTime, IsInTheDomainOfTheMonotonicClock) {
  const MonotonicClock monotonic;
  const TscClock tsc;
  const Instant before = monotonic.now();
  const Instant between = tsc.now();
  const Instant after = monotonic.now();
  EXPECT_GE(between, before - 50us);
  EXPECT_LE(between, after + 50us);
}

TEST(TscClockRealTime, DriftsLessThan200PartsPerMillion) {
  if (!TscClock::trusted()) GTEST_SKIP() << "no trusted time-stamp counter";
  const MonotonicClock monotonic;
  const TscClock tsc;
  const Instant start = monotonic.now();
  ASSERT_EQ(sleep_until(TimeSource::system(), start + 100ms), Woken::kTime);
  Nanos least = Nanos::max();  // of several readings: an interrupt between the two adds to one
  for (int i = 0; i < 10; ++i) {
    const Instant before = monotonic.now();
    const Instant between = tsc.now();
    least = std::min({least, std::chrono::abs(between - before)});
  }
  const Nanos elapsed = monotonic.now() - start;
  EXPECT_LT(least, elapsed * 200 / 1'000'000 + 50us);
}

TEST(TscClockRealTime, NeverRunsBackwardsAcrossThreads) {
  if (!TscClock::trusted()) GTEST_SKIP() << "no trusted time-stamp counter";
  const TscClock clock;
  std::atomic<Instant> latest = clock.now();
  std::atomic<Nanos> worst = 0ns;
  const auto chase = [&] {
    for (int i = 0; i < 200'000; ++i) {
      const Instant seen = latest.load();
      finish_loads();
      const Instant now = clock.now();
      if (seen - now > worst.load()) worst = seen - now;
      latest = now;
    }
  };
  {
    std::jthread a(chase);
    std::jthread b(chase);
  }
  EXPECT_EQ(worst.load(), 0ns);
}

TEST(TscClockRealTime, NeverRunsBackwardsInOneThread) {
  const TscClock clock;
  Instant last = clock.now();
  for (int i = 0; i < 200'000; ++i) {
    const Instant now = clock.now();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(TimeSourceRealTime, TheSystemsIsOneForTheProcess) {
  const TimeSource a = TimeSource::system();
  const TimeSource b = TimeSource::system();
  EXPECT_EQ(&a.clock, &b.clock);
  EXPECT_EQ(&a.timer, &b.timer);
}

TEST(CachedClockRealTime, StandsStillWithinAStepAndStopsWithoutWaitingForIt) {
  SimulatedTime source;
  const CachedClock clock(source, 1h);
  const Instant start = source.now();
  source.advance(1s);
  EXPECT_EQ(clock.now(), start);
  EXPECT_EQ(clock.wall(), source.wall());
}

TEST(CachedClockRealTime, FollowsItsSourceByItself) {
  SimulatedTime source;
  const CachedClock clock(source, 1ms);
  for (int i = 0; i < 3; ++i) {
    source.advance(1s);
    const Instant give_up = TimeSource::system().clock.now() + 10s;
    while (clock.now() != source.now()) {
      ASSERT_LT(TimeSource::system().clock.now(), give_up);
      std::this_thread::yield();
    }
  }
}

}  // namespace
}  // namespace weir
