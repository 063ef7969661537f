// What goes up and what comes down.
#include <gtest/gtest.h>

#include "proxy/proxy_for_test.h"

namespace weir::proxy {
namespace {

using namespace std::chrono_literals;

using ForwardingTest = ProxyTest;

TEST_F(ForwardingTest, PassesARequestAndItsAnswerOn) {
  start();
  RawClient agent = client();
  agent.send(post("/v1/things?a=1&b=%20", "{\"x\":1}",
                  "anthropic-beta: tools-2024\r\nanthropic-version: 2023-06-01\r\n"
                  "OpenAI-Organization: org-1\r\nX-Request-Id: abc\r\n"));
  const auto visit = provider.next();
  EXPECT_TRUE(visit.head.starts_with("POST /v1/things?a=1&b=%20 HTTP/1.1\r\n")) << visit.head;
  EXPECT_TRUE(visit.has("Host: 127.0.0.1:" + std::to_string(provider.port) + "\r\n"));
  EXPECT_TRUE(visit.has("\r\nanthropic-beta: tools-2024\r\n"));
  EXPECT_TRUE(visit.has("\r\nanthropic-version: 2023-06-01\r\n"));
  EXPECT_TRUE(visit.has("\r\nOpenAI-Organization: org-1\r\n"));
  EXPECT_TRUE(visit.has("\r\nX-Request-Id: abc\r\n"));
  EXPECT_EQ(visit.body, "{\"x\":1}");
  visit.answer("{\"y\":2}", "201 Made So",
               "Content-Type: application/json\r\nrequest-id: r1\r\nSet-Cookie: a=1\r\n"
               "Set-Cookie: b=2\r\n");
  const Answer answer = agent.answer();
  EXPECT_EQ(answer.status, 201);
  EXPECT_EQ(answer.body, "{\"y\":2}");
  EXPECT_TRUE(answer.head.starts_with("HTTP/1.1 201 Made So\r\n")) << answer.head;
  EXPECT_TRUE(answer.has("request-id: r1\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n"));
}

TEST_F(ForwardingTest, LeavesOutWhatConcernsOneConnectionAlone) {
  start();
  RawClient agent = client();
  agent.send(get("/",
                 "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\n"
                 "TE: trailers\r\nUpgrade: h2c\r\nProxy-Authorization: basic\r\n"
                 "X-Weir-Agent: planner\r\nX-Weir-Priority: 3\r\nx-weir-other: 1\r\n"));
  const auto visit = provider.next();
  for (const char* name : {"onnection", "Hop", "eep-Alive", "TE:", "pgrade", "roxy-Auth", "eir"}) {
    EXPECT_FALSE(visit.has(name)) << name << " in " << visit.head;
  }
  visit.answer("", "200 OK", "Connection: X-Secret\r\nX-Secret: 1\r\nKeep-Alive: timeout=5\r\n");
  const Answer answer = agent.answer();
  EXPECT_EQ(answer.head, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
}

TEST_F(ForwardingTest, KeepsConnectionsToTheProvider) {
  start();
  for (int i = 0; i < 5; ++i) {
    RawClient agent = client();
    agent.send(get("/" + std::to_string(i)));
    provider.next().answer("x");
    EXPECT_EQ(agent.answer().body, "x");
  }
  EXPECT_EQ(provider.connections(), 1U);
}

TEST_F(ForwardingTest, AnswersPipelinedRequestsInTurn) {
  start();
  RawClient agent = client();
  agent.send(get("/1") + get("/2"));
  const auto first = provider.next();
  EXPECT_TRUE(first.has("GET /1 "));
  EXPECT_TRUE(provider.idle());
  first.answer("one");
  EXPECT_EQ(agent.answer().body, "one");
  provider.next().answer("two");
  EXPECT_EQ(agent.answer().body, "two");
}

TEST_F(ForwardingTest, StreamsEventByEvent) {
  start();
  RawClient agent = client();
  agent.send(post("/stream", "{}"));
  const auto visit = provider.next();
  visit.send(
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
      "Transfer-Encoding: chunked\r\n\r\n");
  EXPECT_TRUE(agent.until("\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"));
  for (const std::string event : {"data: 1\n\n", "data: 2\n\n", ": pings\n\n"}) {
    visit.chunk(event);
    EXPECT_EQ(agent.until("\n\n\r\n"), "9\r\n" + event + "\r\n") << "before the next is sent";
  }
}

TEST_F(ForwardingTest, FramesAnAnswerAnew) {
  start();
  RawClient agent = client();
  agent.send(get("/"));
  auto visit = provider.next();
  visit.send(
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;ext=1\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n");
  EXPECT_EQ(agent.until("0\r\n\r\n"),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n");

  agent.send(get("/"));
  visit = provider.next();
  visit.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end");
  visit.hang_up();
  EXPECT_TRUE(agent.until("0\r\n\r\n").ends_with("\r\n\r\na\r\nto the end\r\n0\r\n\r\n"));

  RawClient old = client();
  old.send("GET /proxy/api/ HTTP/1.0\r\nHost: localhost\r\n\r\n");
  visit = provider.next();
  visit.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
  EXPECT_EQ(old.until_closed(), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc");
}

TEST_F(ForwardingTest, AnswersWithoutABody) {
  start();
  RawClient agent = client();
  agent.send("HEAD /proxy/api/ HTTP/1.1\r\nHost: localhost\r\n\r\n");
  provider.next().send("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n");
  EXPECT_EQ(agent.until("\r\n\r\n"), "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n");
  agent.send("DELETE /proxy/api/1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto visit = provider.next();
  EXPECT_TRUE(visit.has("Content-Length: 0\r\n"));
  visit.send("HTTP/1.1 204 No Content\r\n\r\n");
  EXPECT_EQ(agent.until("\r\n\r\n"), "HTTP/1.1 204 No Content\r\n\r\n");
}

TEST_F(ForwardingTest, PassesErrorsOnUntouched) {
  start("openai");
  RawClient agent = client();
  for (const char* status : {"400 Bad Request", "401 Unauthorized", "404 Not Found",
                             "500 Internal Server Error", "502 Bad Gateway"}) {
    agent.send(post("/v1/chat/completions", "{}"));
    const std::string body = std::string{"{\"error\":\""} + status + "\"}";
    provider.next().answer(body, status, "x-request-id: 7\r\n");
    const Answer answer = agent.answer();
    EXPECT_EQ(answer.head, "HTTP/1.1 " + std::string{status} +
                               "\r\nx-request-id: 7\r\nContent-Length: " +
                               std::to_string(body.size()) + "\r\n\r\n");
    EXPECT_EQ(answer.body, body);
  }
  agent.send(post("/v1/chat/completions", "{}"));
  const std::string long_text(100'000, 'e');
  provider.next().answer(long_text, "400 Bad Request");
  EXPECT_EQ(agent.answer().body, long_text);
}

TEST_F(ForwardingTest, PassesAnErrorOnWhoseHeadIsAsLargeAsMayBe) {
  start();
  RawClient agent = client();
  agent.send(get("/"));
  std::string head = "HTTP/1.1 400 Bad Request\r\nContent-Length:2\r\n";
  for (int i = 10; i < 99; ++i) head += "n" + std::to_string(i) + ":v\r\n";
  const std::string_view end = "x:\r\n\r\n";
  head += "x:" + std::string(net::kHeadBytesMax - head.size() - end.size(), 'x') + "\r\n\r\n";
  ASSERT_EQ(head.size(), net::kHeadBytesMax);
  provider.next().send(head + "no");
  agent.until("\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(agent.bytes(2), "no");
}

TEST_F(ForwardingTest, EndsTheCallOfAClientThatLeaves) {
  start("generic", "max_concurrency: 1\n");
  {
    RawClient agent = client();
    agent.send(get("/slow"));
    const auto visit = provider.next();
    agent.close();
    visit.until_left();
  }
  {
    RawClient agent = client();
    agent.send(get("/stream"));
    const auto visit = provider.next();
    visit.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
    agent.until("x\r\n");
    agent.close();
    visit.until_left();
  }
  RawClient next = client();
  next.send(get("/"));
  provider.next().answer("its slot is free");
  EXPECT_EQ(next.answer().status, 200);
}

TEST_F(ForwardingTest, BreaksOffWhenTheProviderDoes) {
  start();
  RawClient agent = client();
  agent.send(get("/"));
  auto visit = provider.next();
  visit.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
  visit.hang_up();
  EXPECT_TRUE(agent.until_closed().ends_with("\r\n\r\nhalf"));
  const Traffic& traffic = resources.find("api")->traffic();
  EXPECT_EQ(traffic.failed, 1U);
  EXPECT_EQ(traffic.cut, 0U) << "it was not the client who left";
  EXPECT_EQ(traffic.under_way, 0U);

  RawClient other = client();
  other.send(get("/"));
  visit = provider.next();
  visit.hang_up();
  EXPECT_EQ(other.answer().status, 502);
}

TEST_F(ForwardingTest, RefusesAnswersThatCanBeReadInTwoWays) {
  start();
  for (const char* head :
       {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n"
        "\r\n5\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
        "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
        "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 5\r\n\r\nhello", "nonsense\r\n\r\n"}) {
    RawClient agent = client();
    agent.send(get("/"));
    const auto visit = provider.next();
    visit.send(head);
    const Answer answer = agent.answer();
    EXPECT_EQ(answer.status, 502) << head;
    visit.until_left();
  }
}

TEST_F(ForwardingTest, KnowsNoUpstreamButTheConfigured) {
  start();
  RawClient agent = client();
  EXPECT_EQ(agent.get("/proxy/other/v1").status, 404);
  EXPECT_EQ(agent.get("/proxy/").status, 404);
  for (const char* path : {"/../x", "/a/../../x", "/%2e%2e/x", "/a/..%2fx", "/..", "/%zz"}) {
    EXPECT_EQ(agent.call(get(path)).status, 400) << path;
  }
  EXPECT_TRUE(provider.idle());
}

TEST_F(ForwardingTest, TellsInTheProvidersWordsThatItCannotBeReached) {
  std::uint16_t closed = 0;
  {
    Provider gone;
    closed = gone.port;
  }
  start("anthropic", "limits: [{unit: requests, amount: 5, per: 1h, name: r}]\n");
  auto config = parse_provider(
      "name: api\ndomain: a.example\nprofile: anthropic\n"
      "limits: [{unit: requests, amount: 5, per: 1h, name: r}]\n"
      "upstream: http://127.0.0.1:" +
          std::to_string(closed) + "\n",
      "api.yaml");
  ASSERT_TRUE(resources.apply({*config}));
  RawClient agent = client();
  const Answer answer = agent.call(post("/v1/messages", "{}"));
  EXPECT_EQ(answer.status, 502);
  EXPECT_TRUE(answer.body.starts_with("{\"type\":\"error\",\"error\":{")) << answer.body;
  EXPECT_EQ(left("r"), 5) << "what never left costs nothing";
}

}  // namespace
}  // namespace weir::proxy
