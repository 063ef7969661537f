// The journal on a disk of the test's own, which a crash leaves as it is: stepped time, and a store
// that fails on demand. The real stores have the conformance suite; daemon_store_test.cc (app) puts
// the two together.
#include "store/journal.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "core/random_limit.h"
#include "weir/gate/gate.h"
#include "weir/time/simulated_time.h"

namespace weir::store {
namespace {

using namespace std::chrono_literals;
using State = JournalStatus::State;

// What is left when the process is gone.
struct Disk {
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, Row> rows;
  std::map<std::string, DomainState> domains;
  CalendarTime last_seen{};
  std::uint64_t epoch = 0;
  std::uint64_t commits = 0;
  bool older_copy = false;
  std::optional<Fault> fault;    // of every call
  std::optional<Fault> opening;  // of open()
  bool lands = false;            // a commit that fails has been written all the same
};

class DiskStore final : public Store {
 public:
  static Outcome<std::unique_ptr<Store>> open(const std::shared_ptr<Disk>& disk,
                                              const Options& options) {
    const std::lock_guard lock{disk->mutex};
    if (disk->opening) return failure(*disk->opening);
    if (disk->fault) return failure(*disk->fault);
    if (options.epoch != 0 && disk->epoch > options.epoch) return failure(Fault::kFenced);
    disk->epoch = std::max(disk->epoch, options.epoch) + 1;
    return std::unique_ptr<Store>{new DiskStore(disk)};
  }

  Outcome<Contents> load(CalendarTime now, const std::function<void(Row)>& each) override {
    const std::lock_guard lock{disk_->mutex};
    if (disk_->fault) return failure(*disk_->fault);
    now = std::max(now, disk_->last_seen);
    std::erase_if(disk_->rows, [&](const auto& row) { return row.second.expires <= now; });
    for (const auto& [key, row] : disk_->rows) each(row);
    Contents contents{
        .last_seen = disk_->last_seen, .domains = {}, .older_copy = disk_->older_copy};
    for (const auto& [domain, state] : disk_->domains) contents.domains.push_back(state);
    return contents;
  }

  Outcome<void> commit(const Batch& batch) override {
    const std::lock_guard lock{disk_->mutex};
    if (disk_->epoch != epoch_) return failure(Fault::kFenced);
    if (!disk_->fault || disk_->lands) write(batch);
    if (disk_->fault) return failure(*disk_->fault);
    return {};
  }

  std::uint64_t epoch() const override { return epoch_; }

 private:
  explicit DiskStore(std::shared_ptr<Disk> disk) : disk_(std::move(disk)), epoch_(disk_->epoch) {}
  static std::unexpected<Failure> failure(Fault fault) {
    return std::unexpected(Failure{fault, std::string{"the disk is "} + std::string{name(fault)}});
  }
  void write(const Batch& batch) {
    for (const Row& row : batch.rows) disk_->rows[{row.key.gate, row.key.limit}] = row;
    for (const Key& key : batch.removed) disk_->rows.erase({key.gate, key.limit});
    for (const DomainState& state : batch.domains) disk_->domains[state.domain] = state;
    disk_->last_seen = batch.now;
    ++disk_->commits;
  }

  const std::shared_ptr<Disk> disk_;
  const std::uint64_t epoch_;
};

class JournalTest : public ::testing::Test {
 protected:
  ~JournalTest() override { stop(); }

  void start() {
    calendar = std::make_shared<Calendar>(time);
    Journal::Config config;
    config.mode = mode;
    config.on_failure = on_failure;
    config.open = [disk = disk](const Options& options) { return DiskStore::open(disk, options); };
    config.told = [this](const JournalStatus& status) { told.push_back(status); };
    auto started = Journal::start(std::move(config), time.source(), calendar);
    ASSERT_TRUE(started) << started.error().message;
    journal = std::move(*started);
  }
  void stop() {
    for (auto& [name, gate] : gates) gate->close();
    if (journal != nullptr) journal->close();
    gates.clear();
    journal.reset();
  }
  // What was written stays as it is, whatever the old process does while it ends.
  void crash() {
    auto left = std::make_shared<Disk>();
    {
      const std::lock_guard lock{disk->mutex};
      left->rows = disk->rows;
      left->domains = disk->domains;
      left->last_seen = disk->last_seen;
      left->epoch = disk->epoch;
      left->commits = disk->commits;
      left->older_copy = disk->older_copy;
      disk->fault = Fault::kAway;
      disk->lands = false;
    }
    stop();
    disk = left;
  }

