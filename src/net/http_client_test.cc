// The client against a scripted server on a real socket of this machine.
#include "net/http_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "net/http_head.h"
#include "weir/time/system_clock.h"

namespace weir::net {
namespace {

using namespace std::chrono_literals;

// Answers request by request from a script, one list of answers a connection, and closes a
// connection whose answers are used up; one it holds is closed after the client has.
class ScriptedServer {
 public:
  using Script = std::vector<std::vector<std::string>>;
  static constexpr auto kNothing = "(no answer)";
  static constexpr auto kHold = "(no answer, and no end)";

  explicit ScriptedServer(Script script) : script_(std::move(script)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener_, generic, size), 0);
    EXPECT_EQ(listen(listener_, 8), 0);
    EXPECT_EQ(getsockname(listener_, generic, &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread{[this] { run(); }};
  }
  ~ScriptedServer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }

  HttpClient::Options options() const { return {.host = "127.0.0.1", .port = port_}; }
  std::string name() const { return "127.0.0.1:" + std::to_string(port_); }
  // On the connection that was accepted last.
  void say(std::string_view bytes) {
    const std::lock_guard lock{mutex_};
    send_all(client_, bytes);
  }
  std::vector<std::string> requests() const {
    const std::lock_guard lock{mutex_};
    return requests_;
  }

 private:
  void run() {
    for (const auto& answers : script_) {
      const int client = accept(listener_, nullptr, nullptr);
      if (client < 0) return;
      set_client(client);
      for (const auto& answer : answers) {
        if (!receive_request(client) || answer == kNothing) break;
        char byte = 0;
        if (answer == kHold) recv(client, &byte, 1, 0);
        send_all(client, answer);
      }
      set_client(-1);
      close(client);
    }
  }

  void set_client(int client) {
    const std::lock_guard lock{mutex_};
    client_ = client;
  }

