// MemoryLimiter: the ResourceLimiter of one process (S0.3–S0.6).
//
// Each resource is a gate with one token bucket that holds one window's tokens and earns them back
// evenly; a waiter is woken when its token is due. Giving tokens back on release stands outside
// "never over": a caller that releases may use a window's tokens more than once in a window.
#pragma once

#include <memory>
#include <shared_mutex>
#include <unordered_map>

#include "weir/limiter/resource_limiter.h"
#include "weir/time/timer.h"

namespace weir {

class MemoryLimiter final : public ResourceLimiter {
 public:
  explicit MemoryLimiter(TimeSource time = TimeSource::system()) : time_(time) {}
  ~MemoryLimiter() override { close(); }

  Result<void> acquire(std::string_view resource, const Patience& patience = {}) override;
  Ticket acquire_async(std::string_view resource, Instant deadline, Done done) override;
  bool try_acquire(std::string_view resource) override;
  void release(std::string_view resource) override;
  Result<void> set_capacity(std::string_view resource, Amount capacity, Nanos window) override;
  // There is nobody to tell: the swarm is this process, and set_capacity() is at hand.
  void announce_reduced(std::string_view resource, std::string_view reason) override;
  Result<Capacity> capacity(std::string_view resource) const override;
  void close() override;

 private:
  struct Resource;
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using Resources =
      std::unordered_map<std::string, std::shared_ptr<Resource>, Hash, std::equal_to<>>;

  // Shared, because a resource may be removed while requests on it wait.
  Result<std::shared_ptr<Resource>> find(std::string_view resource) const;

  TimeSource time_;
  mutable std::shared_mutex mutex_;
  bool closed_ = false;
  Resources resources_;
};

}  // namespace weir
