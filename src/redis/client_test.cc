// One client and one plain redis-server.
#include <atomic>

#include "redis/client_for_test.h"

namespace weir::redis {
namespace {

using Kind = net::RespValue::Kind;

class PlainClientTest : public ClientTest {
 protected:
  RedisServer server_;
  std::shared_ptr<Client> client_ = connect(server_.url());
};

TEST_F(PlainClientTest, AnswersTheFirstCallWithoutWaitingToBeConnected) {
  EXPECT_EQ(say(*client_, {"SET", "key", "value"}), "OK");
  EXPECT_EQ(say(*client_, {"GET", "key"}), "value");
  EXPECT_EQ(say(*client_, {"GET", "none"}), "null");
  EXPECT_EQ(say(*client_, {"SET", "binary", std::string{"\0\r\n", 3}}), "OK");
  EXPECT_EQ(say(*client_, {"GET", "binary"}), (std::string{"\0\r\n", 3}));
  const Status status = client_->status();
  EXPECT_TRUE(status.up);
  EXPECT_FALSE(status.cluster);
  EXPECT_EQ(status.connects, 1U);
  EXPECT_EQ(status.failures, 0U);
  EXPECT_EQ(status.commands, 5U);
  EXPECT_EQ(status.pending, 0U);
  EXPECT_EQ(status.failure, "");
}

TEST_F(PlainClientTest, PassesARefusalOnAsAnAnswer) {
  const Answer answer = ask(*client_, {"NONSENSE", "x"});
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->is_error());
  EXPECT_TRUE(answer->text.starts_with("ERR unknown command")) << answer->text;
  EXPECT_EQ(client_->status().connects, 1U);
}

TEST_F(PlainClientTest, SpeaksVersion3AndIsKnownByItsName) {
  const Answer answer = ask(*client_, {"CLIENT", "LIST"});
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->text.contains("name=weir ") && answer->text.contains("resp=3"))
      << answer->text;
  EXPECT_EQ(ask(*client_, {"ZADD", "set", "1.5", "member"})->integer, 1);
  EXPECT_EQ(ask(*client_, {"ZSCORE", "set", "member"})->kind, Kind::kDouble);
}

TEST_F(PlainClientTest, SpeaksVersion2WhenToldTo) {
  Options old = options(server_.url());
  old.protocol = 2;
  const auto client = connect(old);
  EXPECT_TRUE(say(*client, {"CLIENT", "LIST"}).contains("resp=2"));
  EXPECT_NE(client->server("").run_id, "");
  old.protocol = 4;
  EXPECT_EQ(Client::create(old, time_.source()).error(), Errc::kInvalidConfig);
}

TEST_F(ClientTest, SpeaksVersion2ToAServerThatDoesNotKnowHello) {
  RedisServer server{{"--rename-command", "HELLO", "", "--requirepass", "hush"}};
  const auto client = connect("redis://:hush@127.0.0.1:" + std::to_string(server.port()) + "/2");
  EXPECT_TRUE(say(*client, {"CLIENT", "LIST"}).contains("name=weir age=0"));
  EXPECT_TRUE(say(*client, {"CLIENT", "LIST"}).contains("db=2"));
  EXPECT_TRUE(say(*client, {"CLIENT", "LIST"}).contains("resp=2"));
  EXPECT_FALSE(client->status().failure.contains("hush"));
}

TEST_F(PlainClientTest, UsesTheDatabaseOfItsUrl) {
  const auto other = connect(server_.url() + "/3");
  EXPECT_EQ(say(*other, {"SET", "key", "three"}), "OK");
  EXPECT_EQ(say(*client_, {"GET", "key"}), "null");
  EXPECT_EQ(server_.cli({"-n", "3", "GET", "key"}), "three");
}

TEST_F(PlainClientTest, UsesAUnixSocket) {
  const auto client = connect("unix://" + server_.socket() + "?db=4");
  EXPECT_EQ(say(*client, {"SET", "key", "four"}), "OK");
  EXPECT_EQ(server_.cli({"-n", "4", "GET", "key"}), "four");
}

TEST_F(PlainClientTest, FindsALocalNameByItsAddresses) {
  const auto client = connect("redis://localhost:" + std::to_string(server_.port()));
  EXPECT_EQ(say(*client, {"PING"}), "PONG");
}

TEST_F(PlainClientTest, KnowsWhichServerItSpeaksTo) {
  EXPECT_EQ(say(*client_, {"PING"}), "PONG");
  const Server server = client_->server("key");
  EXPECT_TRUE(server_.cli({"INFO", "server"}).contains("run_id:" + server.run_id));
  EXPECT_LE(server.up_since, now());
  EXPECT_GT(server.up_since, now() - 60s);
}

// S2.6
TEST_F(PlainClientTest, GivesAThousandCallersTheirOwnAnswersOnOneConnection) {
  ASSERT_EQ(say(*client_, {"PING"}), "PONG");
  std::atomic<int> right = 0;
  std::atomic<int> done = 0;
  in_threads(10, [&](int thread) {
    for (int i = 0; i < 100; ++i) {
      const std::string word = std::to_string(thread) + ":" + std::to_string(i);
      client_->call("", {"ECHO", word}, in(10s), [&, word](const Answer& answer) {
        right += answer && answer->text == word ? 1 : 0;
        ++done;
      });
    }
  });
  ASSERT_TRUE(eventually([&] { return done == 1000; }));
  EXPECT_EQ(right, 1000);
  EXPECT_EQ(client_->status().connects, 1U);
  EXPECT_EQ(client_->status().commands, 1001U);
  EXPECT_TRUE(eventually([&] { return client_->status().pending == 0; }));
}

