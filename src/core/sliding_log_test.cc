#include "weir/core/sliding_log.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/random_limit.h"
#include "core/reference_model.h"
#include "core/timeline.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using reference::Dice;
using timeline::admits;
using timeline::never;
using timeline::owes;
using timeline::refunds;
using timeline::waits;

constexpr auto kEntriesMax = static_cast<Amount>(SlidingLog::kEntriesMax);

// S1.6
TEST(SlidingLog, AdmitsAgainWhenEnoughChargesAreAPeriodOld) {
  timeline::of(SlidingLog::create({5, 10s}))
      .runs({
          admits(0s, 2, 3),
          admits(3s, 2, 1),
          admits(7s, 1, 0),
          waits(7s, 1, 3s, 0),
          waits(7s, 2, 3s, 0),
          waits(7s, 3, 6s, 0),
          waits(7s, 5, 10s, 0),
          waits(10s - 1ns, 1, 1ns, 0),
          admits(10s, 1, 1),
          waits(13s - 1ns, 3, 1ns, 1),
          admits(13s, 3, 0),
          admits(60s, 5, 0),
      });
}

// S1.6: no bursts at boundaries, where a fixed window passes twice its limit.
TEST(SlidingLog, PassesNoMoreThanItsLimitAcrossAnyBoundary) {
  timeline::of(SlidingLog::create({10, 1s}))
      .runs({
          admits(0s, 1, 9),
          admits(1s - 1ns, 9, 0),
          admits(1s, 1, 0),
          waits(1s, 1, 1s - 1ns, 0),
      });
}

TEST(SlidingLog, SaysNeverToMoreThanItsLimit) {
  timeline::of(SlidingLog::create({10, 1s})).runs({never(0s, 11, 10), admits(0s, 10, 0)});
}

TEST(SlidingLog, CountsADebtForAPeriod) {
  timeline::of(SlidingLog::create({5, 10s}))
      .runs({
          admits(0s, 5, 0),
          owes(1s, 5, -5),
          owes(2s, 2, -7),
          waits(2s, 1, 9s, -7),
          waits(10s, 1, 1s, -2),
          admits(11s, 3, 0),
          admits(12s, 2, 0),
      });
}

TEST(SlidingLog, RefundsACertainChargeWhileItCounts) {
  timeline::of(SlidingLog::create({5, 10s}))
      .runs({
          admits(0s, 2, 3),
          admits(3s, 3, 0),
          refunds(4s, 1, 3s, 1),
          refunds(4s, 9, 0s, 3),
          refunds(4s, 1, 1s, 3),  // nothing was charged then
          admits(4s, 3, 0),
          waits(4s, 1, 9s, 0),
          refunds(13s, 2, 3s, 2),
          waits(13s, 3, 1s, 2),
      });
}

TEST(SlidingLog, MintsNothingWhenTheClockRunsBackwards) {
  timeline::of(SlidingLog::create({5, 10s}))
      .runs({
          admits(20s, 3, 2),
          admits(5s, 2, 0),
          waits(5s, 1, 25s, 0),
          waits(29s, 5, 1s, 0),
          admits(30s, 5, 0),
      });
}

TEST(SlidingLog, KeepsChargesThatALateRefundSawExpired) {
  timeline::of(SlidingLog::create({5, 10s}))
      .runs({
          admits(0s, 5, 0),
          refunds(20s, 1, 0s, 5),
          waits(1s, 1, 9s, 0),
      });
}

// A limit of 2 remembers four entries; the refunded ones make room, the latest instant stays.
TEST(SlidingLog, RemembersTheLatestInstantWhenRefundedEntriesMakeRoom) {
  timeline::of(SlidingLog::create({2, 10s}))
      .runs({
          admits(1s, 2, 0),
          refunds(1s, 2, 1s, 2),
          admits(2s, 2, 0),
          refunds(2s, 2, 2s, 2),
          admits(3s, 2, 0),
          refunds(3s, 2, 3s, 2),
          admits(9s, 2, 0),
          refunds(9s, 2, 9s, 2),
          admits(4s, 2, 0),
          waits(14s, 1, 5s, 0),
          admits(19s, 2, 0),
      });
}

TEST(SlidingLog, RemembersEachChargeApartOnceRefundedEntriesMakeRoom) {
  timeline::of(SlidingLog::create({2, 10s}))
      .runs({
          admits(1s, 2, 0),
          refunds(1s, 2, 1s, 2),
          admits(2s, 2, 0),
          refunds(2s, 2, 2s, 2),
          admits(3s, 2, 0),
          refunds(3s, 2, 3s, 2),
          admits(4s, 1, 1),
          admits(8s, 1, 0),
          waits(8s, 1, 6s, 0),
          admits(14s, 1, 0),
      });
}

TEST(SlidingLog, RefundsAChargeOfAnInstantOutsideTheTimeLine) {
  timeline::of(SlidingLog::create({10, 1min}))
      .runs({
          admits(-5s, 8, 2),
          refunds(-5s, 3, -5s, 5),
          admits(Nanos::max(), 8, 2),
          refunds(Nanos::max(), 3, Nanos::max(), 5),
      });
}

TEST(SlidingLog, GathersDebtsThatItsMemoryDoesNotHoldAndForgetsThemLast) {
  const auto log = SlidingLog::create({2, 1min});
  ASSERT_TRUE(log);
  auto state = log->start(Instant{});
  for (int i = 1; i <= 20; ++i) {
    log->take(state, 1, Instant{i * 1s});
    ASSERT_EQ(log->available(state, Instant{i * 1s}), 2 - i);
  }
  EXPECT_EQ(log->available(state, Instant{80s - 1ns}), 2 - 17);
  EXPECT_EQ(log->available(state, Instant{80s}), 2);
}

