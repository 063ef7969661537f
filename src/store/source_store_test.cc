// What every store of sources promises; and what is SQLite's and PostgreSQL's own.
#include "store/source_store.h"

#include <sys/stat.h>

#include <fstream>
#include <limits>
#include <set>

#include "store/fault_vfs_for_test.h"
#include "store/store_for_test.h"

namespace weir::store {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr auto kLargest = std::numeric_limits<std::int64_t>::max();

std::unique_ptr<SourceStore> must_open_sources(const Options& options) {
  auto store = open_sources(options);
  if (!store) throw std::runtime_error{store.error().message};
  return std::move(*store);
}

Outcome<std::vector<SourceRow>> load(SourceStore& store) {
  std::vector<SourceRow> rows;
  const auto loaded = store.load([&](SourceRow row) { rows.push_back(std::move(row)); });
  if (!loaded) return std::unexpected(loaded.error());
  return rows;
}

SourceRow source(std::string name) {
  return {.name = std::move(name), .definition = "{}", .due = kNow, .failures = 1};
}

// A result that `took_ms` tells from others.
SourceResult result(std::int64_t took_ms) {
  return {.at = kNow, .status = 200, .took_ms = took_ms, .bytes = 3};
}

SourceBody body(std::string bytes) {
  return {.at = kNow, .status = 200, .content_type = "text/plain", .bytes = std::move(bytes)};
}

std::string all_bytes() {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  return bytes;
}

struct SourcesInMemory : Database {
  std::string where() const override { return {}; }
  std::string sql(const std::string&) const override { throw std::runtime_error{"no file"}; }
};
struct SourcesInSqlite : SqliteDatabase {
  std::string file() const { return where() + "-sources"; }
  std::string sql(const std::string& statements) const override {
    return SqliteShell{file()}.run(statements);
  }
};

enum class Kind { kMemory, kSqlite, kPostgresql };

std::string kind_name(const testing::TestParamInfo<Kind>& info) {
  return info.param == Kind::kMemory   ? "Memory"
         : info.param == Kind::kSqlite ? "Sqlite"
                                       : "Postgresql";
}

class SourceStoreTest : public testing::TestWithParam<Kind> {
 protected:
  static std::unique_ptr<Database> make() {
    switch (GetParam()) {
      case Kind::kMemory: return std::make_unique<SourcesInMemory>();
      case Kind::kSqlite: return std::make_unique<SourcesInSqlite>();
      case Kind::kPostgresql: break;
    }
    return std::make_unique<PostgresqlDatabase>();
  }

  Options options() const { return {.where = database_->where(), .timeout = 30s}; }
  // As a restart. What is in memory alone does not outlive it.
  void reopen() {
    if (GetParam() == Kind::kMemory) return;
    store_.reset();
    store_ = must_open_sources(options());
  }
  void commit(const SourceBatch& batch) {
    const auto committed = store_->commit(batch);
    ASSERT_TRUE(committed) << committed.error().message;
  }
  std::vector<std::int64_t> results(std::string_view name) {
    std::vector<std::int64_t> took;
    const auto kept = store_->results(name);
    if (!kept) throw std::runtime_error{kept.error().message};
    for (const SourceResult& each : *kept) took.push_back(each.took_ms);
    return took;
  }
  std::string bytes(std::string_view name) {
    const auto kept = store_->body(name);
    if (!kept) throw std::runtime_error{kept.error().message};
    return *kept ? (*kept)->bytes : "none";
  }

