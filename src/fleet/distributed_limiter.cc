#include "weir/fleet/distributed_limiter.h"

#include <iterator>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fleet/capacity_update.h"
#include "weir/control/adaptive_capacity.h"

namespace weir {
namespace {

using fleet::CapacityUpdate;
using Status = DistributedLimiterStatus;

// The last word of each sender.
class Senders {
 public:
  // False if the sender has said this, or something later. What it said after `latest` it cannot
  // have said yet: a clock was wrong.
  bool is_news(const CapacityUpdate& update, CalendarTime latest) {
    const auto found = index_.find(update.agent_id);
    if (found == index_.end()) {
      if (order_.size() == DistributedLimiter::kSendersMax) {
        index_.erase(order_.front().agent_id);
        order_.pop_front();
      }
      order_.push_back({update.agent_id, update.resource, update.timestamp});
      index_.emplace(order_.back().agent_id, std::prev(order_.end()));
      return true;
    }
    Said& last = *found->second;
    // A sender with a coarse clock may say two things at once.
    const bool is_later = update.timestamp > last.at || last.at > latest;
    const bool is_beside = update.timestamp == last.at && update.resource != last.resource;
    if (!is_later && !is_beside) return false;
    last.resource = update.resource;
    last.at = update.timestamp;
    order_.splice(order_.end(), order_, found->second);
    return true;
  }

 private:
  struct Said {
    std::string agent_id;
    std::string resource;
    CalendarTime at;
  };
  std::list<Said> order_;  // the one silent for longest first
  std::unordered_map<std::string_view, std::list<Said>::iterator> index_;
};

AdaptiveCapacity::Config adaptive(const DistributedLimiterConfig& config, Amount original,
                                  Nanos window) {
  return {.original = original,
          .reduce_factor = config.reduce_factor,
          .recovery_interval = config.recovery_interval,
          .recovery_factor = config.recovery_factor,
          .max_recovery = config.max_recovery,
          .window = window};
}

}  // namespace

class DistributedLimiter::Swarm final : Alarm {
 public:
  Swarm(DistributedLimiterConfig config, MemoryLimiter& local, TimeSource time)
      : config_(std::move(config)), local_(local), time_(time) {}

  Result<void> join() {
    auto subscription = config_.bus->subscribe(
        fleet::kCapacitySubject, [this](std::string_view payload) { receive(payload); });
    if (!subscription) return std::unexpected(subscription.error());
    const std::lock_guard lock{mutex_};
    subscription_ = std::move(*subscription);
    return {};
  }

  void leave() {
    std::unique_ptr<MessageBus::Subscription> ended;  // without the lock, which its handler takes
    {
      const std::lock_guard lock{mutex_};
      closed_ = true;
      ended = std::move(subscription_);
    }
    time_.timer.disarm(*this);
  }

  Result<void> set_capacity(std::string_view name, Amount capacity, Nanos window) {
    {
      const std::lock_guard lock{mutex_};
      const auto found = resources_.find(name);
      if (!closed_ && found != resources_.end() && found->second.window == window &&
          found->second.capacity.original() == capacity) {
        return {};
      }
    }
    // First, because it knows what is in range.
    if (auto set = local_.set_capacity(name, capacity, window); !set) return set;
    {
      const std::lock_guard lock{mutex_};
      if (capacity <= 0 || window <= Nanos{0}) {
        if (const auto found = resources_.find(name); found != resources_.end()) {
          resources_.erase(found);
        }
      } else {
        auto whole = AdaptiveCapacity::create(adaptive(config_, capacity, window));
        if (!whole) return std::unexpected(whole.error());
        resources_.insert_or_assign(std::string{name}, Resource{*whole, window, {}});
      }
    }
    settle(name);
    return {};
  }

