#include "weir/limiter/memory_limiter.h"

#include <atomic>
#include <mutex>

#include "weir/gate/gate.h"

namespace weir {
namespace {

const Request kOneToken{.cost = Cost::of(Unit::kRequests, 1)};

LimitSpec limit_of(Amount capacity, Nanos window) {
  LimitSpec spec = LimitSpec::token_bucket(Unit::kRequests, {capacity, window});
  spec.name = "capacity";
  return spec;
}

}  // namespace

struct MemoryLimiter::Resource {
  std::unique_ptr<Gate> gate;
  std::atomic<Amount> in_flight{0};
  std::atomic<std::int64_t> window_ns{0};
};

Result<std::shared_ptr<MemoryLimiter::Resource>> MemoryLimiter::find(
    std::string_view resource) const {
  const std::shared_lock lock{mutex_};
  if (closed_) return fail(Errc::kClosed, "the limiter is closed");
  const auto found = resources_.find(resource);
  if (found == resources_.end()) {
    return fail(Errc::kResourceUnknown, "no such resource: " + std::string{resource});
  }
  return found->second;
}

Result<void> MemoryLimiter::acquire(std::string_view resource, const Patience& patience) {
  const auto found = find(resource);
  if (!found) return std::unexpected(found.error());
  const auto permit = (*found)->gate->acquire(kOneToken, patience);
  if (!permit) return std::unexpected(permit.error());
  ++(*found)->in_flight;
  return {};
}

Ticket MemoryLimiter::acquire_async(std::string_view resource, Instant deadline, Done done) {
  auto found = find(resource);
  if (!found) {
    done(std::unexpected(found.error()));
    return {};
  }
  Gate& gate = *(*found)->gate;
  return gate.acquire_async(
      kOneToken, deadline,
      [kept = std::move(*found), done = std::move(done)](const Result<Permit>& permit) mutable {
        if (!permit) return done(std::unexpected(permit.error()));
        ++kept->in_flight;
        done({});
      });
}

bool MemoryLimiter::try_acquire(std::string_view resource) {
  const auto found = find(resource);
  if (!found || !(*found)->gate->try_spend(1)) return false;
  ++(*found)->in_flight;
  return true;
}

void MemoryLimiter::release(std::string_view resource) {
  const auto found = find(resource);
  if (!found) return;
  std::atomic<Amount>& in_flight = (*found)->in_flight;
  Amount count = in_flight.load();
  do {
    if (count == 0) return;
  } while (!in_flight.compare_exchange_weak(count, count - 1));
  (*found)->gate->refund(kOneToken.cost);
}

Result<void> MemoryLimiter::set_capacity(std::string_view resource, Amount capacity, Nanos window) {
  if (capacity > kAmountMax) {
    return fail(Errc::kInvalidCapacity, "capacity must be at most " + std::to_string(kAmountMax) +
                                            ": " + std::to_string(capacity));
  }
  if (window > kPeriodMax) {
    return fail(Errc::kInvalidWindow,
                "window must be at most 400 days: " + std::to_string(window.count()) + " ns");
  }
  std::shared_ptr<Resource> existing;
  const bool remove = capacity <= 0 || window <= Nanos{0};
  {
    const std::unique_lock lock{mutex_};
    if (closed_) return fail(Errc::kClosed, "the limiter is closed");
    const auto found = resources_.find(resource);
    if (found == resources_.end()) {
      if (remove) return {};
      auto gate = Gate::create(
          {.name = std::string{resource}, .limits = {limit_of(capacity, window)}}, time_);
      if (!gate) return fail(Errc::kInvalidCapacity, gate.error().message);
      auto added = std::make_shared<Resource>();
      added->gate = std::move(*gate);
      added->window_ns = window.count();
      resources_.emplace(resource, std::move(added));
      return {};
    }
    existing = found->second;
    if (remove) resources_.erase(found);
  }
  // Outside the lock: waiters that end or are served may call back into the limiter.
  if (remove) {
    existing->gate->close(Errc::kResourceUnknown);
    return {};
  }
  if (auto changed = existing->gate->set_limits({limit_of(capacity, window)}); !changed) {
    return fail(Errc::kInvalidCapacity, changed.error().message);
  }
  existing->window_ns = window.count();
  return {};
}

void MemoryLimiter::announce_reduced(std::string_view /*resource*/, std::string_view /*reason*/) {}

Result<Capacity> MemoryLimiter::capacity(std::string_view resource) const {
  const auto found = find(resource);
  if (!found) return std::unexpected(found.error());
  const LimitStatus limit = (*found)->gate->metrics().limits.at(0);
  return Capacity{.resource = std::string{resource},
                  .available = limit.available,
                  .total = limit.capacity,
                  .window = Nanos{(*found)->window_ns.load()},
                  .in_flight = (*found)->in_flight.load()};
}

void MemoryLimiter::close() {
  Resources resources;
  {
    const std::unique_lock lock{mutex_};
    closed_ = true;
    resources.swap(resources_);
  }
  for (const auto& [name, resource] : resources) resource->gate->close();
}

}  // namespace weir
