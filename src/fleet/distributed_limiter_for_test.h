// Agents on one bus, in simulated time.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "fleet/capacity_update.h"
#include "weir/bus/in_process_bus.h"
#include "weir/fleet/distributed_limiter.h"
#include "weir/time/simulated_time.h"

namespace weir {

// A bus that can be cut off from its server.
class CutOffBus final : public MessageBus {
 public:
  Result<void> publish(std::string_view subject, std::string_view payload) override {
    if (cut_off) return fail(Errc::kUnavailable, "cut off");
    return bus_->publish(subject, payload);
  }
  Result<std::unique_ptr<Subscription>> subscribe(std::string_view subject,
                                                  Handler handler) override {
    return bus_->subscribe(subject, std::move(handler));
  }
  BusStatus status() const override { return bus_->status(); }
  void close() override { bus_->close(); }
  void settle() { bus_->settle(); }

  std::atomic<bool> cut_off = false;

 private:
  std::shared_ptr<InProcessBus> bus_ = make_in_process_bus();
};

struct DistributedLimiterTest : testing::Test {
  SimulatedTime time;
  std::shared_ptr<CutOffBus> bus = std::make_shared<CutOffBus>();
  std::vector<std::string> changes;

  DistributedLimiterConfig config(std::string agent_id) {
    return {.bus = bus, .agent_id = std::move(agent_id)};
  }
  std::unique_ptr<DistributedLimiter> limiter(DistributedLimiterConfig config) {
    auto made = DistributedLimiter::create(std::move(config), time.source()).value();
    EXPECT_TRUE(made->set_capacity("api", 100, std::chrono::minutes{1}));
    return made;
  }
  std::unique_ptr<DistributedLimiter> agent(std::string agent_id) {
    return limiter(config(std::move(agent_id)));
  }
  // Notes its changes as "api 100>50 429 by a".
  std::unique_ptr<DistributedLimiter> noting_agent(std::string agent_id) {
    DistributedLimiterConfig noting = config(std::move(agent_id));
    noting.on_capacity_change = [this](const CapacityChange& change) {
      changes.push_back(std::string{change.resource} + ' ' + std::to_string(change.before) + '>' +
                        std::to_string(change.after) + ' ' + std::string{change.reason} + " by " +
                        std::string{change.agent_id});
    };
    return limiter(std::move(noting));
  }
  static Amount total(const DistributedLimiter& limiter, std::string_view resource = "api") {
    return limiter.capacity(resource).value().total;
  }

  // Somebody says something on the bus, and everyone has heard it.
  void say(std::string_view payload) {
    ASSERT_TRUE(bus->publish(fleet::kCapacitySubject, payload));
    bus->settle();
  }
  void say(const fleet::CapacityUpdate& update) {
    say(fleet::format_capacity_update(update).value());
  }
  fleet::CapacityUpdate cut_to(Amount capacity, std::string agent_id = "other") const {
    return {.resource = "api",
            .agent_id = std::move(agent_id),
            .new_capacity = capacity,
            .reason = "429",
            .timestamp = time.wall()};
  }
  void announce(DistributedLimiter& limiter, std::string_view resource = "api") {
    limiter.announce_reduced(resource, "429");
    bus->settle();
  }
};

}  // namespace weir
