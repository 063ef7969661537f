// Who may speak to whom: TLS, passwords, ACL users.
#include "redis/client_for_test.h"

namespace weir::redis {
namespace {

class ClientAccessTest : public ClientTest {
 protected:
  // Tries it more than once and fails each time, for the same reason.
  void expect_refused(Client& client, const std::string& why) {
    ASSERT_TRUE(eventually([&] { return client.status().failures >= 2; }));
    const Status status = client.status();
    EXPECT_FALSE(status.up);
    EXPECT_EQ(status.connects, 0U);
    EXPECT_TRUE(status.failure.contains(why)) << status.failure;
    EXPECT_FALSE(status.failure.contains("hush")) << status.failure;
    const Answer answer = client.ask("", {"PING"}, in(10s));
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error(), Errc::kUnavailable);
    EXPECT_FALSE(answer.error().message.contains("hush"));
  }
  static std::string with(const std::string& credentials, const RedisServer& server) {
    return "redis://" + credentials + "@127.0.0.1:" + std::to_string(server.port());
  }
};

// S2.6
TEST_F(ClientAccessTest, SpeaksTlsToAServerWhoseNameAndAuthorityAreRight) {
  const auto server = RedisServer::with_tls("DNS:localhost,IP:127.0.0.1");
  Options trusting = options(server->url());
  trusting.ca_file = server->ca_file();
  const auto by_address = connect(trusting);
  EXPECT_EQ(say(*by_address, {"SET", "key", std::string(100'000, 'x')}), "OK");
  EXPECT_EQ(say(*by_address, {"GET", "key"}), std::string(100'000, 'x'));
  trusting.url = "rediss://localhost:" + std::to_string(server->port());
  const auto by_name = connect(trusting);
  EXPECT_EQ(say(*by_name, {"PING"}), "PONG");
  EXPECT_EQ(by_name->status().failures, 0U);
}

// S2.6
TEST_F(ClientAccessTest, DoesNotSpeakToAServerOfAnotherNameOrAuthority) {
  const auto server = RedisServer::with_tls("DNS:other.example");
  Options trusting = options(server->url());
  expect_refused(*connect(trusting), "certificate verify failed");
  trusting.ca_file = server->ca_file();
  expect_refused(*connect(trusting), "IP address mismatch");
  trusting.url = "rediss://localhost:" + std::to_string(server->port());
  expect_refused(*connect(trusting), "hostname mismatch");
}

TEST_F(ClientAccessTest, SpeaksNoTlsToAServerThatDoesNot) {
  RedisServer server;
  expect_refused(*connect("rediss://127.0.0.1:" + std::to_string(server.port())), "TLS");
  Options nothing = options(server.url());
  nothing.url = "rediss://127.0.0.1:1";
  nothing.ca_file = "/no/such/file";
  EXPECT_EQ(Client::create(nothing, time_.source()).error(), Errc::kInvalidConfig);
}

// S2.6
TEST_F(ClientAccessTest, SaysItsPassword) {
  RedisServer server{{"--requirepass", "hush hush/@"}};
  EXPECT_EQ(say(*connect(with(":hush%20hush%2F%40", server)), {"PING"}), "PONG");
  EXPECT_EQ(say(*connect(with("default:hush hush/@", server)), {"PING"}), "PONG");
  Options old = options(with(":hush%20hush%2F%40", server));
  old.protocol = 2;
  EXPECT_EQ(say(*connect(old), {"PING"}), "PONG");
  old.url = with(":hush", server);
  expect_refused(*connect(old), "WRONGPASS");
  expect_refused(*connect(with(":hush", server)), "WRONGPASS");
  expect_refused(*connect(server.url()), "NOAUTH");
}

// S2.6
TEST_F(ClientAccessTest, IsTheUserThatItIsToldToBe) {
  RedisServer server;
  server.cli({"ACL", "SETUSER", "ann", "on", ">hush", "~quota:*", "+@all"});
  server.cli({"ACL", "SETUSER", "bob", "on", ">hush", "~*", "+incr", "+ping"});
  const auto ann = connect(with("ann:hush", server));
  EXPECT_EQ(say(*ann, {"ACL", "WHOAMI"}), "ann");
  EXPECT_EQ(say(*ann, {"INCR", "quota:1"}), "1");
  EXPECT_TRUE(say(*ann, {"INCR", "other"}).starts_with("NOPERM"));
  // One who may not ask who the server is.
  const auto bob = connect(with("bob:hush", server));
  EXPECT_EQ(say(*bob, {"INCR", "other"}), "1");
  EXPECT_EQ(bob->server("other").run_id, "");
  expect_refused(*connect(with("ann:hushhush", server)), "WRONGPASS");
  expect_refused(*connect(with("eve:hush", server)), "WRONGPASS");
}

TEST_F(ClientAccessTest, IsAUserWhoNeedsNoPassword) {
  RedisServer server;
  server.cli({"ACL", "SETUSER", "ann", "on", "nopass", "~*", "+@all"});
  for (const int protocol : {2, 3}) {
    Options as_ann = options(with("ann", server));
    as_ann.protocol = protocol;
    EXPECT_EQ(say(*connect(as_ann), {"ACL", "WHOAMI"}), "ann");
  }
}

TEST_F(ClientAccessTest, IsLetInWithoutARestartOnceThePasswordIsRight) {
  RedisServer server{{"--requirepass", "other"}};
  const auto client = connect(with(":hush", server));
  expect_refused(*client, "WRONGPASS");
  server.cli({"-a", "other", "--no-auth-warning", "CONFIG", "SET", "requirepass", "hush"});
  EXPECT_TRUE(eventually([&] { return client->status().up; }));
  EXPECT_EQ(say(*client, {"PING"}), "PONG");
}

}  // namespace
}  // namespace weir::redis
