// What tests of buses share.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "time/eventually_for_test.h"
#include "weir/bus/message_bus.h"

namespace weir::bus {

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
