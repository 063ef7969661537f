// RedisBus: a MessageBus on Redis Pub/Sub.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "bus/deliveries.h"
#include "redis/client.h"
#include "weir/bus/message_bus.h"

namespace weir::bus {

class RedisBus final : public MessageBus {
 public:
  static Result<std::shared_ptr<MessageBus>> create(const BusConfig& config, TimeSource time);
  RedisBus(std::shared_ptr<redis::Client> client, TimeSource time);
  ~RedisBus() override;

  Result<void> publish(std::string_view subject, std::string_view payload) override;
  Result<std::unique_ptr<Subscription>> subscribe(std::string_view subject,
                                                  Handler handler) override;
  BusStatus status() const override;
  void close() override;

 private:
  struct Counts {
    std::atomic<std::uint64_t> published = 0;
    std::atomic<std::uint64_t> dropped = 0;
  };

  void follow_interest(const std::string& subject);

  const std::shared_ptr<redis::Client> client_;
  const TimeSource time_;
  const std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
  const std::shared_ptr<Deliveries> deliveries_;
  std::mutex interests_mutex_;
  std::map<std::string, std::uint64_t> interests_;  // the client's subscriptions, by subject
};

}  // namespace weir::bus
