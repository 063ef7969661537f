// The daemon with its store: what outlives it, over HTTP, on real databases, in stepped time.
#include <sqlite3.h>

#include <thread>

#include "app/daemon_for_test.h"
#include "core/sanitized_for_test.h"
#include "redis/redis_for_test.h"
#include "store/postgresql_for_test.h"

namespace weir::app {
namespace {

using namespace std::chrono_literals;
using store::PostgresqlForTest;

enum class Database { kSqlite, kPostgresql };

class DaemonStoreTest : public DaemonTest, public testing::WithParamInterface<Database> {
 protected:
  DaemonStoreTest() {
    where = GetParam() == Database::kSqlite ? directory.path("weir.db")
                                            : PostgresqlForTest::shared().make_database();
  }

  void start_stored(const std::string& more = {}) { start("store: \"" + where + "\"\n" + more); }
  void restart(const std::string& more = {}) {
    daemon.reset();
    start_stored(more);
  }

  // How many of `count` requests are admitted.
  int admitted(const std::string& resource, int count) {
    std::string body = "{\"requests\":[";
    for (int i = 0; i < count; ++i) {
      body += (i == 0 ? "" : ",") + ("{\"resource\":\"" + resource + "\"}");
    }
    const Answer answer = post("/v1/acquire_batch", body + "]}");
    int good = 0;
    for (const auto& result : answer.json.at("results").as_array()) {
      good += result.at("status").as_int64() == 200 ? 1 : 0;
    }
    return good;
  }
  Answer one(const std::string& resource) { return acquire("{\"resource\":\"" + resource + "\"}"); }
  std::int64_t available(const std::string& resource, std::size_t limit = 0) {
    const Answer answer = get("/v1/resources/" + resource);
    return answer.json.at("limits").at(limit).at("available").as_int64();
  }
  std::string state() {
    return std::string{
        std::string_view{get("/api/status").json.at("store").at("state").as_string()}};
  }
  void until_state(const std::string& wanted) {
    for (; state() != wanted; nap()) time.advance(100ms);
  }
  // What anyone sees with psql or sqlite3.
  std::string query(const std::string& sql) {
    if (GetParam() == Database::kPostgresql) return PostgresqlForTest::run(where, sql);
    sqlite3* db = nullptr;
    std::string value;
    EXPECT_EQ(sqlite3_open_v2(where.c_str(), &db, SQLITE_OPEN_READWRITE, nullptr), SQLITE_OK);
    const auto first = [](void* into, int, char** values, char**) {
      if (values[0] != nullptr) *static_cast<std::string*>(into) = values[0];
      return 0;
    };
    EXPECT_EQ(sqlite3_exec(db, sql.c_str(), first, &value, nullptr), SQLITE_OK)
        << sqlite3_errmsg(db);
    sqlite3_close(db);
    return value;
  }

