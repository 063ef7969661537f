// Servers that freeze, die, restart, are cut off or are no masters any more.
#include <atomic>

#include "net/tcp_proxy_for_test.h"
#include "redis/client_for_test.h"

namespace weir::redis {
namespace {

class ClientFaultsTest : public ClientTest {
 protected:
  bool up(const Client& client) const {
    return eventually([&] { return client.status().up; });
  }
  bool down(const Client& client) const {
    return eventually([&] { return !client.status().up; });
  }
};

TEST_F(ClientFaultsTest, WaitsForOneTimeoutInAllWhenTheServerIsFrozen) {
  RedisServer server;
  const auto client = connect(server.url());
  ASSERT_EQ(say(*client, {"PING"}), "PONG");
  server.freeze();
  // The short one's end is everybody's.
  std::promise<Answer> patient;
  client->call("", {"PING"}, in(20s), [&](Answer answer) { patient.set_value(std::move(answer)); });
  const Instant begin = now();
  EXPECT_EQ(client->ask("", {"PING"}, begin + 1s).error(), Errc::kDeadlineExceeded);
  EXPECT_GE(now(), begin + 1s);
  EXPECT_EQ(patient.get_future().get().error(), Errc::kUnavailable);
  EXPECT_FALSE(client->status().up);
  EXPECT_EQ(client->server("").run_id, "");
  // Later ones do not wait at all: a thousand of them are over long before one deadline.
  const Instant later = now();
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(client->ask("", {"PING"}, in(20s)).error(), Errc::kUnavailable);
  }
  EXPECT_LT(now(), later + 15s);
  server.thaw();
  ASSERT_TRUE(up(*client));
  EXPECT_EQ(say(*client, {"PING"}), "PONG");
  EXPECT_TRUE(client->status().failure.contains("no answer in time"));
}

TEST_F(ClientFaultsTest, NoticesAFrozenServerWithoutACaller) {
  RedisServer server;
  const auto client = connect(server.url());
  ASSERT_EQ(say(*client, {"PING"}), "PONG");
  server.freeze();
  const Instant begin = now();
  ASSERT_TRUE(down(*client));
  EXPECT_LT(now(), begin + 10s);
  server.thaw();
  EXPECT_TRUE(up(*client));
}

TEST_F(ClientFaultsTest, KeepsAnIdleConnectionBySayingSomethingEachSecond) {
  RedisServer server;
  const auto client = connect(server.url());
  ASSERT_EQ(say(*client, {"PING"}), "PONG");
  EXPECT_TRUE(eventually(
      [&] { return !server.cli({"INFO", "commandstats"}).contains("cmdstat_ping:calls=1,"); }));
  EXPECT_TRUE(eventually([&] { return client->status().round_trips >= 3; }));
  EXPECT_EQ(client->status().connects, 1U);
  EXPECT_EQ(client->status().commands, 1U);
}

TEST_F(ClientFaultsTest, ConnectsAgainWhenTheServerIsRestarted) {
  RedisServer server;
  std::atomic<int> changes = 0;
  const auto client = connect(server.url());
  client->on_change([&] { ++changes; });
  ASSERT_EQ(say(*client, {"SET", "key", "value"}), "OK");
  const std::string run_id = client->server("").run_id;
  changes = 0;
  server.kill();
  ASSERT_TRUE(down(*client));
  EXPECT_TRUE(eventually([&] { return changes == 1; }));
  EXPECT_EQ(say(*client, {"GET", "key"}), "unavailable");
  EXPECT_EQ(client->server("").run_id, "");
  server.start();
  ASSERT_TRUE(up(*client));
  EXPECT_TRUE(eventually([&] { return changes == 2; }));
  EXPECT_EQ(say(*client, {"GET", "key"}), "null");
  EXPECT_NE(client->server("").run_id, run_id);
  EXPECT_NE(client->server("").run_id, "");
  EXPECT_EQ(client->status().connects, 2U);
}

TEST_F(ClientFaultsTest, ConnectsToAServerThatStartsLater) {
  RedisServer server;
  server.kill();
  const auto client = connect(server.url());
  EXPECT_EQ(say(*client, {"PING"}), "unavailable");
  EXPECT_TRUE(client->status().failure.contains("Connection refused")) << client->status().failure;
  server.start();
  ASSERT_TRUE(up(*client));
  EXPECT_EQ(say(*client, {"PING"}), "PONG");
}

TEST_F(ClientFaultsTest, FailsAtOnceForANameThatNobodyHas) {
  const auto client = connect("redis://no-such-host.invalid");
  EXPECT_EQ(say(*client, {"PING"}), "unavailable");
}

TEST_F(ClientFaultsTest, EndsEveryCallOnceWhenTheConnectionIsCutInTheMiddleOfAnswers) {
  RedisServer server;
  net::TcpProxy proxy{server.port()};
  const auto client = connect("redis://127.0.0.1:" + std::to_string(proxy.port()));
  ASSERT_EQ(say(*client, {"SET", "key", std::string(1000, 'x')}), "OK");
  proxy.cut_after(300'500);  // 299 answers or less, since the greeting has gone before them
  proxy.refuse(true);        // and none on another connection
  std::atomic<int> answered = 0;
  std::atomic<int> failed = 0;
  std::vector<std::atomic<int>> calls(1000);
  for (auto& call : calls) {
    client->call("key", {"GET", "key"}, in(20s), [&](const Answer& answer) {
      ++call;
      ++(answer ? answered : failed);
      EXPECT_TRUE(answer ? answer->text.size() == 1000 : answer.error() == Errc::kUnavailable);
    });
  }
  ASSERT_TRUE(eventually([&] { return answered + failed == 1000; }));
  for (const auto& call : calls) EXPECT_EQ(call, 1);
  EXPECT_GT(answered, 200);
  EXPECT_GT(failed, 600);
  proxy.cut_after(std::int64_t{1} << 60);
  proxy.refuse(false);
  ASSERT_TRUE(up(*client));
  EXPECT_EQ(say(*client, {"STRLEN", "key"}), "1000");
}

TEST_F(ClientFaultsTest, NoticesThatNothingComesThroughAnyMore) {
  RedisServer server;
  net::TcpProxy proxy{server.port()};
  const auto client = connect("redis://127.0.0.1:" + std::to_string(proxy.port()));
  ASSERT_EQ(say(*client, {"PING"}), "PONG");
  proxy.drop(true);
  EXPECT_EQ(client->ask("", {"PING"}, in(50ms)).error(), Errc::kDeadlineExceeded);
  ASSERT_TRUE(down(*client));
  proxy.drop(false);
  ASSERT_TRUE(up(*client));
  proxy.refuse(true);
  proxy.cut();
  ASSERT_TRUE(down(*client));
  EXPECT_TRUE(eventually([&] { return client->status().failures >= 4; }));
  proxy.refuse(false);
  ASSERT_TRUE(up(*client));
}

TEST_F(ClientFaultsTest, PutsUpWithSlowAnswers) {
  RedisServer server;
  net::TcpProxy proxy{server.port()};
  const auto client = connect("redis://127.0.0.1:" + std::to_string(proxy.port()));
  ASSERT_EQ(say(*client, {"PING"}), "PONG");
  proxy.delay(20ms);
  const Instant begin = now();
  for (int i = 1; i <= 5; ++i) EXPECT_EQ(say(*client, {"INCR", "key"}), std::to_string(i));
  EXPECT_GE(now(), begin + 200ms);
  EXPECT_EQ(client->status().failures, 0U);
}

TEST_F(ClientFaultsTest, RefusesAnAnswerThatIsTooLarge) {
  RedisServer server;
  Options small = options(server.url());
  small.reply_bytes_max = 10'000;
  const auto client = connect(small);
  ASSERT_EQ(say(*client, {"SET", "key", std::string(20'000, 'x')}), "OK");
  EXPECT_EQ(say(*client, {"GET", "key"}), "unavailable");
  EXPECT_TRUE(client->status().failure.contains("too large")) << client->status().failure;
  ASSERT_TRUE(up(*client));
}

TEST_F(ClientFaultsTest, LeavesAServerThatIsNoMasterAndFindsIt) {
  RedisServer master{{"--repl-diskless-sync-delay", "0"}};
  RedisServer replica{{"--replicaof", "127.0.0.1 " + std::to_string(master.port())}};
  ASSERT_TRUE(eventually(
      [&] { return replica.cli({"INFO", "replication"}).contains("master_link_status:up"); }));
  const auto client = connect(replica.url());
  ASSERT_EQ(say(*client, {"GET", "key"}), "null");
  const std::uint64_t connects = client->status().connects;
  const Script script{"return redis.call('set', KEYS[1], ARGV[1])"};
  EXPECT_TRUE(as_text(run(*client, script, {"key"}, {"1"})).starts_with("READONLY"));
  ASSERT_TRUE(eventually([&] { return client->status().connects > connects; }));
  EXPECT_TRUE(client->status().failure.contains("READONLY")) << client->status().failure;

  const auto other = connect(master.url());
  ASSERT_EQ(say(*other, {"PING"}), "PONG");
  const std::string run_id = other->server("").run_id;
  master.kill();
  replica.cli({"REPLICAOF", "NO", "ONE"});
  ASSERT_TRUE(up(*client));
  EXPECT_EQ(as_text(run(*client, script, {"key"}, {"1"})), "OK");
  EXPECT_NE(client->server("").run_id, run_id);
}

TEST_F(ClientFaultsTest, IsNotUpWhileTheServerLoadsItsData) {
  RedisServer server{{"--key-load-delay", "20000", "--loading-process-events-interval-bytes",
                      "1024", "--rdbcompression", "no"}};
  const auto client = connect(server.url());
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(say(*client, {"SET", std::to_string(i), std::string(2000, 'x')}), "OK");
  }
  ASSERT_EQ(say(*client, {"SAVE"}), "OK");
  server.kill();
  ASSERT_TRUE(down(*client));
  std::jthread watcher{[&] {
    EXPECT_TRUE(eventually([&] { return client->status().failure.contains("LOADING"); }));
    EXPECT_EQ(client->status().connects, 1U);
  }};
  server.start();  // returns when all is loaded
  watcher.join();
  ASSERT_TRUE(up(*client));
  EXPECT_EQ(say(*client, {"DBSIZE"}), "50");
}

TEST_F(ClientFaultsTest, SurvivesAStormOfCutsUnderLoad) {
  RedisServer server;
  net::TcpProxy proxy{server.port()};
  const auto client = connect("redis://127.0.0.1:" + std::to_string(proxy.port()));
  std::atomic<bool> stop = false;
  std::atomic<int> answered = 0;
  std::atomic<int> asked = 0;
  std::jthread cutter{[&] {
    for (int cuts = 0; cuts < 10; ++cuts) {
      const int before = answered;
      static_cast<void>(eventually([&] { return answered >= before + 50; }));
      proxy.cut();
    }
    stop = true;
  }};
  in_threads(4, [&](int) {
    while (!stop) {
      ++asked;
      if (client->ask("key", {"INCR", "key"}, in(10s))) {
        ++answered;
      } else {
        nap();
      }
    }
  });
  const int done = std::stoi(server.cli({"GET", "key"}));
  EXPECT_LE(answered, done);  // what failed may have been done
  EXPECT_LE(done, asked);
  EXPECT_EQ(client->status().pending, 0U);
  ASSERT_TRUE(up(*client));
}

}  // namespace
}  // namespace weir::redis
