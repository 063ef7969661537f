// Calls over plain HTTP against a raw server: connections that are kept, retries, ends.
#include "net/upstream.h"

#include <future>

#include "net/upstream_connection.h"
#include "net/upstream_for_test.h"

namespace weir::net {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using enum UpstreamFault;

// Answers every request with its own bytes.
void echo(Peer& peer) {
  for (std::string request; !(request = peer.request()).empty();) peer.send(answer_of(request));
}

TEST_F(UpstreamTest, GetsAnAnswer) {
  RawServer server{[](Peer& peer) {
    peer.request();
    peer.send("HTTP/1.1 201 Just Made\r\nX-Kind: test\r\nContent-Length: 5\r\n\r\nhello");
    peer.wait_for_end();
  }};
  const Receiver got = fetch(server, get());
  EXPECT_TRUE(got.ended) << got.message;
  EXPECT_EQ(got.status, 201);
  EXPECT_EQ(got.reason, "Just Made");
  EXPECT_EQ(got.kind, "test");
  EXPECT_EQ(got.body, "hello");
  EXPECT_EQ(pool_->idle(), 1U);
  pool_.reset();
}

TEST_F(UpstreamTest, SendsTheRequestAsItIs) {
  RawServer server{echo};
  EXPECT_EQ(fetch(server, post("two\r\n\r\nlines")).body,
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\ntwo\r\n\r\nlines");
  pool_.reset();
}

TEST_F(UpstreamTest, UsesAConnectionAgain) {
  RawServer server{echo};
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(fetch(server, get("/" + std::to_string(i))).body.starts_with("GET /"));
  }
  EXPECT_EQ(server.connections(), 1);
  pool_.reset();
}

TEST_F(UpstreamTest, OpensAsManyConnectionsAsThereAreCallsAtOnce) {
  RawServer server{echo};
  for (int round = 0; round < 3; ++round) {
    std::list<Receiver> receivers(10);
    std::vector<std::unique_ptr<UpstreamCall>> calls;
    for (auto& one : receivers) calls.push_back(pool_->call(server.origin(), get(), one));
    run_until([&] { return std::ranges::all_of(receivers, &Receiver::over); });
    EXPECT_TRUE(std::ranges::all_of(receivers, &Receiver::ended));
    EXPECT_EQ(pool_->idle(), 10U);
  }
  EXPECT_EQ(server.connections(), 10);
  pool_.reset();
}

TEST_F(UpstreamTest, StartsTheNextCallFromInsideTheEndOfTheLast) {
  RawServer server{echo};
  Receiver first, second;
  std::unique_ptr<UpstreamCall> next;
  auto call = pool_->call(server.origin(), get(), first);
  first.at_end = [&] {
    call.reset();
    next = pool_->call(server.origin(), get(), second);
    EXPECT_FALSE(second.over());
  };
  run_until([&] { return second.over(); });
  EXPECT_TRUE(second.ended);
  EXPECT_EQ(server.connections(), 1);
  pool_.reset();
}

TEST_F(UpstreamTest, KeepsNoMoreThanItsBound) {
  make_pool({.idle_max = 2});
  RawServer server{echo};
  std::list<Receiver> receivers(5);
  std::vector<std::unique_ptr<UpstreamCall>> calls;
  for (auto& one : receivers) calls.push_back(pool_->call(server.origin(), get(), one));
  run_until([&] { return std::ranges::all_of(receivers, &Receiver::over); });
  EXPECT_EQ(pool_->idle(), 2U);
  pool_.reset();
}

TEST_F(UpstreamTest, KeepsConnectionsOfEachOriginApart) {
  RawServer one{echo}, other{echo};
  EXPECT_TRUE(fetch(one, get()).ended);
  EXPECT_TRUE(fetch(other, get()).ended);
  EXPECT_TRUE(fetch(one, get()).ended);
  EXPECT_EQ(one.connections(), 1);
  EXPECT_EQ(other.connections(), 1);
  EXPECT_EQ(pool_->idle(), 2U);
  pool_.reset();
}

TEST_F(UpstreamTest, ClosesWhatIsIdleForTooLong) {
  std::promise<void> closed;
  RawServer server{[&](Peer& peer) {
    echo(peer);
    closed.set_value();
  }};
  EXPECT_TRUE(fetch(server, get()).ended);
  step(60s);
  EXPECT_EQ(pool_->idle(), 1U);
  step(1s);
  EXPECT_EQ(pool_->idle(), 0U);
  closed.get_future().wait();
}

TEST_F(UpstreamTest, DoesNotKeepWhatMustNotBeKept) {
  for (const std::string& answer :
       {answer_of("x", "Connection: close\r\n"), answer_of("x", "Connection: a, CLOSE\r\n"),
        answer_of("x") + "y", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx"s,
        "HTTP/1.1 204 None\r\nContent-Length: 1\r\n\r\n"s}) {
    RawServer server{[&](Peer& peer) {
      peer.request();
      peer.send(answer);
      peer.wait_for_end();
    }};
    EXPECT_TRUE(fetch(server, get()).ended) << answer;
    EXPECT_EQ(pool_->idle(), 0U) << answer;
  }
}

TEST_F(UpstreamTest, SweepsKeptConnectionsThatWereClosed) {
  RawServer server{[](Peer& peer) {
    peer.request();
    peer.send(answer_of("x"));
  }};
  EXPECT_TRUE(fetch(server, get()).ended);
  while (pool_->idle() != 0) {
    pool_->sweep();
    std::this_thread::yield();
  }
}

// Nobody has swept yet: the look before reuse has to notice.
TEST_F(UpstreamTest, LooksBeforeItUsesAConnectionAgain) {
  for (const bool says_something : {false, true}) {
    std::promise<void> may_close, closed;
    RawServer server{[&](Peer& peer) {
      if (peer.number() > 0) return echo(peer);
      peer.request();
      peer.send(answer_of("x"));
      may_close.get_future().wait();
      if (says_something) peer.send("HTTP/1.1 408 Idle\r\nContent-Length: 0\r\n\r\n");
      peer.close();
      closed.set_value();
    }};
    EXPECT_TRUE(fetch(server, get()).ended);
    may_close.set_value();
    closed.get_future().wait();
    const Receiver got = fetch(server, post("again"));
    EXPECT_EQ(got.status, 200) << got.message;
    EXPECT_TRUE(got.body.ends_with("again"));
    EXPECT_EQ(server.connections(), 2);
    pool_ = std::make_unique<UpstreamPool>(io_, time_, nullptr, Options{});
  }
}

// The server closes just when the next request is on its way.
TEST_F(UpstreamTest, SendsAgainOnANewConnectionIfAKeptOneEndsUnanswered) {
  for (const bool resets : {false, true}) {
    for (const Request& request : {get(), post("once more"), post(std::string(8'000'000, 'x'))}) {
      RawServer server{[&](Peer& peer) {
        if (peer.number() > 0) return echo(peer);
        peer.request();
        peer.send(answer_of("x"));
        peer.request();
        if (resets) peer.reset();
      }};
      EXPECT_TRUE(fetch(server, get()).ended);
      const Receiver got = fetch(server, request);
      EXPECT_TRUE(got.ended) << got.message;
      EXPECT_EQ(got.body, request.head + request.body);
      EXPECT_EQ(server.connections(), 2);
      pool_ = std::make_unique<UpstreamPool>(io_, time_, nullptr, Options{});
    }
  }
}

TEST_F(UpstreamTest, SendsAgainOnlyOnce) {
  RawServer server{[](Peer& peer) {
    peer.request();
    if (peer.number() > 0) return;
    peer.send(answer_of("x"));
    peer.request();
  }};
  EXPECT_TRUE(fetch(server, get()).ended);
  const Receiver got = fetch(server, post("x"));
  EXPECT_EQ(got.fault, kBroken);
  EXPECT_EQ(server.connections(), 2);
}

TEST_F(UpstreamTest, DoesNotSendAgainOnceAByteOfTheAnswerCame) {
  RawServer server{[](Peer& peer) {
    peer.request();
    peer.send(answer_of("x"));
    peer.request();
    peer.send("H");
  }};
  EXPECT_TRUE(fetch(server, get()).ended);
  EXPECT_EQ(fetch(server, get()).fault, kBroken);
  EXPECT_EQ(server.connections(), 1);
}

TEST_F(UpstreamTest, DoesNotSendAgainWhatFailedOnANewConnection) {
  RawServer server{[](Peer& peer) { peer.request(); }};
  const Receiver got = fetch(server, get());
  EXPECT_EQ(got.fault, kBroken);
  EXPECT_EQ(got.message, server.origin().authority + ": closed the connection");
  EXPECT_EQ(server.connections(), 1);
}

TEST_F(UpstreamTest, BodiesEndWhereTheirFramingSays) {
  struct Row {
    std::string method, answer, body;
  };
  for (const auto& [method, answer, body] : std::vector<Row>{
           {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", ""},
           {"HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", ""},
           {"GET", "HTTP/1.1 204 None\r\n\r\n", ""},
           {"GET", "HTTP/1.1 304 Same\r\nContent-Length: 5\r\n\r\n", ""},
           {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", ""},
           {"GET", "HTTP/1.1 100 Go\r\n\r\nHTTP/1.1 103 Hints\r\nLink: a\r\n\r\n" + answer_of("x"),
            "x"},
           {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
            "ab"}}) {
    RawServer server{[&](Peer& peer) {
      while (!peer.request().empty()) peer.send(answer);
    }};
    for (int i = 0; i < 2; ++i) {
      const Receiver got =
          fetch(server, {.method = method, .head = method + " / HTTP/1.1\r\nHost: a\r\n\r\n"});
      EXPECT_TRUE(got.ended) << answer << got.message;
      EXPECT_EQ(got.body, body) << answer;
    }
    EXPECT_EQ(server.connections(), 1) << answer;
    pool_ = std::make_unique<UpstreamPool>(io_, time_, nullptr, Options{});
  }
}

TEST_F(UpstreamTest, ABodyWithoutALengthEndsWithTheConnection) {
  for (const bool resets : {false, true}) {
    std::promise<void> seen;
    RawServer server{[&](Peer& peer) {
      peer.request();
      peer.send("HTTP/1.1 200 OK\r\n\r\nall of ");
      seen.get_future().wait();
      if (resets) return peer.reset();
      peer.send("it");
    }};
    Receiver receiver;
    receiver.at_body = [&] {
      if (receiver.body == "all of ") seen.set_value();
    };
    const auto call = pool_->call(server.origin(), get(), receiver);
    run_until([&] { return receiver.over(); });
    EXPECT_EQ(receiver.ended, !resets);
    EXPECT_EQ(receiver.body, resets ? "all of " : "all of it");
    EXPECT_EQ(receiver.fault, resets ? std::optional{kBroken} : std::nullopt);
    EXPECT_EQ(pool_->idle(), 0U);
  }
}

TEST_F(UpstreamTest, AnAnswerThatEndsTooEarlyIsBroken) {
  for (const std::string answer :
       {"", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfour", "HTTP/1.1 100 Go\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfour",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n0\r\n"}) {
    RawServer server{[&](Peer& peer) {
      peer.request();
      peer.send(answer);
    }};
    const Receiver got = fetch(server, get());
    EXPECT_EQ(got.fault, kBroken) << answer << got.message;
    EXPECT_EQ(server.connections(), 1);
  }
}

TEST_F(UpstreamTest, AnAnswerThatIsNotOneIsMalformed) {
  for (const std::string answer :
       {"SSH-2.0-OpenSSH\r\n\r\n", "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n"}) {
    RawServer server{[&](Peer& peer) {
      peer.request();
      peer.send(answer);
      peer.wait_for_end();
    }};
    const Receiver got = fetch(server, get());
    EXPECT_EQ(got.fault, kMalformed) << answer << got.message;
    EXPECT_EQ(pool_->idle(), 0U);
  }
}

TEST_F(UpstreamTest, DroppingACallClosesItsConnection) {
  for (const std::string said : {"", "HTTP/1.1 2", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
                                 "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"}) {
    std::atomic<bool> asked = false;
    std::promise<void> closed;
    RawServer server{[&](Peer& peer) {
      peer.request();
      peer.send(said);
      asked = true;
      peer.wait_for_end();
      closed.set_value();
    }};
    Receiver receiver;
    auto call = pool_->call(server.origin(), get(), receiver);
    poll_until([&] { return asked.load(); });
    call.reset();
    closed.get_future().wait();
    poll();
    EXPECT_FALSE(receiver.over());
  }
}

TEST_F(UpstreamTest, ACallMayBeDroppedBeforeAnythingHappened) {
  RawServer server{echo};
  Receiver receiver;
  pool_->call(server.origin(), get(), receiver).reset();
  poll();
  EXPECT_FALSE(receiver.over());
}

TEST_F(UpstreamTest, AReceiverMayDropItsCallInAnyCallback) {
  for (auto Receiver::* const callback :
       {&Receiver::at_head, &Receiver::at_body, &Receiver::at_end}) {
    std::promise<void> closed;
    RawServer server{[&](Peer& peer) {
      peer.request();
      peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n");
      peer.wait_for_end();
      closed.set_value();
    }};
    Receiver receiver;
    auto call = pool_->call(server.origin(), get(), receiver);
    bool dropped = false;
    receiver.*callback = [&] {
      call.reset();
      dropped = true;
    };
    run_until([&] { return dropped; });
    poll();
    EXPECT_EQ(receiver.ended, callback == &Receiver::at_end);
    EXPECT_EQ(pool_->idle(), receiver.ended ? 1U : 0U);
    pool_ = std::make_unique<UpstreamPool>(io_, time_, nullptr, Options{});
    closed.get_future().wait();
  }
}

TEST_F(UpstreamTest, APoolMayEndBeforeItsCalls) {
  RawServer server{[](Peer& peer) { peer.wait_for_end(); }};
  Receiver receiver;
  const auto call = pool_->call(server.origin(), get(), receiver);
  poll_until([&] { return server.connections() == 1; });
  pool_.reset();
  call->pause();
  call->resume();
  poll();
  EXPECT_FALSE(receiver.over());
}

TEST_F(UpstreamTest, SaysThatNobodyListens) {
  const Origin origin = [] {
    RawServer gone{[](Peer&) {}};
    return gone.origin();
  }();
  const Receiver got = fetch(origin, get());
  EXPECT_EQ(got.fault, kUnreachable);
  EXPECT_EQ(got.message, origin.authority + ": Connection refused");
}

TEST_F(UpstreamTest, SaysThatAHostHasNoAddress) {
  const Receiver got = fetch(*Origin::parse("http://no-such-host.invalid"), get());
  EXPECT_EQ(got.fault, kUnreachable);
  EXPECT_TRUE(got.message.starts_with("no-such-host.invalid: ")) << got.message;
}

// "localhost" is ::1 first on most machines, where this server does not listen.
TEST_F(UpstreamTest, TriesTheAddressesOfAHostInTurn) {
  RawServer server{echo};
  EXPECT_TRUE(fetch(server.origin("localhost"), get()).ended);
  EXPECT_TRUE(fetch(server.origin("localhost"), get()).ended);
  EXPECT_EQ(server.connections(), 1);
  pool_.reset();
}

TEST_F(UpstreamTest, ReachesAnIpv6Address) {
  RawServer server{echo, nullptr, AF_INET6};
  EXPECT_TRUE(fetch(server.origin("[::1]"), get()).ended);
  pool_.reset();
}

// The look-ups of a loop go one after the other: one that hangs must not end what is known.
TEST_F(UpstreamTest, OldAddressesDoWhileNewOnesAreLookedUp) {
  RawServer server{echo};
  const auto loop = std::make_shared<UpstreamLoop>(io_, time_, nullptr, Options{});
  const auto called = [&](UpstreamHost& host) {
    Receiver receiver;
    UpstreamExchange call{get(), receiver};
    loop->new_connection(host).post_connect(call);
    poll();
    run_until([&] { return receiver.over() || !host.waiting.empty(); });
    return receiver.ended;
  };
  UpstreamHost& host = loop->host_of(server.origin("old.invalid"));
  host.addresses.emplace_back(boost::asio::ip::address_v4::loopback(), server.port());
  host.fresh_until = time_.now();
  host.known_until = time_.now() + 1min;
  host.looking_up = true;
  EXPECT_TRUE(called(host));
  time_.advance(1min);
  loop->forget_hosts(time_.now());
  EXPECT_EQ(loop->hosts.size(), 1U) << "somebody is to tell it something";
  EXPECT_FALSE(called(host)) << "too old";
  while (!loop->connections.empty()) loop->connections.front()->close();
}

TEST_F(UpstreamTest, HostsThatNobodyCallsAnyMoreAreForgotten) {
  const auto loop = std::make_shared<UpstreamLoop>(io_, time_, nullptr, Options{});
  const auto host = [&](const char* url) -> UpstreamHost& {
    return loop->host_of(*Origin::parse(url));
  };
  EXPECT_EQ(&host("http://127.0.0.1:1"), &host("http://127.0.0.1:1"));
  EXPECT_NE(&host("http://a.example:443"), &host("https://a.example:443"));
  host("http://known.example").known_until = time_.now() + 1s;
  loop->new_connection(host("http://called.example"));
  EXPECT_EQ(loop->hosts.size(), 5U);
  loop->forget_hosts(time_.now());
  EXPECT_EQ(loop->hosts.size(), 2U);
  time_.advance(1s);
  loop->forget_hosts(time_.now());
  ASSERT_EQ(loop->hosts.size(), 1U);
  loop->connections.front()->close();
  loop->forget_hosts(time_.now());
  EXPECT_TRUE(loop->hosts.empty());
}

}  // namespace
}  // namespace weir::net