  void announce(std::string_view name, std::string_view reason) {
    CapacityChange change{.resource = name, .reason = reason, .agent_id = config_.agent_id};
    {
      const std::lock_guard lock{mutex_};
      const auto found = resources_.find(name);
      if (closed_ || found == resources_.end()) return;
      AdaptiveCapacity& capacity = found->second.capacity;
      const Instant recovery = capacity.next_recovery();
      change.before = capacity.capacity();
      // At 1 a cut changes nothing but the wait; the others may have more.
      if (!capacity.reduce(time_.clock.now()) && capacity.next_recovery() == recovery) return;
      change.after = capacity.capacity();
      arm(capacity.next_recovery());
    }
    settle(name);
    publish(name, change.after, reason);
    tell(change);
  }

  Status status() const {
    const std::lock_guard lock{mutex_};
    return status_;
  }

 private:
  struct Resource {
    AdaptiveCapacity capacity;
    Nanos window;
    std::optional<std::string> unsent;  // the reason of a cut that the bus did not take
  };
  struct Target {
    Amount capacity = 0;
    Nanos window{0};
    bool operator==(const Target&) const = default;
  };
  using Counter = std::uint64_t Status::*;

  void receive(std::string_view payload) {
    const auto update = fleet::parse_capacity_update(payload);
    Amount before = 0;
    {
      const std::lock_guard lock{mutex_};
      if (closed_) return;
      const Counter outcome = update ? apply(*update, before) : &Status::malformed;
      ++status_.received;
      ++(status_.*outcome);
      if (outcome != &Status::applied) return;
    }
    settle(update->resource);
    tell({.resource = update->resource,
          .before = before,
          .after = update->new_capacity,
          .reason = update->reason,
          .agent_id = update->agent_id});
  }

  // Under the lock.
  Counter apply(const CapacityUpdate& update, Amount& before) {
    if (update.agent_id == config_.agent_id) return &Status::own;
    const auto found = resources_.find(update.resource);
    if (found == resources_.end()) return &Status::unknown;
    AdaptiveCapacity& capacity = found->second.capacity;
    if (update.new_capacity > capacity.original()) return &Status::above;
    const CalendarTime wall = time_.clock.wall();
    if (update.timestamp < wall - config_.recovery_interval ||
        update.timestamp > wall + config_.recovery_interval ||
        !senders_.is_news(update, wall + config_.recovery_interval)) {
      return &Status::stale;
    }
    before = capacity.capacity();
    if (!capacity.reduce_to(update.new_capacity, time_.clock.now())) return &Status::redundant;
    arm(capacity.next_recovery());
    return &Status::applied;
  }

  // Recovers whatever is due.
  void ring(Instant now) override {
    struct Growth {
      std::string name;
      Amount before;
      Amount after;
      std::optional<std::string> unsent;
    };
    std::vector<Growth> grown;
    {
      const std::lock_guard lock{mutex_};
      armed_ = kEndOfTime;
      Instant next = kEndOfTime;
      for (auto& [name, resource] : resources_) {
        AdaptiveCapacity& capacity = resource.capacity;
        const Amount before = capacity.capacity();
        if (capacity.recover(now)) {
          if (capacity.capacity() >= capacity.original()) resource.unsent.reset();
          grown.push_back(
              {name, before, capacity.capacity(), std::exchange(resource.unsent, std::nullopt)});
        }
        next = std::min(next, capacity.next_recovery());
      }
      arm(next);
    }
    for (const auto& [name, before, after, unsent] : grown) {
      settle(name);
      if (unsent) publish(name, after, *unsent);
      tell({.resource = name,
            .before = before,
            .after = after,
            .reason = "recovery",
            .agent_id = config_.agent_id});
    }
  }

  // Under the lock.
  void arm(Instant at) {
    if (closed_ || at >= armed_) return;
    armed_ = at;
    time_.timer.arm(*this, at);
  }