  std::string where;
};

INSTANTIATE_TEST_SUITE_P(Of, DaemonStoreTest,
                         testing::Values(Database::kSqlite, Database::kPostgresql),
                         [](const auto& tested) {
                           return tested.param == Database::kSqlite ? "Sqlite" : "Postgresql";
                         });

// S4.9, scenario 4; S4.5, S4.6
TEST_P(DaemonStoreTest, AServiceThatCrashedResumesFromItsLastSnapshot) {
  provider("fmp", "name: fmp\ndomain: financialmodelingprep.com\nlimit: 300\nperiod: 1m\n");
  time.set_wall(CalendarTime{std::chrono::sys_days{2026y / 3 / 2}} + 10h + 23min);
  start_stored("durability: snapshot\n");
  EXPECT_EQ(admitted("fmp", 45), 45);
  time.advance(10s);  // the state is persisted
  while (query("SELECT count(*) FROM rate_limiter_state") == "0") nap();
  EXPECT_EQ(query("SELECT domain FROM rate_limiter_state"), "financialmodelingprep.com");
  EXPECT_EQ(query("SELECT request_count FROM rate_limiter_state"), "45");
  EXPECT_EQ(query(GetParam() == Database::kSqlite
                      ? "SELECT datetime(window_start) FROM rate_limiter_state"
                      : "SELECT to_char(window_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') "
                        "FROM rate_limiter_state"),
            "2026-03-02 10:23:00");
  EXPECT_EQ(admitted("fmp", 20), 20);
  // The crash: another daemon takes over what is stored, not what this one would write at its end.
  const std::string stored = where;
  if (GetParam() == Database::kSqlite) {
    where = directory.path("after.db");
    std::filesystem::copy_file(stored, where);
    std::filesystem::copy_file(stored + "-wal", where + "-wal");
  }
  auto crashed = std::move(daemon);
  time.advance(5s);
  start_stored("durability: snapshot\n");
  EXPECT_EQ(available("fmp"), 255) << "45 are known; the last five seconds are lost";
  time.advance(45s);
  EXPECT_EQ(available("fmp"), 300) << "in the same window";
}

// S4.6
TEST_P(DaemonStoreTest, WindowsBudgetsAndBucketsOutliveARestart) {
  provider("all", R"(
name: all
domain: api.example.com
limit: 100
period: 1h
tokens_per_minute: 6000
limits:
  - {unit: input_tokens, amount: 600, per: 1m, algorithm: token_bucket, burst: 500}
  - {unit: output_tokens, amount: 700, per: 1m, algorithm: sliding_window}
  - {unit: requests, amount: 90, per: 2h, algorithm: sliding_log}
budget: {usd: 5, per: 1d}
models:
  "big-*": {limits: [{unit: requests, amount: 20, per: 1h, algorithm: fixed_window}]}
agents:
  default: {limits: [{unit: requests, amount: 30, per: 1h, algorithm: fixed_window}]}
)");
  start_stored();
  constexpr const char* kCall =
      R"({"resource":"all","agent":"a1","model":"big-1","cost":{"requests":1,"tokens":100,)"
      R"("input_tokens":40,"output_tokens":30,"usd":0.25}})";
  for (int i = 0; i < 7; ++i) ASSERT_EQ(acquire(kCall).status, 200);
  const auto shown = [&] {
    const Answer answer = get("/v1/resources/all");
    std::vector<std::string> left;
    const auto add = [&](const boost::json::value& gate) {
      for (const auto& limit : gate.at("limits").as_array()) {
        left.push_back(boost::json::serialize(limit.at("name")) + " " +
                       boost::json::serialize(limit.at("available")));
      }
    };
    add(answer.json);
    add(answer.json.at("models").at(0));
    if (!answer.json.at("agents").as_array().empty()) add(answer.json.at("agents").at(0));
    return left;
  };
  const auto before = shown();
  ASSERT_EQ(before.size(), 8U);
  restart();
  ASSERT_EQ(acquire(R"({"resource":"all","agent":"a1","cost":{"requests":0}})").status, 200);
  EXPECT_EQ(shown(), before);
}

TEST_P(DaemonStoreTest, ACallThatNeedsAWordOfTheStoreIsNotCountedAsOneThatWaited) {
  provider("api", "name: api\ndomain: api.example.com\nlimit: 10\nperiod: 1m\n");
  start_stored();
  const Answer answer = one("api");
  EXPECT_EQ(answer.response.body, R"({"permit":null,"waited_ms":0})");
  EXPECT_EQ(admitted("api", 20), 9) << "held for the store, refused by the limit";
  const Answer resource = get("/v1/resources/api");
  EXPECT_EQ(resource.number("acquired"), 10);
  EXPECT_EQ(resource.number("waited"), 0);
  EXPECT_EQ(one("api").status, 429);
}

// S3.10: a day of 23 hours and one of 25, with a restart in each.
TEST_P(DaemonStoreTest, ABudgetInAZoneHasOneResetADayThroughRestartsAndDst) {
  if (kSanitized) GTEST_SKIP() << "takes two minutes";
  provider("api", R"(
name: api
domain: api.example.com
budget: {usd: 3, per: 1d, reset: "02:30", zone: Europe/Berlin}
)");
  const auto spent = [&] {
    int count = 0;
    while (acquire(R"({"resource":"api","cost":{"usd":1}})").status == 200) ++count;
    return count;
  };
  // Clocks go ahead on 2026-03-29 at 01:00 UTC and back on 2026-10-25 at 01:00 UTC.
  for (const auto& day : {2026y / 3 / 28, 2026y / 10 / 24}) {
    daemon.reset();
    time.set_wall(std::max(CalendarTime{std::chrono::sys_days{day}} + 12h, time.wall()));
    start_stored();
    int windows = 0;
    for (int hour = 0; hour < 60; ++hour) {
      const int got = spent();
      ASSERT_TRUE(got == 0 || got == 3) << got;
      windows += got == 3 ? 1 : 0;
      if (hour % 7 == 0) restart();
      time.advance(1h);
    }
    EXPECT_EQ(windows, 3) << "the rest of this day, and two resets in 60 hours";
  }
}

TEST_P(DaemonStoreTest, AWallThatIsSetBackOrAheadAndBackGivesNoBudgetTwice) {
  provider("api", "name: api\ndomain: api.example.com\nbudget: {usd: 3, per: 1d}\n");
  time.set_wall(CalendarTime{std::chrono::sys_days{2026y / 6 / 10}} + 12h);
  const auto spent = [&] {
    int count = 0;
    while (acquire(R"({"resource":"api","cost":{"usd":1}})").status == 200) ++count;
    return count;
  };
  start_stored();
  EXPECT_EQ(spent(), 3);
  for (const Nanos jump : {Nanos{-1h}, Nanos{-24h}, Nanos{1h}, Nanos{-1h}}) {
    time.set_wall(time.wall() + jump);
    EXPECT_EQ(spent(), 0) << jump.count();
    restart();
    EXPECT_EQ(spent(), 0) << "after a start, " << jump.count();
  }
}

TEST_P(DaemonStoreTest, TheStoreIsInStatusMetricsAndReadiness) {
  provider("api", "name: api\ndomain: api.example.com\nlimit: 10\nperiod: 1m\n");
  start_stored();
  ASSERT_EQ(one("api").status, 200);
  const Answer status = get("/api/status");
  EXPECT_EQ(status.json.at("store").at("durability").as_string(), "exact");
  EXPECT_EQ(status.json.at("store").at("state").as_string(), "ok");
  const std::string metrics = call({.target = "/metrics"}).response.body;
  EXPECT_NE(metrics.find("\nweir_store_up 1\n"), std::string::npos);
  EXPECT_NE(metrics.find("\nweir_store_failures_total 0\n"), std::string::npos);
  EXPECT_EQ(get("/readyz").status, 200);
  EXPECT_EQ(get("/v1/resources/api").json.at("limits").at(0).at("block").as_int64(), 1);
}

// S4.7
TEST_P(DaemonStoreTest, NoKeyIsEverStored) {
  provider("api",
           "name: api\ndomain: api.example.com\nlimit: 10\nperiod: 1m\n"
           "api_key: canary-key-4711\n");
  start_stored();
  ASSERT_EQ(one("api").status, 200);
  daemon.reset();
  if (GetParam() == Database::kSqlite) {
    EXPECT_EQ(directory.read("weir.db").find("canary-key"), std::string::npos);
  } else {
    EXPECT_EQ(query("SELECT string_agg(l::text, '') FROM weir_limits l").find("canary-key"),
              std::string::npos);
  }
}

class DaemonOnPostgresql : public DaemonStoreTest {};
INSTANTIATE_TEST_SUITE_P(Of, DaemonOnPostgresql, testing::Values(Database::kPostgresql),
                         [](const auto&) { return "Postgresql"; });

TEST_P(DaemonOnPostgresql, ASecondDaemonFencesTheFirst) {
  provider("api", "name: api\ndomain: api.example.com\nlimit: 1000\nperiod: 1h\n");
  start_stored("on_store_failure: memory\n");
  const int first = admitted("api", 100);
  EXPECT_EQ(first, 100);
  auto fenced = std::move(daemon);
  start_stored();
  const int second = admitted("api", 1000);
  EXPECT_LE(first + second, 1000);
  std::swap(daemon, fenced);
  time.advance(1s);
  until_state("fenced");
  EXPECT_EQ(one("api").status, 503);
  EXPECT_EQ(get("/readyz").status, 503);
  while (!log().contains("fenced")) nap();
  std::swap(daemon, fenced);
  EXPECT_EQ(state(), "ok");
}

TEST_P(DaemonOnPostgresql, ADatabaseThatIsKilledIsALoudStateThatEndsWithIt) {
  PostgresqlForTest& server = PostgresqlForTest::shared();
  provider("api", "name: api\ndomain: api.example.com\nlimit: 1000\nperiod: 1h\n");
  start_stored();
  int counted = admitted("api", 100);
  server.kill9();
  int refused = 0;
  while (refused == 0) {
    const int status = one("api").status;
    ASSERT_TRUE(status == 200 || status == 503) << status;
    (status == 200 ? counted : refused) += 1;
  }
  until_state("failed");
  const Answer answer = one("api");
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.json.at("error").as_string(), "store_unavailable");
  EXPECT_EQ(answer.response.field("Retry-After"), "1");
  EXPECT_EQ(get("/readyz").status, 503);
  EXPECT_NE(call({.target = "/metrics"}).response.body.find("\nweir_store_up 0\n"),
            std::string::npos);
  server.start();
  until_state("ok");
  EXPECT_EQ(get("/readyz").status, 200);
  counted += admitted("api", 1'000);
  EXPECT_EQ(counted, 1'000) << "nothing was lost, nothing was given twice";
  EXPECT_NE(log().find("the store is not available"), std::string::npos);
}

TEST_P(DaemonOnPostgresql, ADatabaseThatIsKilledAndRestartedUnderLoadGivesNothingTwice) {
  PostgresqlForTest& server = PostgresqlForTest::shared();
  constexpr int kLimit = 20'000;
  provider("api", "name: api\ndomain: api.example.com\nlimit: 20000\nperiod: 1d\n");
  start_stored();
  std::atomic<int> granted = 0;
  std::atomic<bool> enough = false;
  std::vector<std::jthread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      net::HttpClient http = client();
      while (!enough) {
        const auto answer =
            http.call({.method = "POST", .target = "/v1/acquire", .body = R"({"resource":"api"})"});
        if (answer && answer->status == 200) {
          ++granted;
        } else {
          nap();
        }
      }
    });
  }
  for (int kills = 0; kills < 2; ++kills) {
    const int before = granted;
    while (granted < before + 500) nap();
    server.kill9();
    until_state("failed");
    server.start();
    until_state("ok");
  }
  enough = true;
  callers.clear();
  EXPECT_LT(granted, kLimit) << "the load was over before the kills";
  const int rest = admitted("api", 9'000) + admitted("api", 9'000) + admitted("api", 9'000);
  EXPECT_EQ(granted + rest, kLimit);
}

TEST_P(DaemonOnPostgresql, AFrozenDatabaseHoldsACallNoLongerThanFiftyMilliseconds) {
  PostgresqlForTest& server = PostgresqlForTest::shared();
  provider("api", "name: api\ndomain: api.example.com\nlimit: 1000\nperiod: 1h\n");
  start_stored();
  server.freeze();
  auto answer = acquire_waiting(R"({"resource":"api"})");
  until_waiting("api", 1);
  time.advance(49ms);
  EXPECT_EQ(get("/v1/resources/api").number("waiting"), 1);
  time.advance(1ms);
  const Answer busy = answer.get();
  EXPECT_EQ(busy.status, 503);
  EXPECT_EQ(busy.json.at("error").as_string(), "store_busy");
  server.thaw();
  for (; one("api").status != 200; nap()) time.advance(1s);
}

class DaemonOnSqlite : public DaemonStoreTest {};
INSTANTIATE_TEST_SUITE_P(Of, DaemonOnSqlite, testing::Values(Database::kSqlite),
                         [](const auto&) { return "Sqlite"; });

TEST_P(DaemonOnSqlite, ASecondDaemonOnTheSameFileIsRefused) {
  provider("api", "name: api\ndomain: api.example.com\nlimit: 10\nperiod: 1m\n");
  start_stored();
  server::Log log{STDERR_FILENO, server::Log::Format::kJson, time};
  const auto second = Daemon::start({.files = {.main_file = directory.path("weir.yaml")},
                                     .listen = Listen{.host = "127.0.0.1", .port = 0}},
                                    time.source(), log);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().exit_code, 1);
  EXPECT_NE(second.error().lines[0].find("in use by process"), std::string::npos)
      << second.error().lines[0];
}