// S2.6
TEST_F(PlainClientTest, CarriesWhatWaitsInOneWrite) {
  std::atomic<int> done = 0;
  // From inside `done`, so that the client's thread is busy until all are there.
  client_->call("", {"PING"}, in(10s), [&](const Answer&) {
    for (int i = 0; i < 1000; ++i) {
      client_->call("", {"INCR", "count"}, in(10s), [&](const Answer&) { ++done; });
    }
  });
  ASSERT_TRUE(eventually([&] { return done == 1000; }));
  EXPECT_EQ(server_.cli({"GET", "count"}), "1000");
  EXPECT_LT(client_->status().round_trips, 20U);
}

TEST_F(PlainClientTest, RunsAScriptByItsHashAndSendsItWholeWhenItIsNotKnown) {
  const Script script{"return {KEYS[1], ARGV[1], redis.call('incr', KEYS[2])}"};
  EXPECT_EQ(script.sha1(), server_.cli({"SCRIPT", "LOAD", script.text()}));
  server_.cli({"SCRIPT", "FLUSH"});
  for (int i = 1; i <= 4; ++i) {
    if (i == 3) server_.cli({"SCRIPT", "FLUSH"});
    const Answer answer = run(*client_, script, {"a", "count"}, {"arg"});
    ASSERT_TRUE(answer && answer->items.size() == 3) << i;
    EXPECT_EQ(answer->items[0].text, "a");
    EXPECT_EQ(answer->items[1].text, "arg");
    EXPECT_EQ(answer->items[2].integer, i);
  }
  const std::string stats = server_.cli({"INFO", "commandstats"});
  EXPECT_TRUE(stats.contains("cmdstat_eval:calls=2,")) << stats;
  EXPECT_TRUE(stats.contains("cmdstat_evalsha:calls=4,")) << stats;
}

TEST_F(PlainClientTest, RunsAScriptWithoutKeysAndWithItsOwnNameInside) {
  const Script script{"return 'EVALSHA\\r\\n' .. ARGV[1]"};
  EXPECT_EQ(as_text(run(*client_, script, {}, {"EVALSHA\r\n"})), "EVALSHA\r\nEVALSHA\r\n");
}

TEST_F(PlainClientTest, RefusesMoreThanMayBePending) {
  Options small = options(server_.url());
  small.pending_max = 3;
  const auto client = connect(small);
  ASSERT_EQ(say(*client, {"PING"}), "PONG");
  server_.freeze();
  std::atomic<int> refused = 0;
  std::atomic<int> answered = 0;
  const auto note = [&](const Answer& answer) {
    ++(answer ? answered : refused);
    EXPECT_TRUE(answer || answer.error() == Errc::kCapacityExhausted);
  };
  for (int i = 0; i < 5; ++i) client->call("", {"PING"}, in(20s), note);
  EXPECT_TRUE(eventually([&] { return refused == 2; }));
  EXPECT_EQ(client->status().pending, 3U);
  server_.thaw();
  EXPECT_TRUE(eventually([&] { return answered == 3; }));
}

TEST_F(PlainClientTest, DoesNotSendWhatIsTooLateAlready) {
  ASSERT_EQ(say(*client_, {"PING"}), "PONG");
  EXPECT_EQ(client_->ask("k", {"INCR", "k"}, now()).error(), Errc::kDeadlineExceeded);
  EXPECT_EQ(say(*client_, {"GET", "k"}), "null");
  EXPECT_EQ(client_->status().connects, 1U);
}

TEST_F(PlainClientTest, EndsWhatIsPendingWhenItIsClosed) {
  ASSERT_EQ(say(*client_, {"PING"}), "PONG");
  server_.freeze();
  std::atomic<int> closed = 0;
  for (int i = 0; i < 10; ++i) {
    client_->call("", {"PING"}, in(20s), [&](const Answer& answer) {
      closed += !answer && answer.error() == Errc::kClosed ? 1 : 0;
    });
  }
  client_->close();
  EXPECT_EQ(closed, 10);
  EXPECT_FALSE(client_->status().up);
  EXPECT_EQ(say(*client_, {"PING"}), "closed");
  client_->close();
  server_.thaw();
}

TEST_F(PlainClientTest, MayBeClosedAndDroppedFromACallback) {
  std::promise<void> closed;
  client_->call("", {"PING"}, in(10s), [&](const Answer& answer) {
    EXPECT_TRUE(answer);
    client_->close();
    closed.set_value();
  });
  closed.get_future().wait();
  EXPECT_EQ(say(*client_, {"PING"}), "closed");

  auto other = connect(server_.url());
  Client* const raw = other.get();
  std::promise<void> dropped;
  raw->call("", {"PING"}, in(10s),
            [last = std::move(other), &dropped](const Answer& answer) mutable {
              EXPECT_TRUE(answer);
              last.reset();
              dropped.set_value();
            });
  dropped.get_future().wait();
  EXPECT_TRUE(eventually([&] { return !server_.cli({"CLIENT", "LIST"}).contains("name=weir"); }));
}

TEST_F(PlainClientTest, NeverCallsBackFromInsideACall) {
  std::atomic<bool> inside = true;
  std::promise<bool> was_inside;
  client_->close();
  client_->call("", {"PING"}, in(10s), [&](const Answer&) {
    EXPECT_TRUE(eventually([&] { return !inside; }));
    was_inside.set_value(inside);
  });
  inside = false;
  EXPECT_FALSE(was_inside.get_future().get());
}

}  // namespace
}  // namespace weir::redis
