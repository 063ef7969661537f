// What every store promises, in either database.
#include <limits>
#include <set>

#include "store/columns.h"
#include "store/store_for_test.h"

namespace weir::store {
namespace {

using namespace std::chrono_literals;

constexpr auto kLargest = std::numeric_limits<std::int64_t>::max();

enum class Kind { kSqlite, kPostgresql };

class StoreTest : public ::testing::TestWithParam<Kind> {
 protected:
  static std::unique_ptr<Database> make() {
    if (GetParam() == Kind::kSqlite) return std::make_unique<SqliteDatabase>();
    return std::make_unique<PostgresqlDatabase>();
  }

  Options options() const { return {.where = database_->where(), .timeout = 30s}; }
  void open_store() { store_ = must_open(options()); }
  void close_store() { store_.reset(); }
  void reopen() {
    close_store();
    open_store();
  }
  std::string sql(const std::string& statements) const { return database_->sql(statements); }

  // As after a failure.
  Options again() const {
    return {.where = database_->where(), .epoch = store_->epoch(), .commits = store_->commits()};
  }

  const std::unique_ptr<Database> database_ = make();
  std::unique_ptr<Store> store_;
};

INSTANTIATE_TEST_SUITE_P(Databases, StoreTest, ::testing::Values(Kind::kSqlite, Kind::kPostgresql),
                         [](const auto& database) {
                           return database.param == Kind::kSqlite ? "Sqlite" : "Postgresql";
                         });

TEST_P(StoreTest, ANewOneIsEmpty) {
  open_store();
  EXPECT_EQ(store_->epoch(), 1U);
  EXPECT_EQ(store_->commits(), 0U);
  const auto loaded = load(*store_);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_TRUE(loaded->rows.empty());
  EXPECT_TRUE(loaded->contents.domains.empty());
  EXPECT_EQ(loaded->contents.last_seen, CalendarTime{});
  EXPECT_FALSE(loaded->contents.older_copy);
}

TEST_P(StoreTest, EveryFieldComesBack) {
  open_store();
  Batch batch{.now = kNow};
  for (int algorithm = 0; algorithm < 7; ++algorithm) {
    for (std::size_t unit = 0; unit < kUnitCount; ++unit) {
      const Amount salt = 100 * algorithm + static_cast<Amount>(unit);
      batch.rows.push_back({.key = {"gate" + std::to_string(algorithm), std::to_string(unit)},
                            .unit = static_cast<Unit>(unit),
                            .algorithm = static_cast<LimitSpec::Algorithm>(algorithm),
                            .amount = salt + 1,
                            .period = Nanos{salt + 2},
                            .burst = salt + 3,
                            .at = kNow + Nanos{salt + 4},
                            .used = salt + 5,
                            .previous = salt + 6,
                            .slots = {salt + 7, 0, 3},
                            .expires = kNow + Nanos{salt + 8}});
    }
  }
  ASSERT_TRUE(store_->commit(batch));
  reopen();
  EXPECT_EQ(load(*store_)->rows, batch.rows);
}

TEST_P(StoreTest, ExtremeValuesComeBack) {
  open_store();
  const Batch batch{.rows = {{.key = {"", ""}, .expires = CalendarTime::max()},
                             {.key = {"large", std::string(10'000, 'x')},
                              .amount = kLargest,
                              .period = Nanos::max(),
                              .burst = kLargest,
                              .at = CalendarTime::max(),
                              .used = kLargest,
                              .previous = kLargest,
                              .slots = std::vector<Amount>(1'000, kLargest),
                              .expires = CalendarTime::max()},
                             {.key = {"small", ""},
                              .at = CalendarTime::min(),
                              .slots = {0},
                              .expires = kNow + 1ns}},
                    .now = kNow};
  const auto committed = store_->commit(batch);
  ASSERT_TRUE(committed) << committed.error().message;
  reopen();
  EXPECT_EQ(load(*store_)->rows, batch.rows);
}

TEST_P(StoreTest, NamesMayHoldAnything) {
  open_store();
  const std::vector<std::string> names{"'; DROP TABLE weir_limits; --",
                                       "\"",
                                       "\\",
                                       "a,b{}",
                                       "NULL",
                                       "line\nline",
                                       "töken für 東京 🌊",
                                       " ",
                                       "%s"};
  Batch batch{.now = kNow};
  for (const std::string& gate : names) {
    batch.rows.push_back(row_of(gate));
    batch.rows.back().key.limit = gate;
    batch.domains.push_back({gate, 1, kNow, kNow});
  }
  const auto committed = store_->commit(batch);
  ASSERT_TRUE(committed) << committed.error().message;
  reopen();
  const auto loaded = load(*store_);
  std::set<std::string> found;
  for (const Row& row : loaded->rows) {
    EXPECT_EQ(row.key.gate, row.key.limit);
    found.insert(row.key.gate);
  }
  EXPECT_EQ(found, std::set(names.begin(), names.end()));
  EXPECT_EQ(loaded->contents.domains.size(), names.size());
  for (const Row& row : loaded->rows) ASSERT_TRUE(store_->commit({.removed = {row.key}}));
  EXPECT_TRUE(load(*store_)->rows.empty());
}

TEST_P(StoreTest, ARowIsReplacedByTheNextOfItsKey) {
  open_store();
  ASSERT_TRUE(store_->commit(batch_of({row_of("a", 1), row_of("b", 2)})));
  Row changed = row_of("a", 50);
  changed.algorithm = LimitSpec::Algorithm::kSlidingLog;
  changed.slots = {1, 2};
  ASSERT_TRUE(store_->commit(batch_of({changed})));
  EXPECT_EQ(load(*store_)->rows, (std::vector{changed, row_of("b", 2)}));
}

TEST_P(StoreTest, LimitsOfOneGateAreRowsOfTheirOwn) {
  open_store();
  Row tokens = row_of("a", 7);
  tokens.key.limit = "tokens per 1m";
  ASSERT_TRUE(store_->commit(batch_of({row_of("a"), tokens})));
  ASSERT_TRUE(store_->commit({.removed = {row_of("a").key}, .now = kNow}));
  EXPECT_EQ(load(*store_)->rows, std::vector{tokens});
}

TEST_P(StoreTest, ARemovedRowIsGoneAndOneThatNeverWasIsNoError) {
  open_store();
  ASSERT_TRUE(store_->commit(batch_of({row_of("a"), row_of("b")})));
  ASSERT_TRUE(store_->commit({.removed = {row_of("a").key, {"never", "was"}}, .now = kNow}));
  EXPECT_EQ(load(*store_)->rows, std::vector{row_of("b")});
}

TEST_P(StoreTest, WhoIsRemovedAndPutStays) {
  open_store();
  ASSERT_TRUE(store_->commit(batch_of({row_of("a", 1)})));
  ASSERT_TRUE(
      store_->commit({.rows = {row_of("a", 2)}, .removed = {row_of("a").key}, .now = kNow}));
  EXPECT_EQ(load(*store_)->rows, std::vector{row_of("a", 2)});
}

TEST_P(StoreTest, ABatchOfTenThousandIsOneCommit) {
  open_store();
  Batch batch{.now = kNow};
  for (int i = 0; i < 10'000; ++i) batch.rows.push_back(row_of(std::to_string(100'000 + i), i));
  ASSERT_TRUE(store_->commit(batch));
  EXPECT_EQ(load(*store_)->rows, batch.rows);
  for (Row& row : batch.rows) row.used += 5;
  ASSERT_TRUE(store_->commit(batch));
  EXPECT_EQ(store_->commits(), 2U);
  reopen();
  EXPECT_EQ(load(*store_)->rows, batch.rows);
  for (Row& row : batch.rows) batch.removed.push_back(row.key);
  batch.rows.clear();
  ASSERT_TRUE(store_->commit(batch));
  EXPECT_TRUE(load(*store_)->rows.empty());
}

// S4.5
TEST_P(StoreTest, DomainsComeBackToTheMicrosecond) {
  open_store();
  const DomainState a{"a.example", 995, kNow + 123'456us, kNow + 1us};
  const DomainState b{"b.example", kLargest, at_second(-1) + 999'999us, at_second(0)};
  ASSERT_TRUE(store_->commit({.domains = {a, b}, .now = kNow}));
  ASSERT_TRUE(store_->commit({.domains = {b}, .now = kNow}));
  reopen();
  auto domains = load(*store_)->contents.domains;
  std::ranges::sort(domains, {}, &DomainState::domain);
  EXPECT_EQ(domains, (std::vector{a, b}));

  // A fraction of a microsecond is cut off, before 1970 too.
  ASSERT_TRUE(store_->commit(
      {.domains = {{"c.example", 1, at_second(-1) + 1ns, kNow + 999ns}}, .now = kNow}));
  domains = load(*store_)->contents.domains;
  std::ranges::sort(domains, {}, &DomainState::domain);
  EXPECT_EQ(domains.back(), (DomainState{"c.example", 1, at_second(-1), kNow}));
}

// S4.5
TEST_P(StoreTest, AnybodyCanReadTheTableOfTheSeed) {
  open_store();
  ASSERT_TRUE(store_->commit({.domains = {{"a.example", 995, kNow, kNow}}, .now = kNow}));
  EXPECT_EQ(sql("SELECT request_count FROM rate_limiter_state WHERE domain = 'a.example'"), "995");
  EXPECT_EQ(sql("SELECT 1 FROM rate_limiter_state WHERE window_start > '2027-01-15 07:59:59+00'"
                " AND updated_at < '2027-01-15T08:00:01Z'"),
            "1");
}

TEST_P(StoreTest, TheLastTimeSeenIsThatOfTheLastCommit) {
  open_store();
  ASSERT_TRUE(store_->commit({.now = kNow + 7ns}));
  EXPECT_EQ(load(*store_)->contents.last_seen, kNow + 7ns);
  ASSERT_TRUE(store_->commit({.now = kNow + 8ns}));
  reopen();
  EXPECT_EQ(load(*store_)->contents.last_seen, kNow + 8ns);
}

TEST_P(StoreTest, RowsThatHaveExpiredAreRemoved) {
  open_store();
  Batch batch{.now = kNow};
  for (int i = 0; i < 4; ++i) {
    batch.rows.push_back(row_of(std::to_string(i)));
    batch.rows.back().expires = kNow + i * 1s;
  }
  ASSERT_TRUE(store_->commit(batch));
  // `now` lies before the last time seen, which counts.
  EXPECT_EQ(load(*store_, kNow - 1h)->rows.size(), 3U);
  EXPECT_EQ(load(*store_, kNow + 2s - 1ns)->rows.size(), 2U);
  EXPECT_EQ(load(*store_, kNow + 2s)->rows.size(), 1U);
  EXPECT_EQ(sql("SELECT count(*) FROM weir_limits"), "1");
  ASSERT_TRUE(store_->commit(batch));
}

TEST_P(StoreTest, EveryOpeningHasAnEpochOfItsOwn) {
  open_store();
  EXPECT_EQ(store_->epoch(), 1U);
  ASSERT_TRUE(store_->commit({.now = kNow}));
  const Options options = again();
  close_store();
  store_ = must_open(options);
  EXPECT_EQ(store_->epoch(), 2U);
  EXPECT_EQ(store_->commits(), 1U);
  EXPECT_FALSE(load(*store_)->contents.older_copy);
}

TEST_P(StoreTest, AfterATakeOverTheOneBeforeWritesNothing) {
  open_store();
  ASSERT_TRUE(store_->commit(batch_of({row_of("a", 1)})));
  sql("UPDATE weir_writer SET epoch = epoch + 1");
  const auto refused = store_->commit({.rows = {row_of("a", 2), row_of("b")},
                                       .removed = {{"a", "requests per 1m"}},
                                       .domains = {{"a.example", 1, kNow, kNow}},
                                       .now = kNow + 1s});
  EXPECT_EQ(fault_of(refused), "fenced") << refused.error().message;
  EXPECT_EQ(fault_of(store_->commit({.now = kNow})), "fenced");
  EXPECT_EQ(fault_of(load(*store_)), "fenced");
  const Options options = again();
  close_store();
  EXPECT_EQ(fault_of(open(options)), "fenced");

  open_store();
  const auto loaded = load(*store_);
  EXPECT_EQ(loaded->rows, std::vector{row_of("a", 1)});
  EXPECT_TRUE(loaded->contents.domains.empty());
  EXPECT_EQ(loaded->contents.last_seen, kNow);
}

TEST_P(StoreTest, LoadingIsRefusedAfterATakeOver) {
  open_store();
  Row expired = row_of("a");
  expired.expires = kNow;
  ASSERT_TRUE(store_->commit(batch_of({expired})));
  sql("UPDATE weir_writer SET epoch = epoch + 1");
  EXPECT_EQ(fault_of(load(*store_)), "fenced");
  EXPECT_EQ(sql("SELECT count(*) FROM weir_limits"), "1");
}

TEST_P(StoreTest, WhoOpensItTwiceIsNotFencedByItself) {
  Options own = options();
  own.owner = "it's me";
  store_ = must_open(own);
  own.epoch = store_->epoch();
  close_store();
  (void)must_open(own);  // of which it never heard
  store_ = must_open(own);
  EXPECT_EQ(store_->epoch(), 3U);
  close_store();
  Options other = own;
  other.owner = "another";
  EXPECT_EQ(fault_of(open(other)), "fenced");
}

TEST_P(StoreTest, AnOlderCopyInItsPlaceIsSeenByTheNextCommit) {
  open_store();
  ASSERT_TRUE(store_->commit(batch_of({row_of("a", 1)})));
  sql("UPDATE weir_writer SET commits = commits - 1");
  EXPECT_EQ(fault_of(store_->commit(batch_of({row_of("a", 2)}))), "older");
  EXPECT_EQ(sql("SELECT used FROM weir_limits"), "1");
}

TEST_P(StoreTest, AnOlderCopyInItsPlaceIsSeenByALoad) {
  open_store();
  ASSERT_TRUE(store_->commit(batch_of({row_of("a", 1)})));
  sql("UPDATE weir_writer SET commits = commits - 1");
  EXPECT_EQ(fault_of(load(*store_)), "older");
}

TEST_P(StoreTest, AnOlderCopyIsToldAtReopeningUntilItIsWrittenTo) {
  for (const char* change : {"commits = commits - 1", "epoch = epoch - 1"}) {
    open_store();
    ASSERT_TRUE(store_->commit({.now = kNow}));
    ASSERT_TRUE(store_->commit({.now = kNow}));
    const Options options = again();
    close_store();
    sql(std::string{"UPDATE weir_writer SET "} + change);
    store_ = must_open(options);
    EXPECT_GT(store_->epoch(), options.epoch);
    EXPECT_TRUE(load(*store_)->contents.older_copy) << change;
    EXPECT_TRUE(load(*store_)->contents.older_copy);
    ASSERT_TRUE(store_->commit({.now = kNow}));
    EXPECT_FALSE(load(*store_)->contents.older_copy);
    reopen();
    EXPECT_FALSE(load(*store_)->contents.older_copy);
    close_store();
  }
}

TEST_P(StoreTest, TwoStoresAreOpenAtOnce) {
  open_store();
  const auto other_database = make();
  const auto other = must_open({.where = other_database->where(), .timeout = 30s});
  ASSERT_TRUE(store_->commit(batch_of({row_of("a", 1)})));
  ASSERT_TRUE(other->commit(batch_of({row_of("a", 2)})));
  ASSERT_TRUE(store_->commit(batch_of({row_of("b", 1)})));
  EXPECT_EQ(load(*store_)->rows.size(), 2U);
  EXPECT_EQ(load(*other)->rows, std::vector{row_of("a", 2)});
}

TEST_P(StoreTest, ARowThatCannotBeReadIsNamed) {
  open_store();
  ASSERT_TRUE(store_->commit(batch_of({row_of("sound"), row_of("ill")})));
  for (const char* damage :
       {"algorithm = 'leaky_bucket'", "algorithm = ''", "unit = 'bananas'", "amount = -1",
        "period_ns = -1", "burst = -1", "used = -1", "previous = -1", "slots = '1 x'",
        "slots = '1  2'", "slots = ' 1'", "slots = '1 '", "slots = '1,2'", "slots = '-1'",
        "slots = '99999999999999999999'"}) {
    sql(std::string{"UPDATE weir_limits SET "} + damage + " WHERE gate = 'ill'");
    const auto loaded = load(*store_);
    EXPECT_EQ(fault_of(loaded), "corrupt") << damage;
    EXPECT_NE(loaded.error().message.find("'requests per 1m' of 'ill'"), std::string::npos)
        << loaded.error().message;
    reopen();
    ASSERT_TRUE(store_->commit(batch_of({row_of("ill")})));
  }
  EXPECT_TRUE(load(*store_));
}

TEST_P(StoreTest, MigratesTheTableOfTheSeedAndKeepsItsRows) {
  sql("CREATE TABLE rate_limiter_state (domain TEXT PRIMARY KEY, request_count INT NOT NULL,"
      " window_start TIMESTAMPTZ NOT NULL, updated_at TIMESTAMPTZ NOT NULL)");
  sql("INSERT INTO rate_limiter_state VALUES"
      " ('a.example', 995, '2027-01-15 08:00:00+00', '2027-01-15 08:00:09.5+00')");
  open_store();
  const DomainState a{"a.example", 995, kNow, kNow + 9'500ms};
  EXPECT_EQ(load(*store_)->contents.domains, std::vector{a});
  const DomainState large{"a.example", kLargest, kNow, kNow};
  ASSERT_TRUE(store_->commit({.rows = {row_of("a")}, .domains = {large}, .now = kNow}));
  reopen();
  EXPECT_EQ(load(*store_)->contents.domains, std::vector{large});
  EXPECT_EQ(load(*store_)->rows, std::vector{row_of("a")});
  EXPECT_EQ(sql("SELECT version FROM weir_schema"), "2");
}

TEST_P(StoreTest, MigratesFromVersionOne) {
  sql("CREATE TABLE weir_schema (version INTEGER NOT NULL); INSERT INTO weir_schema VALUES (1);"
      "CREATE TABLE rate_limiter_state (domain TEXT PRIMARY KEY, request_count BIGINT NOT NULL,"
      " window_start TIMESTAMPTZ NOT NULL, updated_at TIMESTAMPTZ NOT NULL)");
  open_store();
  ASSERT_TRUE(store_->commit(batch_of({row_of("a")})));
  EXPECT_EQ(sql("SELECT version FROM weir_schema"), "2");
}

TEST_P(StoreTest, AMigrationThatFailsLeavesNothingBehind) {
  sql("CREATE TABLE weir_writer (somebody_else TEXT)");
  const auto failed = open(options());
  EXPECT_EQ(fault_of(failed), "away") << failed.error().message;
  EXPECT_NE(failed.error().message.find("weir_writer"), std::string::npos);
  EXPECT_THROW(sql("SELECT * FROM weir_schema"), std::runtime_error);
  EXPECT_THROW(sql("SELECT * FROM rate_limiter_state"), std::runtime_error);
  sql("DROP TABLE weir_writer");
  open_store();
}

TEST_P(StoreTest, ALaterVersionIsLeftAlone) {
  open_store();
  ASSERT_TRUE(store_->commit(batch_of({row_of("a")})));
  close_store();
  sql("UPDATE weir_schema SET version = 3");
  const auto refused = open(options());
  EXPECT_EQ(fault_of(refused), "too_new");
  EXPECT_NE(refused.error().message.find("schema 3"), std::string::npos) << refused.error().message;
  EXPECT_EQ(sql("SELECT epoch FROM weir_writer"), "1");
}

TEST_P(StoreTest, AStoreWithoutAWriterIsDamaged) {
  open_store();
  close_store();
  sql("DELETE FROM weir_writer");
  EXPECT_EQ(fault_of(open(options())), "corrupt");
}

TEST(FaultTest, EveryFaultHasAName) {
  std::set<std::string_view> names;
  for (int fault = 0; fault <= static_cast<int>(Fault::kInvalid); ++fault) {
    names.insert(name(static_cast<Fault>(fault)));
  }
  EXPECT_EQ(names.size(), 9U);
  EXPECT_FALSE(names.contains("unknown"));
}

TEST(ColumnsTest, ATimeIsReadInTheFormsThatOthersWrite) {
  for (const auto& [text, expected] : std::vector<std::pair<const char*, CalendarTime>>{
           {"2027-01-15T08:00:00.123456Z", kNow + 123'456us},
           {"2027-01-15T08:00:00Z", kNow},
           {"2027-01-15 08:00:00", kNow},
           {"2027-01-15 08:00:00+00", kNow},
           {"2027-01-15 08:00:00.5+00:00", kNow + 500ms},
           {"2027-01-15 08:00:00.123456789+00", kNow + 123'456'789ns},
           {"2027-01-15 10:00:00+02", kNow},
           {"2027-01-15 02:30:00-0530", kNow},
           {"1969-12-31T23:59:59.999999Z", CalendarTime{-1us}},
           {"0001-01-01T00:00:00Z", CalendarTime::min()},
           {"9999-12-31T23:59:59Z", CalendarTime::max()}}) {
    EXPECT_EQ(parse_time(text), expected) << text;
  }
  for (const char* text :
       {"", "2027-01-15", "2027-13-15T08:00:00Z", "2027-02-29T08:00:00Z", "2027-01-15T24:00:00Z",
        "2027-01-15T08:60:00Z", "2027-01-15T08:00:60Z", "2027-01-15T08:00:00.Z",
        "2027-01-15T08:00:00Zulu", "2027-01-15T08:00:00+2", "2027-01-15_08:00:00", "1800000000",
        "2027-1-15T08:00:00Z", "2027-01-15T08:00:00.1234567890Z"}) {
    EXPECT_EQ(parse_time(text), std::nullopt) << text;
  }
}

TEST(ColumnsTest, ATimeComesBackFromItsText) {
  EXPECT_EQ(time_text(kNow + 123'456'789ns), "2027-01-15T08:00:00.123456Z");
  EXPECT_EQ(time_text(CalendarTime{-1ns}), "1969-12-31T23:59:59.999999Z");
  for (const CalendarTime at : {kNow + 1us, CalendarTime{}, CalendarTime{-1us}}) {
    EXPECT_EQ(parse_time(time_text(at)), at);
  }
}

}  // namespace
}  // namespace weir::store