TEST_P(DaemonOnSqlite, ADatabaseThatIsNoneIsALoudStateUntilItIsReplaced) {
  directory.write("weir.db", std::string(8192, 'x'));
  provider("api", "name: api\ndomain: api.example.com\nlimit: 10\nperiod: 1m\n");
  start_stored();
  EXPECT_EQ(one("api").status, 503);
  EXPECT_EQ(get("/api/status").json.at("store").at("fault").as_string(), "corrupt");
  EXPECT_EQ(get("/healthz").status, 200);
  std::filesystem::remove(where);
  until_state("ok");
  EXPECT_EQ(one("api").status, 200);
}

TEST_P(DaemonOnSqlite, AFileThatIsRemovedWhileItRunsIsWrittenAnew) {
  provider("api", "name: api\ndomain: api.example.com\nlimit: 100\nperiod: 1h\n");
  start_stored();
  EXPECT_EQ(admitted("api", 40), 40);
  std::filesystem::remove(where);
  time.advance(10s);
  until_state("failed");
  EXPECT_EQ(get("/api/status").json.at("store").at("fault").as_string(), "older");
  until_state("ok");
  EXPECT_EQ(query("SELECT used FROM weir_limits"), "40");
  restart();
  EXPECT_EQ(admitted("api", 100), 60);
}

