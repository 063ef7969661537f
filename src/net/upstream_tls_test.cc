// Calls over TLS against servers whose certificates are made here.
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include <cstdio>
#include <future>

#include "net/upstream_for_test.h"

namespace weir::net {
namespace {

using namespace std::chrono_literals;
using enum UpstreamFault;

using Key = std::unique_ptr<EVP_PKEY, FreedBy<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, FreedBy<X509_free>>;
using Context = TlsClient::Context;

constexpr long kDay = 24 * 60 * 60;

Key new_key() { return Key{EVP_EC_gen("P-256")}; }

struct Identity {
  Key key = new_key();
  Certificate certificate = nullptr;
};

void extend(X509& certificate, X509& issuer, int kind, const char* value) {
  X509V3_CTX context{};
  X509V3_set_ctx(&context, &issuer, &certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value);
  ASSERT_NE(extension, nullptr) << value;
  X509_add_ext(&certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

// Signed by `issuer`, or by itself if there is none, for `names`: "DNS:a,IP:127.0.0.1".
Identity new_identity(const char* names, const Identity* issuer, long ends_in = kDay) {
  static long serial = 0;
  Identity made{.certificate = Certificate{X509_new()}};
  X509& raw = *made.certificate;
  X509_set_version(&raw, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(&raw), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(&raw), -2 * kDay);
  X509_gmtime_adj(X509_getm_notAfter(&raw), ends_in);
  X509_set_pubkey(&raw, made.key.get());
  X509_NAME* const name = X509_get_subject_name(&raw);
  const std::string common = "weir test " + std::to_string(serial);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(common.c_str()), -1, -1, 0);
  const Identity& by = issuer != nullptr ? *issuer : made;
  X509_set_issuer_name(&raw, X509_get_subject_name(by.certificate.get()));
  if (names != nullptr) {
    extend(raw, *by.certificate, NID_subject_alt_name, names);
  } else {
    extend(raw, raw, NID_basic_constraints, "critical,CA:TRUE");
  }
  X509_sign(&raw, by.key.get(), EVP_sha256());
  return made;
}

class UpstreamTlsTest : public UpstreamTest {
 protected:
  void SetUp() override {
    std::FILE* const file = ::fdopen(::mkstemp(ca_file_.data()), "w");
    ASSERT_NE(file, nullptr);
    PEM_write_X509(file, authority_.certificate.get());
    std::fclose(file);
    trust(ca_file_);
  }
  void TearDown() override {
    pool_.reset();
    ::unlink(ca_file_.c_str());
  }

  void trust(const std::string& file) {
    auto client = make_tls_client(file);
    ASSERT_TRUE(client) << client.error();
    make_pool({}, *client);
  }

  static Context context_of(const Identity& identity) {
    Context context{SSL_CTX_new(TLS_server_method())};
    SSL_CTX_use_certificate(context.get(), identity.certificate.get());
    SSL_CTX_use_PrivateKey(context.get(), identity.key.get());
    return context;
  }
  Context context_for(const char* names, long ends_in = kDay) {
    return context_of(new_identity(names, &authority_, ends_in));
  }

  const Identity authority_ = new_identity(nullptr, nullptr);
  std::string ca_file_ = testing::TempDir() + "weir_ca_XXXXXX";
};

void echo(Peer& peer) {
  for (std::string request; !(request = peer.request()).empty();) peer.send(answer_of(request));
}

TEST_F(UpstreamTlsTest, CallsAServerWhoseNameIsVerified) {
  const Context context = context_for("DNS:localhost,IP:127.0.0.1");
  RawServer server{echo, context.get()};
  for (const std::string host : {"localhost", "127.0.0.1"}) {
    for (int i = 0; i < 3; ++i) {
      const Receiver got = fetch(server.origin(host), post("secret"));
      EXPECT_TRUE(got.ended) << got.message;
      EXPECT_TRUE(got.body.ends_with("secret"));
    }
  }
  EXPECT_EQ(server.connections(), 2);
  pool_.reset();
}

TEST_F(UpstreamTlsTest, ReachesAnIpv6Address) {
  const Context context = context_for("IP:::1");
  RawServer server{echo, context.get(), AF_INET6};
  const Receiver got = fetch(server.origin("[::1]"), get());
  EXPECT_TRUE(got.ended) << got.message;
  pool_.reset();
}

TEST_F(UpstreamTlsTest, RefusesAServerThatIsNotWhoItShouldBe) {
  const Identity stranger = new_identity("DNS:localhost", nullptr);
  const Identity foreign_authority = new_identity(nullptr, nullptr);
  const Identity foreign = new_identity("DNS:localhost", &foreign_authority);
  struct Row {
    Context context;
    std::string host, why;
  };
  Row rows[] = {
      {context_for("DNS:other.example"), "localhost", "hostname mismatch"},
      {context_for("DNS:*.localhost"), "localhost", "hostname mismatch"},
      {context_for("IP:127.0.0.1"), "localhost", "hostname mismatch"},
      {context_for("DNS:127.0.0.1,IP:127.0.0.2"), "127.0.0.1", "IP address mismatch"},
      {context_for("DNS:localhost", -kDay), "localhost", "certificate has expired"},
      {context_of(stranger), "localhost", "self-signed certificate"},
      {context_of(foreign), "localhost", "unable to get local issuer certificate"},
  };
  for (const auto& [context, host, why] : rows) {
    std::atomic<bool> served = false;
    RawServer server{[&](Peer& peer) { served = !peer.request().empty(); }, context.get()};
    const Receiver got = fetch(server.origin(host), get());
    EXPECT_EQ(got.fault, kUnreachable);
    EXPECT_EQ(got.message, server.origin(host).authority + ": certificate verify failed: " + why);
    EXPECT_FALSE(served);
  }
}

TEST_F(UpstreamTlsTest, TrustsTheSystemUnlessAFileIsNamed) {
  trust("");
  const Context context = context_for("DNS:localhost");
  RawServer server{echo, context.get()};
  EXPECT_EQ(fetch(server.origin("localhost"), get()).fault, kUnreachable);
  const auto none = make_tls_client("/no/such/file");
  ASSERT_FALSE(none);
  EXPECT_TRUE(none.error().starts_with("/no/such/file: ")) << none.error();
}

TEST_F(UpstreamTlsTest, SpeaksNothingOlderThanTls12) {
  const Context context = context_for("DNS:localhost");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_VERSION);
  SSL_CTX_set_max_proto_version(context.get(), TLS1_1_VERSION);
  SSL_CTX_set_security_level(context.get(), 0);
  RawServer server{echo, context.get()};
  const Receiver got = fetch(server.origin("localhost"), get());
  EXPECT_EQ(got.fault, kUnreachable);
  EXPECT_TRUE(got.message.contains(": TLS: ")) << got.message;
}

TEST_F(UpstreamTlsTest, SaysThatAServerSpeaksNoTls) {
  RawServer server{[](Peer& peer) {
    peer.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    peer.wait_for_end();
  }};
  Origin origin = server.origin();
  origin.tls = true;
  const Receiver got = fetch(origin, get());
  EXPECT_EQ(got.fault, kUnreachable);
  EXPECT_EQ(got.message, origin.authority + ": TLS: wrong version number");
}

TEST_F(UpstreamTlsTest, GivesUpAHandshakeAfterATime) {
  RawServer server{[](Peer& peer) { peer.wait_for_end(); }};
  Origin origin = server.origin();
  origin.tls = true;
  Receiver receiver;
  const auto call = pool_->call(origin, get(), receiver);
  poll_until([&] { return server.connections() == 1; });
  for (int i = 0; i < 100; ++i) poll();
  step(9s);
  EXPECT_FALSE(receiver.over());
  step(1s);
  EXPECT_EQ(receiver.fault, kUnreachable);
}

TEST_F(UpstreamTlsTest, AVersion12ServerIsServedAsWell) {
  const Context context = context_for("DNS:localhost");
  SSL_CTX_set_max_proto_version(context.get(), TLS1_2_VERSION);
  RawServer server{echo, context.get()};
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(fetch(server.origin("localhost"), get()).ended);
  EXPECT_EQ(server.connections(), 1);
  pool_.reset();
}

TEST_F(UpstreamTlsTest, PassesLongBodiesBothWays) {
  const Context context = context_for("DNS:localhost");
  RawServer server{echo, context.get()};
  const Request request = post(std::string(5'000'000, 'a') + std::string(5'000'000, 'b'));
  const Receiver got = fetch(server.origin("localhost"), request);
  EXPECT_TRUE(got.body == request.head + request.body) << got.message;
  EXPECT_EQ(pool_->idle(), 1U);
  pool_.reset();
}

TEST_F(UpstreamTlsTest, AServerThatIsGoneWhileItIsSentToIsNoSignal) {
  const Context context = context_for("DNS:localhost");
  RawServer server{[](Peer& peer) { peer.reset(); }, context.get()};
  const Receiver got = fetch(server.origin("localhost"), post(std::string(32 << 20, 'x')));
  EXPECT_EQ(got.fault, kBroken) << got.message;
}

TEST_F(UpstreamTlsTest, ResumesASession) {
  const Context context = context_for("DNS:localhost");
  std::vector<bool> resumed;
  RawServer server{[&](Peer& peer) {
                     resumed.push_back(peer.resumed());
                     peer.request();
                     peer.send(answer_of("x", "Connection: close\r\n"));
                     peer.wait_for_end();
                   },
                   context.get()};
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(fetch(server.origin("localhost"), get()).ended);
  EXPECT_EQ(resumed, (std::vector{false, true, true}));
}

// A body that ends with the connection is whole only if the server itself says so.
TEST_F(UpstreamTlsTest, TakesNoCutForAnEnd) {
  const Context context = context_for("DNS:localhost");
  for (const bool says_so : {false, true}) {
    RawServer server{[&](Peer& peer) {
                       peer.request();
                       peer.send("HTTP/1.1 200 OK\r\n\r\nall of it");
                       if (says_so) {
                         peer.end_tls();
                         peer.wait_for_end();
                       }
                     },
                     context.get()};
    const Receiver got = fetch(server.origin("localhost"), get());
    EXPECT_EQ(got.body, "all of it");
    EXPECT_EQ(got.ended, says_so) << got.message;
    EXPECT_EQ(got.fault, says_so ? std::nullopt : std::optional{kBroken});
  }
}

TEST_F(UpstreamTlsTest, SendsAgainOnANewConnectionIfAKeptOneEndsUnanswered) {
  const Context context = context_for("DNS:localhost");
  for (const bool says_so : {false, true}) {
    RawServer server{[&](Peer& peer) {
                       if (peer.number() > 0) return echo(peer);
                       peer.request();
                       peer.send(answer_of("x"));
                       peer.request();
                       if (says_so) peer.end_tls();
                     },
                     context.get()};
    EXPECT_TRUE(fetch(server.origin("localhost"), get()).ended);
    const Receiver got = fetch(server.origin("localhost"), post("again"));
    EXPECT_TRUE(got.body.ends_with("again")) << got.message;
    EXPECT_EQ(server.connections(), 2);
    trust(ca_file_);
  }
}

TEST_F(UpstreamTlsTest, NoticesThatAKeptConnectionWasClosed) {
  const Context context = context_for("DNS:localhost");
  RawServer server{[](Peer& peer) {
                     peer.request();
                     peer.send(answer_of("x"));
                     peer.end_tls();
                     peer.wait_for_end();
                   },
                   context.get()};
  EXPECT_TRUE(fetch(server.origin("localhost"), get()).ended);
  run_until([&] { return pool_->idle() == 0; });
}

TEST_F(UpstreamTlsTest, APausedReceiverLosesNothing) {
  const Context context = context_for("DNS:localhost");
  RawServer server{echo, context.get()};
  Receiver receiver;
  const Request request = post(std::string(3'000'000, 'z'));
  const auto call = pool_->call(server.origin("localhost"), request, receiver);
  std::size_t before = 0;
  bool paused = false;
  receiver.at_body = [&] {
    EXPECT_LE(receiver.bytes - std::exchange(before, receiver.bytes), UpstreamPool::kReadBytes);
    call->pause();
    paused = true;
  };
  while (!receiver.over()) {
    run_until([&] { return paused || receiver.over(); });
    paused = false;
    call->resume();
  }
  EXPECT_TRUE(receiver.body == request.head + request.body) << receiver.message;
  pool_.reset();
}

TEST_F(UpstreamTlsTest, WithoutCertificatesThereIsNoTls) {
  make_pool({}, nullptr);
  EXPECT_EQ(fetch(*Origin::parse("https://127.0.0.1:1"), get()).fault, kUnreachable);
}

}  // namespace
}  // namespace weir::net
