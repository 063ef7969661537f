// A listener in stepped time with a few handlers, and clients whose every byte is written by hand.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "net/http_head.h"
#include "server/listener.h"
#include "weir/time/simulated_time.h"

namespace weir::server {

// How long a test waits, on the real clock, for what must happen.
inline constexpr int kPatienceMs = 20'000;

struct Answer {
  int status = 0;  // 0: the connection ended first
  std::string head;
  std::string body;

  bool has(std::string_view text) const { return head.find(text) != std::string::npos; }
};

class RawClient {
 public:
  // `receive_bytes`: the size of the socket's buffer, where it is to be small.
  explicit RawClient(std::uint16_t port, int receive_bytes = 0) {
    if (receive_bytes != 0) {
      setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    }
    const int at_once = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawClient() { close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  void half_close() { shutdown(socket_, SHUT_WR); }
  void reset() {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
  }

  // False if the server has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  // As much as the server takes without our reading.
  std::size_t send_what_fits(std::string_view bytes, int patience_ms) {
    std::size_t all = 0;
    pollfd writable{socket_, POLLOUT, 0};
    while (all < bytes.size() && poll(&writable, 1, patience_ms) == 1) {
      const auto sent =
          ::send(socket_, bytes.data() + all, bytes.size() - all, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent <= 0) break;
      all += static_cast<std::size_t>(sent);
    }
    return all;
  }

  // Waits for bytes; false at the end of the connection.
  bool receive(std::size_t at_most = 64 * 1024) {
    pollfd readable{socket_, POLLIN, 0};
    if (poll(&readable, 1, kPatienceMs) != 1) {
      ADD_FAILURE() << "the server is silent; so far: " << text_.substr(0, 1000);
      return false;
    }
    std::array<char, 64 * 1024> bytes;
    const auto got = recv(socket_, bytes.data(), std::min(at_most, bytes.size()), 0);
    if (got <= 0) return false;
    text_.append(bytes.data(), static_cast<std::size_t>(got));
    return true;
  }
  // Nothing has come.
  bool silent() {
    pollfd readable{socket_, POLLIN, 0};
    return text_.empty() && poll(&readable, 1, 0) == 0;
  }

  // `size` bytes, or fewer at the end of the connection.
  std::string bytes(std::size_t size) {
    while (text_.size() < size && receive(size - text_.size())) {
    }
    size = std::min(size, text_.size());
    std::string front = text_.substr(0, size);
    text_.erase(0, size);
    return front;
  }
  std::string until(std::string_view end) {
    std::size_t at;
    while ((at = text_.find(end)) == std::string::npos) {
      if (!receive()) return std::exchange(text_, {});
    }
    return bytes(at + end.size());
  }
  std::string until_closed() {
    while (receive()) {
    }
    return std::exchange(text_, {});
  }

  Answer answer(std::string_view method = "GET") {
    Answer answer;
    answer.head = until("\r\n\r\n");
    const auto head = net::parse_response_head(answer.head, method);
    if (!head) return answer;
    answer.status = head->status;
    if (!head->body.until_close) answer.body = bytes(head->body.length);
    return answer;
  }
  Answer call(std::string_view request) {
    send(request);
    return answer();
  }
  Answer get(const std::string& path) {
    return call("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }

 private:
  int socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool connected_ = false;
  std::string text_;
};

// Stops it, stepping time until all connections have been given up.
inline void stop_stepping(Listener& listener, SimulatedTime& time) {
  std::atomic<bool> done = false;
  std::jthread stopping{[&] {
    listener.stop();
    done = true;
  }};
  while (!done) {
    time.advance(std::chrono::seconds{1});
    std::this_thread::yield();
  }
}

// GET /hello, /large (100 KB), /huge (4 MiB), /later, /stream; POST /echo.
class ServerTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kLarge = 100'000;
  static constexpr std::size_t kHuge = 4 * 1024 * 1024;

  ServerTest() {
    text("/hello", "hello");
    text("/large", std::string(kLarge, 'l'));
    text("/huge", std::string(kHuge, 'h'));
    route("POST", "/echo", [](const HttpRequest& http, Responder& responder) {
      responder.reply({.body = http.body, .content_type = "text/plain"});
    });
    route("GET", "/later", [this](const HttpRequest&, Responder& responder) {
      Later later = responder.later([this] { note([&] { ++gone_; }); });
      note([&] { laters_.push_back(std::move(later)); });
    });
    router.add({.method = "GET",
                .pattern = "/stream",
                .need = Need::kNothing,
                .handler =
                    [this](const HttpRequest&, Responder& responder) {
                      auto stream =
                          responder.stream("text/event-stream", [this] { note([&] { ++gone_; }); });
                      note([&] { streams_.push_back(std::move(stream)); });
                    },
                .streams = true});
  }
  ~ServerTest() override {
    laters_.clear();
    streams_.clear();
    if (listener) stop();
  }

  void start(Listener::Options options = {}) {
    options.listen = {.host = "127.0.0.1", .port = 0};
    auto opened = Listener::open(options, router, time.source(), log);
    ASSERT_TRUE(opened) << opened.error().message;
    listener = std::move(*opened);
    port = listener->port();
    loops_ = options.threads;
    listener->start();
  }
  void stop() { stop_stepping(*listener, time); }

  // What was sent before has been read: a loop serves its sockets in the order of their bytes, a
  // buffer of them at a time; connections go to the loops in turn.
  void until_read(int buffers = 20) {
    for (unsigned loop = 0; loop < loops_; ++loop) {
      RawClient other{port};
      for (int i = 0; i < buffers; ++i) EXPECT_EQ(other.get("/hello").status, 200);
    }
  }

  Later take_later() {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return !laters_.empty(); });
    Later later = std::move(laters_.back());
    laters_.pop_back();
    return later;
  }
  std::shared_ptr<Stream> take_stream() {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return !streams_.empty(); });
    auto stream = std::move(streams_.back());
    streams_.pop_back();
    return stream;
  }
  void until_gone(int wanted) {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return gone_ >= wanted; });
    EXPECT_EQ(gone_, wanted);
  }
  int gone() {
    const std::lock_guard lock{mutex_};
    return gone_;
  }
  void until_connections(std::size_t wanted) {
    while (listener->counts().connections != wanted) std::this_thread::yield();
  }

  void route(std::string method, std::string path, Router::Handler handler) {
    router.add({.method = std::move(method),
                .pattern = std::move(path),
                .need = Need::kNothing,
                .handler = [this, handler](const HttpRequest& http, Responder& responder) {
                  ++dispatched;
                  handler(http, responder);
                }});
  }

  SimulatedTime time;
  Log log{-1, Log::Format::kText, time};
  Access access{MainConfig{}};
  Router router{access};
  std::atomic<std::size_t> dispatched = 0;  // of all but streams
  std::unique_ptr<Listener> listener;
  std::uint16_t port = 0;

 private:
  void text(std::string path, std::string body) {
    route("GET", std::move(path), [body](const HttpRequest&, Responder& responder) {
      responder.reply({.body = body, .content_type = "text/plain"});
    });
  }
  template <class F>
  void note(F change) {
    {
      const std::lock_guard lock{mutex_};
      change();
    }
    changed_.notify_all();
  }

  unsigned loops_ = 1;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Later> laters_;
  std::vector<std::shared_ptr<Stream>> streams_;
  int gone_ = 0;
};

}  // namespace weir::server