TEST_P(DaemonOnSqlite, ADirectoryThatDoesNotExistIsAMistake) {
  provider("api", "name: api\ndomain: api.example.com\nlimit: 10\nperiod: 1m\n");
  server::Log log{STDERR_FILENO, server::Log::Format::kJson, time};
  const auto started = Daemon::start({.files = {.provider_dirs = {directory.path("providers")}},
                                      .listen = Listen{.host = "127.0.0.1", .port = 0},
                                      .store = Secret{directory.path("nowhere/weir.db")}},
                                     time.source(), log);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().exit_code, 2);
  EXPECT_NE(started.error().lines[0].find("nowhere"), std::string::npos);
}

TEST_P(DaemonOnSqlite, WithoutAStoreItsStateIsInAFileNamedAfterItsAddress) {
  provider("api", "name: api\ndomain: api.example.com\nlimit: 10\nperiod: 1h\n");
  server::Log log{STDERR_FILENO, server::Log::Format::kJson, time};
  const redis::Port held;
  const auto port = static_cast<std::uint16_t>(held.number());
  const Daemon::Options options{.files = {.provider_dirs = {directory.path("providers")}},
                                .listen = Listen{.host = "127.0.0.1", .port = port},
                                .state_directory = directory.path("state/weir")};
  for (const int admitted_now : {10, 0}) {
    auto started = Daemon::start(options, time.source(), log);
    ASSERT_TRUE(started) << started.error().lines[0];
    daemon = std::move(*started);
    EXPECT_EQ(admitted("api", 11), admitted_now);
    daemon.reset();
  }
  EXPECT_TRUE(std::filesystem::exists(
      directory.path("state/weir/127.0.0.1-" + std::to_string(port) + ".db")));
}

}  // namespace
}  // namespace weir::app
