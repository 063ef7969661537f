// EventHub: what happens, told to whoever watches (GET /v1/events), and waited for by nobody.
//
// Safe to use from any thread. A watcher that reads too slowly misses events and is told how many.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "server/http.h"
#include "weir/time/timer.h"

namespace weir::server {

class EventHub final : private Alarm {
 public:
  explicit EventHub(TimeSource time);
  ~EventHub();

  static constexpr std::size_t kWatchersMax = 100;
  static constexpr Nanos kHeartbeat = std::chrono::seconds{15};

  // Cheap: ask before putting an event together.
  bool watched() const { return watching_.load(std::memory_order_relaxed) != 0; }

  // `fields`: the inside of a JSON object, without the time, which comes first.
  void publish(std::string_view type, std::string_view fields);

  // Answers with the stream, or with 503 when there are kWatchersMax already.
  void watch(Responder& responder);
  // Ends all streams.
  void close();

 private:
  struct Watcher {
    std::shared_ptr<Stream> stream;
    std::uint64_t missed = 0;
  };

  void ring(Instant now) override;
  void send_to_all(std::string_view text);

  const TimeSource time_;
  std::atomic<std::size_t> watching_{0};
  std::mutex mutex_;
  std::map<std::uint64_t, Watcher> watchers_;
  std::uint64_t number_ = 0;
};

}  // namespace weir::server
