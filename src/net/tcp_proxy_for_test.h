// TcpProxy: stands between a client and a server on 127.0.0.1 and makes trouble when told to.
//
// One thread does it all. The methods may be called by any thread, and hold for the connections
// that are there as well as for later ones.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "weir/time/system_clock.h"

namespace weir::net {

class TcpProxy {
 public:
  explicit TcpProxy(int to_port) : to_port_(to_port) {
    listener_ = new_socket();
    sockaddr_in address = local(0);
    socklen_t size = sizeof(address);
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_, raw, size) != 0 || ::listen(listener_, 64) != 0 ||
        ::getsockname(listener_, raw, &size) != 0) {
      throw std::runtime_error{"no port for a proxy"};
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread{[this](const std::stop_token& stop) { run(stop); }};
  }
  ~TcpProxy() {
    thread_.request_stop();
    thread_.join();
    for (Link& link : links_) close(link);
    ::close(listener_);
  }
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  int port() const { return port_; }

  // Whatever comes from either side is passed on this much later.
  void delay(Nanos by) { delay_ns_ = by.count(); }
  // Whatever comes is swallowed; the connections stay open.
  void drop(bool on) { dropping_ = on; }
  // Ends every connection by a reset.
  void cut() { ++cuts_; }
  // Ends the stream to the client once so many bytes have gone on it.
  void cut_after(std::int64_t bytes) { cut_after_ = bytes; }
  // Ends new connections at once.
  void refuse(bool on) { refusing_ = on; }
  // New connections go to another server.
  void switch_to(int port) { to_port_ = port; }

  int accepted() const { return accepted_; }

 private:
  struct Piece {
    Instant due;
    std::string bytes;
  };
  struct Link {
    std::array<int, 2> sockets;                        // client, server
    std::array<std::deque<Piece>, 2> on_the_way = {};  // to the client, to the server
    std::int64_t answered = 0;
    bool ended = false;  // the stream to the client
    bool over = false;
  };

  static sockaddr_in local(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  static int new_socket() { return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }

  static void close(Link& link) {
    const linger at_once{1, 0};
    for (const int socket : link.sockets) {
      ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
      ::close(socket);
    }
  }

  void run(const std::stop_token& stop) {
    int cuts = 0;
    while (!stop.stop_requested()) {
      std::vector<pollfd> polled{{listener_, POLLIN, 0}};
      for (const Link& link : links_) {
        for (const int socket : link.sockets) polled.push_back({socket, POLLIN, 0});
      }
      ::poll(polled.data(), polled.size(), 1);
      if (polled.front().revents != 0) accept();
      const bool cut = std::exchange(cuts, cuts_.load()) != cuts_;
      std::size_t at = 1;
      for (Link& link : links_) {
        if (at >= polled.size()) break;  // a new one
        for (std::size_t side = 0; side < 2; ++side) {
          if (polled[at++].revents != 0) receive(link, side);
        }
        link.over |= cut;
      }
      for (Link& link : links_) {
        pass_on(link);
        if (link.over) close(link);
      }
      std::erase_if(links_, [](const Link& link) { return link.over; });
    }
  }

  void accept() {
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    Link link{{client, new_socket()}};
    sockaddr_in server = local(to_port_);
    ++accepted_;
    if (refusing_ ||
        ::connect(link.sockets[1], reinterpret_cast<sockaddr*>(&server), sizeof(server)) != 0) {
      return close(link);
    }
    links_.push_back(std::move(link));
  }

  void receive(Link& link, std::size_t side) {
    std::array<char, 64 * 1024> bytes;
    const auto got = ::recv(link.sockets[side], bytes.data(), bytes.size(), 0);
    if (got <= 0) {
      link.over = true;
    } else if (!dropping_) {
      link.on_the_way[1 - side].push_back(
          {clock_.now() + Nanos{delay_ns_}, {bytes.data(), static_cast<std::size_t>(got)}});
    }
  }

  void pass_on(Link& link) {
    for (std::size_t side = 0; side < 2; ++side) {
      auto& pieces = link.on_the_way[side];
      while (!pieces.empty() && pieces.front().due <= clock_.now() && !link.over) {
        std::string_view bytes = pieces.front().bytes;
        const bool ends = side == 0 && link.answered + std::ssize(bytes) > cut_after_;
        if (link.ended) bytes = {};
        if (ends) bytes = bytes.substr(0, static_cast<std::size_t>(cut_after_ - link.answered));
        if (side == 0) link.answered += std::ssize(bytes);
        while (!bytes.empty()) {
          const auto sent = ::send(link.sockets[side], bytes.data(), bytes.size(), MSG_NOSIGNAL);
          if (sent <= 0) break;
          bytes.remove_prefix(static_cast<std::size_t>(sent));
        }
        if (ends) {
          link.ended = true;
          ::shutdown(link.sockets[0], SHUT_WR);
        }
        pieces.pop_front();
      }
    }
  }

  std::atomic<int> to_port_;
  const MonotonicClock clock_;
  int listener_ = -1;
  int port_ = 0;
  std::list<Link> links_;
  std::atomic<std::int64_t> delay_ns_ = 0;
  std::atomic<bool> dropping_ = false;
  std::atomic<bool> refusing_ = false;
  std::atomic<int> cuts_ = 0;
  std::atomic<std::int64_t> cut_after_ = std::int64_t{1} << 60;
  std::atomic<int> accepted_ = 0;
  std::jthread thread_;
};

}  // namespace weir::net
