// Keys, tokens, and what comes in too large or too slowly.
#include <gtest/gtest.h>

#include "proxy/proxy_for_test.h"

namespace weir::proxy {
namespace {

using namespace std::chrono_literals;

class SafetyTest : public ProxyTest {
 protected:
  static MainConfig with_token() {
    MainConfig main;
    main.tokens = {{"agents", Scope::kClient, Secret{"weir-token"}}};
    return main;
  }
  std::string log_text() const { return directory.read("log"); }
};

TEST_F(SafetyTest, TheConfiguredKeyReplacesWhateverTheClientSent) {
  struct Case {
    std::string profile;
    std::string field;
  };
  for (const auto& [profile, field] : {Case{"openai", "authorization: Bearer canary-key\r\n"},
                                       Case{"anthropic", "x-api-key: canary-key\r\n"},
                                       Case{"gemini", "x-goog-api-key: canary-key\r\n"},
                                       Case{"azure", "api-key: canary-key\r\n"}}) {
    if (listener == nullptr) start(profile, "api_key: canary-key\n");
    configure(profile, "api_key: canary-key\n");
    RawClient agent = client();
    agent.send(get("/v1/models?key=mine&x=1",
                   "Authorization: Bearer mine\r\nX-Api-Key: mine\r\nX-Goog-Api-Key: mine\r\n"
                   "Api-Key: mine\r\n"));
    const auto visit = provider.next();
    EXPECT_TRUE(visit.has("\r\n" + field)) << profile << visit.head;
    EXPECT_FALSE(visit.has("mine")) << profile << visit.head;
    EXPECT_TRUE(visit.has("x=1")) << visit.head;
    visit.answer("{}");
    EXPECT_EQ(agent.answer().status, 200);
  }
  EXPECT_EQ(log_text().find("canary"), std::string::npos);
}

TEST_F(SafetyTest, AKeyForTheQueryGoesThereAndDoesNotComeBackInAHead) {
  start("generic", "api_key: canary/key\napi_key_parameter: appid\n");
  RawClient agent = client();
  agent.send(get("/v1/models?x=1&appid=mine", "Authorization: Bearer mine\r\n"));
  auto visit = provider.next();
  EXPECT_TRUE(visit.head.contains("?x=1&appid=canary%2Fkey HTTP/1.1\r\n")) << visit.head;
  EXPECT_FALSE(visit.has("mine") || visit.has("authorization")) << visit.head;
  visit.answer("{}", "302 Found", "Location: /else?appid=canary%2Fkey\r\n");
  const auto answer = agent.answer();
  EXPECT_TRUE(answer.has("\r\nLocation: /else?appid=************\r\n")) << answer.head;
  EXPECT_FALSE(log_text().contains("canary"));
}

TEST_F(SafetyTest, AClientsOwnKeyGoesOnOnlyIfConfigured) {
  start("anthropic");
  RawClient agent = client();
  agent.send(get("/v1/models", "x-api-key: mine\r\n"));
  auto visit = provider.next();
  EXPECT_FALSE(visit.has("mine"));
  visit.answer("{}");
  EXPECT_EQ(agent.answer().status, 200);

  configure("anthropic", "pass_client_key: true\n");
  agent.send(get("/v1/models", "x-api-key: mine\r\n"));
  visit = provider.next();
  EXPECT_TRUE(visit.has("\r\nx-api-key: mine\r\n"));
  visit.answer("{}");
  EXPECT_EQ(agent.answer().status, 200);
}

TEST_F(SafetyTest, AWeirTokenLetsInAndStaysHere) {
  start("anthropic", "pass_client_key: true\n", with_token());
  for (const char* field : {"Authorization: Bearer weir-token\r\n", "x-api-key: weir-token\r\n",
                            "X-Weir-Token: weir-token\r\nx-api-key: mine\r\n"}) {
    RawClient agent = client();
    agent.send(get("/v1/models", field));
    const auto visit = provider.next();
    EXPECT_FALSE(visit.has("weir-token")) << visit.head;
    EXPECT_EQ(visit.has("mine"), std::string_view{field}.ends_with("mine\r\n"));
    visit.answer("{}");
    EXPECT_EQ(agent.answer().status, 200);
  }
  RawClient stranger = client();
  const Answer none = stranger.call(get("/v1/models"));
  EXPECT_EQ(none.status, 401);
  EXPECT_TRUE(none.body.starts_with(R"({"type":"error","error":{"type":"authentication_error")"))
      << none.body;
  EXPECT_EQ(stranger.call(get("/v1/models", "x-api-key: wrong\r\n")).status, 401);
  EXPECT_TRUE(provider.idle());
}

TEST_F(SafetyTest, ClientsWithKeysOfTheirOwnAreAccountsOfTheirOwn) {
  start("openai", "pass_client_key: true\nmax_wait: 1s\n");
  const auto with = [](const char* key) {
    return get("/v1/models",
               std::string{"Authorization: Bearer "} + key + "\r\nX-Weir-Max-Wait: 0\r\n");
  };
  RawClient agent = client();
  agent.send(with("one"));
  provider.next().answer("{}", "429 Too Many Requests", "Retry-After: 60\r\n");
  EXPECT_EQ(agent.answer().status, 429);
  EXPECT_EQ(agent.call(with("one")).status, 429);
  EXPECT_TRUE(provider.idle());
  agent.send(with("two"));
  provider.next().answer("{}");
  EXPECT_EQ(agent.answer().status, 200);
  for (const auto& account : resources.find("api")->accounts()) {
    EXPECT_EQ(account->gate().name().find("one"), std::string::npos);
  }
}

TEST_F(SafetyTest, BodiesAreBounded) {
  start("generic", "max_body: 2MiB\n");
  RawClient agent = client();
  const std::string large(2 * 1024 * 1024, 'x');
  std::jthread sending{[&] { agent.send(post("/upload", large)); }};
  const auto visit = provider.next();
  EXPECT_EQ(visit.body, large);
  visit.answer("thanks");
  EXPECT_EQ(agent.answer().body, "thanks");
  sending.join();
  EXPECT_EQ(client().call(get("/", "Content-Length: 2097153\r\n")).status, 413);
}

TEST_F(SafetyTest, LargeBodiesShareABoundedMemory) {
  start("generic", "max_body: 2MiB\n", {}, {.listen = {}, .body_bytes_max = 3 * 1024 * 1024});
  const std::string large(2 * 1024 * 1024, 'x');
  RawClient first = client();
  std::jthread sending{[&] { first.send(post("/1", large)); }};
  const auto visit = provider.next();
  RawClient second = client();
  std::jthread also{[&] { second.send(post("/2", large)); }};
  EXPECT_EQ(second.answer().status, 503);
  visit.answer("done");
  EXPECT_EQ(first.answer().status, 200);
  RawClient third = client();
  std::jthread again{[&] { third.send(post("/3", large)); }};
  provider.next().answer("it is free again");
  EXPECT_EQ(third.answer().status, 200);
}

TEST_F(SafetyTest, AnOutsiderCannotMakeUsHoldALargeBody) {
  start("generic", "max_body: 2MiB\n", with_token());
  EXPECT_EQ(client().call(get("/", "Content-Length: 1500000\r\n")).status, 413);
}

TEST_F(SafetyTest, AClientThatDoesNotReadHoldsTheProviderBackAndLittleMemory) {
  start();
  RawClient agent{listener->port(), 4096};
  agent.send(get("/endless"));
  const auto visit = provider.next();
  visit.send("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n");
  const std::string piece(64 * 1024, 'x');
  std::size_t taken = 0;
  pollfd writable{visit.link->socket, POLLOUT, 0};
  while (taken < 50'000'000 && poll(&writable, 1, 300) == 1) {
    const auto sent =
        ::send(visit.link->socket, piece.data(), piece.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0) break;
    taken += static_cast<std::size_t>(sent);
  }
  EXPECT_LT(taken, 12'000'000U) << "what sockets hold, and hardly more";
  // It goes on where it was.
  std::size_t got = agent.until("\r\n\r\n").size() * 0;
  while (got < taken) got += agent.bytes(std::min<std::size_t>(taken - got, 100'000)).size();
  EXPECT_EQ(got, taken);
  // And one that never reads is given up.
  time.advance(1s);
}

TEST_F(SafetyTest, AProviderThatFallsSilentIsGivenUp) {
  start("generic", "request_timeout: 10s\n");
  RawClient agent = client();
  agent.send(get("/"));
  const auto visit = provider.next();
  for (int i = 0; i < 22; ++i) {
    time.advance(1s);
    std::this_thread::yield();
  }
  visit.until_left();
  EXPECT_EQ(agent.answer().status, 504);
}

}  // namespace
}  // namespace weir::proxy
