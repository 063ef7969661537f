// Who is let through, when, and what it costs.
#include <gtest/gtest.h>

#include "proxy/proxy_for_test.h"

namespace weir::proxy {
namespace {

using namespace std::chrono_literals;

class AdmissionTest : public ProxyTest {
 protected:
  static std::string chat(const std::string& more = {}) {
    return R"({"model":"gpt-4o","max_tokens":100,"messages":[{"role":"user","content":"Hi"}])" +
           more + "}";
  }
  static std::string message(int max_tokens = 100) {
    return R"({"model":"claude-opus-4-5","max_tokens":)" + std::to_string(max_tokens) +
           R"(,"messages":[{"role":"user","content":"Hi"}]})";
  }
  static std::string messages(const std::string& fields = {}) {
    return post("/v1/messages", message(), fields);
  }
  static constexpr std::string_view kUsage =
      R"({"usage":{"input_tokens":7,"output_tokens":30},"content":[]})";
};

TEST_F(AdmissionTest, WaitsForItsTurnAndNobodySeesA429) {
  start("anthropic", "limits: [{unit: requests, amount: 1, per: 1s, burst: 1}]\n");
  std::deque<RawClient> agents;
  for (int i = 0; i < 3; ++i) {
    agents.emplace_back(listener->port()).send(messages());
    if (i == 0) provider.next().answer(kUsage);
    until_waiting(static_cast<std::size_t>(i));
  }
  EXPECT_EQ(agents[0].answer().status, 200);
  for (int i = 1; i < 3; ++i) {
    time.advance(999ms);
    EXPECT_TRUE(provider.idle());
    time.advance(1ms);
    provider.next().answer(kUsage);
  }
  EXPECT_EQ(agents[1].answer().status, 200);
  EXPECT_EQ(agents[2].answer().status, 200);
}

TEST_F(AdmissionTest, GivesUpAfterMaxWaitInTheProvidersOwnShape) {
  start("anthropic", "max_wait: 10s\nlimits: [{unit: requests, amount: 1, per: 1h, name: r}]\n");
  RawClient first = client();
  first.send(messages());
  const auto visit = provider.next();
  RawClient agent = client();
  agent.send(messages());
  until_waiting(1);
  time.advance(10s);
  const Answer answer = agent.answer();
  EXPECT_EQ(answer.status, 429);
  EXPECT_TRUE(answer.has("\r\nRetry-After: ")) << answer.head;
  EXPECT_TRUE(answer.has("\r\nretry-after-ms: ")) << answer.head;
  EXPECT_TRUE(answer.has("\r\nx-should-retry: false\r\n")) << "an SDK must not sleep an hour";
  EXPECT_TRUE(answer.body.starts_with(R"({"type":"error","error":{"type":"rate_limit_error")"))
      << answer.body;
  EXPECT_TRUE(provider.idle());
  EXPECT_EQ(agent.call(messages("X-Weir-Max-Wait: 0\r\n")).status, 429) << "at once";

  visit.answer(kUsage);
  EXPECT_EQ(first.answer().status, 200);
  while (resources.find("api")->traffic().under_way != 0) std::this_thread::yield();
  EXPECT_EQ(agent.call(messages()).status, 429) << "at once: nothing can make it sooner";
}

TEST_F(AdmissionTest, AnErrorInsideAStreamSettlesOnWhatWasSeen) {
  start("anthropic", "limits: [{unit: tokens, amount: 1000, per: 1h, name: t}]\n");
  RawClient agent = client();
  const auto stream = [&](std::string_view text) {
    agent.send(messages());
    provider.next().answer(text, "200 OK", "Content-Type: text/event-stream\r\n");
    EXPECT_EQ(agent.answer().body, text);
  };
  const std::string error =
      "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n";
  stream(error);
  until_left("t", 1000);
  EXPECT_EQ(resources.find("api")->traffic().overloaded, 1U);
  time.advance(1s);
  stream(
      "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":"
      "{\"input_tokens\":50,\"output_tokens\":1}}}\n\n" +
      error);
  until_left("t", 1000 - 51);
}

TEST_F(AdmissionTest, SaysAtOnceWhatCanNeverFit) {
  start("openai", "limits: [{unit: tokens, amount: 50, per: 1m}]\n");
  RawClient agent = client();
  const Answer answer = agent.call(post("/v1/chat/completions", chat()));
  EXPECT_EQ(answer.status, 400);
  EXPECT_TRUE(answer.body.starts_with(R"({"error":{"message":)")) << answer.body;
  EXPECT_TRUE(provider.idle());
}

TEST_F(AdmissionTest, SettlesOnWhatWasUsed) {
  start("anthropic", "limits: [{unit: tokens, amount: 1000, per: 1h, name: t}]\n");
  RawClient agent = client();
  agent.send(messages());
  const auto visit = provider.next();
  EXPECT_LT(left("t"), 1000 - 100) << "the output that is expected is reserved";
  visit.answer(kUsage);
  EXPECT_EQ(agent.answer().body, kUsage);
  until_left("t", 1000 - 37);
}

TEST_F(AdmissionTest, AStreamCutInTheMiddleSettlesOnWhatWasSeen) {
  start("anthropic", "limits: [{unit: tokens, amount: 1000, per: 1h, name: t}]\n");
  RawClient agent = client();
  agent.send(messages());
  const auto visit = provider.next();
  visit.send(
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
      "Transfer-Encoding: chunked\r\n\r\n");
  visit.chunk(
      "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":"
      "{\"input_tokens\":11,\"output_tokens\":1}}}\n\n");
  visit.chunk(
      "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":"
      "{\"type\":\"text_delta\",\"text\":\"Hello there, how are you?\"}}\n\n");
  agent.until("you?\"}}\n\n");
  agent.close();
  visit.until_left();
  while (left("t") < 900) std::this_thread::yield();
  const Amount used = 1000 - left("t");
  EXPECT_GE(used, 12);
  EXPECT_LE(used, 30);
}

TEST_F(AdmissionTest, UsageIsAskedForInStreamsAndHiddenAgain) {
  start("openai");
  RawClient agent = client();
  agent.send(post("/v1/chat/completions", chat(R"(,"stream":true)")));
  const auto visit = provider.next();
  EXPECT_NE(visit.body.find(R"("include_usage":true)"), std::string::npos) << visit.body;
  EXPECT_TRUE(visit.has("Accept-Encoding: identity\r\n"));
  visit.send(
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
      "Transfer-Encoding: chunked\r\n\r\n");
  visit.chunk("data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}],\"usage\":null}\n\n");
  visit.chunk(
      "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2,"
      "\"total_tokens\":11}}\n\n");
  visit.chunk("data: [DONE]\n\n");
  visit.send("0\r\n\r\n");
  const std::string stream = agent.until("0\r\n\r\n");
  EXPECT_EQ(stream.find("usage"), std::string::npos) << stream;
  EXPECT_NE(stream.find("data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n"),
            std::string::npos)
      << stream;
  EXPECT_NE(stream.find("data: [DONE]\n\n"), std::string::npos);
  while (resources.find("api")->traffic().output_tokens != 2) std::this_thread::yield();
}

// S3.10
TEST_F(AdmissionTest, ConcurrentCallsCannotPassABudget) {
  start("openai",
        "budget: {usd: 0.01, per: 1d}\n"
        "prices: {\"gpt-4o\": {input: 0, output: 30}}\n"  // 100 tokens: 0.003
        "max_wait: 1s\n");
  std::deque<RawClient> agents;
  for (int i = 0; i < 5; ++i) {
    agents.emplace_back(listener->port()).send(post("/v1/chat/completions", chat()));
  }
  std::vector<Provider::Visit> visits;
  for (int i = 0; i < 3; ++i) visits.push_back(provider.next());
  until_waiting(2);
  EXPECT_TRUE(provider.idle());
  // One used less than was thought: there is room for one more.
  visits[0].answer(R"({"usage":{"prompt_tokens":1,"completion_tokens":10}})");
  provider.next().answer("{}");
  time.advance(1s);
  std::size_t refused = 0;
  visits[1].answer(R"({"usage":{"prompt_tokens":1,"completion_tokens":100}})");
  visits[2].answer(R"({"usage":{"prompt_tokens":1,"completion_tokens":100}})");
  for (RawClient& agent : agents) refused += agent.answer().status == 429 ? 1 : 0;
  EXPECT_EQ(refused, 1U);
}

TEST_F(AdmissionTest, RefusesHeadersThatItCannotUnderstand) {
  start("openai");
  RawClient agent = client();
  for (const char* field :
       {"X-Weir-Agent: \xff\r\n", "X-Weir-Agent: \xc3\r\n", "X-Weir-Priority: high\r\n",
        "X-Weir-Priority: 101\r\n", "X-Weir-Max-Wait: -1\r\n", "X-Weir-Max-Wait: soon\r\n",
        "X-Weir-Agent: \r\n"}) {
    EXPECT_EQ(agent.call(get("/v1/models", field)).status, 400) << field;
  }
  const std::string long_name(257, 'a');
  EXPECT_EQ(agent.call(get("/v1/models", "X-Weir-Agent: " + long_name + "\r\n")).status, 400);
  EXPECT_TRUE(provider.idle());
}

TEST_F(AdmissionTest, AgentsHaveLimitsOfTheirOwn) {
  start("generic",
        "agents: {\"worker-*\": {limits: [{unit: requests, amount: 1, per: 1h}]}}\n"
        "max_wait: 1s\n");
  RawClient one = client();
  one.send(get("/", "X-Weir-Agent: worker-1\r\n"));
  provider.next().answer("a");
  EXPECT_EQ(one.answer().status, 200);
  EXPECT_EQ(one.call(get("/", "X-Weir-Agent: worker-1\r\nX-Weir-Max-Wait: 0\r\n")).status, 429);
  one.send(get("/", "X-Weir-Agent: worker-2\r\n"));
  provider.next().answer("b");
  EXPECT_EQ(one.answer().status, 200);
}

}  // namespace
}  // namespace weir::proxy
