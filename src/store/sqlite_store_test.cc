// What is SQLite's own: the lock, files that are replaced, and those who look in from outside.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>

#include "store/store_for_test.h"

namespace weir::store {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

class SqliteStoreTest : public ::testing::Test {
 protected:
  Options options() const { return {.where = path_, .timeout = 100ms}; }
  std::unique_ptr<Store> open_store() const { return must_open(options()); }
  static unsigned mode(const std::string& path) {
    struct stat found{};
    return stat(path.c_str(), &found) == 0 ? found.st_mode & 0777U : 0;
  }

  const SqliteDatabase database_;
  const std::string path_ = database_.where();
};

// A process that has the store open until it is killed.
class Holder {
 public:
  explicit Holder(const Options& options) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error{"no pipe"};
    pid_ = fork();
    if (pid_ == 0) {
      const auto store = open(options);
      const char opened = store ? 'y' : 'n';
      if (write(ends[1], &opened, 1) == 1) pause();
      _exit(0);
    }
    ::close(ends[1]);
    char opened = 'n';
    if (read(ends[0], &opened, 1) != 1 || opened != 'y') throw std::runtime_error{"not opened"};
    ::close(ends[0]);
  }
  ~Holder() { kill9(); }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  void kill9() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

TEST_F(SqliteStoreTest, ASecondProcessIsToldWhoHasIt) {
  Holder holder{options()};
  const auto refused = open(options());
  EXPECT_EQ(fault_of(refused), "in_use");
  EXPECT_EQ(refused.error().message,
            path_ + " is in use by process " + std::to_string(holder.pid()));
  holder.kill9();
  EXPECT_EQ(open_store()->epoch(), 2U);
}

TEST_F(SqliteStoreTest, ASymbolicLinkLeadsToTheSameStore) {
  const std::string link = database_.directory.path("link.db");
  fs::create_symlink(path_, link);
  EXPECT_EQ(fault_of(open({.where = link})), "invalid") << "there is nothing to lead to";
  const auto store = open_store();
  EXPECT_EQ(fault_of(open({.where = link})), "in_use");
  fs::create_directory_symlink(database_.directory.path("."), database_.directory.path("folder"));
  EXPECT_EQ(fault_of(open({.where = database_.directory.path("folder/weir.db")})), "in_use");
}

TEST_F(SqliteStoreTest, OnlyItsOwnerCanReadItsFiles) {
  const mode_t before = umask(0);
  const auto store = open_store();
  umask(before);
  ASSERT_TRUE(store->commit(batch_of({row_of("a")})));
  for (const char* suffix : {"", "-wal", "-shm", "-lock"}) {
    EXPECT_EQ(mode(path_ + suffix), 0600U) << suffix;
  }
}

TEST_F(SqliteStoreTest, APathThatCanNeverBeOpenedIsInvalid) {
  for (const std::string& where :
       {database_.directory.path("no/such/folder/weir.db"), database_.directory.path("."),
        database_.directory.path(""), std::string{}, path_ + std::string(300, 'x')}) {
    const auto refused = open({.where = where});
    EXPECT_EQ(fault_of(refused), "invalid") << where;
    EXPECT_EQ(refused.error().message.find(where), 0U) << refused.error().message;
  }
}

TEST_F(SqliteStoreTest, AFileThatIsNoDatabaseIsCorrupt) {
  std::ofstream{path_} << std::string(10'000, 'x');
  const auto refused = open(options());
  EXPECT_EQ(fault_of(refused), "corrupt");
  EXPECT_EQ(refused.error().message, path_ + ": file is not a database");
}

TEST_F(SqliteStoreTest, ADamagedDatabaseIsCorrupt) {
  {
    const auto store = open_store();
    Batch batch{.now = kNow};
    for (int i = 0; i < 1'000; ++i) batch.rows.push_back(row_of(std::to_string(i)));
    ASSERT_TRUE(store->commit(batch));
  }
  std::fstream file{path_, std::ios::in | std::ios::out | std::ios::binary};
  file.seekp(10 * 4096);
  for (std::size_t size = fs::file_size(path_) - 10 * 4096; size > 0; --size) file.put('\x7f');
  file.close();
  const auto store = open(options());
  EXPECT_EQ(store ? fault_of(load(**store)) : fault_of(store), "corrupt");
}

TEST_F(SqliteStoreTest, TextInAColumnOfNumbersIsCorrupt) {
  for (const char* column : {"amount", "used", "at_ns", "expires_ns"}) {
    auto store = open_store();
    ASSERT_TRUE(store->commit(batch_of({row_of("ill")})));
    database_.sql(std::string{"UPDATE weir_limits SET "} + column + " = 'a lot'");
    EXPECT_EQ(fault_of(load(*store)), "corrupt") << column;
    store.reset();
    database_.sql("DELETE FROM weir_limits");
  }
}

// S4.5
TEST_F(SqliteStoreTest, ADomainThatCannotBeReadIsNamed) {
  for (const char* damage :
       {"window_start = 'yesterday'", "updated_at = 7", "request_count = ''"}) {
    auto store = open_store();
    ASSERT_TRUE(store->commit({.domains = {{"a.example", 1, kNow, kNow}}, .now = kNow}));
    database_.sql(std::string{"UPDATE rate_limiter_state SET "} + damage);
    const auto loaded = load(*store);
    EXPECT_EQ(fault_of(loaded), "corrupt") << damage;
    EXPECT_NE(loaded.error().message.find("'a.example'"), std::string::npos);
    store.reset();
    ASSERT_TRUE(open_store()->commit({.domains = {{"a.example", 1, kNow, kNow}}, .now = kNow}));
  }
}

// S4.5
TEST_F(SqliteStoreTest, OthersReadWhileWeWrite) {
  const auto store = open_store();
  ASSERT_TRUE(store->commit({.domains = {{"a.example", 1, kNow, kNow}}, .now = kNow}));
  SqliteShell shell{path_};
  shell.run("BEGIN");
  EXPECT_EQ(shell.run("SELECT request_count FROM rate_limiter_state"), "1");
  for (Amount count = 2; count <= 500; ++count) {
    ASSERT_TRUE(store->commit({.domains = {{"a.example", count, kNow, kNow}}, .now = kNow}));
  }
  EXPECT_EQ(shell.run("SELECT request_count FROM rate_limiter_state"), "1");
  shell.run("COMMIT");
  EXPECT_EQ(shell.run("SELECT request_count FROM rate_limiter_state"), "500");
}

TEST_F(SqliteStoreTest, SomebodyWhoHoldsTheWriteLockMakesItAwayUntilHeGoes) {
  auto store = open_store();
  ASSERT_TRUE(store->commit(batch_of({row_of("a", 1)})));
  SqliteShell shell{path_};
  shell.run("BEGIN IMMEDIATE");
  const auto failed = store->commit(batch_of({row_of("a", 2)}));
  EXPECT_EQ(fault_of(failed), "away");
  EXPECT_EQ(failed.error().message, path_ + ": database is locked");
  Options again = options();
  again.epoch = store->epoch();
  store.reset();
  EXPECT_EQ(fault_of(open(again)), "away");
  shell.run("COMMIT");
  store = must_open(again);
  EXPECT_EQ(load(*store)->used("a"), 1);
}

TEST_F(SqliteStoreTest, TheLogDoesNotGrowWithoutEnd) {
  const auto store = open_store();
  for (Amount used = 0; used < 5'000; ++used) {
    ASSERT_TRUE(store->commit(batch_of({row_of("a", used)})));
  }
  EXPECT_LT(fs::file_size(path_ + "-wal"), 6U << 20);
}

TEST_F(SqliteStoreTest, AnOlderCopyPutInItsPlaceIsSeenByTheNextCommit) {
  auto store = open_store();
  Batch large{.now = kNow};
  for (int i = 0; i < 200; ++i) large.rows.push_back(row_of("other" + std::to_string(i)));
  large.rows.push_back(row_of("a", 1));
  ASSERT_TRUE(store->commit(large));
  const std::string copy = database_.directory.path("copy.db");
  database_.sql("VACUUM INTO '" + copy + "'");
  for (Amount used = 2; used < 600; ++used) {
    ASSERT_TRUE(store->commit(batch_of({row_of("a", used)})));
  }
  fs::rename(copy, path_);
  EXPECT_EQ(fault_of(store->commit(batch_of({row_of("a", 600)}))), "older");

  Options again = options();
  again.epoch = store->epoch();
  store.reset();
  store = must_open(again);
  const auto loaded = load(*store);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_TRUE(loaded->contents.older_copy);
  EXPECT_EQ(loaded->used("a"), 1) << "nothing of the log of the other database";
  EXPECT_EQ(loaded->rows.size(), 201U);
  EXPECT_EQ(database_.sql("PRAGMA integrity_check"), "ok");
}

TEST_F(SqliteStoreTest, ADatabaseThatWasMovedAwayIsComplete) {
  auto store = open_store();
  ASSERT_TRUE(store->commit(batch_of({row_of("a", 1)})));
  const std::string moved = database_.directory.path("moved.db");
  fs::rename(path_, moved);
  EXPECT_EQ(fault_of(store->commit(batch_of({row_of("a", 2)}))), "older");
  store.reset();
  EXPECT_EQ(SqliteShell{moved}.run("SELECT used FROM weir_limits"), "2");
  store = open_store();
  EXPECT_TRUE(load(*store)->contents.older_copy) << "an empty one is older";
  EXPECT_TRUE(load(*store)->rows.empty());
}

TEST_F(SqliteStoreTest, AnOlderCopyIsToldAtTheNextStart) {
  const std::string copy = database_.directory.path("copy.db");
  ASSERT_TRUE(open_store()->commit(batch_of({row_of("a", 1)})));
  fs::copy_file(path_, copy);
  ASSERT_TRUE(open_store()->commit(batch_of({row_of("a", 2)})));
  EXPECT_FALSE(load(*open_store())->contents.older_copy);

  fs::rename(copy, path_);
  for (int start = 0; start < 3; ++start) {  // it is not forgotten by a start without a commit
    const auto store = open_store();
    EXPECT_GT(store->epoch(), 2U) << "above that of every writer before";
    EXPECT_TRUE(load(*store)->contents.older_copy);
  }
  ASSERT_TRUE(open_store()->commit(batch_of({row_of("a", 2)})));
  EXPECT_FALSE(load(*open_store())->contents.older_copy);
}

TEST_F(SqliteStoreTest, AnOlderCopyBelowTheLogOfAKilledWriterIsTold) {
  const std::string copy = database_.directory.path("copy.db");
  const auto write_and_be_killed = [&](Amount from, Amount to) {
    const pid_t child = fork();
    if (child == 0) {
      const auto store = open(options());
      for (Amount used = from; store && used <= to; ++used) {
        (void)(*store)->commit(batch_of({row_of("a", used), row_of("b" + std::to_string(used))}));
      }
      kill(getpid(), SIGKILL);
    }
    waitpid(child, nullptr, 0);
    EXPECT_GT(fs::file_size(path_ + "-wal"), 0U);
  };
  write_and_be_killed(1, 10);
  ASSERT_EQ(load(*open_store())->used("a"), 10) << "a log that is the database's own is read";
  fs::copy_file(path_, copy);
  write_and_be_killed(11, 600);  // with a checkpoint on the way
  ASSERT_EQ(load(*open_store())->used("a"), 600);
  write_and_be_killed(601, 1200);
  fs::copy_file(copy, path_, fs::copy_options::overwrite_existing);  // in place
  for (int start = 0; start < 2; ++start) {
    const auto loaded = load(*open_store());
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_TRUE(loaded->contents.older_copy);
    EXPECT_EQ(loaded->used("a"), 10);
    EXPECT_EQ(loaded->rows.size(), 11U);
  }
  // Once it is taken for what it is, its log is its own again.
  write_and_be_killed(20, 30);
  const auto loaded = load(*open_store());
  EXPECT_FALSE(loaded->contents.older_copy);
  EXPECT_EQ(loaded->used("a"), 30);
  EXPECT_EQ(database_.sql("PRAGMA integrity_check"), "ok");
}

TEST_F(SqliteStoreTest, WithoutAWitnessNothingIsOlder) {
  ASSERT_TRUE(open_store()->commit(batch_of({row_of("a")})));
  for (const char* content : {"", "garbage", "1 2"}) {
    std::ofstream{path_ + "-lock", std::ios::trunc} << content;
    EXPECT_FALSE(load(*open_store())->contents.older_copy) << content;
  }
}

TEST_F(SqliteStoreTest, WhatWasCommittedSurvivesAKill) {
  for (const Sync sync : {Sync::kProcess, Sync::kPower}) {
    const SqliteDatabase database;
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      const auto store = open({.where = database.where(), .sync = sync});
      for (Amount used = 1; store && (*store)->commit(batch_of({row_of("a", used)})); ++used) {
        if (write(ends[1], &used, sizeof used) < 0) break;
      }
      _exit(1);
    }
    ::close(ends[1]);
    Amount told = 0;
    while (told < 200 && read(ends[0], &told, sizeof told) == sizeof told) {
    }
    kill(child, SIGKILL);
    while (read(ends[0], &told, sizeof told) == sizeof told) {
    }
    ::close(ends[0]);
    waitpid(child, nullptr, 0);
    EXPECT_GE(told, 200);
    const auto loaded = load(*must_open({.where = database.where()}));
    ASSERT_TRUE(loaded);
    EXPECT_GE(loaded->used("a"), told);
    EXPECT_LE(loaded->used("a"), told + 1);
    EXPECT_FALSE(loaded->contents.older_copy);
  }
}

// As a user who may read it and no more; a superuser may do anything.
TEST_F(SqliteStoreTest, AFileThatMayOnlyBeReadIsReadOnly) {
  ASSERT_TRUE(open_store()->commit(batch_of({row_of("a")})));
  fs::permissions(database_.directory.path("."), fs::perms{0755});
  fs::permissions(path_, fs::perms{0644});
  fs::permissions(path_ + "-lock", fs::perms{0666});
  const auto open_as_nobody = [&] {
    const pid_t child = fork();
    if (child == 0) {
      if (setuid(65534) != 0) _exit(100);
      const auto store = open(options());
      _exit(store ? 101 : static_cast<int>(store.error().fault));
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(open_as_nobody(), static_cast<int>(Fault::kReadOnly)) << "of the file";
  fs::permissions(path_ + "-lock", fs::perms{0600});
  EXPECT_EQ(open_as_nobody(), static_cast<int>(Fault::kReadOnly)) << "of the lock";
  fs::remove(path_);
  EXPECT_EQ(open_as_nobody(), static_cast<int>(Fault::kReadOnly)) << "of the folder";
}

}  // namespace
}  // namespace weir::store
