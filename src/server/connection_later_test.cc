// Answers that come later, answers without an end, and the end of the listener.
#include <gtest/gtest.h>

#include <future>
#include <string>

#include "server/server_for_test.h"

namespace weir::server {
namespace {

using namespace std::chrono_literals;

const std::string kLater = "GET /later HTTP/1.1\r\nHost: localhost\r\n\r\n";
const std::string kStream = "GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n";

struct LaterTest : ServerTest {
  LaterTest() { start({.listen = {}, .threads = 2}); }

  static void say(Later& later, std::string text) {
    later.resume([text](Responder* responder) {
      if (responder != nullptr) responder->reply({.body = text});
    });
  }
};

TEST_F(LaterTest, AnswersFromAnotherThread) {
  RawClient client{port};
  for (int i = 0; i < 20; ++i) {
    client.send(kLater);
    Later later = take_later();
    std::jthread{[&] { say(later, std::to_string(i)); }};
    EXPECT_EQ(client.answer().body, std::to_string(i));
  }
  EXPECT_EQ(gone(), 0);
}

TEST_F(LaterTest, AnUnansweredPromiseIsAServersError) {
  RawClient client{port};
  client.send(kLater);
  {
    Later dropped = take_later();
  }
  const Answer answer = client.answer();
  EXPECT_EQ(answer.status, 500);
  EXPECT_NE(answer.body.find("\"unanswered\""), std::string::npos);
  EXPECT_EQ(client.get("/hello").status, 200);
  EXPECT_EQ(gone(), 0);
}

TEST_F(LaterTest, NoticesAtOnceThatTheClientHasGone) {
  RawClient closes{port};
  closes.send(kLater);
  Later first = take_later();
  closes.close();
  until_gone(1);

  RawClient resets{port};
  resets.send(kLater + kLater);  // more is waiting, unread by nobody
  Later second = take_later();
  resets.reset();
  until_gone(2);

  for (Later* later : {&first, &second}) {
    std::promise<bool> got_null;
    later->resume([&](Responder* responder) { got_null.set_value(responder == nullptr); });
    EXPECT_TRUE(got_null.get_future().get());
  }
  until_connections(0);
}

TEST_F(LaterTest, HoldsOnlySoMuchThatComesWhileItAnswers) {
  RawClient client{port};
  client.send(kLater);
  Later later = take_later();
  const std::string much(64 * 1024 * 1024, 'x');
  EXPECT_LT(client.send_what_fits(much, 200), much.size() / 2);
  say(later, "now");
  EXPECT_EQ(client.answer().body, "now");
  EXPECT_EQ(client.answer().status, 431);  // of the x's
}

TEST_F(LaterTest, AClientThatHalfClosesAfterItsAnswerHasBegunGetsAllOfIt) {
  RawClient client{port, 4096};
  client.send(kLater);
  Later later = take_later();
  say(later, std::string(kHuge, 'h'));
  client.until("\r\n\r\n");
  client.half_close();
  until_read();
  EXPECT_EQ(client.until_closed().size(), kHuge);
}

TEST_F(LaterTest, StreamsPiecesAsTheyAreSent) {
  RawClient client{port};
  client.send(kStream);
  const auto stream = take_stream();
  const Answer head = client.answer();
  EXPECT_EQ(head.status, 200);
  EXPECT_TRUE(head.has("Content-Type: text/event-stream\r\n"));
  EXPECT_TRUE(head.has("Cache-Control: no-store\r\n"));
  EXPECT_FALSE(head.has("Content-Length"));
  for (int i = 0; i < 20; ++i) {
    const std::string piece = "data: " + std::to_string(i) + "\n\n";
    EXPECT_TRUE(stream->send(piece));
    EXPECT_EQ(client.until("\n\n"), piece);
  }
  time.advance(10min);  // is not idle
  EXPECT_TRUE(stream->send("late\n\n"));
  EXPECT_EQ(client.until("\n\n"), "late\n\n");
}

TEST_F(LaterTest, AStreamEndsWithItsSender) {
  RawClient client{port};
  client.send(kStream);
  auto stream = take_stream();
  EXPECT_TRUE(stream->send("the last"));
  stream.reset();
  client.until("\r\n\r\n");
  EXPECT_EQ(client.until_closed(), "the last");
  client.close();
  until_connections(0);
  EXPECT_EQ(gone(), 0);
}

TEST_F(LaterTest, ASlowReaderLosesWholePiecesAndNothingElse) {
  RawClient client{port, 4096};
  client.send(kStream);
  const auto stream = take_stream();
  client.until("\r\n\r\n");
  std::size_t taken = 0;
  std::size_t piece = 0;
  const auto send_next = [&] {
    const bool sent = stream->send(std::string(50'000, static_cast<char>('a' + piece % 26)));
    if (sent) ++taken;
    return sent;
  };
  // Until even the kernel takes no more.
  for (int refused = 0; refused < 5;) {
    refused = send_next() ? 0 : refused + 1;
    if (refused == 0) ++piece;
    until_read();
    ASSERT_LT(taken, 1'000U);
  }
  for (std::size_t i = 0; i < taken; ++i) {
    EXPECT_EQ(client.bytes(50'000), std::string(50'000, static_cast<char>('a' + i % 26)));
  }
  until_read();
  EXPECT_TRUE(stream->send("again"));
  EXPECT_EQ(client.bytes(5), "again");
}

TEST_F(LaterTest, AStreamWhoseReaderIsTooSlowForTooLongIsClosed) {
  RawClient client{port, 4096};
  client.send(kStream);
  const auto stream = take_stream();
  const std::string piece(50'000, 'p');
  for (int refused = 0; refused < 5; until_read()) refused = stream->send(piece) ? 0 : refused + 1;
  time.advance(7s);
  until_gone(1);
  EXPECT_FALSE(stream->send("x"));
}

TEST_F(LaterTest, NoticesThatAWatcherHasGone) {
  RawClient client{port};
  client.send(kStream);
  const auto stream = take_stream();
  client.close();
  until_gone(1);
  EXPECT_FALSE(stream->send("x"));
  until_connections(0);
}

TEST_F(LaterTest, IgnoresWhatAWatcherSends) {
  RawClient client{port};
  client.send(kStream + kStream);
  const auto stream = take_stream();
  client.send(std::string(1'000'000, 'x'));
  EXPECT_TRUE(stream->send("piece"));
  client.until("\r\n\r\n");
  EXPECT_EQ(client.bytes(5), "piece");
}

TEST_F(LaterTest, StopAnswersWhomItOwesAndClosesTheOthers) {
  RawClient idle{port};
  EXPECT_EQ(idle.get("/hello").status, 200);
  RawClient answering{port};
  answering.send(kLater + kLater);
  Later later = take_later();
  RawClient watching{port};
  watching.send(kStream);
  const auto stream = take_stream();
  RawClient slow{port, 4096};
  slow.send("GET /huge HTTP/1.1\r\nHost: localhost\r\n\r\n");
  until_read();

  auto stopped = std::async(std::launch::async, [&] { listener->stop(); });
  EXPECT_EQ(idle.until_closed(), "");
  watching.until("\r\n\r\n");
  EXPECT_EQ(watching.until_closed(), "");
  until_gone(1);
  EXPECT_FALSE(stream->send("x"));
  EXPECT_EQ(slow.answer().body.size(), kHuge);
  EXPECT_EQ(slow.until_closed(), "");
  slow.close();

  say(later, "the last");
  const Answer answer = answering.answer();
  EXPECT_EQ(answer.body, "the last");
  EXPECT_TRUE(answer.has("Connection: close\r\n"));
  EXPECT_EQ(answering.until_closed(), "");
  answering.close();
  stopped.get();
  EXPECT_EQ(listener->counts().connections, 0U);
  EXPECT_FALSE(RawClient{port}.connected());
}

TEST_F(LaterTest, StopGivesUpOnAnAnswerAfterFiveSeconds) {
  RawClient idle{port};
  EXPECT_EQ(idle.get("/hello").status, 200);
  RawClient client{port};
  client.send(kLater);
  Later later = take_later();
  auto stopped = std::async(std::launch::async, [&] { listener->stop(); });
  EXPECT_EQ(idle.until_closed(), "");  // stopping has begun
  time.advance(4s);
  EXPECT_TRUE(client.silent());
  EXPECT_EQ(gone(), 0);
  time.advance(2s);
  until_gone(1);
  stopped.get();
  EXPECT_EQ(client.until_closed(), "");
  EXPECT_EQ(listener->counts().connections, 0U);
  say(later, "to nobody");
}

TEST_F(LaterTest, ASecondListenerOnThePortIsRefusedWithASentence) {
  const auto second =
      Listener::open({.listen = {.host = "127.0.0.1", .port = port}}, router, time.source(), log);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message,
            "cannot listen on 127.0.0.1:" + std::to_string(port) + ": the port is in use");
  const auto nowhere =
      Listener::open({.listen = {.host = "192.0.2.1", .port = 1}}, router, time.source(), log);
  ASSERT_FALSE(nowhere);
  EXPECT_TRUE(nowhere.error().message.starts_with("cannot listen on 192.0.2.1:1: "));
}

}  // namespace
}  // namespace weir::server
