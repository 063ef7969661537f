// SQLite on a disk that fails: at every single operation of a commit, in every way.
#include <optional>

#include "store/fault_vfs_for_test.h"
#include "store/store_for_test.h"

namespace weir::store {
namespace {

using Lasts = FaultVfs::Lasts;

constexpr Amount kRows = 20;

class SqliteFaultsTest : public ::testing::Test {
 protected:
  // Its rows are all of one age.
  static Batch generation(Amount age) {
    Batch batch{.domains = {{"a.example", age, kNow, kNow}}, .now = at_second(1'800'000'000 + age)};
    for (Amount i = 0; i < kRows; ++i) {
      batch.rows.push_back(row_of("gate" + std::to_string(i), age));
    }
    return batch;
  }

  struct Case {
    FaultVfs::Fault fault;
    Lasts lasts;
    Sync sync;
    int commits_before;
  };

  // Fails the k-th operation of a commit for every k. Returns how many operations it has.
  int strike_everywhere(const Case& at) {
    for (int k = 0;; ++k) {
      SCOPED_TRACE(k);
      const SqliteDatabase database;
      Options options{.where = database.where(), .sync = at.sync, .vfs = FaultVfs::name()};
      auto store = must_open(options);
      for (Amount age = 1; age <= at.commits_before; ++age) {
        EXPECT_TRUE(store->commit(generation(age)));
      }
      vfs_.arm(k, at.fault, at.lasts);
      const bool held = store->commit(generation(at.commits_before + 1)).has_value();
      const bool struck = vfs_.struck();
      options.epoch = store->epoch();
      options.commits = store->commits();
      store.reset();
      vfs_.disarm();
      if (!struck) {
        EXPECT_TRUE(held);
        return k;
      }
      EXPECT_FALSE(held) << "what failed must not be passed over";
      expect_all_or_nothing(options, at.commits_before);
      if (testing::Test::HasFailure()) return k;
    }
  }

  static void expect_all_or_nothing(const Options& options, Amount before) {
    const auto store = open(options);
    ASSERT_TRUE(store) << store.error().message;
    const auto loaded = load(**store);
    ASSERT_TRUE(loaded) << loaded.error().message;
    ASSERT_EQ(loaded->rows.size(), before == 0 && loaded->rows.empty() ? 0U : kRows);
    const Amount age = loaded->rows.empty() ? 0 : loaded->rows.front().used;
    EXPECT_TRUE(age == before || age == before + 1) << age;
    for (const Row& row : loaded->rows) EXPECT_EQ(row.used, age);
    EXPECT_FALSE(loaded->contents.older_copy);
    if (age > 0) {
      ASSERT_EQ(loaded->contents.domains.size(), 1U);
      EXPECT_EQ(loaded->contents.domains.front().request_count, age);
      EXPECT_EQ(loaded->contents.last_seen, at_second(1'800'000'000 + age));
    }
    EXPECT_TRUE((*store)->commit(generation(before + 2)));
  }

  FaultVfs vfs_;
};

TEST_F(SqliteFaultsTest, ACommitHoldsOrIsNotThereWhicheverOperationFails) {
  for (const auto fault : {FaultVfs::Fault::kInputOutput, FaultVfs::Fault::kFull,
                           FaultVfs::Fault::kShort, FaultVfs::Fault::kReadOnly}) {
    for (const Lasts lasts : {Lasts::kOnce, Lasts::kFromThenOn}) {
      for (const Sync sync : {Sync::kProcess, Sync::kPower}) {
        for (const int before : {0, 1, 7}) {
          SCOPED_TRACE(testing::Message() << "fault " << int(fault) << ", lasts " << int(lasts)
                                          << ", sync " << int(sync) << ", after " << before);
          EXPECT_GE(strike_everywhere({fault, lasts, sync, before}), 4);
        }
      }
    }
  }
}

// The copying of the log into the database fails: the commit was durable before, but whoever goes
// on after a failed sync trusts in what may not be there.
TEST_F(SqliteFaultsTest, ACommitThatEndsInACheckpointFailsWithIt) {
  // The log has 1,000 pages after so many commits, each of which writes the same pages.
  const auto commits_to_checkpoint = [&](Sync sync) {
    const SqliteDatabase database;
    const auto store =
        must_open({.where = database.where(), .sync = sync, .vfs = FaultVfs::name()});
    for (int age = 1;; ++age) {
      EXPECT_TRUE(store->commit(generation(age)));
      if (std::filesystem::file_size(database.where()) > 4096) return age;
    }
  };
  for (const Sync sync : {Sync::kProcess, Sync::kPower}) {
    const int count = commits_to_checkpoint(sync);
    ASSERT_GT(count, 100);
    for (const auto fault : {FaultVfs::Fault::kInputOutput, FaultVfs::Fault::kShort}) {
      SCOPED_TRACE(testing::Message() << "sync " << int(sync) << ", fault " << int(fault));
      // The log is synced, pages are written, the database is synced.
      EXPECT_GE(strike_everywhere({fault, Lasts::kOnce, sync, count - 1}), 10);
    }
  }
}

TEST_F(SqliteFaultsTest, EveryFailureIsTold) {
  for (const auto& [fault, expected] :
       {std::pair{FaultVfs::Fault::kInputOutput, "away"}, std::pair{FaultVfs::Fault::kFull, "full"},
        std::pair{FaultVfs::Fault::kShort, "full"},
        std::pair{FaultVfs::Fault::kReadOnly, "read_only"}}) {
    const SqliteDatabase database;
    const auto store = must_open({.where = database.where(), .vfs = FaultVfs::name()});
    vfs_.arm(1, fault, Lasts::kFromThenOn);
    const auto failed = store->commit(generation(1));
    vfs_.disarm();
    EXPECT_EQ(fault_of(failed), expected);
    EXPECT_NE(failed.error().message.find(database.where() + ": "), std::string::npos)
        << failed.error().message;
    EXPECT_EQ(fault_of(store->commit(generation(1))), expected) << "it is of no more use";
  }
}

TEST_F(SqliteFaultsTest, AfterAFailureTheLogIsLeftAloneAndWrittenAnewByTheNextOpening) {
  const SqliteDatabase database;
  Options options{.where = database.where(), .sync = Sync::kPower, .vfs = FaultVfs::name()};
  auto store = must_open(options);
  ASSERT_TRUE(store->commit(generation(1)));
  options.epoch = store->epoch();
  vfs_.arm(0, FaultVfs::Fault::kInputOutput, Lasts::kOnce);
  EXPECT_EQ(fault_of(store->commit(generation(2))), "away");

  vfs_.arm(0, FaultVfs::Fault::kInputOutput, Lasts::kFromThenOn);
  store.reset();
  EXPECT_FALSE(vfs_.struck()) << "nothing was written or synced again";
  vfs_.disarm();

  store = must_open(options);
  const std::string without_log = database.directory.path("without_log.db");
  std::filesystem::copy_file(database.where(), without_log);
  EXPECT_EQ(SqliteShell{without_log}.run("SELECT used FROM weir_limits"), "1");
}

TEST_F(SqliteFaultsTest, AnOpeningThatFailsCanBeTriedAgain) {
  const SqliteDatabase database;
  Options options{.where = database.where(), .owner = "me", .vfs = FaultVfs::name()};
  {
    const auto store = must_open(options);
    ASSERT_TRUE(store->commit(generation(1)));
    options.epoch = store->epoch();
    options.commits = store->commits();
    vfs_.arm(0, FaultVfs::Fault::kInputOutput, Lasts::kFromThenOn);
    EXPECT_EQ(fault_of(store->commit(generation(2))), "away");
  }
  for (int k = 0;; ++k) {
    vfs_.arm(k, FaultVfs::Fault::kInputOutput, Lasts::kOnce);
    auto store = open(options);
    const bool struck = vfs_.struck();
    vfs_.disarm();
    if (store && !struck) break;
    if (store) store->reset();
    const auto again = open(options);
    ASSERT_TRUE(again) << again.error().message;
    const auto loaded = load(**again);
    ASSERT_TRUE(loaded);
    EXPECT_EQ(loaded->used("gate0"), 1);
    EXPECT_FALSE(loaded->contents.older_copy);
    ASSERT_LT(k, 100);
  }
}

TEST_F(SqliteFaultsTest, ADatabaseThatCannotBeReadIsAway) {
  const SqliteDatabase database;
  {
    const auto store = must_open({.where = database.where()});
    ASSERT_TRUE(store->commit(generation(1)));
  }
  vfs_.fail_reads(true);
  EXPECT_EQ(fault_of(open({.where = database.where(), .vfs = FaultVfs::name()})), "away");
  vfs_.fail_reads(false);
  const auto store = must_open({.where = database.where(), .vfs = FaultVfs::name()});
  vfs_.fail_reads(true);
  EXPECT_EQ(fault_of(load(*store)), "away");
  vfs_.fail_reads(false);
}

}  // namespace
}  // namespace weir::store
