// Real threads at one gate: what is admitted is conserved under any interleaving.
#include <gtest/gtest.h>

#include <mutex>
#include <stop_token>

#include "gate/gate_for_test.h"
#include "gate/real_time_for_test.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr Unit kTokens = Unit::kTokens;
constexpr int kThreads = 4;
constexpr Amount kBurst = 100;
constexpr Rate kMillionASecond{1'000'000, 1s};
// A time-stamp counter may be read so much early in another thread.
constexpr Nanos kClockSkew = 20us;

Amount earned(Nanos span) { return (span + kClockSkew) / 1us + 1; }

template <class ClockType>
class FastGateThreadsTest : public testing::Test {
 protected:
  RealTime<ClockType> real;
};
using Clocks = testing::Types<MonotonicClock, TscClock>;
TYPED_TEST_SUITE(FastGateThreadsTest, Clocks);

TYPED_TEST(FastGateThreadsTest, AdmitsNoMoreThanItHeldAndEarned) {  // S1.2
  const auto gate = this->real.gate(
      {.name = "gate", .limits = {LimitSpec::token_bucket(kTokens, kMillionASecond, kBurst)}});
  const Instant start = this->real.clock.now();
  std::atomic<Amount> admitted = 0;
  std::atomic<std::uint64_t> acquired = 0;
  std::atomic<std::uint64_t> rejected = 0;
  in_threads(kThreads, [&](int thread) {
    const auto count = [&](bool yes, Amount amount) {
      (yes ? acquired : rejected) += 1;
      if (yes) admitted += amount;
    };
    for (int i = 0; i < 300; ++i) {
      for (int j = 0; j < 10; ++j) count(gate->try_spend(1 + j % 3), 1 + j % 3);
      count(gate->try_acquire(tokens(2)).has_value(), 2);
      if (i % 10 == thread) count(gate->acquire(tokens(30)).has_value(), 30);
    }
  });
  const Nanos span = this->real.clock.now() - start;
  EXPECT_LE(admitted, kBurst + earned(span));
  EXPECT_GE(admitted, kThreads * 30 * 30) << "whoever waits is served";
  const GateMetrics metrics = gate->metrics();
  EXPECT_EQ(metrics.acquired, acquired);
  EXPECT_EQ(metrics.rejected, rejected);
  EXPECT_EQ(metrics.waiting, 0U);
}

struct GateThreadsTest : testing::Test {
  RealTime<> real;
};

