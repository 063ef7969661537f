#include "store/journal.h"

#include "core/random_limit.h"
#include "store/journal_for_test.h"

namespace weir::store {
namespace {

using namespace std::chrono_literals;

// S4.6
TEST_F(JournalTest, ACrashForgetsNothingThatWasAdmitted) {
  start();
  Gate* gate = &open("api", {window(100)});
  for (int i = 0; i < 40; ++i) ASSERT_FALSE(acquire(*gate));
  crash();
  start();
  gate = &open("api", {window(100)});
  EXPECT_LE(left(*gate), 60);
  EXPECT_GE(left(*gate), 60 - 13) << "more than a block was lost";
  EXPECT_LE(acquire_all(*gate), 60);
}

TEST_F(JournalTest, ACleanStopLosesNothing) {
  start();
  Gate* gate = &open("api", {window(100), LimitSpec::token_bucket(Unit::kTokens, {1000, 1min}),
                             LimitSpec::stepped(Unit::kInputTokens, {600, 60, 6s}),
                             LimitSpec::sliding_window(Unit::kOutputTokens, {500, 1min}),
                             LimitSpec::sliding_log(Unit::kMicroUsd, {400, 1min})});
  const Cost cost = Cost::of(Unit::kRequests, 1)
                        .with(Unit::kTokens, 10)
                        .with(Unit::kInputTokens, 7)
                        .with(Unit::kOutputTokens, 5)
                        .with(Unit::kMicroUsd, 3);
  for (int i = 0; i < 37; ++i) ASSERT_FALSE(acquire(*gate, cost));
  std::vector<Amount> before;
  for (std::size_t i = 0; i < 5; ++i) before.push_back(left(*gate, i));
  EXPECT_EQ(before, (std::vector<Amount>{63, 630, 341, 315, 289}));
  stop();
  start();
  gate = &open("api", {window(100), LimitSpec::token_bucket(Unit::kTokens, {1000, 1min}),
                       LimitSpec::stepped(Unit::kInputTokens, {600, 60, 6s}),
                       LimitSpec::sliding_window(Unit::kOutputTokens, {500, 1min}),
                       LimitSpec::sliding_log(Unit::kMicroUsd, {400, 1min})});
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(left(*gate, i), before[i]) << i;
}

// Admitted, crashed and restarted at random; a reference limit that never crashes sees all of it.
TEST_F(JournalTest, IsNeverOverWhateverIsKilledWhen) {
  int admitted = 0;
  int crashes = 0;
  for (std::uint64_t seed = 0; seed < 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    reference::Dice dice{seed};
    disk = std::make_shared<Disk>();
    const Amount amount = dice.pick<Amount>({5, 60, 1'009, 40'000});
    const Nanos period = dice.pick<Nanos>({1s, 7s, 1min});
    const std::vector<LimitSpec> limits{
        reference::on_calendar(LimitSpec::fixed_window(Unit::kRequests, {amount, period})),
        LimitSpec::token_bucket(Unit::kTokens, {amount * 10, period}, amount * 7),
        LimitSpec::sliding_log(Unit::kInputTokens, {amount * 3, period})};
    std::vector<Limit> references;
    for (const LimitSpec& spec : limits) {
      references.push_back(Limit::create(spec, time.now()).value());
    }
    start();
    Gate* gate = &open("api", limits);
    for (int step = 0; step < 400 && !HasFailure(); ++step) {
      if (dice.one_in(25)) {
        crash();
        ++crashes;
        if (dice.one_in(3)) time.advance(Nanos{dice.magnitude(2 * period.count())});
        start();
        gate = &open("api", limits);
      }
      if (dice.one_in(4)) time.advance(Nanos{dice.magnitude(period.count())});
      const Cost cost = Cost::of(Unit::kRequests, dice.between(1, std::max<Amount>(amount / 20, 1)))
                            .with(Unit::kTokens, dice.between(0, amount))
                            .with(Unit::kInputTokens, dice.between(0, amount / 4));
      if (acquire(*gate, cost)) continue;
      ++admitted;
      for (Limit& reference : references) {
        const Amount part = cost[reference.unit()];
        ASSERT_TRUE(reference.check(part, time.now()).admitted())
            << reference.spec().name << " is over after " << crashes << " crashes";
        reference.take(part, time.now());
      }
      if (dice.one_in(10)) journal->flush();
    }
    stop();
  }
  EXPECT_GT(admitted, 3'000);
  EXPECT_GT(crashes, 500);
}

// While a large block is written, demand falls, and who asks in vain wants a small one next. The
// large one then serves more than the small one is for.
TEST_F(JournalTest, WhatIsOnTheDiskStandsForAllThatWasAdmittedAfterEveryCommit) {
  start();
  Gate& gate = open("api", {window(100'000)});
  std::atomic<int> served = 0;
  const auto ask = [&](int times) {
    for (int i = 0; i < times; ++i) {
      gate.acquire_async({.cost = Cost::of(Unit::kRequests, 1)}, kEndOfTime,
                         [&](Result<Permit> result) { served += result ? 1 : 0; });
    }
  };
  int lulls = 0;
  Amount before = 0;
  {
    const std::lock_guard lock{disk->mutex};
    disk->written = [&](const Disk& now) {
      const Amount used = now.rows.at({"api", "requests per 1h"}).used;
      EXPECT_GE(used, served) << now.commits << " commits";
      if (used - std::exchange(before, used) < 50) return;
      ++lulls;
      time.advance(10s);
      ask(40);
    };
  }
  for (int i = 0; i < 200; ++i) {
    ask(10);
    journal->flush();
  }
  stop();
  EXPECT_GE(lulls, 3);
}

TEST_F(JournalTest, LosesAtMostABlock) {
  start();
  Gate* gate = &open("api", {window(100'000)});
  for (int i = 0; i < 2'000; ++i) {
    ASSERT_FALSE(acquire(*gate));
    if (i % 10 == 0) time.advance(5ms);  // 2,000 a second
    if (i % 50 == 0) journal->flush();
  }
  const Amount block = journal->blocks("api").at(0);
  EXPECT_GE(block, 100);
  EXPECT_LE(block, 256);
  const Amount used = 100'000 - left(*gate);
  crash();
  start();
  EXPECT_LE(100'000 - left(open("api", {window(100'000)})) - used, block);
}

TEST_F(JournalTest, BlocksShrinkTowardsTheLimitSoThatItIsUsedToTheEnd) {
  start();
  Gate& gate = open("api", {window(1'000)});
  EXPECT_EQ(acquire_all(gate), 1'000);
  EXPECT_LE(journal->blocks("api").at(0), 1);
}

TEST_F(JournalTest, CommitsOnceForManyAdmissions) {
  start();
  Gate& gate = open("api", {window(1'000'000)});
  for (int i = 0; i < 20'000; ++i) {
    ASSERT_FALSE(acquire(gate));
    if (i % 20 == 0) time.advance(10ms);  // 2,000 a second, for ten seconds
  }
  journal->flush();
  EXPECT_LT(journal->status().commits, 200U);
}

TEST_F(JournalTest, AWaiterAtTheEndOfABlockIsServedByTheCommit) {
  start();
  Gate& gate = open("api", {window(10)});
  std::atomic<int> served = 0;
  for (int i = 0; i < 5; ++i) {
    gate.acquire_async({.cost = Cost::of(Unit::kRequests, 1)}, kEndOfTime,
                       [&](Result<Permit> result) {
                         EXPECT_TRUE(result);
                         ++served;
                       });
  }
  while (served < 5) journal->flush();
  EXPECT_EQ(left(gate), 5);
}

TEST_F(JournalTest, WindowsEndWhereTheyWouldHave) {
  start();
  ASSERT_FALSE(acquire(open("api", {window(1, 10min)})));
  time.advance(4min);
  crash();
  time.advance(1min);
  start();
  Gate& gate = open("api", {window(1, 10min)});
  const auto refusal = acquire(gate);
  ASSERT_TRUE(refusal);
  EXPECT_GE(refusal->retry_after, 5min);
  EXPECT_LE(refusal->retry_after, 5min + 100ms);
  time.advance(refusal->retry_after);
  EXPECT_FALSE(acquire(gate));
}

TEST_F(JournalTest, AWallThatIsSetBackWhileItIsDownOpensNoWindowAgain) {
  for (const Nanos jump : {Nanos{1h}, Nanos{24h}}) {
    for (const bool ahead_first : {false, true}) {
      SCOPED_TRACE(testing::Message() << jump.count() << (ahead_first ? " and back" : ""));
      disk = std::make_shared<Disk>();
      start();
      ASSERT_EQ(acquire_all(open("api", {window(3, 30min)})), 3);
      if (ahead_first) {
        time.set_wall(time.wall() + jump);
        tick(Journal::kSnapshotEvery);
        time.set_wall(time.wall() - jump);
      }
      crash();
      time.set_wall(time.wall() - jump);
      start();
      EXPECT_EQ(acquire_all(open("api", {window(3, 30min)})), 0);
      time.advance(31min);
      EXPECT_EQ(acquire_all(*gates["api"]), 3) << "it goes on by what elapses";
      stop();
      time.set_wall(time.wall() + jump);
    }
  }
}

TEST_F(JournalTest, AWallThatJumpsAheadGivesOneWindowMoreAtMost) {
  start();
  ASSERT_EQ(acquire_all(open("api", {window(3, 30min)})), 3);
  crash();
  time.set_wall(time.wall() + 24h);
  start();
  EXPECT_EQ(acquire_all(open("api", {window(3, 30min)})), 3);
  crash();
  time.set_wall(time.wall() - 24h);
  start();
  EXPECT_EQ(acquire_all(open("api", {window(3, 30min)})), 0) << "and then no other";
}

// S4.5
TEST_F(JournalTest, ASnapshotIsTakenEveryTenSecondsAndForgetsWhatCameAfter) {
  mode = Mode::kSnapshot;
  start();
  Gate& gate = open("api", {window(100)}, "api.example.com");
  for (int i = 0; i < 45; ++i) ASSERT_FALSE(acquire(gate));
  tick(Journal::kSnapshotEvery);
  EXPECT_EQ(disk->domains.at("api.example.com").request_count, 45);
  EXPECT_EQ(disk->domains.at("api.example.com").window_start, SimulatedTime::kWallStart);
  for (int i = 0; i < 7; ++i) ASSERT_FALSE(acquire(gate));
  crash();
  start();
  EXPECT_EQ(left(open("api", {window(100)}, "api.example.com")), 55);
}

TEST_F(JournalTest, TheTableOfTheSeedIsKeptFreshAndTakenOver) {
  start();
  Gate* gate = &open("api", {window(300, 1min)}, "api.example.com");
  for (int i = 0; i < 45; ++i) ASSERT_FALSE(acquire(*gate));
  tick(Journal::kSnapshotEvery);
  EXPECT_EQ(disk->domains.at("api.example.com").request_count, 45);
  EXPECT_EQ(disk->domains.at("api.example.com").updated_at, time.wall());
  stop();
  {  // Another program has counted on.
    const std::lock_guard lock{disk->mutex};
    disk->domains.at("api.example.com").request_count = 100;
  }
  start();
  gate = &open("api", {window(300, 1min)}, "api.example.com");
  EXPECT_EQ(left(*gate), 200);
  time.advance(51s);
  EXPECT_EQ(left(*gate), 300) << "in the same window";
}

TEST_F(JournalTest, ALimitThatHasChangedKeepsWhatIsMissing) {
  start();
  ASSERT_EQ(acquire_all(open("api", {LimitSpec::token_bucket(Unit::kRequests, {100, 1s}, 100)})),
            100);
  stop();
  start();
  auto slower = LimitSpec::token_bucket(Unit::kRequests, {1, 1s}, 100);
  slower.name = "requests per 1s";
  EXPECT_EQ(left(open("api", {slower})), 0);
}

TEST_F(JournalTest, AGateThatIsRemovedAndMadeAgainGoesOn) {
  start();
  ASSERT_EQ(acquire_all(open("api", {window(10)})), 10);
  const auto old = gates["api"];  // somebody still holds it
  old->close();
  EXPECT_EQ(acquire_all(open("api", {window(10)})), 0);
  gates.erase("api");
  EXPECT_EQ(acquire_all(open("api", {window(10)})), 0);
}

TEST_F(JournalTest, LimitsThatAreReplacedWhileItRunsStayCovered) {
  start();
  Gate* gate = &open("api", {window(10)});
  for (int i = 0; i < 6; ++i) ASSERT_FALSE(acquire(*gate));
  ASSERT_TRUE(gate->set_limits({window(20), LimitSpec::concurrency(5)}));
  for (int i = 0; i < 10; ++i) ASSERT_FALSE(acquire(*gate));
  crash();
  start();
  EXPECT_LE(left(open("api", {window(20)})), 4);
}

TEST_F(JournalTest, ADebtGoesIntoTheNextCommit) {
  start();
  const std::vector<LimitSpec> limits{LimitSpec::fixed_window(Unit::kTokens, {1'000, 1h})};
  Gate& gate = open("api", limits);
  ASSERT_FALSE(acquire(gate, Cost::of(Unit::kTokens, 10)));
  auto permit = gate.try_acquire({.cost = Cost::of(Unit::kTokens, 10)});
  if (!permit) {
    journal->flush();
    permit = gate.try_acquire({.cost = Cost::of(Unit::kTokens, 10)});
  }
  ASSERT_TRUE(permit);
  ASSERT_TRUE(permit->settle(Cost::of(Unit::kTokens, 700)));
  journal->flush();
  crash();
  start();
  EXPECT_LE(left(open("api", limits)), 290);
}

TEST_F(JournalTest, WhatIsRefundedCanBeSpentAndIsNotLost) {
  start();
  const std::vector<LimitSpec> limits{LimitSpec::fixed_window(Unit::kTokens, {1'000, 1h})};
  Gate* gate = &open("api", limits);
  for (int i = 0; i < 8; ++i) {
    ASSERT_FALSE(acquire(*gate, Cost::of(Unit::kTokens, 1)));
    auto permit = gate->try_acquire({.cost = Cost::of(Unit::kTokens, 200)});
    if (!permit) {
      ASSERT_TRUE(permit.error().for_backing);
      journal->flush();
      permit = gate->try_acquire({.cost = Cost::of(Unit::kTokens, 200)});
    }
    ASSERT_TRUE(permit);
    ASSERT_TRUE(permit->settle(Cost::of(Unit::kTokens, 50)));
  }
  EXPECT_EQ(left(*gate), 1'000 - 8 * 51);
  stop();
  start();
  EXPECT_EQ(left(open("api", limits)), 1'000 - 8 * 51);
}

TEST_F(JournalTest, RowsOfGatesThatAreGoneAreRemovedOnceTheySayNothing) {
  start();
  for (const char* name : {"api agent a", "api agent b"}) {
    ASSERT_FALSE(acquire(open(name, {window(10, 1min)})));
    journal->flush();
    gates.erase(name);
  }
  EXPECT_EQ(disk->rows.size(), 2U);
  for (int i = 0; i < 62; ++i) tick(1s);
  EXPECT_EQ(disk->rows.size(), 0U);
}

}  // namespace
}  // namespace weir::store
