// An io_context in step with simulated time, in one thread. For tests.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <optional>
#include <utility>

#include "weir/time/simulated_time.h"

// GCC 12 takes Asio's recycled coroutine frames for a mismatch once it optimises.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

namespace weir {

namespace asio = boost::asio;

struct Loop {
  SimulatedTime time;
  asio::io_context io;

  // Runs what is ready.
  void settle() {
    io.restart();
    io.poll();
  }

  // Moves time on, running what becomes ready at each alarm before the next one rings.
  void advance(Nanos by) {
    const Instant end = time.now() + by;
    settle();
    while (true) {
      const std::optional<Instant> next = time.next_alarm();
      if (!next || *next > end) break;
      time.advance_to(*next);
      settle();
    }
    time.advance_to(end);
  }

  // Until nothing is ready and nothing is armed.
  void run() {
    settle();
    while (const std::optional<Instant> next = time.next_alarm()) advance(*next - time.now());
  }

  // The coroutine's result once everything has come to rest.
  template <class T>
  T get(asio::awaitable<T> coroutine) {
    std::future<T> result = asio::co_spawn(io, std::move(coroutine), asio::use_future);
    run();
    return result.get();
  }
};

}  // namespace weir