TEST_F(GateThreadsTest, TenThreadsOfAHundredAcquiresAllComplete) {  // S1.9
  const auto gate =
      real.gate({.name = "gate", .limits = {LimitSpec::token_bucket(kTokens, {100'000, 1s}, 10)}});
  const Instant start = real.clock.now();
  in_threads(10, [&](int thread) {
    for (int i = 0; i < 100; ++i) {
      EXPECT_TRUE(gate->acquire(tokens(std::to_string(thread % 3), 1)));
    }
  });
  EXPECT_GE(real.clock.now() - start, Nanos{990 * 10us});
  EXPECT_EQ(gate->metrics().acquired, 1000U);
  EXPECT_EQ(gate->metrics().rejected, 0U);
}

TEST_F(GateThreadsTest, ThreeLimitsAreConservedWhilePermitsSettleAndRelease) {
  constexpr Amount kSlots = 3;
  const auto gate =
      real.gate({.name = "gate",
                 .limits = {LimitSpec::token_bucket(kTokens, kMillionASecond, kBurst),
                            LimitSpec::fixed_window(Unit::kRequests, {kAmountMax, 1h}),
                            LimitSpec::concurrency(kSlots)}});
  const Instant start = real.clock.now();
  std::atomic<Amount> used = 0;
  std::atomic<std::uint64_t> calls = 0;
  Occupancy occupancy;
  in_threads(kThreads, [&](int thread) {
    for (int i = 0; i < 300; ++i) {
      const Amount estimate = 1 + (i * 7 + thread) % 40;
      const Request request{.cost = Cost::call(estimate), .agent = thread % 2 == 0 ? "a" : "b"};
      Permit permit;
      if (i % 3 == 0) {
        if (auto tried = gate->try_acquire(request)) permit = std::move(*tried);
      } else if (auto waited = gate->acquire(request)) {
        permit = std::move(*waited);
      }
      if (!permit) continue;
      occupancy.enter();
      ++calls;
      const Amount actual = i % 2 == 0 ? estimate / 2 : estimate;
      ASSERT_TRUE(permit.settle(Cost::of(kTokens, actual)));
      used += actual;
      occupancy.leave();
      if (i % 5 != 0) permit.release();  // else by its destructor
    }
  });
  EXPECT_LE(used, kBurst + earned(real.clock.now() - start));
  EXPECT_LE(occupancy.most(), kSlots);
  const GateMetrics metrics = gate->metrics();
  EXPECT_EQ(metrics.acquired, calls);
  EXPECT_EQ(metrics.limits[1].available, kAmountMax - static_cast<Amount>(calls));
  EXPECT_EQ(metrics.limits[2].available, kSlots);
  EXPECT_EQ(metrics.waiting, 0U);
}

// One thread asks, one cancels what it asked for, one releases what was granted meanwhile.
TEST_F(GateThreadsTest, CancellationsRacingWithGrantsEndEachWaitOnce) {
  constexpr std::size_t kWaits = 3'000;
  const auto gate = real.gate({.name = "gate", .limits = {LimitSpec::concurrency(2)}});
  Tally tally{kWaits};
  std::mutex mutex;
  std::vector<Permit> granted;
  std::vector<Ticket> tickets;
  in_threads(3, [&](int thread) {
    for (std::size_t i = 0; thread == 0 && i < kWaits; ++i) {
      Ticket ticket = gate->acquire_async(slots(i % 2 == 0 ? "a" : "b"), kEndOfTime,
                                          [&, i](Result<Permit> outcome) {
                                            if (outcome) {
                                              const std::scoped_lock lock{mutex};
                                              granted.push_back(std::move(*outcome));
                                              outcome = Permit{};
                                            }
                                            tally.note(i, outcome);
                                          });
      const std::scoped_lock lock{mutex};
      tickets.push_back(std::move(ticket));
    }
    while (thread != 0 && tally.done() < kWaits) {
      std::vector<Ticket> to_cancel;
      std::vector<Permit> to_release;
      {
        const std::scoped_lock lock{mutex};
        if (thread == 1) to_cancel.swap(tickets);
        if (thread == 2) to_release.swap(granted);
      }
      for (std::size_t i = 0; i < to_cancel.size(); i += 2) to_cancel[i].cancel();
      to_release.clear();
      std::this_thread::yield();
    }
  });
  granted.clear();
  tally.expect_each_once();
  const GateMetrics metrics = gate->metrics();
  EXPECT_EQ(metrics.waiting, 0U);
  EXPECT_EQ(metrics.acquired, tally.admitted());
  EXPECT_EQ(metrics.limits[0].available, 2);
}

TEST_F(GateThreadsTest, DeadlinesRacingWithGrantsEndEachWaitOnce) {
  constexpr std::size_t kEach = 500;
  const auto gate =
      real.gate({.name = "gate", .limits = {LimitSpec::token_bucket(kTokens, {200'000, 1s}, 5)}});
  Tally tally{kThreads * kEach};
  const Instant start = real.clock.now();
  in_threads(kThreads, [&](int thread) {
    for (std::size_t i = 0; i < kEach; ++i) {
      const std::size_t id = static_cast<std::size_t>(thread) * kEach + i;
      const Instant deadline = real.clock.now() + Nanos{static_cast<std::int64_t>(i) * 2'000};
      gate->acquire_async(tokens(std::to_string(i % 3), 1), deadline,
                          [&, id](const Result<Permit>& outcome) {
                            if (!outcome) {
                              EXPECT_EQ(outcome.error(), Errc::kDeadlineExceeded);
                            }
                            tally.note(id, outcome);
                          });
    }
  });
  tally.wait_for_all();
  tally.expect_each_once();
  EXPECT_LE(tally.admitted(), 5U + static_cast<std::size_t>((real.clock.now() - start) / 5us) + 1);
  EXPECT_EQ(gate->metrics().waiting, 0U);
  EXPECT_EQ(gate->metrics().acquired, tally.admitted());
}

TEST_F(GateThreadsTest, StopRequestsRacingWithGrantsEndEveryBlockingWait) {
  const auto gate = real.gate({.name = "gate", .limits = {LimitSpec::concurrency(1)}});
  std::atomic<int> admitted = 0;
  std::atomic<int> cancelled = 0;
  for (int round = 0; round < 100; ++round) {
    std::stop_source stop;
    Permit held = gate->try_acquire(slots("x")).value();
    in_threads(kThreads, [&](int thread) {
      if (thread == 0) return held.release();
      if (thread == 1) return static_cast<void>(stop.request_stop());
      const auto permit = gate->acquire(slots("y"), {.stop = stop.get_token()});
      if (!permit) {
        EXPECT_EQ(permit.error(), Errc::kCancelled);
      }
      ++(permit ? admitted : cancelled);
    });
  }
  EXPECT_EQ(admitted + cancelled, 200);
  EXPECT_EQ(gate->metrics().waiting, 0U);
  EXPECT_EQ(gate->metrics().limits[0].available, 1);
}

TEST_F(GateThreadsTest, ClosingRacingWithEverythingEndsEverything) {
  for (int round = 0; round < 20; ++round) {
    const auto gate = real.gate({.name = "gate",
                                 .limits = {LimitSpec::token_bucket(kTokens, kMillionASecond, 10),
                                            LimitSpec::concurrency(2)}});
    constexpr std::size_t kAsync = 300;
    Tally tally{kAsync};
    std::atomic<bool> closed = false;
    in_threads(5, [&](int thread) {
      switch (thread) {
        case 0:
          for (std::size_t i = 0; i < kAsync; ++i) {
            gate->acquire_async({.cost = Cost::call(1), .agent = "a"},
                                i % 3 == 0 ? real.clock.now() + 50us : kEndOfTime,
                                [&, i](Result<Permit> outcome) {
                                  const bool after = closed.load();
                                  if (outcome && i % 2 == 0) {
                                    EXPECT_TRUE(outcome->settle(Cost::of(kTokens, 0)) || after);
                                  }
                                  tally.note(i, outcome);
                                });
          }
          return;
        case 1:
          while (!closed) {
            if (auto permit = gate->try_acquire({.cost = Cost::call(2)})) permit->release();
          }
          return;
        case 2:
          while (true) {
            const auto permit = gate->acquire({.cost = Cost::call(3), .agent = "b"});
            if (permit) continue;
            EXPECT_EQ(permit.error(), Errc::kResourceUnknown);
            return;
          }
        case 3:
          while (!closed) gate->refund(Cost::of(kTokens, 1));
          return;
        default:
          while (tally.done() < static_cast<std::size_t>(round) * 15) std::this_thread::yield();
          gate->close(Errc::kResourceUnknown);
          closed = true;
      }
    });
    tally.wait_for_all();
    tally.expect_each_once();
    const GateMetrics metrics = gate->metrics();
    EXPECT_EQ(metrics.waiting, 0U);
    EXPECT_EQ(metrics.limits[1].available, 2);
    EXPECT_FALSE(gate->try_spend(1));
  }
}

TEST_F(GateThreadsTest, ChangingLimitsRacingWithEverythingMintsNothing) {
  const auto gate = real.gate(
      {.name = "gate", .limits = {LimitSpec::token_bucket(kTokens, {500'000, 1s}, kBurst)}});
  const Instant start = real.clock.now();
  std::atomic<Amount> admitted = 0;
  std::atomic<int> working = kThreads - 1;
  in_threads(kThreads, [&](int thread) {
    if (thread == 0) {
      for (int i = 0; working > 0; ++i) {
        ASSERT_TRUE(gate->set_limits({LimitSpec::token_bucket(
            kTokens, i % 2 == 0 ? kMillionASecond : Rate{500'000, 1s}, kBurst - i % 2)}));
        std::this_thread::yield();
      }
      return;
    }
    for (int i = 0; i < 200; ++i) {
      for (int j = 0; j < 5; ++j) admitted += gate->try_spend(2) ? 2 : 0;
      const auto permit = gate->acquire(tokens(20));
      ASSERT_TRUE(permit);
      admitted += 20;
    }
    --working;
  });
  EXPECT_LE(admitted, kBurst + earned(real.clock.now() - start));
  EXPECT_EQ(gate->metrics().waiting, 0U);
}

TEST_F(GateThreadsTest, HoldsAndEndedWaitsRacingWithEverythingLoseNobody) {
  const auto gate = real.gate(
      {.name = "gate", .limits = {LimitSpec::token_bucket(kTokens, kMillionASecond, kBurst)}});
  const Instant start = real.clock.now();
  std::atomic<Amount> admitted = 0;
  std::atomic<int> working = kThreads - 1;
  in_threads(kThreads, [&](int thread) {
    if (thread == 0) {
      for (int i = 0; working > 0; ++i) {
        gate->hold_until(i % 4 == 0 ? kEndOfTime : real.clock.now() + 30us);
        std::this_thread::yield();
        if (i % 8 == 2) gate->end_waiters(Errc::kCancelled);
        if (i % 4 == 0) gate->resume();
      }
      return;
    }
    for (int i = 0; i < 300; ++i) {
      for (int j = 0; j < 5; ++j) admitted += gate->try_spend(2) ? 2 : 0;
      const auto permit = gate->acquire(tokens(20));
      if (!permit) {
        EXPECT_EQ(permit.error(), Errc::kCancelled);
      }
      admitted += permit ? 20 : 0;
    }
    --working;
  });
  EXPECT_LE(admitted, kBurst + earned(real.clock.now() - start));
  EXPECT_EQ(gate->metrics().waiting, 0U);
  gate->resume();
  EXPECT_TRUE(gate->acquire(tokens(kBurst)));
}

TEST_F(GateThreadsTest, StaleSlotsTakenBackInTheMidstOfReleasesAreCountedOnce) {
  const auto gate =
      real.gate({.name = "gate", .limits = {LimitSpec::concurrency(2)}, .stale_after = 20us});
  in_threads(kThreads, [&](int thread) {
    for (int i = 0; i < 300; ++i) {
      auto permit = gate->acquire(slots(std::to_string(thread)));
      ASSERT_TRUE(permit);
      for (int pause = 0; pause < (i % 7) * 20; ++pause) std::this_thread::yield();
      permit->release();
      permit->release();
    }
  });
  const GateMetrics metrics = gate->metrics();
  EXPECT_EQ(metrics.limits[0].available, 2);
  EXPECT_EQ(metrics.acquired, 1200U);
  EXPECT_EQ(metrics.waiting, 0U);
}

TEST_F(GateThreadsTest, AGateMayGoWhileItsTimerRings) {
  for (int round = 0; round < 300; ++round) {
    Tally tally{20};
    {
      const auto gate = real.gate(
          {.name = "gate", .limits = {LimitSpec::token_bucket(kTokens, kMillionASecond, 10)}});
      ASSERT_TRUE(gate->try_spend(10));
      for (std::size_t i = 0; i < 20; ++i) {
        gate->acquire_async(tokens(1), kEndOfTime,
                            [&, i](const Result<Permit>& outcome) { tally.note(i, outcome); });
      }
      while (tally.done() < static_cast<std::size_t>(round % 20)) std::this_thread::yield();
    }
    tally.wait_for_all();
    tally.expect_each_once();
  }
}

TEST_F(GateThreadsTest, FiguresMayBeReadAtAnyTime) {
  const auto gate = real.gate(
      {.name = "gate", .limits = {LimitSpec::token_bucket(kTokens, kMillionASecond, kBurst)}});
  std::atomic<int> working = 2;
  in_threads(3, [&](int thread) {
    if (thread > 0) {
      for (int i = 0; i < 2'000; ++i) {
        const bool spent = gate->try_spend(1);
        ASSERT_TRUE(spent || i % 50 != 0 || gate->acquire(tokens(1)));
      }
      --working;
      return;
    }
    std::uint64_t last = 0;
    while (working > 0) {
      const GateMetrics metrics = gate->metrics();
      EXPECT_GE(metrics.acquired, last);
      last = metrics.acquired;
      EXPECT_LE(metrics.limits[0].available, kBurst);
      EXPECT_LE(gate->level(0), static_cast<double>(kBurst));
      gate->forecast(Cost::of(kTokens, 1), real.clock.now());
    }
  });
}

}  // namespace
}  // namespace weir
