// HTTP/1.1 over real sockets: how requests may be cut, piled up and ended, and what is refused.
#include "server/connection.h"

#include <gtest/gtest.h>

#include <string>

#include "server/server_for_test.h"

namespace weir::server {
namespace {

using namespace std::string_literals;

const std::string kHello = "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n";

std::string post(const std::string& body, const std::string& fields = {}) {
  return "POST /echo HTTP/1.1\r\nHost: localhost\r\n" + fields +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}
std::string chunked(const std::string& chunks, const std::string& fields = {}) {
  return "POST /echo HTTP/1.1\r\nHost: localhost\r\n" + fields +
         "Transfer-Encoding: chunked\r\n\r\n" + chunks;
}

struct ConnectionTest : ServerTest {
  ConnectionTest() { start(); }
};

TEST_F(ConnectionTest, ServesOneRequestAfterAnotherOnOneConnection) {
  RawClient client{port};
  for (int i = 0; i < 10; ++i) {
    const Answer answer = client.get("/hello");
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "hello");
    EXPECT_TRUE(answer.has("\r\nDate: Wed, 01 Jan 2025 00:00:00 GMT\r\n"));
    EXPECT_FALSE(answer.has("Connection: close"));
  }
  EXPECT_EQ(listener->counts().connections, 1U);
  EXPECT_EQ(listener->counts().requests, 10U);
  EXPECT_EQ(listener->counts().replies_by_class[2], 10U);
}

TEST_F(ConnectionTest, AnswersAHundredPipelinedRequestsInOrder) {
  std::string all;
  for (int i = 0; i < 100; ++i) all += i % 2 == 0 ? post(std::to_string(i)) : kHello;
  RawClient client{port};
  client.send(all);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(client.answer().body, i % 2 == 0 ? std::to_string(i) : "hello");
  }
}

TEST_F(ConnectionTest, KeepsTheOrderWhenTheFirstOfAHundredIsAnsweredLater) {
  std::string all = "GET /later HTTP/1.1\r\nHost: localhost\r\n\r\n";
  for (int i = 0; i < 99; ++i) all += post(std::to_string(i));
  RawClient client{port};
  client.send(all);
  Later later = take_later();
  until_read();
  EXPECT_TRUE(client.silent());
  later.resume([](Responder* responder) { responder->reply({.body = "at last"}); });
  EXPECT_EQ(client.answer().body, "at last");
  for (int i = 0; i < 99; ++i) EXPECT_EQ(client.answer().body, std::to_string(i));
}

TEST_F(ConnectionTest, ReadsARequestHoweverItIsCut) {
  const std::string request = post("a body of some bytes");
  RawClient client{port};
  for (std::size_t cut = 1; cut < request.size(); ++cut) {
    client.send(std::string_view{request}.substr(0, cut));
    until_read(1);
    EXPECT_TRUE(client.silent()) << cut;
    client.send(std::string_view{request}.substr(cut));
    EXPECT_EQ(client.answer().body, "a body of some bytes") << cut;
  }
  for (const char c : request + kHello) client.send({&c, 1});
  EXPECT_EQ(client.answer().body, "a body of some bytes");
  EXPECT_EQ(client.answer().body, "hello");
}

TEST_F(ConnectionTest, ReadsAChunkedBodyHoweverItIsCut) {
  const std::string request =
      chunked("5;x=y\r\nfirst\r\nA\r\n, and more\r\n0\r\nTrailer: x\r\n\r\n");
  RawClient client{port};
  for (std::size_t cut = 1; cut < request.size(); ++cut) {
    client.send(std::string_view{request}.substr(0, cut));
    until_read(1);
    EXPECT_TRUE(client.silent()) << cut;
    client.send(request.substr(cut) + kHello);
    EXPECT_EQ(client.answer().body, "first, and more") << cut;
    EXPECT_EQ(client.answer().body, "hello") << cut;
  }
  for (const char c : request + request) client.send({&c, 1});
  EXPECT_EQ(client.answer().body, "first, and more");
  EXPECT_EQ(client.answer().body, "first, and more");
}

