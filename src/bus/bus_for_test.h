// What tests of buses share.
#pragma once

#include <poll.h>

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "weir/bus/message_bus.h"
#include "weir/time/system_clock.h"

namespace weir::bus {

// Waits until `condition` holds; false if it does not within half a minute.
template <class Condition>
bool eventually(Condition condition) {
  MonotonicClock clock;
  const Instant end = clock.now() + std::chrono::seconds{30};
  while (!condition()) {
    if (clock.now() > end) return false;
    ::poll(nullptr, 0, 1);
  }
  return true;
}

// What a subscription has heard.
class Heard {
 public:
  MessageBus::Handler handler() {
    return [this](std::string_view payload) {
      const std::lock_guard lock{mutex_};
      messages_.emplace_back(payload);
    };
  }
  std::vector<std::string> all() const {
    const std::lock_guard lock{mutex_};
    return messages_;
  }
  std::size_t count() const {
    const std::lock_guard lock{mutex_};
    return messages_.size();
  }
  bool waits_for(std::size_t wanted) const {
    return eventually([&] { return count() >= wanted; });
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> messages_;
};

inline bool is_ready(const MessageBus& bus) {
  return eventually([&] { return bus.status().subscribed; });
}

// Publishes as soon as the bus takes it.
inline bool tell(MessageBus& bus, std::string_view subject, std::string_view payload) {
  return eventually([&] { return bus.publish(subject, payload).has_value(); });
}

}  // namespace weir::bus
