// Loop: one thread of the listener, with the connections it serves. Everything here belongs to that
// thread, except the counters, which any thread may read.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "server/router.h"
#include "weir/time/clock.h"

namespace weir::server {

class Connection;

struct LoopCounts {
  std::atomic<std::uint64_t> requests{0};
  std::array<std::atomic<std::uint64_t>, 6> replies_by_class{};  // [2]: 2xx
  std::atomic<std::uint64_t> refused{0};  // not HTTP, or too slow or too large for us
};

// A counter with one writer: cheaper than a fetch_add, and any thread may read it.
inline void count(std::atomic<std::uint64_t>& counter) {
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

// What somebody else keeps on a loop, for as long as it lives.
struct LoopPart {
  virtual ~LoopPart() = default;
  virtual void sweep() = 0;
};

struct Loop {
  Loop(const Router& the_router, const Clock& the_clock, std::atomic<std::size_t>& all_open,
       BodyMemory& all_bodies)
      : router(the_router),
        clock(the_clock),
        open(all_open),
        bodies(all_bodies),
        received(kReceiveBytes) {}

  // Ends what is too slow or idle for too long.
  void sweep();
  // Closes the idle connections, and the others after their answer.
  void stop_serving();
  void close_all();
  // A connection has closed: after the last one, when stopping, the part goes too, whose own
  // connections would keep the thread.
  void note_closed();

  // "Date: …" with its CRLF; refreshed by sweep().
  void set_date();

  static constexpr std::size_t kReceiveBytes = 64 * 1024;

  boost::asio::io_context io{1};
  const Router& router;
  const Clock& clock;
  std::atomic<std::size_t>& open;  // connections of all loops
  BodyMemory& bodies;              // likewise
  std::list<std::shared_ptr<Connection>> connections;
  std::vector<char> received;  // read buffer for whichever connection is being served
  std::string out;             // likewise what is to be sent
  std::string date;
  bool stopping = false;
  LoopCounts counts;
  std::unique_ptr<LoopPart> part;  // of the proxy
};

}  // namespace weir::server
