#include "daemon/clients.h"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "harness.h"

namespace weir::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int kSilenceMaxMs = 30'000;

[[noreturn]] void fail(const char* what) { die(std::string{what} + ": " + std::strerror(errno)); }

}  // namespace

Clients::Clients(std::uint16_t port, std::size_t count)
    : poll_(epoll_create1(EPOLL_CLOEXEC)), clients_(count) {
  sockaddr_in address = loopback(port);
  for (std::size_t i = 0; i < count; ++i) {
    const int fd = clients_[i].socket.fd();
    if (connect(fd, generic(address), sizeof address) != 0) fail("connect");
    epoll_event event{.events = EPOLLIN, .data = {.u64 = i}};
    if (epoll_ctl(poll_, EPOLL_CTL_ADD, fd, &event) != 0) fail("epoll");
  }
}

void Clients::send(const std::string& request) {
  for (const Client& client : clients_) {
    const ssize_t sent = ::send(client.socket.fd(), request.data(), request.size(), MSG_NOSIGNAL);
    if (sent != std::ssize(request)) fail("send");
  }
}

std::vector<double> Clients::receive(SteadyClock::time_point begin) {
  std::vector<double> arrivals;
  arrivals.reserve(clients_.size());
  std::array<epoll_event, 256> events;
  while (arrivals.size() < clients_.size()) {
    const int ready = epoll_wait(poll_, events.data(), events.size(), kSilenceMaxMs);
    if (ready < 0) fail("epoll");
    if (ready == 0) die("some clients are never answered");
    for (std::size_t i = 0; i < static_cast<std::size_t>(ready); ++i) {
      if (!read(clients_[events[i].data.u64])) continue;
      const std::chrono::duration<double, std::milli> after = SteadyClock::now() - begin;
      arrivals.push_back(after.count());
    }
  }
  return arrivals;
}

bool Clients::read(Client& client) {
  std::array<char, 4096> bytes;
  const ssize_t got = recv(client.socket.fd(), bytes.data(), bytes.size(), 0);
  if (got < 0) fail("recv");
  if (got == 0) die("the server closed a connection");
  client.answer.add({bytes.data(), static_cast<std::size_t>(got)});
  if (!client.answer.whole()) return false;
  if (!client.answer.ok()) die("a client was refused: " + std::string{client.answer.text()});
  client.answer.clear();
  return true;
}

}  // namespace weir::bench
