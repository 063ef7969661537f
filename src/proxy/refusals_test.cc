// What happens when the provider itself refuses.
#include <gtest/gtest.h>

#include "proxy/proxy_for_test.h"

namespace weir::proxy {
namespace {

using namespace std::chrono_literals;

class RefusalsTest : public ProxyTest {
 protected:
  static std::string chat() {
    return post("/v1/chat/completions",
                R"({"model":"gpt-4o","messages":[{"role":"user","content":"Hi"}]})");
  }
  static constexpr std::string_view kLimited =
      R"({"error":{"message":"Slow down","type":"requests","code":"rate_limit_exceeded"}})";
  Traffic& traffic() { return resources.find("api")->traffic(); }
};

TEST_F(RefusalsTest, A429IsTriedAgainWhenTheProviderSaidSo) {
  start("openai");
  RawClient agent = client();
  agent.send(chat());
  provider.next().answer(kLimited, "429 Too Many Requests", "Retry-After: 7\r\n");
  until_waiting(1);
  time.advance(6999ms);
  EXPECT_TRUE(provider.idle());
  time.advance(1ms);
  provider.next().answer("{\"ok\":1}");
  const Answer answer = agent.answer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "{\"ok\":1}");
  EXPECT_EQ(traffic().limited, 1U);
  EXPECT_EQ(traffic().retried, 1U);
}

TEST_F(RefusalsTest, ARetryAfterClosesTheAccountForEveryWaiter) {
  start("openai", "limits: [{unit: requests, amount: 60, per: 1m}]\n");
  std::deque<RawClient> agents;
  agents.emplace_back(listener->port()).send(chat());
  provider.next().answer(kLimited, "429 Too Many Requests", "retry-after-ms: 5000\r\n");
  until_waiting(1);
  for (std::size_t i = 1; i < 6; ++i) {
    agents.emplace_back(listener->port()).send(chat());
    until_waiting(i + 1);
  }
  time.advance(4999ms);
  EXPECT_TRUE(provider.idle());
  // Then they go one after another and not at once, although the configured burst has room.
  const auto account = resources.find("api")->accounts().at(0);
  const auto acquired = [&] { return account->gate().metrics().acquired; };
  std::uint64_t before = acquired();
  EXPECT_EQ(before, 1U);
  for (int step = 0; step < 100 && before < 7; ++step) {
    time.advance(100ms);
    EXPECT_LE(acquired() - before, 1U) << "at step " << step;
    before = acquired();
  }
  EXPECT_EQ(before, 7U);
  for (int i = 0; i < 6; ++i) provider.next().answer("{}");
  for (RawClient& agent : agents) EXPECT_EQ(agent.answer().status, 200);
}

TEST_F(RefusalsTest, A429BeyondThePatienceIsPassedOn) {
  start("openai", "max_wait: 5s\n");
  RawClient agent = client();
  agent.send(chat());
  provider.next().answer(kLimited, "429 Too Many Requests", "Retry-After: 60\r\n");
  const Answer answer = agent.answer();
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.body, kLimited);
  EXPECT_TRUE(answer.has("Retry-After: 60\r\n"));
}

TEST_F(RefusalsTest, AnExhaustedAccountIsToldAtOnceUntilItsReset) {
  start("openai");
  RawClient agent = client();
  agent.send(chat());
  const std::string body =
      R"({"error":{"message":"You exceeded your quota","code":"insufficient_quota"}})";
  provider.next().answer(body, "429 Too Many Requests");
  EXPECT_EQ(agent.answer().body, body) << "passed on, not tried again";
  const Answer answer = agent.call(chat());
  EXPECT_EQ(answer.status, 429);
  EXPECT_TRUE(answer.has("x-should-retry: false\r\n")) << answer.head;
  EXPECT_NE(answer.body.find("insufficient_quota"), std::string::npos) << answer.body;
  EXPECT_TRUE(provider.idle());
  time.advance(1h);
  RawClient later = client();
  later.send(chat());
  provider.next().answer("{}");
  EXPECT_EQ(later.answer().status, 200);
}

TEST_F(RefusalsTest, OverloadIsWaitedOutWhereThatIsSafe) {
  start("anthropic");
  RawClient agent = client();
  agent.send(post("/v1/messages", R"({"model":"claude-opus-4-5","max_tokens":5,"messages":[]})"));
  provider.next().answer(R"({"type":"error","error":{"type":"overloaded_error"}})",
                         "529 Overloaded");
  until_waiting(1);
  time.advance(1s);
  provider.next().answer("{}");
  EXPECT_EQ(agent.answer().status, 200);
  EXPECT_EQ(traffic().overloaded, 1U);
}

TEST_F(RefusalsTest, AnOverloadedApiOfAnyKindIsNotSentAPostTwice) {
  start("generic");
  RawClient agent = client();
  agent.send(post("/charge", "{}"));
  provider.next().answer("busy", "503 Service Unavailable");
  EXPECT_EQ(agent.answer().status, 503);
  EXPECT_TRUE(provider.idle());
}

// S3.9
TEST_F(RefusalsTest, AnErrorOfTheProvidersOwnIsAFailedCallUnlessItIsTriedAgain) {
  start("openai");
  RawClient agent = client();
  const auto failed = [&] {
    return resources.find("api")->activity().view(time.now()).minute.failed;
  };
  agent.send(chat());
  provider.next().answer("no such model", "404 Not Found");
  EXPECT_EQ(agent.answer().status, 404);
  EXPECT_EQ(failed(), 0U);
  agent.send(chat());
  provider.next().answer("sorry", "500 Internal Server Error");
  EXPECT_EQ(agent.answer().status, 500);
  EXPECT_EQ(failed(), 1U);
  agent.send(chat());
  provider.next().answer("busy", "503 Service Unavailable");
  until_waiting(1);
  time.advance(1s);
  provider.next().answer("{}");
  EXPECT_EQ(agent.answer().status, 200);
  EXPECT_EQ(failed(), 1U);
}

TEST_F(RefusalsTest, HeadersCorrectOursDownwards) {
  start("openai", "limits: [{unit: requests, amount: 100, per: 1m}]\n");
  RawClient agent = client();
  agent.send(chat());
  provider.next().answer("{}", "200 OK",
                         "x-ratelimit-limit-requests: 100\r\nx-ratelimit-remaining-requests: 1\r\n"
                         "x-ratelimit-reset-requests: 59s\r\n");
  EXPECT_EQ(agent.answer().status, 200);
  agent.send(chat());
  provider.next().answer("{}");
  EXPECT_EQ(agent.answer().status, 200);
  EXPECT_EQ(agent
                .call("POST /proxy/api/v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                      "X-Weir-Max-Wait: 0\r\nContent-Length: 35\r\n\r\n"
                      R"({"model":"gpt-4o","messages":[   ]})")
                .status,
            429)
      << "somebody else uses this account too";
}

}  // namespace
}  // namespace weir::proxy
