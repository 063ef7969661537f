// A store that fails, is away, is fenced or is not what it was.
#include "store/journal_for_test.h"

namespace weir::store {
namespace {

using namespace std::chrono_literals;
using State = JournalStatus::State;

class JournalFaultsTest : public JournalTest {};

TEST_F(JournalFaultsTest, AFailedCommitStopsGranting) {
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

TEST_F(JournalFaultsTest, AWaiterIsToldWhenTheStoreFails) {
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

TEST_F(JournalFaultsTest, GoesOnInMemoryIfThatIsTheSetting) {
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

TEST_F(JournalFaultsTest, StartsWithoutItsStoreAndCatchesUpWhenThatComes) {
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

TEST_F(JournalFaultsTest, InMemoryWithoutItsStoreBothCountsAreAdded) {
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

TEST_F(JournalFaultsTest, DoesNotStartOnWhatNoWaitingMends) {
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

TEST_F(JournalFaultsTest, OneThatIsFencedStopsForGood) {
  on_failure = OnFailure::kMemory;  // even then: another one has the quota now
  start();
  Gate& gate = open("api", {window(100)});
  ASSERT_FALSE(acquire(gate));
  {
    const std::lock_guard lock{disk->mutex};
    ++disk->epoch;
  }
  tick();
  EXPECT_EQ(journal->status().state, State::kFenced) << "within a second, whatever is asked for";
  EXPECT_EQ(acquire(gate)->code, Errc::kUnavailable);
  tick(1min);
  EXPECT_EQ(journal->status().state, State::kFenced);
  EXPECT_EQ(told.back().state, State::kFenced);
}

TEST_F(JournalFaultsTest, AnOlderCopyCountsAsUsedUp) {
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

TEST_F(JournalFaultsTest, AReplacedStoreIsToldEverythingAnew) {
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

TEST_F(JournalFaultsTest, TellsOfEveryChangeOnce) {
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
