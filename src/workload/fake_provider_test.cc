// The fake provider's quota, in stepped time; its clients are real ones.
#include "workload/fake_provider.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "server/server_for_test.h"

namespace weir::workload {
namespace {

using namespace std::chrono_literals;
using server::Answer;
using server::RawClient;

class FakeProviderTest : public ::testing::Test {
 protected:
  ~FakeProviderTest() override {
    std::atomic<bool> done = false;
    std::jthread stopping{[&] {
      provider.reset();
      done = true;
    }};
    while (!done) {
      time.advance(1s);
      std::this_thread::yield();
    }
  }

  void start(std::vector<LimitSpec> limits,
             FakeProvider::Hint hint = FakeProvider::Hint::kRetryAfter) {
    auto started = FakeProvider::start(
        {.limits = std::move(limits), .latency = 1s, .latency_per_token = 10ms, .hint = hint},
        time.source(), log);
    ASSERT_TRUE(started) << started.error().message;
    provider = std::move(*started);
    port = static_cast<std::uint16_t>(
        std::stoi(provider->url().substr(std::string_view{"http://127.0.0.1:"}.size())));
  }

  // Six tokens and one for each word.
  static std::string request(int words, int max_tokens, int output) {
    std::string text;
    for (int i = 0; i < words; ++i) text += "word ";
    const std::string body =
        fmt::format(R"({{"model":"m","max_tokens":{},"metadata":{{"output_tokens":"{}"}},)"
                    R"("messages":[{{"role":"user","content":"{}"}}]}})",
                    max_tokens, output, text);
    return post(body);
  }
  static std::string post(const std::string& body) {
    return fmt::format(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n{}",
        body.size(), body);
  }
  void until_admitted(std::uint64_t wanted) const {
    while (provider->truth().admitted != wanted) std::this_thread::yield();
  }

  SimulatedTime time;
  server::Log log{-1, server::Log::Format::kText, time};
  std::unique_ptr<FakeProvider> provider;
  std::uint16_t port = 0;
};

TEST_F(FakeProviderTest, AnswersWithUsageAfterItsLatency) {
  start({});
  RawClient client{port};
  client.send(request(94, 200, 50));
  until_admitted(1);
  time.advance(1499ms);
  EXPECT_EQ(provider->truth().answered, 0U);
  time.advance(1ms);
  const Answer answer = client.answer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.body.find(
                R"("usage":{"prompt_tokens":100,"completion_tokens":50,"total_tokens":150})"),
            std::string::npos)
      << answer.body;
  EXPECT_TRUE(answer.has("openai-processing-ms: 1500\r\n")) << answer.head;
  const FakeProvider::Truth truth = provider->truth();
  EXPECT_EQ(truth.input, 100);
  EXPECT_EQ(truth.output, 50);
}

TEST_F(FakeProviderTest, ChargesTheLargerOfPromptAndMaximum) {
  start({LimitSpec::token_bucket(Unit::kTokens, {1000, 1min})});
  RawClient small{port};
  small.send(request(94, 400, 1));
  until_admitted(1);
  EXPECT_EQ(provider->truth().tokens, 400);
  RawClient large{port};
  large.send(request(594, 400, 1));
  until_admitted(2);
  EXPECT_EQ(provider->truth().tokens, 1000);
  RawClient late{port};
  const Answer refused = late.call(request(1, 10, 1));
  EXPECT_EQ(refused.status, 429);
  EXPECT_TRUE(refused.has("Retry-After: 1\r\n")) << refused.head;
  EXPECT_NE(refused.body.find(R"("type":"tokens","param":null,"code":"rate_limit_exceeded"}})"),
            std::string::npos)
      << refused.body;
  time.advance(600ms);
  late.send(request(1, 10, 1));
  until_admitted(3);
  EXPECT_EQ(provider->truth().refused, 1U);
}

TEST_F(FakeProviderTest, ARefusedCallHasTakenARequest) {
  start({LimitSpec::token_bucket(Unit::kRequests, {3, 1min}),
         LimitSpec::token_bucket(Unit::kTokens, {100, 1min})});
  RawClient first{port};
  first.send(request(94, 100, 1));
  until_admitted(1);
  RawClient second{port};
  EXPECT_NE(second.call(request(94, 100, 1)).body.find(R"("type":"tokens")"), std::string::npos);
  // A minute's tokens later, when there is a request again: but for those that were refused there
  // would be three.
  EXPECT_NE(second.call(request(94, 100, 1)).body.find(R"("type":"tokens")"), std::string::npos);
  const Answer out_of_requests = second.call(request(0, 1, 1));
  EXPECT_EQ(out_of_requests.status, 429);
  EXPECT_NE(out_of_requests.body.find(R"("type":"requests")"), std::string::npos)
      << out_of_requests.body;
  time.advance(20s);
  second.send(request(0, 1, 1));
  until_admitted(2);
  EXPECT_EQ(provider->truth().refused, 3U);
}

TEST_F(FakeProviderTest, ASlotIsTakenUntilTheAnswer) {
  start({LimitSpec::concurrency(1)});
  RawClient first{port};
  first.send(request(1, 10, 10));
  until_admitted(1);
  RawClient second{port};
  EXPECT_EQ(second.call(request(1, 10, 10)).status, 429);
  time.advance(1100ms);
  EXPECT_EQ(first.answer().status, 200);
  second.send(request(1, 10, 10));
  until_admitted(2);
}

TEST_F(FakeProviderTest, MayKeepToItselfWhenToComeBack) {
  start({LimitSpec::token_bucket(Unit::kRequests, {1, 1min})}, FakeProvider::Hint::kNone);
  RawClient first{port};
  first.send(request(1, 10, 10));
  until_admitted(1);
  RawClient second{port};
  const Answer answer = second.call(request(1, 10, 10));
  EXPECT_EQ(answer.status, 429);
  EXPECT_FALSE(answer.has("Retry-After"));
  EXPECT_EQ(answer.body.find("again in"), std::string::npos);
}

TEST_F(FakeProviderTest, ThousandsOfAnswersWaitAtOnce) {
  start({});
  constexpr std::size_t kCalls = 2000;
  std::vector<std::unique_ptr<RawClient>> clients;
  for (std::size_t i = 0; i < kCalls; ++i) {
    clients.push_back(std::make_unique<RawClient>(port));
    ASSERT_TRUE(clients.back()->connected());
    clients.back()->send(request(1, 1000, static_cast<int>(i % 1000) + 1));
  }
  until_admitted(kCalls);
  time.advance(1s + 500 * 10ms);
  EXPECT_EQ(provider->truth().answered, kCalls / 2);
  time.advance(5s);
  for (const auto& client : clients) EXPECT_EQ(client->answer().status, 200);
}

TEST_F(FakeProviderTest, WhatItCannotReadIsABadRequest) {
  start({});
  RawClient client{port};
  for (const char* body :
       {"", "[]", "{\"model\":1}", R"({"model":"m"})", R"({"model":"m","messages":{}})",
        R"({"model":"m","messages":[],"max_tokens":0})",
        R"({"model":"m","messages":[],"max_tokens":1e99})"}) {
    const Answer answer = client.call(post(body));
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_NE(answer.body.find("invalid_request_error"), std::string::npos);
  }
  EXPECT_EQ(provider->truth().admitted, 0U);
}

}  // namespace
}  // namespace weir::workload
