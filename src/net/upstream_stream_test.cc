// Long bodies both ways, receivers that pause, and servers that are slow.
#include <future>
#include <numeric>

#include "net/upstream_for_test.h"

namespace weir::net {
namespace {

using namespace std::chrono_literals;
using enum UpstreamFault;

const std::string kChunkedHead = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

class UpstreamStreamTest : public UpstreamTest {
 protected:
  std::unique_ptr<UpstreamCall> start(const RawServer& server, Request request) {
    return pool_->call(server.origin(), std::move(request), receiver_);
  }
  void run_until_over() {
    run_until([&] { return receiver_.over(); });
  }

  Receiver receiver_;
};

TEST_F(UpstreamStreamTest, PassesEveryEventOnBeforeTheNextIsSent) {
  constexpr int kEvents = 20;
  std::promise<void> seen[kEvents];
  RawServer server{[&](Peer& peer) {
    peer.request();
    peer.send(kChunkedHead);
    for (auto& event : seen) {
      peer.send("9\r\ndata: x\n\n\r\n");
      event.get_future().wait();
    }
    peer.send("0\r\n\r\n");
    peer.wait_for_end();
  }};
  int events = 0;
  receiver_.at_body = [&] {
    EXPECT_EQ(receiver_.body.size(), 9U * (static_cast<unsigned>(events) + 1));
    seen[events++].set_value();
  };
  const auto call = start(server, get());
  run_until_over();
  EXPECT_TRUE(receiver_.ended) << receiver_.message;
  EXPECT_EQ(events, kEvents);
  EXPECT_EQ(pool_->idle(), 1U);
  pool_.reset();
}

TEST_F(UpstreamStreamTest, ReadsAnAnswerByteByByte) {
  RawServer server{[](Peer& peer) {
    peer.request();
    const std::string answer =
        "HTTP/1.1 100 Go\r\n\r\n" + kChunkedHead + "3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nT: t\r\n\r\n";
    for (const char& c : answer) {
      peer.send({&c, 1});
      std::this_thread::yield();
    }
    peer.wait_for_end();
  }};
  const auto call = start(server, get());
  run_until_over();
  EXPECT_EQ(receiver_.body, "abcde") << receiver_.message;
  EXPECT_EQ(pool_->idle(), 1U);
  pool_.reset();
}

TEST_F(UpstreamStreamTest, SendsALargeBody) {
  std::string body(32 << 20, '\0');
  std::iota(body.begin(), body.end(), '\0');
  std::string got;
  RawServer server{[&](Peer& peer) {
    got = peer.request();
    peer.send(answer_of("thanks"));
    peer.wait_for_end();
  }};
  const Request request = post(body);
  const auto call = start(server, request);
  run_until_over();
  EXPECT_TRUE(receiver_.ended) << receiver_.message;
  EXPECT_EQ(receiver_.body, "thanks");
  EXPECT_EQ(pool_->idle(), 1U);
  pool_.reset();
  EXPECT_TRUE(got == request.head + body);
}

TEST_F(UpstreamStreamTest, DeliversAnAnswerThatComesBeforeTheRequestIsSent) {
  for (const bool closes : {false, true}) {
    std::promise<void> closed;
    RawServer server{[&](Peer& peer) {
      peer.send("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
      if (closes) {
        peer.close();
      } else {
        peer.wait_for_end();
      }
      closed.set_value();
    }};
    Receiver receiver;
    const auto call = pool_->call(server.origin(), post(std::string(32 << 20, 'x')), receiver);
    run_until([&] { return receiver.over(); });
    EXPECT_EQ(receiver.status, 413) << receiver.message;
    EXPECT_EQ(receiver.body, "no");
    EXPECT_EQ(pool_->idle(), 0U);
    closed.get_future().wait();
  }
}

// S3.8: a stream's memory is bounded.
TEST_F(UpstreamStreamTest, APausedReceiverStallsTheServer) {
  constexpr std::size_t kBody = 100'000'000;
  std::promise<std::size_t> stalled;
  RawServer server{[&](Peer& peer) {
    peer.request();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(kBody) + "\r\n\r\n");
    const std::size_t sent = peer.send_until_stalled(kBody);
    stalled.set_value(sent);
    peer.send(std::string(kBody - sent, 'x'));
    peer.wait_for_end();
  }};
  receiver_.keeps_body = false;
  const auto call = start(server, get());
  receiver_.at_head = [&] { call->pause(); };
  run_until([&] { return receiver_.status != 0; });
  auto sent = stalled.get_future();
  poll();
  const std::size_t sent_bytes = sent.get();
  EXPECT_LT(sent_bytes, kBody / 2);  // what the sockets' buffers hold
  poll();
  EXPECT_LE(receiver_.bytes, UpstreamPool::kReadBytes);
  step(1h);  // it is not the server that is slow
  EXPECT_FALSE(receiver_.over());

  receiver_.at_head = nullptr;
  call->resume();
  step(1s);
  EXPECT_FALSE(receiver_.over());
  run_until_over();
  EXPECT_TRUE(receiver_.ended) << receiver_.message;
  EXPECT_EQ(receiver_.bytes, kBody);
  pool_.reset();
}

TEST_F(UpstreamStreamTest, PausingInEveryPieceLosesNothing) {
  const std::string piece(5'000, 'y');
  RawServer server{[&](Peer& peer) {
    peer.request();
    peer.send(kChunkedHead);
    for (int i = 0; i < 400; ++i) peer.send("1388\r\n" + piece + "\r\n");
    peer.send("0\r\n\r\n");
    peer.wait_for_end();
  }};
  const auto call = start(server, get());
  std::size_t before = 0;
  bool paused = false;
  receiver_.at_body = [&] {
    EXPECT_LE(receiver_.bytes - std::exchange(before, receiver_.bytes), UpstreamPool::kReadBytes);
    call->pause();
    paused = true;
  };
  while (!receiver_.over()) {
    run_until([&] { return paused || receiver_.over(); });
    paused = false;
    call->resume();
  }
  EXPECT_EQ(receiver_.bytes, 2'000'000U);
  pool_.reset();
}

TEST_F(UpstreamStreamTest, ACallMayBePausedFromItsStart) {
  RawServer server{[](Peer& peer) {
    peer.request();
    peer.send(answer_of("x"));
    peer.wait_for_end();
  }};
  const auto call = start(server, get());
  call->pause();
  poll_until([&] { return server.connections() == 1; });
  for (int i = 0; i < 100; ++i) poll();
  EXPECT_EQ(receiver_.status, 0);
  call->resume();
  run_until_over();
  EXPECT_TRUE(receiver_.ended);
  pool_.reset();
}

TEST_F(UpstreamStreamTest, GivesASilentServerUp) {
  struct Row {
    std::string said;
    std::size_t body;
  };
  for (const auto& [said, body] :
       std::vector<Row>{{"", 0},
                        {"", 32 << 20},  // that the server does not read
                        {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", 0}}) {
    std::promise<void> closed;
    RawServer server{[&](Peer& peer) {
      if (body == 0) peer.request();
      peer.send(said);
      if (body == 0) peer.wait_for_end();
      closed.get_future().wait();
    }};
    Receiver receiver;
    Request request = body == 0 ? get() : post(std::string(body, 'x'));
    request.patience = 30s;
    const auto call = pool_->call(server.origin(), std::move(request), receiver);
    poll_until([&] { return server.connections() == 1; });
    if (!said.empty()) run_until([&] { return receiver.bytes == 4; });
    for (int i = 0; i < 100; ++i) poll();
    step(30s);
    EXPECT_FALSE(receiver.over());
    step(1s);
    EXPECT_EQ(receiver.fault, kTooSlow);
    closed.set_value();
  }
}

TEST_F(UpstreamStreamTest, PatienceBeginsAnewWithEveryByte) {
  std::promise<void> go[5];
  RawServer server{[&](Peer& peer) {
    peer.request();
    peer.send(kChunkedHead);
    for (auto& one : go) {
      one.get_future().wait();
      peer.send("1\r\nx\r\n");
    }
    peer.send("0\r\n\r\n");
    peer.wait_for_end();
  }};
  Request request = get();
  request.patience = 30s;
  const auto call = start(server, std::move(request));
  run_until([&] { return receiver_.status != 0; });
  for (std::size_t i = 0; i < 5; ++i) {
    step(29s);
    go[i].set_value();
    run_until([&] { return receiver_.bytes == i + 1; });
  }
  run_until_over();
  EXPECT_TRUE(receiver_.ended) << receiver_.message;
  pool_.reset();
}

// A backlog that is full: the kernel answers no more.
TEST_F(UpstreamStreamTest, GivesUpConnectingAfterATime) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(listener, generic, size), 0);
  ASSERT_EQ(::listen(listener, 0), 0);
  ASSERT_EQ(::getsockname(listener, generic, &size), 0);
  std::array<int, 4> fillers{};
  for (int& filler : fillers) {
    filler = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    ::connect(filler, generic, size);
  }
  const auto call =
      pool_->call(*Origin::parse("http://127.0.0.1:" + std::to_string(ntohs(address.sin_port))),
                  get(), receiver_);
  for (int i = 0; i < 100; ++i) poll();
  step(9s);
  EXPECT_FALSE(receiver_.over());
  step(1s);
  EXPECT_EQ(receiver_.fault, kUnreachable);
  EXPECT_TRUE(receiver_.message.ends_with("no connection in time")) << receiver_.message;
  for (const int filler : fillers) ::close(filler);
  ::close(listener);
}

}  // namespace
}  // namespace weir::net
