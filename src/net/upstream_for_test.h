// For tests of the upstream side: a raw server on real sockets, and a client of the pool whose time
// is stepped.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "net/http_head.h"
#include "net/tls.h"
#include "net/upstream.h"
#include "weir/time/simulated_time.h"

namespace weir::net {

// One connection as the server sees it; it blocks. Closed at its end.
class Peer {
 public:
  Peer(int socket, SSL_CTX* tls, int number) : socket_(socket), number_(number) {
    if (tls == nullptr) return;
    ssl_.reset(SSL_new(tls));
    SSL_set_fd(ssl_.get(), socket_);
    shaken_ = SSL_accept(ssl_.get()) == 1;
  }
  ~Peer() { close(); }

  int number() const { return number_; }  // of the connection, from 0
  bool shaken() const { return shaken_; }
  bool resumed() const { return SSL_session_reused(ssl_.get()) == 1; }

  // False if the client is gone.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto sent = ssl_ != nullptr
                            ? SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()))
                            : ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  // Head and body of the next request; empty if the client has closed.
  std::string request() {
    for (;;) {
      if (const auto end = find_head_end(unread_)) {
        const auto head = parse_request_head(std::string_view{unread_}.substr(0, *end));
        if (!head) ADD_FAILURE() << "the client sent " << unread_;
        const std::size_t size = *end + (head ? head->body.length : 0);
        if (unread_.size() >= size) {
          std::string whole = unread_.substr(0, size);
          unread_.erase(0, size);
          return whole;
        }
      }
      if (!receive()) return {};
    }
  }
  // Reads until the client closes.
  void wait_for_end() {
    while (receive()) unread_.clear();
  }

  // How much of `size` bytes the client takes before it has taken none for a while.
  std::size_t send_until_stalled(std::size_t size) {
    const std::string piece(64 * 1024, 'x');
    std::size_t sent = 0;
    while (sent < size) {
      pollfd one{socket_, POLLOUT, 0};
      if (::poll(&one, 1, 300) <= 0) break;
      const auto took = ::send(socket_, piece.data(), std::min(piece.size(), size - sent),
                               MSG_NOSIGNAL | MSG_DONTWAIT);
      if (took > 0) sent += static_cast<std::size_t>(took);
    }
    return sent;
  }

  // close_notify, and no end of the connection.
  void end_tls() { SSL_shutdown(ssl_.get()); }
  void reset() {
    const linger at_once{1, 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close();
  }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }

 private:
  bool receive() {
    std::array<char, 16 * 1024> bytes;
    const auto size = ssl_ != nullptr
                          ? SSL_read(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()))
                          : ::recv(socket_, bytes.data(), bytes.size(), 0);
    if (size > 0) unread_.append(bytes.data(), static_cast<std::size_t>(size));
    return size > 0;
  }

  int socket_;
  const int number_;
  Ssl ssl_;
  bool shaken_ = true;
  std::string unread_;
};

// Plays `script` on each connection, all at once.
class RawServer {
 public:
  using Script = std::function<void(Peer&)>;

  explicit RawServer(Script script, SSL_CTX* tls = nullptr, int family = AF_INET)
      : script_(std::move(script)), tls_(tls), listener_(::socket(family, SOCK_STREAM, 0)) {
    sockaddr_in6 address{};
    address.sin6_family = static_cast<sa_family_t>(family);
    if (family == AF_INET6) address.sin6_addr = in6addr_loopback;
    if (family == AF_INET) {
      reinterpret_cast<sockaddr_in&>(address).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    }
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    EXPECT_EQ(::bind(listener_, generic, size), 0);
    EXPECT_EQ(::listen(listener_, 64), 0);
    EXPECT_EQ(::getsockname(listener_, generic, &size), 0);
    port_ = ntohs(address.sin6_port);
    thread_ = std::jthread{[this] { run(); }};
  }
  ~RawServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    for (auto& one : threads_) one.join();
    ::close(listener_);
  }

  std::uint16_t port() const { return port_; }
  Origin origin(const std::string& host = "127.0.0.1") const {
    return *Origin::parse((tls_ == nullptr ? "http://" : "https://") + host + ":" +
                          std::to_string(port_));
  }
  int connections() const { return accepted_; }

 private:
  void run() {
    for (;;) {
      const int socket = ::accept(listener_, nullptr, nullptr);
      if (socket < 0) return;
      threads_.emplace_back([this, socket, number = accepted_++] {
        // OpenSSL's sockets raise it; in the client's thread it stays deadly.
        sigset_t signals;
        sigemptyset(&signals);
        sigaddset(&signals, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &signals, nullptr);
        Peer peer{socket, tls_, number};
        if (peer.shaken()) script_(peer);
      });
    }
  }

  const Script script_;
  SSL_CTX* const tls_;
  const int listener_;
  std::uint16_t port_ = 0;
  std::atomic<int> accepted_ = 0;
  std::list<std::jthread> threads_;
  std::jthread thread_;
};