TEST_F(ConnectionTest, SaysContinueToWhoExpectsItAndHasNotSentTheBodyYet) {
  const std::string request = post("body", "Expect: 100-continue\r\n");
  RawClient client{port};
  client.send(request.substr(0, request.size() - 4));
  EXPECT_EQ(client.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("bo");
  until_read();
  EXPECT_TRUE(client.silent());
  client.send("dy");
  EXPECT_EQ(client.answer().body, "body");

  const std::string chunks = chunked("4\r\nbody\r\n0\r\n\r\n", "Expect: 100-continue\r\n");
  const std::size_t head = chunks.find("\r\n\r\n") + 4;
  client.send(chunks.substr(0, head));
  EXPECT_EQ(client.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send(chunks.substr(head));
  EXPECT_EQ(client.answer().body, "body");

  EXPECT_EQ(client.call(request).status, 200);  // the body is there: no need to continue
}

TEST_F(ConnectionTest, DoesNotContinueWithABodyThatIsTooLarge) {
  RawClient client{port};
  const Answer answer = client.call(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
      "Content-Length: 1048577\r\n\r\n");
  EXPECT_EQ(answer.status, 413);
}

TEST_F(ConnectionTest, AnswersHeadWithTheLengthAndWithoutTheBody) {
  RawClient client{port};
  client.send("HEAD /large HTTP/1.1\r\nHost: localhost\r\n\r\n" + kHello);
  const Answer answer = client.answer("HEAD");
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.has("Content-Length: 100000\r\n"));
  EXPECT_EQ(client.answer().body, "hello");
  client.send("HEAD /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.answer("HEAD").status, 405);  // a stream has no end, so no head alone
}

TEST_F(ConnectionTest, ClosesAfterAnHttp10RequestAndWhenAskedTo) {
  for (const std::string request :
       {"GET /hello HTTP/1.0\r\n\r\n", "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        "GET /hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"}) {
    RawClient client{port};
    client.send(request + kHello);  // the second is not served
    const Answer answer = client.answer();
    EXPECT_EQ(answer.status, 200) << request;
    EXPECT_TRUE(answer.has("Connection: close\r\n")) << request;
    EXPECT_EQ(client.until_closed(), "") << request;
  }
  EXPECT_EQ(dispatched, 3U);
}

TEST_F(ConnectionTest, AnswersAClientThatHasHalfClosed) {
  RawClient client{port};
  client.send(kHello + post("x"));
  client.half_close();
  EXPECT_EQ(client.answer().body, "hello");
  EXPECT_EQ(client.answer().body, "x");
  EXPECT_EQ(client.until_closed(), "");

  for (const std::string fields : {"", "Connection: close\r\n"}) {
    RawClient slow{port, 4096};
    slow.send("GET /huge HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n");
    slow.half_close();
    until_read();
    EXPECT_EQ(slow.answer().body.size(), kHuge) << fields;
    EXPECT_EQ(slow.until_closed(), "");
  }
}

TEST_F(ConnectionTest, ForgetsClientsThatCloseOrReset) {
  {
    RawClient closes{port};
    RawClient resets{port};
    RawClient in_a_request{port};
    RawClient unread{port, 4096};
    EXPECT_EQ(closes.get("/hello").status, 200);
    EXPECT_EQ(resets.get("/hello").status, 200);
    in_a_request.send(post("cut short").substr(0, 60));
    unread.send("GET /huge HTTP/1.1\r\nHost: localhost\r\n\r\n");
    until_read();
    resets.reset();
    in_a_request.reset();
    unread.reset();
  }
  until_connections(0);
  EXPECT_EQ(RawClient{port}.get("/hello").status, 200);
}

TEST_F(ConnectionTest, TakesABodyOfAMebibyteAndNoByteMore) {
  const std::string body(Connection::kBodyMax, 'b');
  RawClient client{port};
  EXPECT_EQ(client.call(post(body)).body, body);
  EXPECT_EQ(client.call(chunked("100000\r\n" + body + "\r\n0\r\n\r\n")).body, body);

  const Answer by_length =
      client.call("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048577\r\n\r\n");
  EXPECT_EQ(by_length.status, 413);
  EXPECT_EQ(client.until_closed(), "");

  for (const std::string& chunks : {"100001\r\n"s, "100000\r\n" + body + "\r\n1\r\n"}) {
    RawClient other{port};
    EXPECT_EQ(other.call(chunked(chunks)).status, 413);
    EXPECT_EQ(other.until_closed(), "");
  }
  EXPECT_EQ(dispatched, 2U);
}

// One that sends on after its refusal still gets to read it.
TEST_F(ConnectionTest, ARefusalReachesAClientThatIsStillSending) {
  RawClient client{port};
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000000\r\n\r\n");
  const std::string body(2'000'000, 'b');
  client.send(body);
  EXPECT_EQ(client.answer().status, 413);
  EXPECT_EQ(client.until_closed(), "");
}

TEST_F(ConnectionTest, TakesAHeadOf16KiBAndAHundredFieldsAndNoMore) {
  const std::string begin = "GET /hello HTTP/1.1\r\nHost: localhost\r\nX: ";
  const auto head_of = [&](std::size_t size) {
    return begin + std::string(size - begin.size() - 4, 'x') + "\r\n\r\n";
  };
  const auto with_fields = [](int count) {
    std::string head = "GET /hello HTTP/1.1\r\nHost: localhost\r\n";
    for (int i = 1; i < count; ++i) head += "X: y\r\n";
    return head + "\r\n";
  };
  RawClient client{port};
  EXPECT_EQ(client.call(head_of(net::kHeadBytesMax)).status, 200);
  EXPECT_EQ(client.call(with_fields(100)).status, 200);
  for (const std::string& refused :
       {head_of(net::kHeadBytesMax + 1), with_fields(101),
        head_of(net::kHeadBytesMax + 5).substr(0, net::kHeadBytesMax + 1)}) {
    RawClient other{port};
    EXPECT_EQ(other.call(refused).status, 431);
    EXPECT_EQ(other.until_closed(), "");
  }
  EXPECT_EQ(listener->counts().refused, 3U);
  EXPECT_EQ(listener->counts().replies_by_class[4], 3U);
}

// The parser's own table is net/http_smuggling_test.cc; here: what hides behind is never served.
TEST_F(ConnectionTest, ServesNothingThatHidesBehindAnAmbiguousRequest) {
  const std::string begin = "POST /echo HTTP/1.1\r\nHost: localhost\r\n";
  for (const std::string& shape : {
           begin + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
           begin + "Transfer-Encoding: gzip\r\nContent-Length: 0\r\n\r\n",
           begin + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
           begin + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
           begin + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
           begin + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
           begin + "Content-Length: 0\r\nContent-Length: 50\r\n\r\n",
           begin + "Content-Length: 0, 0\r\n\r\n",
           begin + "Content-Length: +0\r\n\r\n",
           begin + "X: y\r\n Content-Length: 50\r\n\r\n",
           begin + "X: y\nContent-Length: 50\r\n\r\n",
           begin + "X: y\rContent-Length: 50\r\n\r\n",
           begin + "X: y\0z\r\n\r\n"s,
           begin + "Host: other\r\n\r\n",
           "POST /echo HTTP/1.1\r\n\r\n"s,
           "\r\n"s,
           begin + "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
           begin + "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
           begin + "Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
           begin + "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n",
       }) {
    RawClient client{port};
    client.send(shape + kHello + kHello);
    const Answer answer = client.answer();
    EXPECT_TRUE(answer.status == 400 || answer.status == 501) << answer.status << shape;
    EXPECT_TRUE(answer.has("Connection: close\r\n")) << shape;
    EXPECT_EQ(client.until_closed(), "") << shape;
  }
  until_read();
  EXPECT_EQ(dispatched, 20U);  // by until_read() alone
}

TEST_F(ConnectionTest, CountsAndClosesAllWhoGo) {
  {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 50; ++i) {
      clients.push_back(std::make_unique<RawClient>(port));
      EXPECT_EQ(clients.back()->get(i % 2 == 0 ? "/hello" : "/nowhere").status,
                i % 2 == 0 ? 200 : 404);
    }
    EXPECT_EQ(listener->counts().connections, 50U);
  }
  until_connections(0);
  EXPECT_EQ(listener->counts().requests, 50U);
  EXPECT_EQ(listener->counts().replies_by_class[2], 25U);
  EXPECT_EQ(listener->counts().replies_by_class[4], 25U);
  EXPECT_EQ(listener->counts().refused, 0U);
}

}  // namespace
}  // namespace weir::server