  Gate& open(const std::string& name, std::vector<LimitSpec> limits,
             const std::string& domain = {}) {
    auto gate = create_gate({.name = name, .limits = std::move(limits)}, time.source(),
                            journal.get(), domain);
    gates[name] = std::move(*gate);
    return *gates[name];
  }

  // As the daemon does: whoever meets the end of a block is held until the store has spoken.
  std::optional<Refusal> acquire(Gate& gate, Cost cost = Cost::of(Unit::kRequests, 1)) {
    for (;;) {
      const auto permit = gate.try_acquire({.cost = cost});
      if (permit) return {};
      if (!permit.error().for_backing) return permit.error();
      journal->flush();
    }
  }
  int acquire_all(Gate& gate) {
    int admitted = 0;
    while (!acquire(gate)) ++admitted;
    return admitted;
  }
  void set_fault(std::optional<Fault> fault, bool lands = false) {
    const std::lock_guard lock{disk->mutex};
    disk->fault = fault;
    disk->lands = lands;
  }
  // Lets the journal notice, or try again.
  void tick(Nanos by = Journal::kRetryEvery) {
    time.advance(by);
    journal->flush();
  }
  static LimitSpec window(Amount amount, Nanos period = 1h) {
    return LimitSpec::fixed_window(Unit::kRequests, {amount, period});
  }
  Amount left(Gate& gate, std::size_t limit = 0) {
    return gate.metrics().limits.at(limit).available;
  }

