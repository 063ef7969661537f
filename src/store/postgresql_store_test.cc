// What is PostgreSQL's own: a server that is killed, frozen, or never there. Real time passes.
#include <arpa/inet.h>
#include <sys/socket.h>

#include <chrono>
#include <future>

#include "store/store_for_test.h"
#include "weir/time/system_clock.h"

namespace weir::store {
namespace {

using namespace std::chrono_literals;

class PostgresqlStoreTest : public ::testing::Test {
 protected:
  Options options() const { return {.where = database_.url, .timeout = 30s}; }
  // For what must not be waited for; long enough for what is.
  Options hasty() const { return {.where = database_.url, .timeout = 2s}; }
  static Options again(const Options& options, const Store& store) {
    Options next = options;
    next.epoch = store.epoch();
    next.commits = store.commits();
    return next;
  }
  static PostgresqlForTest& server() { return PostgresqlForTest::shared(); }

  // Far below what a blocking call would take, which is for ever.
  template <class F>
  auto within_ten_seconds(F call) {
    const Instant begin = clock_.now();
    auto outcome = call();
    EXPECT_LT(clock_.now() - begin, Nanos{10s});
    return outcome;
  }

  const PostgresqlDatabase database_;
  const MonotonicClock clock_;
};

TEST_F(PostgresqlStoreTest, WhoOpensItTakesItOver) {
  const auto first = must_open(options());
  ASSERT_TRUE(first->commit(batch_of({row_of("a", 1)})));
  const auto second = must_open(options());
  EXPECT_EQ(second->epoch(), 2U);
  ASSERT_TRUE(second->commit(batch_of({row_of("a", 2)})));
  const auto refused = first->commit(batch_of({row_of("a", 9), row_of("b", 9)}));
  EXPECT_EQ(fault_of(refused), "fenced");
  EXPECT_NE(refused.error().message.find("another writer"), std::string::npos);
  EXPECT_EQ(fault_of(open(again(options(), *first))), "fenced");
  ASSERT_TRUE(second->commit(batch_of({row_of("c", 3)})));
  EXPECT_EQ(load(*second)->rows, (std::vector{row_of("a", 2), row_of("c", 3)}));
}

TEST_F(PostgresqlStoreTest, AKilledServerIsAwayAndComesBackWithAllThatWasCommitted) {
  auto store = must_open(options());
  for (Amount used = 1; used <= 100; ++used) {
    ASSERT_TRUE(store->commit(batch_of({row_of("a", used)})));
  }
  server().kill9();
  EXPECT_EQ(fault_of(store->commit(batch_of({row_of("a", 101)}))), "away");
  const Options next = again(options(), *store);
  store.reset();
  EXPECT_EQ(fault_of(open(next)), "away");
  server().start();
  store = must_open(next);
  const auto loaded = load(*store);
  EXPECT_EQ(loaded->used("a"), 100);
  EXPECT_FALSE(loaded->contents.older_copy);
  EXPECT_TRUE(store->commit(batch_of({row_of("a", 101)})));
}

TEST_F(PostgresqlStoreTest, AFrozenServerIsAwayAfterTheTimeOut) {
  auto store = must_open(hasty());
  const auto loading = must_open({.where = server().make_database(), .timeout = 2s});
  const auto flooding = must_open({.where = server().make_database(), .timeout = 2s});
  ASSERT_TRUE(store->commit(batch_of({row_of("a", 1)})));
  Batch large{.now = kNow};  // more than the socket holds
  for (int i = 0; i < 100'000; ++i) large.rows.push_back(row_of(std::to_string(i)));
  const auto at_once = [&](auto call) {
    return std::async(std::launch::async, [this, call] { return within_ten_seconds(call); });
  };
  server().freeze();
  auto committing =
      at_once([&] { return store->commit(batch_of({row_of("a", 2), row_of("b", 2)})); });
  auto unloaded = at_once([&] { return load(*loading); });
  auto refused = at_once([&] { return open(hasty()); });
  auto too_large = at_once([&] { return flooding->commit(large); });
  const auto failed = committing.get();
  EXPECT_EQ(fault_of(failed), "away");
  EXPECT_NE(failed.error().message.find("does not answer"), std::string::npos);
  EXPECT_EQ(fault_of(unloaded.get()), "away");
  EXPECT_EQ(fault_of(refused.get()), "away");
  EXPECT_EQ(fault_of(too_large.get()), "away");
  const Options next = again(hasty(), *store);
  store.reset();
  server().thaw();

  // The commit may have come through; all of it, then, and before the next writer.
  auto reopened = open(next);
  while (!reopened && reopened.error().fault == Fault::kAway) reopened = open(next);
  // The opening that had no answer may have come through, too; nobody but us knows of it.
  if (!reopened) reopened = open(hasty());
  ASSERT_TRUE(reopened) << reopened.error().message;
  const auto loaded = load(**reopened);
  EXPECT_TRUE(loaded->used("a") == 1 || loaded->used("a") == 2);
  EXPECT_EQ(loaded->used("b"), loaded->used("a") == 2 ? 2 : 0);
  EXPECT_FALSE(loaded->contents.older_copy);
}

TEST_F(PostgresqlStoreTest, AServerThatNeverAnswersIsAwayAfterTheTimeOut) {
  const int silent = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(silent, any, size), 0);
  ASSERT_EQ(listen(silent, 8), 0);
  ASSERT_EQ(getsockname(silent, any, &size), 0);
  const std::string where =
      "postgresql://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/weir";
  const auto refused = within_ten_seconds([&] { return open({.where = where, .timeout = 100ms}); });
  EXPECT_EQ(fault_of(refused), "away");
  EXPECT_EQ(refused.error().message, where + " does not answer");
  close(silent);
}

TEST_F(PostgresqlStoreTest, ALostConnectionIsAway) {
  auto store = must_open(options());
  ASSERT_TRUE(store->commit(batch_of({row_of("a", 1)})));
  database_.sql(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
      " WHERE datname = current_database() AND pid <> pg_backend_pid()");
  EXPECT_EQ(fault_of(store->commit(batch_of({row_of("a", 2)}))), "away");
  const Options next = again(options(), *store);
  store = must_open(next);
  EXPECT_EQ(load(*store)->used("a"), 1);
}

TEST_F(PostgresqlStoreTest, SomebodyWhoLocksARowMakesItAwayUntilHeGoes) {
  const auto store = must_open(hasty());
  ASSERT_TRUE(store->commit(batch_of({row_of("a", 1)})));
  const std::unique_ptr<PGconn, decltype(&PQfinish)> shell{PQconnectdb(database_.url.c_str()),
                                                           &PQfinish};
  PQclear(PQexec(shell.get(), "BEGIN; UPDATE weir_limits SET used = 7"));
  const auto failed = within_ten_seconds([&] { return store->commit(batch_of({row_of("a", 2)})); });
  EXPECT_EQ(fault_of(failed), "away");
  PQclear(PQexec(shell.get(), "ROLLBACK"));
  EXPECT_NE(load(*must_open(again(options(), *store)))->used("a"), 7);
}

TEST_F(PostgresqlStoreTest, ADatabaseThatMayOnlyBeReadIsReadOnly) {
  ASSERT_TRUE(open(options()));
  const auto set_read_only = [&, name = database_.sql("SELECT current_database()")](auto value) {
    database_.sql("BEGIN READ WRITE; ALTER DATABASE " + name +
                  " SET default_transaction_read_only = " + value + "; COMMIT");
  };
  set_read_only("on");
  EXPECT_EQ(fault_of(open(options())), "read_only");
  set_read_only("off");
  ASSERT_TRUE(open(options()));

  const std::string role = "reader_of_" + database_.sql("SELECT current_database()");
  database_.sql("CREATE ROLE " + role +
                " LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO PUBLIC");
  Options reader = options();
  reader.where.replace(reader.where.find("weir", reader.where.find("user=")), 4, role);
  const auto refused = open(reader);
  EXPECT_EQ(fault_of(refused), "read_only") << refused.error().message;
}

TEST_F(PostgresqlStoreTest, ARemovedTableIsOlder) {
  for (const char* table : {"weir_limits", "weir_writer"}) {
    const PostgresqlDatabase database;
    const auto store = must_open({.where = database.url});
    ASSERT_TRUE(store->commit(batch_of({row_of("a")})));
    database.sql(std::string{"DROP TABLE "} + table);
    EXPECT_EQ(fault_of(store->commit(batch_of({row_of("a")}))), "older") << table;
  }
}

TEST_F(PostgresqlStoreTest, CommitsAreSynchronousWhateverTheServerSays) {
  const std::string name = database_.sql("SELECT current_database()");
  database_.sql("ALTER DATABASE " + name + " SET synchronous_commit = off");
  const auto store = must_open(options());
  // Seen from within: a trigger writes down what the session has set.
  database_.sql(
      "CREATE TABLE seen (setting TEXT);"
      "CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
      " INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$;"
      "CREATE TRIGGER see AFTER INSERT ON weir_limits FOR EACH STATEMENT EXECUTE FUNCTION see()");
  ASSERT_TRUE(store->commit(batch_of({row_of("a")})));
  EXPECT_EQ(database_.sql("SELECT setting FROM seen"), "on");
}

TEST_F(PostgresqlStoreTest, AUrlThatCannotBeReadIsInvalid) {
  for (const char* where :
       {"postgresql://u:secret/x@host/db", "postgresql://u:se@cret@host/db",
        "postgresql://u:sec?ret@ho@st/db", "postgresql://u:sec%zzret@host/db",
        "postgresql://[::1/db?password=secret", "postgresql://host/db?no_such_option=secret",
        "postgres://host/db?password=secret&password", "postgresql://host/a@b"}) {
    const auto refused = open({.where = where, .timeout = 100ms});
    EXPECT_EQ(fault_of(refused), "invalid") << where;
    EXPECT_EQ(refused.error().message.find("sec"), std::string::npos) << refused.error().message;
  }
}

TEST_F(PostgresqlStoreTest, ADatabaseThatCannotHoldEveryNameIsRefused) {
  PostgresqlForTest::run(server().url("postgres"),
                         "CREATE DATABASE narrow ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' "
                         "TEMPLATE template0");
  const auto refused = open({.where = server().url("narrow"), .timeout = 30s});
  EXPECT_EQ(fault_of(refused), "invalid");
  EXPECT_NE(refused.error().message.find("UTF8"), std::string::npos) << refused.error().message;
}

// S4.7
TEST_F(PostgresqlStoreTest, NoMessageHoldsThePassword) {
  const std::string socket = server().url("").substr(server().url("").find("host="));
  for (const std::string& where :
       {std::string{"postgresql://weir:secret@127.0.0.1:1/db"},
        std::string{"postgresql://weir:secret@no-such-host.invalid/db"},
        std::string{"postgresql://weir:secret?@127.0.0.1:1/db?sslmode=disable"},
        std::string{"postgresql://weir:secret@[::1]:1/db?application_name=x"},
        std::string{"postgresql://weir:secret@127.0.0.1:99999/db"},
        std::string{"postgresql://127.0.0.1:1/db?user=weir&password=secret"},
        "postgresql://nobody:secret@/no_such_database?" + socket,
        "postgresql:///no_such_database?password=secret&" + socket}) {
    const auto refused = open({.where = where, .timeout = 30s});
    ASSERT_FALSE(refused) << where;
    EXPECT_EQ(fault_of(refused), "away") << where;
    EXPECT_EQ(refused.error().message.find("secret"), std::string::npos) << refused.error().message;
    EXPECT_EQ(refused.error().message.find('\n'), std::string::npos) << refused.error().message;
    EXPECT_EQ(refused.error().message.find("postgresql://"), 0U) << refused.error().message;
  }
}

}  // namespace
}  // namespace weir::store
