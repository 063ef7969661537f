#include "proxy/open_loop.h"

#include <sys/epoll.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "daemon/sockets.h"
#include "harness.h"

namespace weir::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;
using Nanoseconds = std::chrono::nanoseconds;

constexpr Nanoseconds kSilenceMax = std::chrono::seconds{10};

[[noreturn]] void fail(const char* what) { die(std::string{what} + ": " + std::strerror(errno)); }

class OpenLoop {
 public:
  OpenLoop(std::uint16_t port, std::string request, std::size_t connections)
      : request_(std::move(request)), clients_(connections) {
    sockaddr_in address = loopback(port);
    for (Client& client : clients_) {
      const int fd = client.socket.fd();
      if (connect(fd, generic(address), sizeof address) != 0) fail("connect");
      epoll_event event{.events = EPOLLIN, .data = {.ptr = &client}};
      if (epoll_ctl(poll_, EPOLL_CTL_ADD, fd, &event) != 0) fail("epoll");
      idle_.push_back(&client);
    }
  }
  OpenLoop(const OpenLoop&) = delete;
  OpenLoop& operator=(const OpenLoop&) = delete;
  ~OpenLoop() { close(poll_); }

  std::vector<double> run(std::size_t count, Nanoseconds interval) {
    std::vector<double> took_us;
    took_us.reserve(count);
    const auto begin = SteadyClock::now();
    std::size_t sent = 0;
    while (took_us.size() < count) {
      const auto due = [&] { return begin + static_cast<std::int64_t>(sent) * interval; };
      auto now = SteadyClock::now();
      while (sent < count && !idle_.empty() && due() <= now) {
        send(due());
        ++sent;
      }
      const bool waits_for_answers = sent == count || idle_.empty();
      receive(waits_for_answers ? kSilenceMax : due() - SteadyClock::now(), waits_for_answers,
              took_us);
    }
    return took_us;
  }

 private:
  struct Client {
    Socket socket;
    Answer answer;
    SteadyClock::time_point due;
  };

  void send(SteadyClock::time_point due) {
    Client& client = *idle_.back();
    idle_.pop_back();
    client.due = due;
    const ssize_t sent = ::send(client.socket.fd(), request_.data(), request_.size(), MSG_NOSIGNAL);
    if (sent != std::ssize(request_)) fail("send");
  }

  void receive(Nanoseconds timeout, bool answers_must_come, std::vector<double>& took_us) {
    timeout = std::max(timeout, Nanoseconds{0});
    const timespec most{.tv_sec = timeout / std::chrono::seconds{1},
                        .tv_nsec = (timeout % std::chrono::seconds{1}).count()};
    std::array<epoll_event, 64> events;
    const int ready = epoll_pwait2(poll_, events.data(), events.size(), &most, nullptr);
    if (ready < 0) fail("epoll");
    if (ready == 0 && answers_must_come) die("some requests are never answered");
    for (std::size_t i = 0; i < static_cast<std::size_t>(ready); ++i) {
      Client& client = *static_cast<Client*>(events[i].data.ptr);
      if (!read(client)) continue;
      const std::chrono::duration<double, std::micro> took = SteadyClock::now() - client.due;
      took_us.push_back(took.count());
      idle_.push_back(&client);
    }
  }

  bool read(Client& client) {
    std::array<char, 16384> bytes;
    const ssize_t got = recv(client.socket.fd(), bytes.data(), bytes.size(), 0);
    if (got < 0) fail("recv");
    if (got == 0) die("the server closed a connection");
    client.answer.add({bytes.data(), static_cast<std::size_t>(got)});
    if (!client.answer.whole()) return false;
    if (!client.answer.ok()) die("not a 200: " + std::string{client.answer.text()});
    client.answer.clear();
    return true;
  }

  const std::string request_;
  const int poll_ = epoll_create1(EPOLL_CLOEXEC);
  std::vector<Client> clients_;
  std::vector<Client*> idle_;
};

}  // namespace

std::vector<double> open_loop(std::uint16_t port, const Call& call, const Pace& pace) {
  prctl(PR_SET_TIMERSLACK, 1);
  const auto count =
      static_cast<std::size_t>(pace.per_second * static_cast<double>(pace.lasting.count()));
  std::vector<double> took_us = OpenLoop{port, call.http(), pace.connections}.run(
      count, Nanoseconds{static_cast<std::int64_t>(1e9 / pace.per_second)});
  took_us.erase(took_us.begin(), took_us.begin() + static_cast<std::ptrdiff_t>(count / 10));
  std::ranges::sort(took_us);
  return took_us;
}

}  // namespace weir::bench
