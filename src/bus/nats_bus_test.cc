// What only NATS has: its URLs, credentials and certificates. The rest is in
// bus_conformance_test.cc.
#include "bus/nats_bus.h"

#include <gtest/gtest.h>

#include "bus/bus_for_test.h"
#include "bus/nats_for_test.h"
#include "bus/nats_url.h"

// libnats 3.4 reads and writes one TLS session in two threads at once, which ThreadSanitizer sees
// in what libssl copies. Mended later: https://github.com/nats-io/nats.c/pull/913
extern "C" const char* __tsan_default_suppressions() { return "race:libssl.so\n"; }

namespace weir::bus {
namespace {

std::shared_ptr<MessageBus> connect(const std::string& url, const std::string& ca_file = "",
                                    const std::string& name = "test") {
  auto bus = connect_bus({.url = url, .name = name, .ca_file = ca_file});
  EXPECT_TRUE(bus) << bus.error().message;
  return *bus;
}

// Whether a message goes to the server and back.
bool works(MessageBus& bus) {
  Heard heard;
  const auto subscription = bus.subscribe("works", heard.handler());
  return is_ready(bus) && bus.publish("works", "") && heard.waits_for(1);
}

// Why it does not connect.
std::string failure_of(const MessageBus& bus) {
  EXPECT_TRUE(eventually([&] { return bus.status().failure.contains("nats://"); }));
  EXPECT_FALSE(bus.status().connected);
  return bus.status().failure;
}

TEST(NatsUrl, IsReadAsWritten) {
  const auto one = parse_nats_url("nats://Example.org");
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_EQ(one->servers.at(0).host, "example.org");
  EXPECT_EQ(one->servers.at(0).url, "nats://example.org:4222");
  EXPECT_FALSE(one->tls);

  const auto several = parse_nats_url("tls://u%40:p%3a%22@a:1,tls://[::1]:65535/,tls://10.0.0.1");
  ASSERT_TRUE(several) << several.error().message;
  EXPECT_TRUE(several->tls);
  EXPECT_EQ(several->user, "u@");
  EXPECT_EQ(several->password, "p:\"");
  EXPECT_EQ(several->token, "");
  ASSERT_EQ(several->servers.size(), 3);
  EXPECT_EQ(several->servers[1].url, "nats://[::1]:65535");
  EXPECT_EQ(several->servers[1].host, "::1");
  EXPECT_EQ(several->servers[2].url, "nats://10.0.0.1:4222");

  const auto token = parse_nats_url("nats://a,nats://s3cret@b");
  ASSERT_TRUE(token);
  EXPECT_EQ(token->token, "s3cret");
}

TEST(NatsUrl, IsRefusedWithoutTellingThePassword) {
  for (const std::string url : {"",
                                "nats://",
                                "http://u:s3cret@a",
                                "nats:/u:s3cret@a",
                                "nats://u:s3cret@a:0",
                                "nats://u:s3cret@a:65536",
                                "nats://u:s3cret@a:x",
                                "nats://u:s3cret@",
                                "nats://s3cret%@a",
                                "nats://@a",
                                "nats://:s3cret@a",
                                "nats://a b",
                                "nats://a,",
                                "nats://a,tls://b",
                                "nats://u:s3cret@a,nats://u:other@b",
                                "nats://s3cret@a,nats://u:s3cret@b",
                                "nats://u:s3cret@a/path",
                                "nats://u:s3cret@[::1",
                                "nats://u:s3cret",
                                "nats://u:1,s3cret@a"}) {
    const auto bus = connect_bus({.url = url, .name = "", .ca_file = ""});
    ASSERT_FALSE(bus) << url;
    EXPECT_EQ(bus.error(), Errc::kInvalidConfig) << url;
    EXPECT_FALSE(bus.error().message.contains("s3cret")) << bus.error().message;
  }
}

TEST(NatsBus, GivesItsToken) {
  const NatsServer server{{"--auth", "s3cret\"token"}};
  EXPECT_TRUE(works(*connect(server.url("s3cret%22token"))));
}

TEST(NatsBus, GivesItsUserAndPassword) {
  const NatsServer server{{"--user", "weir", "--pass", "s3cret\\ \"@:/"}};
  EXPECT_TRUE(works(*connect(server.url("weir:s3cret%5c%20%22%40%3a%2f"))));
}

TEST(NatsBus, GivesAnyName) {
  const NatsServer server;
  EXPECT_TRUE(works(*connect(server.url(), "", "a \"quoted\\\n\" name")));
}

TEST(NatsBus, SaysThatItsTokenIsWrongAndTriesOn) {
  NatsServer server{{"--auth", "another"}};
  for (const std::string credentials : {"s3cret", "weir:s3cret", ""}) {
    const auto bus = connect(server.url(credentials));
    const std::string failure = failure_of(*bus);
    EXPECT_TRUE(failure.contains("uthorization")) << failure;
    EXPECT_FALSE(failure.contains("s3cret")) << failure;
    EXPECT_EQ(bus->publish("x", "").error(), Errc::kUnavailable);
  }
  const auto bus = connect(server.url("s3cret"));
  failure_of(*bus);
  server.stop();
  server.set_options({"--auth", "s3cret"});
  server.start();
  EXPECT_TRUE(works(*bus));
}

TEST(NatsBus, TakesTheServerThatThereIs) {
  NatsServer gone;
  gone.stop();
  const NatsServer server;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(works(*connect(gone.url() + "," + server.url())));
}

class NatsTlsTest : public testing::Test {
 protected:
  void SetUp() override {
    redis::make_authority(other_.path());
    redis::make_authority(directory_.path());
    redis::make_certificate(directory_.path(), "server", "DNS:localhost,IP:127.0.0.1");
    redis::make_certificate(directory_.path(), "elsewhere", "DNS:elsewhere.example");
  }

