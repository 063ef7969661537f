// Listener: accepts connections and serves them on a few threads, one loop each.
//
// One socket accepts and hands connections out in turn, so a second daemon on the same port is
// refused by the kernel. Nothing unbounded: connections are counted, what each may hold is capped
// (connection.h), and a sweep every second ends what is too slow.
#pragma once

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "config/model.h"
#include "server/log.h"
#include "server/router.h"
#include "weir/core/error.h"
#include "weir/time/timer.h"

namespace weir::server {

struct HttpCounts {
  std::uint64_t requests = 0;
  std::array<std::uint64_t, 6> replies_by_class{};
  std::uint64_t refused = 0;
  std::size_t connections = 0;
};

class Listener final : private Alarm {
 public:
  struct Options {
    Listen listen;
    unsigned threads = 1;
    std::size_t connections_max = 20'000;
    std::size_t body_bytes_max = 512 * 1024 * 1024;  // of large bodies, all connections together
  };

  // Binds the address; nothing is served before start(). Fails with kUnavailable and a sentence
  // that names the address.
  static Result<std::unique_ptr<Listener>> open(const Options& options, const Router& router,
                                                TimeSource time, Log& log);
  ~Listener();

  void start();
  std::uint16_t port() const;
  std::string address() const;  // "127.0.0.1:9347", "[::1]:9347"

  // Accepts nothing more, closes idle connections, lets the others have their answer, for at most
  // kStopPatience; returns when all are gone.
  void stop();
  static constexpr Nanos kStopPatience = std::chrono::seconds{5};

  HttpCounts counts() const;

 private:
  struct Acceptor;

  Listener(const Options& options, const Router& router, TimeSource time, Log& log);
  void ring(Instant now) override;
  void accept();
  template <class F>
  void on_every_loop(F f);

  const Options options_;
  const TimeSource time_;
  Log& log_;
  std::atomic<std::size_t> open_{0};
  BodyMemory bodies_;
  std::vector<std::unique_ptr<struct Loop>> loops_;
  std::unique_ptr<Acceptor> acceptor_;
  std::vector<std::thread> threads_;
  std::size_t turn_ = 0;
  std::atomic<Instant> give_up_at_{kEndOfTime};
};

}  // namespace weir::server