// Keeps what it gets, and calls what a test wants to happen then.
class Receiver final : public UpstreamReceiver {
 public:
  int status = 0;
  std::string reason;
  std::string kind;  // X-Kind
  std::string body;
  std::size_t bytes = 0;  // of the body
  bool ended = false;
  bool keeps_body = true;
  std::optional<UpstreamFault> fault;
  std::string message;
  std::function<void()> at_head, at_body, at_end;

  bool over() const { return ended || fault; }

 private:
  void on_head(const ResponseHead& head) override {
    EXPECT_EQ(status, 0) << "a second head";
    status = head.status;
    reason = head.reason;
    kind = head.fields.find("X-Kind").value_or("");
    if (at_head) at_head();
  }
  void on_body(std::string_view piece) override {
    EXPECT_TRUE(status != 0 && !over() && !piece.empty());
    bytes += piece.size();
    if (keeps_body) body += piece;
    if (at_body) at_body();
  }
  void on_end() override {
    EXPECT_TRUE(status != 0 && !over());
    ended = true;
    if (at_end) at_end();
  }
  void on_failure(UpstreamFault the_fault, std::string_view the_message) override {
    EXPECT_FALSE(over());
    fault = the_fault;
    message = the_message;
  }
};

class UpstreamTest : public testing::Test {
 protected:
  using Options = UpstreamPool::Options;
  using Request = UpstreamPool::Request;

  void make_pool(Options options, std::shared_ptr<TlsClient> tls = nullptr) {
    pool_ = std::make_unique<UpstreamPool>(io_, time_, std::move(tls), options);
  }

  static Request get(const std::string& target = "/") {
    return {.method = "GET", .head = "GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n"};
  }
  static Request post(std::string body) {
    return {.method = "POST",
            .head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(body.size()) +
                    "\r\n\r\n",
            .body = std::move(body)};
  }

  // Runs the loop until `done`; a real server is awaited, so with a generous bound.
  void run_until(const std::function<bool()>& done) {
    while (!done()) {
      io_.restart();
      if (io_.run_one_for(std::chrono::seconds{20}) == 0) {
        FAIL() << "nothing happens any more";
      }
    }
  }
  void poll() {
    io_.restart();
    io_.poll();
  }
  // For what the loop does not hear of.
  void poll_until(const std::function<bool()>& done) {
    while (!done()) {
      poll();
      std::this_thread::yield();
    }
  }
  Receiver fetch(const Origin& origin, Request request) {
    Receiver receiver;
    const auto call = pool_->call(origin, std::move(request), receiver);
    EXPECT_FALSE(receiver.over() || receiver.status != 0) << "called back inside call()";
    run_until([&] { return receiver.over(); });
    return receiver;
  }
  Receiver fetch(const RawServer& server, Request request) {
    return fetch(server.origin(), std::move(request));
  }
  void step(Nanos by) {
    time_.advance(by);
    pool_->sweep();
  }

  SimulatedTime time_;
  boost::asio::io_context io_{1};
  std::unique_ptr<UpstreamPool> pool_ =
      std::make_unique<UpstreamPool>(io_, time_, nullptr, Options{});
};

inline std::string answer_of(const std::string& body, const std::string& fields = "") {
  return "HTTP/1.1 200 OK\r\n" + fields + "Content-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

}  // namespace weir::net
