// The row stream_first: how much later the first event of a stream comes through the proxy.
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <thread>

#include "daemon/sockets.h"
#include "proxy/proxies.h"
#include "proxy/rows.h"

namespace weir::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int kRounds = 5;
constexpr int kStreams = 200;  // a round
constexpr int kEvents = 8;
constexpr double kDelayMaxUs = 1'000;
constexpr double kDelayMinUs = 1;  // a difference may come out as nothing
constexpr auto kEventGap = std::chrono::microseconds{200};
constexpr std::string_view kLastChunk = "0\r\n\r\n";

[[noreturn]] void fail(const char* what) { die(std::string{what} + ": " + std::strerror(errno)); }

void send_all(int fd, std::string_view text) {
  if (send(fd, text.data(), text.size(), MSG_NOSIGNAL) != std::ssize(text)) fail("send");
}

void send_at_once(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

std::string chunk(std::string_view text) {
  std::array<char, 16> size;
  std::snprintf(size.data(), size.size(), "%zx\r\n", text.size());
  return size.data() + std::string{text} + "\r\n";
}

// Answers every request by a stream of events: head and first event at once, then the others. One
// thread, which serves one stream after the other.
class StreamUpstream {
 public:
  StreamUpstream() {
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    if (bind(listener_.fd(), generic(address), size) != 0 || listen(listener_.fd(), 16) != 0 ||
        getsockname(listener_.fd(), generic(address), &size) != 0) {
      fail("listen");
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread{[this](const std::stop_token& stop) { serve(stop); }};
  }
  std::uint16_t port() const { return port_; }

 private:
  struct Connection {
    int fd;
    Answer request = {};  // which has a Content-Length as answers have
  };

  void serve(const std::stop_token& stop) {
    constexpr int kStopMs = 50;
    std::vector<Connection> connections;
    while (!stop.stop_requested()) {
      std::vector<pollfd> polled{{.fd = listener_.fd(), .events = POLLIN, .revents = 0}};
      for (const Connection& connection : connections) {
        polled.push_back({.fd = connection.fd, .events = POLLIN, .revents = 0});
      }
      if (poll(polled.data(), polled.size(), kStopMs) < 0) fail("poll");
      for (std::size_t i = connections.size(); i > 0; --i) {
        if (polled[i].revents == 0 || read(connections[i - 1])) continue;
        close(connections[i - 1].fd);
        connections.erase(connections.begin() + static_cast<std::ptrdiff_t>(i - 1));
      }
      if (polled[0].revents != 0) {
        connections.push_back({accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC)});
        send_at_once(connections.back().fd);
      }
    }
    for (const Connection& connection : connections) close(connection.fd);
  }

  // False when the connection is over.
  static bool read(Connection& connection) {
    std::array<char, 4096> bytes;
    const ssize_t got = recv(connection.fd, bytes.data(), bytes.size(), 0);
    if (got <= 0) return false;
    connection.request.add({bytes.data(), static_cast<std::size_t>(got)});
    if (connection.request.whole()) {
      connection.request.clear();
      stream(connection.fd);
    }
    return true;
  }

  static void stream(int fd) {
    const std::string event =
        chunk(R"(data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","model":"gpt-4o",)"
              R"("choices":[{"index":0,"delta":{"content":"water"},"finish_reason":null}]})"
              "\n\n");
    send_all(fd,
             "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
             "Transfer-Encoding: chunked\r\n\r\n" +
                 event);
    for (int i = 1; i < kEvents; ++i) {
      std::this_thread::sleep_for(kEventGap);
      send_all(fd, event);
    }
    send_all(fd, chunk("data: [DONE]\n\n") + std::string{kLastChunk});
  }

  Socket listener_;
  std::uint16_t port_ = 0;
  std::jthread thread_;
};

class StreamClient {
 public:
  StreamClient(std::uint16_t port, const Call& call) : request_(call.http()) {
    sockaddr_in address = loopback(port);
    if (connect(socket_.fd(), generic(address), sizeof address) != 0) fail("connect");
    send_at_once(socket_.fd());
  }

  // Microseconds from the request to the first event, of one stream that is read to its end.
  double first_event_us() {
    std::string text;
    double first_us = 0;
    const auto begin = SteadyClock::now();
    send_all(socket_.fd(), request_);
    while (!text.ends_with(kLastChunk)) {
      std::array<char, 4096> bytes;
      const ssize_t got = recv(socket_.fd(), bytes.data(), bytes.size(), 0);
      if (got <= 0) die("a stream ended early: " + text);
      text.append(bytes.data(), static_cast<std::size_t>(got));
      if (first_us == 0 && text.contains("data: ")) {
        first_us = std::chrono::duration<double, std::micro>(SteadyClock::now() - begin).count();
      }
      if (text.size() > 64 * 1024) die("a stream does not end: " + text);
    }
    if (first_us == 0 || !text.starts_with("HTTP/1.1 200 ")) die("not a stream: " + text);
    return first_us;
  }

 private:
  std::string request_;
  Socket socket_;
};

}  // namespace

Row stream_first(const Settings& settings) {
  const std::filesystem::path scratch = empty_directory(settings);
  const StreamUpstream upstream;
  const Server weir = start_weir_proxy(settings, scratch, upstream.port());
  const std::string path = "/v1/chat/completions";
  StreamClient direct{upstream.port(), chat(path, /*stream=*/true)};
  StreamClient through{weir.port(), chat("/proxy/openai" + path, /*stream=*/true)};

  std::vector<double> delays_us;
  for (int i = 1; i <= kRounds; ++i) {
    std::vector<double> direct_us;
    std::vector<double> through_us;
    for (int stream = 0; stream < kStreams; ++stream) {
      direct_us.push_back(direct.first_event_us());
      through_us.push_back(through.first_event_us());
    }
    delays_us.push_back(median(through_us) - median(direct_us));
    note("first event, round " + std::to_string(i) + ": direct " + round(median(direct_us)) +
         " us, through Weir " + round(median(through_us)) + " us");
  }
  return smaller_is_better("stream_first", std::max(median(delays_us), kDelayMinUs), kDelayMaxUs,
                           "us", 1, "1 ms");
}

}  // namespace weir::bench