  const std::unique_ptr<Database> database_ = make();
  std::unique_ptr<SourceStore> store_ = must_open_sources(options());
};

// Those that have a file or a server.
class KeptSourceStoreTest : public SourceStoreTest {};

INSTANTIATE_TEST_SUITE_P(Databases, SourceStoreTest,
                         testing::Values(Kind::kMemory, Kind::kSqlite, Kind::kPostgresql),
                         kind_name);
INSTANTIATE_TEST_SUITE_P(Databases, KeptSourceStoreTest,
                         testing::Values(Kind::kSqlite, Kind::kPostgresql), kind_name);

TEST_P(SourceStoreTest, ANewOneIsEmpty) {
  EXPECT_TRUE(load(*store_)->empty());
  EXPECT_TRUE(results("a").empty());
  EXPECT_EQ(bytes("a"), "none");
  commit({});
  EXPECT_TRUE(load(*store_)->empty());
}

// S4.8
TEST_P(SourceStoreTest, EveryFieldComesBack) {
  const SourceResult first{kNow + 1ns, 404, 17, 1'000, "not there"};
  const SourceResult second{CalendarTime::max(), -1, kLargest, kLargest, ""};
  const SourceBody cut{CalendarTime::min(), 206, "text/html; charset=utf-8", "<p>", true};
  commit({.rows = {{"a", "{\"url\": \"http://a.example\"}", kNow + 3ns, 5},
                   {"b", "", CalendarTime::max(), kLargest},
                   {"c", std::string(100'000, 'x'), CalendarTime::min(), 0}},
          .outcomes = {{"a", first, cut}, {"b", second}}});
  reopen();
  const std::vector<SourceRow> expected{
      {"a", "{\"url\": \"http://a.example\"}", kNow + 3ns, 5, first},
      {"b", "", CalendarTime::max(), kLargest, second},
      {"c", std::string(100'000, 'x'), CalendarTime::min(), 0}};
  EXPECT_EQ(load(*store_).value(), expected);
  EXPECT_EQ(store_->results("a").value(), std::vector{first});
  EXPECT_EQ(store_->results("b").value(), std::vector{second});
  EXPECT_EQ(store_->body("a").value(), cut);
  EXPECT_EQ(store_->body("b").value(), std::nullopt);
}

TEST_P(SourceStoreTest, WhatOthersSentComesBackByteByByte) {
  const std::string bytes = all_bytes();
  const SourceResult failed{kNow, 0, 1, 0, bytes};
  const SourceBody odd{kNow, 200, bytes, bytes + bytes, false};
  commit({.rows = {source("a")}, .outcomes = {{"a", failed, odd}}});
  reopen();
  EXPECT_EQ(load(*store_)->at(0).last, failed);
  EXPECT_EQ(store_->results("a").value(), std::vector{failed});
  EXPECT_EQ(store_->body("a").value(), odd);
}

TEST_P(SourceStoreTest, AnEmptyBodyIsOne) {
  commit({.rows = {source("a")}, .outcomes = {{"a", result(1), SourceBody{}}}});
  reopen();
  EXPECT_EQ(store_->body("a").value(), SourceBody{});
}

TEST_P(SourceStoreTest, ALargeBodyComesBack) {
  std::string large;
  while (large.size() < 8U << 20) large += all_bytes();
  commit({.rows = {source("a")}, .outcomes = {{"a", result(1), body(large)}}});
  reopen();
  EXPECT_TRUE(bytes("a") == large);
}

TEST_P(SourceStoreTest, SourcesComeByName) {
  const std::vector<std::string> names{"",     " ",    "%s",    "'; DROP TABLE weir_sources; --",
                                       "A",    "NULL", "Z",     "\\",
                                       "a",    "a\nb", "a,b{}", "a-b",
                                       "a.b",  "ab",   "z",     "ä",
                                       "東京", "🌊"};
  SourceBatch batch;
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    batch.rows.push_back(source(*name));
    batch.outcomes.push_back({*name, result(1), body(*name)});
  }
  commit(batch);
  reopen();
  std::vector<std::string> loaded;
  const auto rows = load(*store_).value();
  for (const SourceRow& row : rows) loaded.push_back(row.name);
  EXPECT_EQ(loaded, names);
  for (const std::string& name : names) {
    EXPECT_EQ(results(name), std::vector<std::int64_t>{1}) << name;
    EXPECT_EQ(bytes(name), name);
  }
  commit({.removed = names});
  EXPECT_TRUE(load(*store_)->empty());
}

TEST_P(SourceStoreTest, WhoIsReplacedKeepsItsResultsAndItsBody) {
  commit({.rows = {source("a")}, .outcomes = {{"a", result(1), body("one")}}});
  commit({.rows = {{"a", "new", kNow + 1h, 0, result(99)}}});
  reopen();
  EXPECT_EQ(load(*store_)->at(0), (SourceRow{"a", "new", kNow + 1h, 0, result(1)}));
  EXPECT_EQ(bytes("a"), "one");
}

TEST_P(SourceStoreTest, WhoIsRemovedTakesItsResultsAndItsBodyAlong) {
  const SourceBatch both{
      .rows = {source("a"), source("b")},
      .outcomes = {{"a", result(1), body("one")}, {"b", result(2), body("two")}}};
  commit(both);
  commit({.removed = {"a", "never there"}});
  reopen();
  EXPECT_EQ(load(*store_)->size(), 1U);
  EXPECT_TRUE(results("a").empty());
  EXPECT_EQ(bytes("a"), "none");
  EXPECT_EQ(results("b"), std::vector<std::int64_t>{2});
  EXPECT_EQ(bytes("b"), "two");

  commit({.rows = {source("a"), source("b")}, .removed = {"b"}});
  EXPECT_EQ(load(*store_).value(), (std::vector{source("a"), source("b")})) << "both are new";
  EXPECT_EQ(bytes("b"), "none");
}

// A fetch may end after its source was removed.
TEST_P(SourceStoreTest, OutcomesOfANameThatIsNotKnownArePassedOver) {
  commit({.rows = {source("a"), source("b")}});
  commit({.removed = {"a"}, .outcomes = {{"a", result(1), body("one")}, {"b", result(2)}}});
  EXPECT_TRUE(results("a").empty());
  EXPECT_EQ(bytes("a"), "none");
  EXPECT_EQ(results("b"), std::vector<std::int64_t>{2});
  commit({.rows = {source("a")}});
  EXPECT_EQ(load(*store_)->at(0), source("a"));
}

TEST_P(SourceStoreTest, TheNewestFiftyResultsAreKept) {
  commit({.rows = {source("a"), source("b")}, .outcomes = {{"b", result(7)}}});
  const auto expect_the_newest_of = [&](std::int64_t count) {
    std::vector<std::int64_t> expected;
    for (std::int64_t each = count; each > std::max<std::int64_t>(count - 50, 0); --each) {
      expected.push_back(each);
    }
    EXPECT_EQ(results("a"), expected);
    EXPECT_EQ(load(*store_)->at(0).last->took_ms, count);
  };
  std::int64_t count = 0;
  const auto add = [&](int how_many) {
    SourceBatch batch;
    // The clock goes back: the order is that of the commits.
    while (how_many-- > 0) {
      batch.outcomes.push_back({"a", result(++count)});
      batch.outcomes.back().result.at -= count * 1s;
    }
    commit(batch);
    expect_the_newest_of(count);
  };
  add(49);
  add(1);
  add(1);
  add(3);
  add(120);
  reopen();
  expect_the_newest_of(count);
  EXPECT_EQ(results("b"), std::vector<std::int64_t>{7}) << "another's are left alone";
}

TEST_P(SourceStoreTest, TheLastBodyOfACommitStaysAndAFailureLeavesIt) {
  commit({.rows = {source("a")},
          .outcomes = {
              {"a", result(1), body("one")}, {"a", result(2), body("two")}, {"a", result(3)}}});
  reopen();
  EXPECT_EQ(results("a"), (std::vector<std::int64_t>{3, 2, 1}));
  EXPECT_EQ(bytes("a"), "two");
  commit({.outcomes = {{"a", result(4)}}});
  EXPECT_EQ(bytes("a"), "two");
  commit({.outcomes = {{"a", result(5), body("three")}}});
  EXPECT_EQ(bytes("a"), "three");
}

// S4.8
TEST_P(SourceStoreTest, TenThousandSourcesAndAThousandOutcomesInOneCommit) {
  SourceBatch sources;
  for (int i = 0; i < 10'000; ++i) sources.rows.push_back(source(std::to_string(100'000 + i)));
  commit(sources);
  SourceBatch outcomes;
  for (std::size_t i = 0; i < 1'000; ++i) {
    outcomes.rows.push_back(sources.rows[i]);
    outcomes.outcomes.push_back(
        {sources.rows[i].name, result(1), body(std::string(10'240, static_cast<char>(i)))});
  }
  for (int round = 0; round < 3; ++round) commit(outcomes);
  reopen();
  const auto rows = load(*store_).value();
  ASSERT_EQ(rows.size(), 10'000U);
  EXPECT_EQ(rows[999].last, result(1));
  EXPECT_EQ(rows[1'000].last, std::nullopt);
  EXPECT_EQ(results(rows[999].name).size(), 3U);
  EXPECT_EQ(bytes(rows[999].name), std::string(10'240, static_cast<char>(999)));
}

TEST_P(KeptSourceStoreTest, OneAtATimeHasIt) {
  const auto refused = open_sources(options());
  ASSERT_EQ(fault_of(refused), "in_use");
  EXPECT_NE(refused.error().message.find("in use by"), std::string::npos);
  commit({.rows = {source("a")}});
  reopen();
  EXPECT_EQ(load(*store_)->size(), 1U);
}

TEST_P(KeptSourceStoreTest, TheJournalIsInTheSamePlaceAndApart) {
  const auto journal = must_open(options());
  ASSERT_TRUE(journal->commit(batch_of({row_of("gate", 7)})));
  commit({.rows = {source("a")}});
  EXPECT_EQ(load(*journal)->used("gate"), 7);
  EXPECT_EQ(load(*store_)->size(), 1U);
}

TEST_P(KeptSourceStoreTest, OneOfALaterVersionIsRefusedAndLeftAsItIs) {
  commit({.rows = {source("a")}});
  store_.reset();
  const std::string version = database_->sql("SELECT version FROM weir_source_schema");
  database_->sql("UPDATE weir_source_schema SET version = 99");
  const auto refused = open_sources(options());
  ASSERT_EQ(fault_of(refused), "too_new");
  EXPECT_NE(refused.error().message.find("schema 99"), std::string::npos);
  database_->sql("UPDATE weir_source_schema SET version = " + version);
  reopen();
  EXPECT_EQ(load(*store_)->size(), 1U);
}

TEST_P(KeptSourceStoreTest, ACommitThatFailsLeavesNothing) {
  commit({.rows = {source("a")}, .outcomes = {{"a", result(1), body("one")}}});
  database_->sql("ALTER TABLE weir_source_bodies RENAME TO elsewhere");
  EXPECT_FALSE(store_->commit(
      {.rows = {source("b")}, .removed = {"a"}, .outcomes = {{"b", result(2), body("two")}}}));
  EXPECT_FALSE(load(*store_)) << "it is of no more use";
  EXPECT_FALSE(store_->results("a"));
  EXPECT_FALSE(store_->body("a"));
  store_.reset();
  database_->sql("ALTER TABLE elsewhere RENAME TO weir_source_bodies");
  reopen();
  ASSERT_EQ(load(*store_)->size(), 1U);
  EXPECT_EQ(load(*store_)->at(0).last, result(1));
  EXPECT_EQ(bytes("a"), "one");
}

class SqliteSourceStoreTest : public testing::Test {
 protected:
  Options options() const { return {.where = database_.where(), .vfs = FaultVfs::name()}; }
  static SourceBatch generation(std::int64_t age) {
    SourceBatch batch;
    for (const char* name : {"a", "b", "c"}) {
      batch.rows.push_back(source(name));
      batch.rows.back().failures = age;
      batch.outcomes.push_back({name, result(age), body(std::string(10'000, 'x'))});
    }
    return batch;
  }

  FaultVfs vfs_;
  const SourcesInSqlite database_;
  const std::string path_ = database_.file();
};

TEST_F(SqliteSourceStoreTest, OnlyItsOwnerCanReadItsFiles) {
  const mode_t before = umask(0);
  const auto store = must_open_sources(options());
  umask(before);
  ASSERT_TRUE(store->commit(generation(1)));
  for (const char* suffix : {"", "-wal", "-shm", "-lock"}) {
    struct stat found{};
    ASSERT_EQ(stat((path_ + suffix).c_str(), &found), 0) << suffix;
    EXPECT_EQ(found.st_mode & 0777U, 0600U) << suffix;
  }
}

TEST_F(SqliteSourceStoreTest, ASymbolicLinkToTheJournalLeadsToItsSources) {
  std::ofstream{database_.where()};
  fs::create_symlink(database_.where(), database_.directory.path("link.db"));
  const auto store = must_open_sources(options());
  EXPECT_EQ(fault_of(open_sources({.where = database_.directory.path("link.db")})), "in_use");
}

TEST_F(SqliteSourceStoreTest, APathThatCanNeverBeOpenedIsInvalid) {
  for (const std::string& where : {database_.directory.path("no/such/folder/weir.db"),
                                   database_.where() + std::string(300, 'x')}) {
    EXPECT_EQ(fault_of(open_sources({.where = where})), "invalid") << where;
  }
}

TEST_F(SqliteSourceStoreTest, ACommitHoldsOrIsNotThereWhicheverOperationFails) {
  for (const auto& [fault, expected] :
       {std::pair{FaultVfs::Fault::kInputOutput, "away"}, std::pair{FaultVfs::Fault::kFull, "full"},
        std::pair{FaultVfs::Fault::kReadOnly, "read_only"}}) {
    SCOPED_TRACE(expected);
    std::set<std::string> told;  // a sync that fails is always "away"
    std::int64_t age = 1;
    ASSERT_TRUE(must_open_sources(options())->commit(generation(age)));
    for (int k = 0;; ++k) {
      SCOPED_TRACE(k);
      auto store = must_open_sources(options());
      vfs_.arm(k, fault, FaultVfs::Lasts::kFromThenOn);
      const auto committed = store->commit(generation(age + 1));
      const bool struck = vfs_.struck();
      store.reset();
      vfs_.disarm();
      if (!struck) {
        EXPECT_TRUE(committed);
        EXPECT_GT(k, 4);
        EXPECT_TRUE(told.contains(expected));
        break;
      }
      ASSERT_FALSE(committed);
      told.insert(fault_of(committed));
      store = must_open_sources(options());
      const auto rows = load(*store).value();
      ASSERT_EQ(rows.size(), 3U);
      EXPECT_TRUE(rows[0].failures == age || rows[0].failures == age + 1);
      age = rows[0].failures;
      for (const SourceRow& row : rows) {
        EXPECT_EQ(row.failures, age);
        EXPECT_EQ(row.last, result(age));
      }
    }
  }
}

TEST_F(SqliteSourceStoreTest, AFileThatIsNoDatabaseIsCorrupt) {
  std::ofstream{path_} << std::string(10'000, 'x');
  EXPECT_EQ(fault_of(open_sources(options())), "corrupt");
}

TEST_F(SqliteSourceStoreTest, ADamagedFileIsCorrupt) {
  ASSERT_TRUE(must_open_sources(options())->commit(generation(1)));
  const auto size = fs::file_size(path_);
  ASSERT_GT(size, 3U * 4096);
  std::fstream file{path_, std::ios::in | std::ios::out | std::ios::binary};
  file.seekp(4096);
  file << std::string(size - 4096, '\x7f');
  file.close();
  auto store = open_sources(options());
  EXPECT_EQ(store ? fault_of(load(**store)) : fault_of(store), "corrupt");
}

TEST_F(SqliteSourceStoreTest, OneThatWasMovedAwayIsCompleteAndNotWrittenToAgain) {
  auto store = must_open_sources(options());
  ASSERT_TRUE(store->commit(generation(1)));
  const std::string moved = database_.directory.path("moved.db");
  fs::rename(path_, moved);
  EXPECT_EQ(fault_of(store->commit(generation(2))), "older");
  store.reset();
  EXPECT_EQ(SqliteShell{moved}.run("SELECT max(failures) FROM weir_sources"), "2");
  EXPECT_TRUE(load(*must_open_sources(options()))->empty());
}

TEST_F(SqliteSourceStoreTest, AnotherCopyInItsPlaceDoesNotGetItsLog) {
  auto store = must_open_sources(options());
  ASSERT_TRUE(store->commit(generation(1)));
  const std::string copy = database_.directory.path("copy.db");
  database_.sql("VACUUM INTO '" + copy + "'");
  ASSERT_TRUE(store->commit(generation(2)));
  fs::rename(copy, path_);
  EXPECT_EQ(fault_of(store->commit(generation(3))), "older");
  store.reset();
  EXPECT_EQ(load(*must_open_sources(options()))->at(0).last, result(1));
  EXPECT_EQ(database_.sql("PRAGMA integrity_check"), "ok");
}

TEST_F(SqliteSourceStoreTest, TheLogDoesNotGrowWithoutEnd) {
  const auto store = must_open_sources(options());
  for (std::int64_t age = 0; age < 1'000; ++age) ASSERT_TRUE(store->commit(generation(age)));
  EXPECT_LT(fs::file_size(path_ + "-wal"), 6U << 20);
}

class PostgresqlSourceStoreTest : public testing::Test {
 protected:
  Options options() const { return {.where = database_.url, .timeout = 30s}; }

  const PostgresqlDatabase database_;
};

TEST_F(PostgresqlSourceStoreTest, ALostConnectionIsAwayAndGivesTheLockBack) {
  auto store = must_open_sources(options());
  ASSERT_TRUE(store->commit({.rows = {source("a")}, .outcomes = {{"a", result(1)}}}));
  database_.sql(
      "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
      " WHERE datname = current_database() AND pid <> pg_backend_pid()");
  EXPECT_EQ(fault_of(store->results("a")), "away");
  EXPECT_EQ(fault_of(store->commit({})), "away");
  store = must_open_sources(options());
  EXPECT_EQ(load(*store)->at(0).last, result(1));
}

TEST_F(PostgresqlSourceStoreTest, ADatabaseThatMayOnlyBeReadIsReadOnly) {
  ASSERT_TRUE(open_sources(options()));
  const std::string name = database_.sql("SELECT current_database()");
  database_.sql("ALTER DATABASE " + name + " SET default_transaction_read_only = on");
  EXPECT_EQ(fault_of(open_sources(options())), "read_only");
}

TEST_F(PostgresqlSourceStoreTest, TheOrderIsNotThatOfTheDatabasesLanguage) {
  auto& server = PostgresqlForTest::shared();
  PostgresqlForTest::run(server.url("postgres"),
                         "CREATE DATABASE english LOCALE_PROVIDER icu ICU_LOCALE 'en'"
                         " TEMPLATE template0");
  const auto store = must_open_sources({.where = server.url("english")});
  ASSERT_TRUE(store->commit({.rows = {source("b"), source("a"), source("B")}}));
  EXPECT_EQ(load(*store).value(), (std::vector{source("B"), source("a"), source("b")}));
}

TEST_F(PostgresqlSourceStoreTest, NoMessageHoldsThePassword) {
  for (const char* where :
       {"postgresql://weir:secret@127.0.0.1:1/db", "postgresql://weir:sec@ret@127.0.0.1/db",
        "postgres://127.0.0.1:1/db?user=weir&password=secret"}) {
    const auto refused = open_sources({.where = where});
    ASSERT_FALSE(refused) << where;
    EXPECT_EQ(refused.error().message.find("sec"), std::string::npos) << refused.error().message;
  }
}

}  // namespace
}  // namespace weir::store
