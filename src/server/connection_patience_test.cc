// What is too slow, too much or idle for too long is ended, by the sweep of every second.
#include <gtest/gtest.h>

#include <string>

#include "server/connection.h"
#include "server/server_for_test.h"

namespace weir::server {
namespace {

using namespace std::chrono_literals;

const std::string kHello = "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n";

struct PatienceTest : ServerTest {
  PatienceTest() { start(); }

  void expect_too_slow(RawClient& client) {
    const Answer answer = client.answer();
    EXPECT_EQ(answer.status, 408);
    EXPECT_TRUE(answer.has("Connection: close\r\n"));
    EXPECT_EQ(client.until_closed(), "");
  }
};

TEST_F(PatienceTest, AHeadMayTakeFiveSeconds) {
  RawClient client{port};
  client.send("GET /hello HTTP/1.1\r\n");
  until_read();
  time.advance(5s);
  until_read();
  EXPECT_TRUE(client.silent());
  time.advance(1s);
  expect_too_slow(client);
  EXPECT_EQ(listener->counts().refused, 1U);
}

TEST_F(PatienceTest, MoreBytesOfAHeadDoNotBuyMoreTime) {
  RawClient client{port};
  client.send("GET /hello HTTP/1.1\r\n");
  for (int i = 0; i < 5; ++i) {
    until_read();
    time.advance(1s);
    client.send("X: y\r\n");
  }
  until_read();
  time.advance(1s);
  expect_too_slow(client);
}

TEST_F(PatienceTest, AHeadThatCameInTimeIsServed) {
  RawClient client{port};
  client.send(kHello.substr(0, 20));
  until_read();
  time.advance(4s);
  EXPECT_EQ(client.call(kHello.substr(20)).status, 200);
  client.send(kHello.substr(0, 20));  // its own five seconds
  until_read();
  time.advance(4s);
  EXPECT_EQ(client.call(kHello.substr(20)).status, 200);
}

TEST_F(PatienceTest, ABodyMustComeAtTheLeastRate) {
  const std::string head = "POST /echo HTTP/1.1\r\nHost: localhost\r\n";
  const std::string part(40'960, 'b');  // ten seconds' worth
  for (const std::string& request : {head + "Content-Length: 81920\r\n\r\n" + part,
                                     head + "Transfer-Encoding: chunked\r\n\r\n14000\r\n" + part}) {
    RawClient client{port};
    client.send(request);
    until_read();
    time.advance(15s);
    until_read();
    EXPECT_TRUE(client.silent());
    time.advance(2s);
    expect_too_slow(client);
  }
  RawClient client{port};
  client.send(head + "Content-Length: 2\r\n\r\nb");
  until_read();
  time.advance(6s);
  expect_too_slow(client);
}

TEST_F(PatienceTest, AnIdleConnectionMayStayFiveMinutes) {
  RawClient client{port};
  RawClient never_spoke{port};
  EXPECT_EQ(client.get("/hello").status, 200);
  until_read();
  time.advance(4min);
  EXPECT_EQ(client.get("/hello").status, 200);
  until_read();
  time.advance(62s);
  EXPECT_EQ(never_spoke.until_closed(), "");
  time.advance(3min);
  EXPECT_EQ(client.get("/hello").status, 200);
  time.advance(5min + 1s);
  EXPECT_EQ(client.until_closed(), "");
  until_connections(0);
}

TEST_F(PatienceTest, AnAnswerOutstandingIsNotIdle) {
  RawClient client{port};
  client.send("GET /later HTTP/1.1\r\nHost: localhost\r\n\r\n");
  Later later = take_later();
  time.advance(10min);
  until_read();
  later.resume([](Responder* responder) { responder->reply({.body = "still here"}); });
  EXPECT_EQ(client.answer().body, "still here");
}

TEST_F(PatienceTest, AClientThatStaysAfterItsLastAnswerIsClosed) {
  RawClient client{port};
  EXPECT_EQ(client.call("GET /hello HTTP/1.0\r\n\r\n").status, 200);
  EXPECT_EQ(client.until_closed(), "");
  until_read();
  until_connections(1);
  time.advance(6s);
  until_connections(0);
}

std::string repeated(const std::string& path, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  return all;
}

// What the two kernel buffers of a connection may hold, with room to spare.
constexpr std::size_t kBuffered = 12 * 1024 * 1024;

TEST_F(PatienceTest, ServesNoMoreThanTheClientReads) {
  RawClient client{port, 4096};
  client.send_what_fits(repeated("/large", 1000), 100);
  until_read();
  const std::size_t unread = dispatched - 20;
  EXPECT_LT(unread * kLarge, kBuffered);
  std::size_t got = 0;
  while (got < 20 * kLarge) got += client.bytes(10'000).size();
  until_read();
  EXPECT_LT((dispatched - 40) * kLarge, kBuffered + got);
}

TEST_F(PatienceTest, ServesOneLargeAnswerAtATimeToASlowReader) {
  RawClient client{port, 4096};
  client.send(repeated("/huge", 100));
  std::size_t got = 0;
  for (int round = 1; round <= 40; ++round) {
    got += client.bytes(kHuge / 4).size();
    until_read();
    const std::size_t served = dispatched - static_cast<std::size_t>(round) * 20;
    ASSERT_LT(served * kHuge, kBuffered + got + kHuge) << round;
  }
}

// Small answers pile up slowly while the requests come by the megabyte.
TEST_F(PatienceTest, ReadsNoMoreWhileTheClientDoesNotReadItsAnswers) {
  RawClient client{port, 4096};
  const std::string requests = repeated("/hello", 1'000'000);
  EXPECT_LT(client.send_what_fits(requests, 200), kBuffered);
  until_read();
  time.advance(6s);
  until_read();
  time.advance(6s);
  until_connections(0);
}

TEST_F(PatienceTest, AClientThatDoesNotReadIsClosed) {
  RawClient client{port, 4096};
  client.send(repeated("/huge", 3));
  until_read();
  time.advance(5s);
  until_read();
  EXPECT_EQ(client.bytes(1000).size(), 1000U);
  time.advance(2s);
  EXPECT_LT(client.until_closed().size(), 3 * kHuge);
}

TEST_F(PatienceTest, TheLastAnswerWaitsForASlowReaderThatKeepsReading) {
  RawClient client{port, 4096};
  client.send("GET /huge HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  std::size_t got = client.until("\r\n\r\n").size() * 0;
  while (got < kHuge) {
    got += client.bytes(std::min(kHuge - got, std::size_t{1'000'000})).size();
    until_read();
    time.advance(2s);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_EQ(client.until_closed(), "");
}

struct FewConnectionsTest : ServerTest {
  FewConnectionsTest() { start({.listen = {}, .threads = 2, .connections_max = 2}); }
};

TEST_F(FewConnectionsTest, MoreConnectionsThanAllowedAreClosedAtOnce) {
  RawClient first{port};
  EXPECT_EQ(first.get("/hello").status, 200);
  {
    RawClient second{port};
    EXPECT_EQ(second.get("/hello").status, 200);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(RawClient{port}.until_closed(), "");
    EXPECT_EQ(listener->counts().connections, 2U);
  }
  until_connections(1);
  RawClient third{port};
  EXPECT_EQ(third.get("/hello").status, 200);
  EXPECT_EQ(first.get("/hello").status, 200);
}

}  // namespace
}  // namespace weir::server
