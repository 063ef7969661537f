// DistributedLimiter: a MemoryLimiter in each agent of a swarm, and a bus on which they tell one
// another of a 429 (S0.7–S0.9).
//
//   auto limiter = weir::DistributedLimiter::create({.bus = bus, .agent_id = "agent-1"}).value();
//   limiter->set_capacity("api", 100, 1min);
//   if (limiter->acquire("api") && call_the_api() == 429) limiter->announce_reduced("api", "429");
//
// announce_reduced() cuts the capacity here by reduce_factor and publishes what is left on
// `ratelimit.capacity`; every agent that knows the resource takes over a lower capacity. A
// recovery_interval after its last cut a capacity grows by recovery_factor, and so on until it is
// what set_capacity() said, the original. Cuts for one resource within one of its windows are one.
//
// It does not count tokens together: each agent has its own share. Safe to use from any thread.
// No call waits for the bus, and acquire, try_acquire and release do not touch it at all. Every
// change happens in the call that causes it, on a thread of the bus, or on the timer's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "weir/bus/message_bus.h"
#include "weir/limiter/memory_limiter.h"

namespace weir {

struct CapacityChange {
  std::string_view resource;
  Amount before = 0;
  Amount after = 0;
  std::string_view reason;    // of a cut: as its sender wrote it, any characters; else "recovery"
  std::string_view agent_id;  // who made the cut; of a recovery: this agent
};

struct DistributedLimiterConfig {
  std::shared_ptr<MessageBus> bus;
  std::string agent_id;  // no two agents have the same; 1 to 200 bytes, no control characters
  double reduce_factor = 0.5;
  Nanos recovery_interval = std::chrono::seconds{30};
  double recovery_factor = 1.1;
  bool max_recovery = true;  // false: a capacity that was cut grows on beyond the original
  // Hears of cuts and recoveries, not of set_capacity(). Called without a lock held, after the
  // change; calls for changes on different threads may overtake one another. May use the limiter,
  // also close() it; must neither wait nor throw nor destroy it.
  std::function<void(const CapacityChange&)> on_capacity_change = {};
};

// What became of updates since the start. `received` is the sum of the seven after it.
struct DistributedLimiterStatus {
  std::uint64_t received = 0;
  std::uint64_t applied = 0;
  std::uint64_t own = 0;        // with this agent's id
  std::uint64_t malformed = 0;  // not an update, or a new_capacity out of range
  // Not after the sender's last, older than recovery_interval, or further ahead than that.
  std::uint64_t stale = 0;
  std::uint64_t unknown = 0;    // no such resource here
  std::uint64_t above = 0;      // more than the original
  std::uint64_t redundant = 0;  // not less than the present capacity

  std::uint64_t published = 0;
  std::uint64_t publish_failed = 0;
};

class DistributedLimiter final : public ResourceLimiter {
 public:
  // The last word of so many senders is remembered, to know a replay; then the oldest is forgotten.
  static constexpr std::size_t kSendersMax = 10'000;

  // Fails with kInvalidConfig without a bus or an agent id, and for values out of range (see
  // AdaptiveCapacity); with what the bus says if it cannot subscribe.
  static Result<std::unique_ptr<DistributedLimiter>> create(DistributedLimiterConfig config,
                                                            TimeSource time = TimeSource::system());
  ~DistributedLimiter() override;

  Result<void> acquire(std::string_view resource, const Patience& patience = {}) override {
    return local_.acquire(resource, patience);
  }
  Ticket acquire_async(std::string_view resource, Instant deadline, Done done) override {
    return local_.acquire_async(resource, deadline, std::move(done));
  }
  bool try_acquire(std::string_view resource) override { return local_.try_acquire(resource); }
  void release(std::string_view resource) override { local_.release(resource); }

  // Sets the original. A capacity or window other than before makes the resource whole; the same
  // values again leave it as far reduced as it is.
  Result<void> set_capacity(std::string_view resource, Amount capacity, Nanos window) override;

  // Cuts the resource here, never below 1, and tells the swarm. Nothing if it is unknown or was
  // cut less than a window ago. What the bus does not take is told again after each step of
  // recovery, as the capacity of then, until the bus takes it or the resource is whole.
  void announce_reduced(std::string_view resource, std::string_view reason) override;

  // `total` is the present capacity.
  Result<Capacity> capacity(std::string_view resource) const override {
    return local_.capacity(resource);
  }

  DistributedLimiterStatus status() const;

  // Leaves the bus too. Once it has returned, on_capacity_change is not called any more, unless it
  // is called from there.
  void close() override;

 private:
  class Swarm;

  DistributedLimiter(DistributedLimiterConfig config, TimeSource time);

  MemoryLimiter local_;
  std::unique_ptr<Swarm> swarm_;
};

}  // namespace weir
