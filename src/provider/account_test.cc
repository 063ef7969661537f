// What refusals do to an account.
#include "provider/account.h"

#include <thread>

#include "provider/account_for_test.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr Rate kHundredAMinute{100, 1min};

TEST_F(AccountTest, OfWhichNothingIsKnownAdmitsEverything) {
  for (int i = 0; i < 1'000; ++i) EXPECT_TRUE(passes(1'000'000));
  answer();
  EXPECT_TRUE(account->at_rest());
  EXPECT_EQ(time.next_alarm(), std::nullopt);
}

TEST_F(AccountTest, ARetryAfterHoldsEveryWaiterUntilThen) {
  answer(limited(20s));
  EXPECT_FALSE(passes());
  wait(3);
  time.advance(20s - 1ns);
  EXPECT_EQ(admitted.size(), 0U);
  time.advance(1min);
  EXPECT_EQ(admitted.size(), 3U);
  EXPECT_EQ(admitted[0], 20s);
}

TEST_F(AccountTest, AfterAHoldWaitersAreLetGoAtTheKnownRate) {
  account->set_known_rate(Rate{600, 1min});
  answer(limited(20s));
  wait(1'000);
  time.advance(1h);
  EXPECT_EQ(admitted_in(0s, 20s), 0);
  EXPECT_EQ(admitted_in(20s, 21s), 10 + 9);  // the burst, a second's worth, and what it earns
  for (Nanos second = 21s; second < 50s; second += 1s) {
    EXPECT_EQ(admitted_in(second, second + 1s), 10) << second / 1s;
  }
}

TEST_F(AccountTest, AfterAHoldWaitersAreLetGoAtTheRateThatWasServedBefore) {
  for (int i = 0; i < 240; ++i) {  // two a second, for two minutes
    time.advance(500ms);
    answer();
  }
  admitted.clear();
  answer(limited(10s));
  wait(1'000);
  const Nanos start = elapsed() + 10s;
  time.advance(40s - 1ns);
  EXPECT_NEAR(static_cast<double>(admitted_in(start, start + 30s)), 60, 4);
  EXPECT_LE(admitted_in(start, start + 1s), 4);
}

TEST_F(AccountTest, WithoutAKnownRateThoseWhoStillWaitAreNotLetGoAllAtOnce) {
  for (int i = 0; i < 60; ++i) {
    time.advance(1s);
    answer();
  }
  answer(limited(1s));
  wait(500);
  Amount before = pace();
  EXPECT_NEAR(static_cast<double>(before), 60, 10);
  time.advance(32s);
  for (int i = 0; i < 3; ++i, time.advance(30s)) {
    EXPECT_NEAR(static_cast<double>(pace()), static_cast<double>(before) * 2, 1.0);
    before = pace();
  }
  time.advance(1h);
  EXPECT_EQ(admitted.size(), 500U);
  EXPECT_EQ(pace(), 0);
}

TEST_F(AccountTest, WhoIsNewStartsWithARequestASecondAndSoonGoesFaster) {
  for (int i = 0; i < 10; ++i) answer();
  answer(limited(1s));
  EXPECT_EQ(pace(), 60);
  wait(60);
  time.advance(3s);
  EXPECT_EQ(pace(), 120);
  time.advance(2s);
  EXPECT_EQ(pace(), 240);
  time.advance(10s);
  EXPECT_EQ(admitted.size(), 60U);
}

// S0.9
TEST_F(AccountTest, WithoutARetryAfterThePaceIsCutAndGrowsBackByATenth) {
  account->set_known_rate(kHundredAMinute);
  answer(limited());
  EXPECT_EQ(pace(), 50);
  std::vector<Amount> paces;
  while (pace() > 0 && paces.size() < 100) {
    paces.push_back(pace());
    time.advance(30s);
  }
  EXPECT_EQ(paces, (std::vector<Amount>{50, 55, 60, 66, 73, 80, 88, 97, 100}));
  EXPECT_EQ(time.next_alarm(), std::nullopt);
  EXPECT_TRUE(account->at_rest());
}

TEST_F(AccountTest, TenRefusalsInFlightAreOneEvent) {
  account->set_known_rate(kHundredAMinute);
  for (int i = 0; i < 10; ++i) answer(limited());
  EXPECT_EQ(pace(), 50);
  EXPECT_LE(held_for(), 1s);
  EXPECT_GE(held_for(), 500ms);
  // A straggler after the hold holds again, but cuts no more.
  time.advance(2s);
  answer(limited());
  EXPECT_EQ(pace(), 50);
  EXPECT_GE(held_for(), 1s);
  time.advance(9s);
  answer(limited());
  EXPECT_EQ(pace(), 25);
}

TEST_F(AccountTest, HoldsGrowWhileRefusalsKeepComingAndBeginAnewAfterAnAnswer) {
  Nanos ceiling = 1s;
  for (int i = 0; i < 8; ++i) {
    answer(limited());
    EXPECT_GE(held_for(), ceiling / 2) << i;
    EXPECT_LE(held_for(), ceiling) << i;
    time.advance(held_for());
    ceiling = std::min<Nanos>(2 * ceiling, 30s);
  }
  answer(limited());
  answer();  // was sent before the hold
  time.advance(held_for());
  answer(limited());
  EXPECT_GE(held_for(), 15s);
  time.advance(held_for());
  answer();
  answer(limited());
  EXPECT_LE(held_for(), 1s);
}

TEST_F(AccountTest, TheLatestOfSeveralRetryAftersCounts) {
  answer(limited(20s));
  answer(limited(5s));
  EXPECT_EQ(held_for(), 20s);
  time.advance(10s);
  answer(limited(30s));
  EXPECT_EQ(held_for(), 30s);
  answer(limited());
  EXPECT_EQ(held_for(), 30s);
  EXPECT_EQ(pace(), 60);  // nothing is cut
}

TEST_F(AccountTest, OverloadBacksOffAndKeepsTheRate) {
  account->set_known_rate(kHundredAMinute);
  Nanos ceiling = 500ms;
  for (int i = 0; i < 9; ++i) {
    answer(overloaded());
    answer(overloaded());  // at the same time
    EXPECT_GE(held_for(), ceiling / 2) << i;
    EXPECT_LE(held_for(), ceiling) << i;
    EXPECT_EQ(pace(), 100);
    time.advance(held_for());
    ceiling = std::min<Nanos>(2 * ceiling, 30s);
  }
  answer();
  answer(overloaded());
  EXPECT_LE(held_for(), 500ms);
}

TEST_F(AccountTest, ExhaustionIsSaidAtOnceAndEndsAtItsReset) {
  answer(limited(5s));
  wait(2);
  answer(exhausted(2h));
  EXPECT_EQ(ended, (std::vector{Errc::kCapacityExhausted, Errc::kCapacityExhausted}));
  const auto said = account->exhausted(time.now());
  ASSERT_TRUE(said);
  EXPECT_EQ(said->reason, "test");
  EXPECT_EQ(said->until, time.now() + 2h);
  EXPECT_FALSE(passes());
  EXPECT_FALSE(account->at_rest());
  answer(exhausted());  // the others in flight change nothing
  time.advance(2h - 1ns);
  EXPECT_TRUE(account->exhausted(time.now()));
  time.advance(1ns);
  EXPECT_FALSE(account->exhausted(time.now()));
  EXPECT_TRUE(passes());
}

TEST_F(AccountTest, ExhaustionWithoutAResetIsAskedAboutEverMoreRarely) {
  std::vector<Nanos> waits;
  for (int i = 0; i < 6; ++i) {
    answer(exhausted());
    answer(exhausted());
    waits.push_back(account->exhausted(time.now())->until - time.now());
    time.advance(waits.back());
  }
  EXPECT_EQ(waits, (std::vector<Nanos>{5min, 10min, 20min, 40min, 1h, 1h}));
  answer();
  answer(exhausted());
  EXPECT_EQ(account->exhausted(time.now())->until - time.now(), 5min);
}

TEST_F(AccountTest, ResumingByHandEndsHoldsAndExhaustion) {
  answer(limited(30min));
  wait(1);
  account->resume();
  EXPECT_EQ(admitted.size(), 1U);
  answer(exhausted(3h));
  account->resume();
  EXPECT_FALSE(account->exhausted(time.now()));
  EXPECT_EQ(held_for(), 0s);
  time.advance(10s);
  EXPECT_TRUE(passes());
}

TEST_F(AccountTest, AFailureTeachesNothing) {
  answer(of_kind(Signals::Kind::kFailed));
  EXPECT_TRUE(account->at_rest());
}

TEST_F(AccountTest, WhoIsCalledBackMayLetGoOfIt) {
  account->set_known_rate(kHundredAMinute);
  answer(limited());
  account->gate().acquire_async({}, kEndOfTime, [this](const Result<Permit>&) { account.reset(); });
  time.advance(1h);
  EXPECT_EQ(account, nullptr);
}

// Real threads, for the thread sanitizer; what is true at any moment is true here.
TEST_F(AccountTest, ThreadsThatAnswerAndWaitAtOnceLeaveItInOrder) {
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      const Instant now = time.now();
      for (int i = 0; i < 300; ++i) {
        const Amount amount = 10 + (i + t) % 5;
        account->answered(stating({.period = 1min, .limit = amount, .remaining = 5}), Cost::call(),
                          now);
        if (i % 50 == t) account->answered(limited(1ms), Cost::call(), now);
        if (i % 97 == t) account->answered(exhausted(1ms), Cost::call(), now);
        (void)account->exhausted(now);
        (void)account->gate().try_acquire({});
      }
    });
  }
  for (int i = 0; i < 50; ++i) time.advance(1s);
  threads.clear();
  time.advance(1h);
  const auto learned = limit("requests per 1m");
  ASSERT_TRUE(learned);
  EXPECT_TRUE(learned->amount >= 10 && learned->amount <= 14);
  EXPECT_EQ(learned->available, learned->amount);
  EXPECT_EQ(pace(), 0);
  EXPECT_TRUE(account->at_rest());
}

}  // namespace
}  // namespace weir