  SimulatedTime time;
  std::shared_ptr<Disk> disk = std::make_shared<Disk>();
  std::shared_ptr<const Calendar> calendar;
  Mode mode = Mode::kExact;
  OnFailure on_failure = OnFailure::kDeny;
  std::vector<JournalStatus> told;
  std::unique_ptr<Journal> journal;
  std::map<std::string, std::shared_ptr<Gate>> gates;
};

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

TEST_F(JournalTest, LosesAtMostABlock) {
  start();
  Gate* gate = &open("api", {window(100'000)});
  for (int i = 0; i < 2'000; ++i) {
    ASSERT_FALSE(acquire(*gate));
    if (i % 10 == 0) time.advance(5ms);  // 2,000 a second
    if (i % 50 == 0) journal->flush();
  }
  const Amount block = journal->blocks("api").at(0);
  EXPECT_GE(block, 1'000) << "a block is about a second of demand";
  EXPECT_LE(block, 4'000);
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
  EXPECT_LT(journal->status().commits, 100U);
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

TEST_F(JournalTest, AFailedCommitStopsGranting) {
  for (const bool lands : {false, true}) {
    SCOPED_TRACE(lands ? "it was written all the same" : "it was not written");
    disk = std::make_shared<Disk>();
    start();
    Gate& gate = open("api", {window(100)});
    ASSERT_FALSE(acquire(gate));
    set_fault(Fault::kFull, lands);
    int granted = 0;
    std::optional<Refusal> refusal;
    while (!(refusal = acquire(gate))) ++granted;
    EXPECT_EQ(refusal->code, Errc::kUnavailable);
    EXPECT_LT(granted, 20) << "at most what was written before";
    EXPECT_EQ(journal->status().state, State::kFailed);
    EXPECT_EQ(journal->status().failure->fault, Fault::kFull);
    EXPECT_FALSE(journal->admits());

    set_fault({});
    tick();
    EXPECT_EQ(journal->status().state, State::kOpen) << "left by itself";
    EXPECT_EQ(acquire_all(gate), 100 - 1 - granted);
    stop();
  }
}

TEST_F(JournalTest, AWaiterIsToldWhenTheStoreFails) {
  start();
  Gate& gate = open("api", {window(100)});
  set_fault(Fault::kAway);
  std::atomic<int> told_unavailable = 0;
  for (int i = 0; i < 3; ++i) {
    gate.acquire_async({.cost = Cost::of(Unit::kRequests, 1)}, kEndOfTime,
                       [&](Result<Permit> result) {
                         ASSERT_FALSE(result);
                         EXPECT_EQ(result.error(), Errc::kUnavailable);
                         ++told_unavailable;
                       });
  }
  while (told_unavailable < 3) journal->flush();
}

TEST_F(JournalTest, GoesOnInMemoryIfThatIsTheSetting) {
  on_failure = OnFailure::kMemory;
  start();
  Gate& gate = open("api", {window(100)});
  ASSERT_FALSE(acquire(gate));
  set_fault(Fault::kAway);
  for (int i = 0; i < 50; ++i) ASSERT_FALSE(acquire(gate));
  EXPECT_EQ(journal->status().state, State::kFailed);
  EXPECT_TRUE(journal->admits());
  set_fault({});
  tick();
  EXPECT_EQ(journal->status().state, State::kOpen);
  crash();
  start();
  EXPECT_LE(left(open("api", {window(100)})), 49) << "it was told what happened meanwhile";
}

TEST_F(JournalTest, StartsWithoutItsStoreAndCatchesUpWhenThatComes) {
  start();
  ASSERT_EQ(acquire_all(open("api", {window(10)})), 10);
  stop();
  set_fault(Fault::kAway);
  start();
  Gate& gate = open("api", {window(10)});
  EXPECT_EQ(acquire(gate)->code, Errc::kUnavailable);
  set_fault({});
  tick();
  EXPECT_EQ(acquire_all(gate), 0) << "what was used before the start is used";
}

TEST_F(JournalTest, InMemoryWithoutItsStoreBothCountsAreAdded) {
  start();
  Gate& before = open("api", {window(10)});
  for (int i = 0; i < 4; ++i) ASSERT_FALSE(acquire(before));
  stop();
  on_failure = OnFailure::kMemory;
  set_fault(Fault::kAway);
  start();
  Gate& gate = open("api", {window(10)});
  for (int i = 0; i < 3; ++i) ASSERT_FALSE(acquire(gate));
  set_fault({});
  tick();
  EXPECT_EQ(acquire_all(gate), 3);
}

TEST_F(JournalTest, DoesNotStartOnWhatNoWaitingMends) {
  for (const Fault fault : {Fault::kInUse, Fault::kInvalid, Fault::kTooNew}) {
    disk->opening = fault;
    Journal::Config config;
    config.open = [this](const Options& options) { return DiskStore::open(disk, options); };
    const auto started =
        Journal::start(std::move(config), time.source(), std::make_shared<Calendar>(time));
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().fault, fault);
  }
}

TEST_F(JournalTest, OneThatIsFencedStopsForGood) {
  on_failure = OnFailure::kMemory;  // even then: another one has the quota now
  start();
  Gate& gate = open("api", {window(100)});
  ASSERT_FALSE(acquire(gate));
  {
    const std::lock_guard lock{disk->mutex};
    ++disk->epoch;
  }
  tick(Journal::kSnapshotEvery);
  EXPECT_EQ(journal->status().state, State::kFenced);
  EXPECT_EQ(acquire(gate)->code, Errc::kUnavailable);
  tick(1min);
  EXPECT_EQ(journal->status().state, State::kFenced);
  EXPECT_EQ(told.back().state, State::kFenced);
}

TEST_F(JournalTest, AnOlderCopyCountsAsUsedUp) {
  start();
  ASSERT_FALSE(acquire(open("api", {window(10, 10min)})));
  crash();
  disk->older_copy = true;
  time.advance(1min);
  start();
  EXPECT_TRUE(journal->status().older_copy);
  Gate& gate = open("api", {window(10, 10min)});
  EXPECT_EQ(acquire_all(gate), 0);
  time.advance(4min);
  EXPECT_EQ(acquire_all(open("api agent late", {window(10, 10min)})), 0);
  time.advance(6min);
  EXPECT_EQ(acquire_all(gate), 10);
  EXPECT_EQ(acquire_all(open("api agent later", {window(10, 10min)})), 10);
}

TEST_F(JournalTest, AReplacedStoreIsToldEverythingAnew) {
  start();
  Gate& gate = open("api", {window(100)});
  for (int i = 0; i < 30; ++i) ASSERT_FALSE(acquire(gate));
  open("gone", {window(10)});
  ASSERT_EQ(acquire_all(*gates["gone"]), 10);
  gates.erase("gone");
  {
    const std::lock_guard lock{disk->mutex};
    disk->rows.clear();
  }
  set_fault(Fault::kOlder);
  while (!acquire(gate)) {
  }
  set_fault({});
  tick();
  crash();
  start();
  EXPECT_LE(left(open("api", {window(100)})), 70);
  EXPECT_EQ(acquire_all(open("gone", {window(10)})), 0);
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

TEST_F(JournalTest, TellsOfEveryChangeOnce) {
  start();
  set_fault(Fault::kAway);
  tick(Journal::kSnapshotEvery);
  for (int i = 0; i < 5; ++i) tick();
  set_fault({});
  tick();
  ASSERT_EQ(told.size(), 3U);
  EXPECT_EQ(told[0].state, State::kOpen);
  EXPECT_EQ(told[1].state, State::kFailed);
  EXPECT_EQ(told[2].state, State::kOpen);
  EXPECT_EQ(journal->status().failures, 1U);
}

}  // namespace
}  // namespace weir::store