  // Brings the local limiter to where the resource stands. Without the lock, for the local limiter
  // serves waiters that may call us; so another thread may come in between with an older value,
  // and then sees that it has to go on.
  void settle(std::string_view name) {
    Target next = target(name);
    Target done;
    do {
      done = next;
      static_cast<void>(local_.set_capacity(name, done.capacity, done.window));
      next = target(name);
    } while (next != done);
  }
  Target target(std::string_view name) const {
    const std::lock_guard lock{mutex_};
    const auto found = resources_.find(name);
    if (found == resources_.end()) return {};
    return {found->second.capacity.capacity(), found->second.window};
  }

  void publish(std::string_view name, Amount capacity, std::string_view reason) {
    bool sent = false;
    {
      const std::lock_guard lock{publish_mutex_};
      const auto payload = fleet::format_capacity_update({.resource = std::string{name},
                                                          .agent_id = config_.agent_id,
                                                          .new_capacity = capacity,
                                                          .reason = std::string{reason},
                                                          .timestamp = next_timestamp()});
      sent = payload && config_.bus->publish(fleet::kCapacitySubject, *payload);
    }
    const std::lock_guard lock{mutex_};
    ++(sent ? status_.published : status_.publish_failed);
    if (const auto found = resources_.find(name); found != resources_.end() && !sent) {
      found->second.unsent = reason;
    }
  }

  // Rising, though the wall be set back; set back by more than others bear, the wall is right.
  CalendarTime next_timestamp() {
    const CalendarTime wall = time_.clock.wall();
    const bool follow =
        wall > last_timestamp_ || last_timestamp_ - wall > config_.recovery_interval;
    return last_timestamp_ = follow ? wall : last_timestamp_ + Nanos{1};
  }

  void tell(const CapacityChange& change) const {
    if (config_.on_capacity_change && change.before != change.after) {
      config_.on_capacity_change(change);
    }
  }

  const DistributedLimiterConfig config_;
  MemoryLimiter& local_;
  const TimeSource time_;

  mutable std::mutex mutex_;
  bool closed_ = false;
  std::map<std::string, Resource, std::less<>> resources_;
  Senders senders_;
  Status status_;
  Instant armed_ = kEndOfTime;
  std::unique_ptr<MessageBus::Subscription> subscription_;

  std::mutex publish_mutex_;  // what is published goes out in the order of its timestamps
  CalendarTime last_timestamp_{};
};

Result<std::unique_ptr<DistributedLimiter>> DistributedLimiter::create(
    DistributedLimiterConfig config, TimeSource time) {
  if (config.bus == nullptr) return fail(Errc::kInvalidConfig, "a bus is needed");
  if (!fleet::format_capacity_update(
          {.resource = "any", .agent_id = config.agent_id, .new_capacity = 1})) {
    return fail(Errc::kInvalidConfig,
                "agent_id must be 1 to 200 bytes of UTF-8 without control characters");
  }
  if (const auto capacity = AdaptiveCapacity::create(adaptive(config, 1, Nanos{0})); !capacity) {
    return std::unexpected(capacity.error());
  }
  std::unique_ptr<DistributedLimiter> limiter{new DistributedLimiter(std::move(config), time)};
  if (auto joined = limiter->swarm_->join(); !joined) return std::unexpected(joined.error());
  return limiter;
}

DistributedLimiter::DistributedLimiter(DistributedLimiterConfig config, TimeSource time)
    : local_(time), swarm_(std::make_unique<Swarm>(std::move(config), local_, time)) {}

DistributedLimiter::~DistributedLimiter() { close(); }

Result<void> DistributedLimiter::set_capacity(std::string_view resource, Amount capacity,
                                              Nanos window) {
  return swarm_->set_capacity(resource, capacity, window);
}

void DistributedLimiter::announce_reduced(std::string_view resource, std::string_view reason) {
  swarm_->announce(resource, reason);
}

DistributedLimiterStatus DistributedLimiter::status() const { return swarm_->status(); }

void DistributedLimiter::close() {
  local_.close();
  swarm_->leave();
}

}  // namespace weir