TEST(SlidingLog, SaturatesItsDebts) {
  const auto log = SlidingLog::create({kAmountMax, 1s});
  ASSERT_TRUE(log);
  auto state = log->start(Instant{});
  for (int i = 0; i < 20'000; ++i) log->take(state, kAmountMax, Instant{i * 10us});
  EXPECT_EQ(log->available(state, Instant{200ms}), -kAmountMax);
  EXPECT_EQ(log->available(state, Instant{1200ms}), kAmountMax);
}

struct Charge {
  Instant at;
  Amount amount;
};

TEST(SlidingLog, NeverGrowsItsRing) {
  for (Amount limit : {Amount{1}, Amount{7}, kEntriesMax, kEntriesMax + 1, kAmountMax}) {
    const auto log = SlidingLog::create({limit, 1s});
    ASSERT_TRUE(log);
    auto state = log->start(Instant{});
    const std::size_t entries = state.ring.size();
    EXPECT_LE(entries, static_cast<std::size_t>(std::min(limit, kEntriesMax)) + 2);
    const auto* const memory = state.ring.data();
    Dice dice{static_cast<std::uint64_t>(limit)};
    Instant now{};
    for (int i = 0; i < 20'000; ++i) {
      now += Nanos{dice.magnitude(1'000'000)};
      const Amount cost = dice.magnitude(std::max<Amount>(limit / 4096, 1));
      if (dice.one_in(10)) {
        log->take(state, cost, now);
      } else if (spend(*log, state, cost, now).admitted() && dice.one_in(3)) {
        log->refund(state, cost, now, now);
      }
    }
    EXPECT_EQ(state.ring.size(), entries);
    EXPECT_EQ(state.ring.data(), memory);
  }
}

// A log above kEntriesMax stands between two exact ones: as strict as the asked period at least,
// and as one that is a kEntriesMax-th longer at most.
class GatheringLog {
 public:
  GatheringLog(Rate rate, Instant start)
      : log_(SlidingLog::create(rate).value()),
        state_(log_.start(start)),
        exact_(rate),
        slower_({rate.amount, rate.period + rate.period / kEntriesMax + 1ns}) {}

  Decision step(Amount cost, Instant now) {
    const Amount available = log_.available(state_, now);
    EXPECT_LE(available, exact_.available(now)) << "over";
    EXPECT_GE(available, slower_.available(now)) << "late by more than the quantum";
    const Decision decision = spend(log_, state_, cost, now);
    if (decision.admitted()) {
      exact_.charge(cost, now);
      slower_.charge(cost, now);
    } else if (decision.kind == Decision::Kind::kWait && now + decision.retry_after < kInstantMax) {
      const Instant due = now + decision.retry_after;
      EXPECT_TRUE(log_.check(state_, cost, due).admitted());
      EXPECT_EQ(log_.check(state_, cost, due - 1ns), Decision::wait(1ns));
    }
    return decision;
  }
  void refund(Charge charge, Instant now) {
    log_.refund(state_, charge.amount, charge.at, now);
    exact_.refund(charge.amount, charge.at, now);
    slower_.refund(charge.amount, charge.at, now);
  }

 private:
  SlidingLog log_;
  SlidingLog::State state_;
  reference::SlidingLogModel exact_;
  reference::SlidingLogModel slower_;
};

TEST(SlidingLog, IsNeverOverAndAtMostAQuantumLateAboveItsMemory) {
  for (std::uint64_t seed = 1; seed <= 300 && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Dice dice{seed};
    const Rate rate{std::max(dice.amount(), kEntriesMax + 1), dice.period()};
    Instant now = dice.instant();
    GatheringLog log{rate, now};
    const std::int64_t quantum = rate.period / kEntriesMax / 1ns + 1;
    std::vector<Charge> charges;
    for (int i = 0; i < 100; ++i) {
      const Amount cost =
          dice.pick<Amount>({rate.amount, rate.amount / 3 + 1, dice.magnitude(rate.amount)});
      const Decision decision = log.step(cost, now);
      if (decision.admitted()) charges.push_back({now, cost});
      if (dice.one_in(5) && !charges.empty()) {
        log.refund(charges.back(), now);
        charges.pop_back();
      }
      now += dice.pick<Nanos>({0ns, 1ns, Nanos{quantum - 1}, Nanos{quantum},
                               Nanos{dice.magnitude(2 * quantum)}, decision.retry_after,
                               Nanos{dice.magnitude(rate.period.count())}});
      now = clamp_instant(now);
    }
  }
}

// Charges exactly a quantum apart open the most entries.
TEST(SlidingLog, HoldsAFullPeriodOfEntriesWithoutGatheringMore) {
  const Rate rate{3 * kEntriesMax, 1s};
  const Nanos quantum = rate.period / kEntriesMax + 1ns;
  const auto log = SlidingLog::create(rate);
  ASSERT_TRUE(log);
  auto state = log->start(Instant{});
  for (std::int64_t i = 0; i < 3 * kEntriesMax; ++i) {
    const Instant now{i * quantum};
    ASSERT_TRUE(spend(*log, state, 2, now).admitted());
    const std::int64_t counting = std::min(i, (rate.period - 1ns) / quantum) + 1;
    ASSERT_EQ(log->available(state, now), rate.amount - 2 * counting) << "charge " << i;
  }
}

}  // namespace
}  // namespace weir