  static void send_all(int client, std::string_view bytes) {
    while (!bytes.empty()) {
      const auto sent = send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  bool receive_request(int client) {
    std::string request;
    for (;;) {
      if (const auto end = find_head_end(request)) {
        const auto head = parse_request_head(std::string_view{request}.substr(0, *end));
        if (!head) ADD_FAILURE() << "the client sent " << request;
        if (!head) return false;
        if (request.size() == *end + head->body.length) break;
      }
      std::array<char, 1'000> bytes;
      const auto size = recv(client, bytes.data(), bytes.size(), 0);
      if (size <= 0) return false;
      request.append(bytes.data(), static_cast<std::size_t>(size));
    }
    const std::lock_guard lock{mutex_};
    requests_.push_back(std::move(request));
    return true;
  }

  const Script script_;
  const int listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int client_ = -1;
  std::uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  std::jthread thread_;
};

std::string answer(const std::string& body) {
  return "HTTP/1.1 200 OK\r\nX-Kind: test\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

TEST(HttpClient, GetsAnAnswer) {
  ScriptedServer server{{{answer("hello")}}};
  HttpClient client{server.options()};
  const auto response = client.get("/v1/resources?all=1");
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(response->field("x-KIND"), "test");
  EXPECT_EQ(response->field("x-none"), "");
  EXPECT_EQ(response->body, "hello");
  EXPECT_EQ(server.requests()[0],
            "GET /v1/resources?all=1 HTTP/1.1\r\nHost: " + server.name() + "\r\n\r\n");
}

TEST(HttpClient, SendsBodyTokenAndFields) {
  ScriptedServer server{{{answer(""), answer("")}}};
  auto options = server.options();
  options.token = "t0ken";
  HttpClient client{options};
  ASSERT_TRUE(client.call(
      {.method = "PUT", .target = "/a", .body = "{}", .fields = {{"X-Weir-Agent", "planner"}}}));
  ASSERT_TRUE(client.post("/b", ""));
  EXPECT_EQ(server.requests()[0], "PUT /a HTTP/1.1\r\nHost: " + server.name() +
                                      "\r\nAuthorization: Bearer t0ken\r\n"
                                      "Content-Type: application/json\r\nContent-Length: 2\r\n"
                                      "X-Weir-Agent: planner\r\n\r\n{}");
  EXPECT_EQ(server.requests()[1], "POST /b HTTP/1.1\r\nHost: " + server.name() +
                                      "\r\nAuthorization: Bearer t0ken\r\n"
                                      "Content-Length: 0\r\n\r\n");
}

TEST(HttpClient, KeepsTheConnectionThroughEveryKindOfAnswer) {
  ScriptedServer server{{{
      answer("one"),
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
      "2\r\ntw\r\n1;x\r\no\r\n0\r\nX: y\r\n\r\n",
      "HTTP/1.1 204 No Content\r\n\r\n",
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429 Slow\r\nContent-Length: 4\r\n\r\nfour",
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
      "HTTP/1.1 200 OK\r\n\r\nuntil the end",
  }}};
  HttpClient client{server.options()};
  EXPECT_EQ(client.get("/1")->body, "one");
  EXPECT_EQ(client.get("/2")->body, "two");
  EXPECT_EQ(client.get("/3")->status, 204);
  const auto fourth = client.get("/4");
  EXPECT_EQ(fourth->status, 429);
  EXPECT_EQ(fourth->body, "four");
  EXPECT_EQ(client.call({.method = "HEAD"})->body, "");
  EXPECT_EQ(client.get("/6")->body, "until the end");
}

TEST(HttpClient, OpensTheConnectionAnewWhenItWasClosed) {
  ScriptedServer server{{
      {answer("one")},  // closed without a word
      {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\ntwo", answer("")},
      {answer("three") + "HTTP/1.1 408 Late\r\n\r\n", answer("")},  // unasked for
      {answer("four")},
  }};
  HttpClient client{server.options()};
  for (const std::string body : {"one", "two", "three", "four"}) {
    const auto response = client.get("/" + body);
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(response->body, body);
  }
  EXPECT_EQ(server.requests().size(), 4U);
}

TEST(HttpClient, TakesNothingUnaskedForAsTheNextAnswer) {
  ScriptedServer server{{{answer("one"), ScriptedServer::kHold}, {answer("two")}}};
  HttpClient client{server.options()};
  EXPECT_EQ(client.get("/1")->body, "one");
  server.say("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(client.get("/2")->body, "two");
}

TEST(HttpClient, TriesAgainWhenAReusedConnectionEndsWithoutAByte) {
  ScriptedServer server{{{answer("one"), ScriptedServer::kNothing}, {answer("two")}}};
  HttpClient client{server.options()};
  EXPECT_EQ(client.get("/1")->body, "one");
  EXPECT_EQ(client.post("/2", "{}")->body, "two");
  EXPECT_EQ(server.requests().size(), 3U);
}

TEST(HttpClient, DoesNotTryAgainOnceAByteCameOrOnAFreshConnection) {
  ScriptedServer server{{{answer("one"), "H"}, {ScriptedServer::kNothing}, {answer("four")}}};
  HttpClient client{server.options()};
  EXPECT_EQ(client.get("/1")->body, "one");
  EXPECT_EQ(client.post("/2", "{}").error().code, Errc::kUnavailable);
  EXPECT_EQ(client.post("/3", "{}").error().code, Errc::kUnavailable);
  EXPECT_EQ(client.get("/4")->body, "four");
  EXPECT_EQ(server.requests().size(), 4U);
}

TEST(HttpClient, SaysWhichServerDidNotAnswerInTime) {
  ScriptedServer server{
      {{ScriptedServer::kHold}, {answer("one"), ScriptedServer::kHold}, {answer("two")}}};
  HttpClient client{server.options()};
  for (const auto first_is_good : {false, true}) {
    if (first_is_good) {
      EXPECT_EQ(client.get("/")->body, "one");
    }
    const auto late = client.call({.timeout = 20ms});
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code, Errc::kDeadlineExceeded);
    EXPECT_TRUE(late.error().message.contains(server.name())) << late.error().message;
  }
  EXPECT_EQ(client.get("/")->body, "two");
}

TEST(HttpClient, SaysWhichServerIsNotThere) {
  const auto nobody = [] {
    ScriptedServer gone{{}};
    return gone.options();
  }();
  const auto response = HttpClient{nobody}.get("/");
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Errc::kUnavailable);
  EXPECT_TRUE(response.error().message.contains("127.0.0.1:" + std::to_string(nobody.port)));
}

TEST(HttpClient, TriesEveryAddressOfAName) {
  ScriptedServer server{{{answer("hello")}}};
  auto options = server.options();
  options.host = "localhost";  // ::1 as well, where it is known
  EXPECT_EQ(HttpClient{options}.get("/")->body, "hello");
}

TEST(HttpClient, RefusesAnswersThatAreNotHttp) {
  for (const std::string bytes :
       {"SSH-2.0-OpenSSH\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello",
        "HTTP/1.1 101 Switching\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", "HTTP/1.1 200 OK\r\n"}) {
    ScriptedServer server{{{bytes}}};
    const auto response = HttpClient{server.options()}.get("/");
    ASSERT_FALSE(response) << bytes;
    EXPECT_EQ(response.error().code, Errc::kUnavailable) << bytes;
  }
}

TEST(HttpClient, BoundsTheBody) {
  ScriptedServer server{{{"HTTP/1.1 200 OK\r\n\r\n" + std::string((64 << 20) + 1, 'x')}}};
  const auto response = HttpClient{server.options()}.get("/");
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Errc::kUnavailable);
}

TEST(HttpClient, SendsNothingThatWouldReadAsSomethingElse) {
  ScriptedServer server{{{answer("")}}};
  HttpClient client{server.options()};
  const HttpClient::Call calls[] = {
      {.target = "/ HTTP/1.1\r\nX: y\r\n\r\nGET /"},
      {.target = "/a b"},
      {.target = ""},
      {.method = "GET /"},
      {.method = ""},
      {.fields = {{"X", "y\r\nZ: z"}}},
      {.fields = {{"X: y\r\nZ", "z"}}},
      {.fields = {{"", "z"}}},
  };
  for (const auto& call : calls) {
    const auto response = client.call(call);
    ASSERT_FALSE(response);
    EXPECT_EQ(response.error().code, Errc::kCallFailed);
  }
  EXPECT_TRUE(server.requests().empty());
}

TEST(HttpClient, StreamsUntilTheServerEnds) {
  ScriptedServer server{
      {{"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        "Transfer-Encoding: chunked\r\n\r\n3\r\na\n\n\r\n3\r\nb\n\n\r\n0\r\n\r\n",
        answer("next")}}};
  HttpClient client{server.options()};
  std::string seen;
  const auto head = client.stream({.target = "/v1/events"}, [&](std::string_view bytes) {
    seen += bytes;
    return true;
  });
  ASSERT_TRUE(head);
  EXPECT_EQ(head->field("Content-Type"), "text/event-stream");
  EXPECT_EQ(head->body, "");
  EXPECT_EQ(seen, "a\n\nb\n\n");
  EXPECT_EQ(client.get("/")->body, "next");
}

TEST(HttpClient, StreamsUntilTheCallerHasEnough) {
  const std::string endless = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nevent\r\n";
  ScriptedServer server{{{endless, ScriptedServer::kHold}, {answer("next")}}};
  HttpClient client{server.options()};
  int calls = 0;
  EXPECT_TRUE(client.stream({}, [&](std::string_view) { return ++calls > 1; }));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(client.get("/")->body, "next");
}

TEST(HttpClient, StreamsForLongerThanTheSilenceItBears) {
  constexpr int kEvents = 12;
  constexpr auto kSilence = 1s;
  const MonotonicClock clock;
  for (bool in_time = false; !in_time;) {  // a busy machine may be silent for longer
    ScriptedServer quiet{ScriptedServer::Script(kEvents, {ScriptedServer::kHold})};
    ScriptedServer server{{{"HTTP/1.1 200 OK\r\n\r\n.", ScriptedServer::kHold}}};
    std::jthread speaker;
    std::string seen;
    HttpClient client{server.options()};
    Instant last = clock.now();
    Nanos longest{0};
    const auto speak = [&] {
      for (int i = 0; i < kEvents; ++i) {
        EXPECT_FALSE(HttpClient{quiet.options()}.call({.timeout = 100ms}));  // passes the time
        const Instant now = clock.now();
        server.say(".");
        longest = std::max(longest, clock.now() - std::exchange(last, now));
      }
    };
    const auto head = client.stream({.timeout = kSilence}, [&](std::string_view bytes) {
      if (seen.empty()) speaker = std::jthread{speak};
      seen += bytes;
      return seen.size() <= kEvents;
    });
    if (seen.empty()) longest = clock.now() - last;
    if (speaker.joinable()) speaker.join();
    in_time = longest < kSilence;
    EXPECT_TRUE(head || !in_time) << head.error().message;
  }
}

TEST(HttpClient, StreamsUntilTheSilenceIsTooLong) {
  std::string seen;
  while (seen.empty()) {  // a busy machine may be silent before
    ScriptedServer server{{{"HTTP/1.1 200 OK\r\n\r\nevent", ScriptedServer::kHold}}};
    HttpClient client{server.options()};
    const auto head = client.stream({.timeout = 1s}, [&](std::string_view bytes) {
      seen += bytes;
      return true;
    });
    ASSERT_FALSE(head);
    EXPECT_EQ(head.error().code, Errc::kDeadlineExceeded);
  }
  EXPECT_EQ(seen, "event");
}

}  // namespace
}  // namespace weir::net