  std::vector<std::string> options(const std::string& certificate) const {
    return {"--tls", "--tlscert", directory_.path(certificate + ".crt"), "--tlskey",
            directory_.path(certificate + ".key")};
  }

  const TemporaryDirectory directory_;
  const TemporaryDirectory other_;
  const std::string authority_ = directory_.path("ca.crt");
  const std::string other_authority_ = other_.path("ca.crt");
};

TEST_F(NatsTlsTest, VerifiesTheServersCertificate) {
  NatsServer server{options("server")};
  for (const std::string host : {"localhost", "127.0.0.1"}) {
    const auto bus = connect("tls://" + host + ":" + std::to_string(server.port()), authority_);
    EXPECT_TRUE(works(*bus)) << bus->status().failure;
  }
  const auto bus = connect("tls://" + server.address(), authority_);
  EXPECT_TRUE(works(*bus));
  server.kill();
  EXPECT_TRUE(eventually([&] { return !bus->status().connected; }));
  server.start();
  EXPECT_TRUE(works(*bus));
}

TEST_F(NatsTlsTest, VerifiesItAlsoWhereOnlyTheServerAsksForTls) {
  const NatsServer server{options("server")};
  EXPECT_TRUE(works(*connect(server.url(), authority_)));
  EXPECT_TRUE(failure_of(*connect(server.url(), other_authority_)).contains("certificate"));
}

TEST_F(NatsTlsTest, RefusesAnUnknownAuthority) {
  const NatsServer server{options("server")};
  for (const std::string& ca : {other_authority_, std::string{}}) {
    const std::string failure = failure_of(*connect("tls://" + server.address(), ca));
    EXPECT_TRUE(failure.contains("certificate")) << failure;
  }
}

TEST_F(NatsTlsTest, RefusesACertificateForAnotherHost) {
  const NatsServer server{options("elsewhere")};
  for (const std::string host : {"localhost", "127.0.0.1"}) {
    const std::string failure =
        failure_of(*connect("tls://" + host + ":" + std::to_string(server.port()), authority_));
    EXPECT_TRUE(failure.contains("mismatch")) << failure;
  }
}

TEST_F(NatsTlsTest, RefusesAServerWithoutTls) {
  const NatsServer server;
  const std::string failure = failure_of(*connect("tls://" + server.address(), authority_));
  EXPECT_TRUE(failure.contains("ecure")) << failure;
}

TEST_F(NatsTlsTest, RefusesAFileThatIsNoCertificate) {
  for (const std::string& ca : {directory_.path("missing.crt"), directory_.path("ca.key")}) {
    const auto bus = connect_bus({.url = "tls://localhost", .name = "", .ca_file = ca});
    ASSERT_FALSE(bus);
    EXPECT_EQ(bus.error(), Errc::kInvalidConfig);
    EXPECT_TRUE(bus.error().message.contains(ca)) << bus.error().message;
  }
}

}  // namespace
}  // namespace weir::bus
