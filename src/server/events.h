// EventHub: what happens, told to whoever watches (GET /v1/events), and waited for by nobody.
//
// Safe to use from any thread. A watcher that reads too slowly misses events and is told how many.
// There are three kinds of events: those of single requests, which nobody puts together unless
// somebody watches them; news, the last of which are kept; and `live` and `point`, which only those
// get who ask for them by name.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
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

  static constexpr std::size_t kNewsMax = 200;

  // Cheap: ask before putting an event of a single request together.
  bool watched() const { return (wanted_.load(std::memory_order_relaxed) & kRequests) != 0; }
  // Whether somebody asks for events of this type.
  bool watched(std::string_view type) const {
    return (wanted_.load(std::memory_order_relaxed) & bit_of(type)) != 0;
  }

  // `fields`: the inside of a JSON object, without the time, which comes first.
  void publish(std::string_view type, std::string_view fields);

  // `only`: types with commas between them; nothing: all but `live` and `point`. Answers with the
  // stream, with 400 for a type that there is not, or with 503 when there are kWatchersMax already.
  void watch(Responder& responder, const std::optional<std::string>& only = {});

  // {"events":[{"type":…,"time":…,…}]}, the oldest first.
  std::string news() const;

  // Ends all streams.
  void close();

 private:
  using Types = std::uint32_t;  // a bit for each
  static constexpr Types kRequests = 0xFF;
  static constexpr Types kNews = 0x1FF00;
  // One that has no bit of its own is of a single request.
  static Types bit_of(std::string_view type);
  static std::optional<Types> parse(std::string_view only);

  struct Watcher {
    std::shared_ptr<Stream> stream;
    Types wanted;
    std::uint64_t missed = 0;
  };

  void ring(Instant now) override;
  // These want the lock.
  void send_to(Watcher& watcher, std::string_view text);
  void count_wanted();

  const TimeSource time_;
  std::atomic<Types> wanted_{0};  // by any of them
  mutable std::mutex mutex_;
  std::deque<std::string> news_;
  std::map<std::uint64_t, Watcher> watchers_;
  std::uint64_t number_ = 0;
};

}  // namespace weir::server
