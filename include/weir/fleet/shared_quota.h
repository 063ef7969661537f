// SharedQuota: gates of several processes, on several machines, that spend one quota together.
//
//   auto quota = SharedQuota::create({.redis_url = "redis://localhost", .node = "worker-7"});
//   auto gate = create_gate({.name = "openai", .limits = {...}}, TimeSource::since_boot(),
//                           quota->get());
//
// Gates of one name in all processes count as one. Their limits are kept in Redis; a gate takes
// units from there in blocks and spends them in memory, so that an admission is as fast as that of
// a gate of its own. Together they are never over, by each limit's own model, whoever crashes,
// pauses or loses an answer, and whether Redis restarts, fails over or loses its last writes (see
// docs/fleet.md for the one double fault that nobody can know of). A gate's limits say what the
// whole fleet has left.
//
// While Redis is away a gate spends what it has leased, and then goes by the fallback; the way back
// needs no restart. Safe to use from any thread. Needs Redis 7, which may be a cluster.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/control/circuit_breaker.h"
#include "weir/core/cost.h"
#include "weir/core/error.h"
#include "weir/fleet/fallback.h"
#include "weir/gate/backing.h"
#include "weir/time/timer.h"

namespace weir {

struct SharedQuotaStatus {
  enum class State : std::uint8_t {
    kStarting,    // there has been no connection yet
    kShared,      // the quota is the fleet's
    kQuarantine,  // Redis is another one: everybody tells it what they know
    kAway,        // the fallback decides
  };

  State state = State::kStarting;
  bool denies = false;  // away, with a fallback that admits what is leased and no more
  CircuitBreaker::State breaker = CircuitBreaker::State::kClosed;
  bool connected = false;
  std::uint64_t connects = 0;
  std::uint64_t calls = 0;     // answered by Redis
  std::uint64_t failures = 0;  // calls that were not
  std::uint64_t granted = 0;   // units of all limits
  std::uint64_t returned = 0;
  std::uint64_t burnt = 0;           // expired unused
  std::uint64_t fallback_draws = 0;  // admissions by the fallback
  std::string failure = {};          // the last one; never holds a password
};
std::string_view name(SharedQuotaStatus::State state);

// What one gate of this process has of the fleet's quota.
struct QuotaShare {
  struct Part {
    std::string limit;
    Unit unit = Unit::kRequests;
    Amount leased = 0;   // units or slots at hand
    Amount reserve = 0;  // for outages
    Amount free = 0;     // of all, at the last answer
  };
  SharedQuotaStatus::State state = SharedQuotaStatus::State::kStarting;
  std::int64_t members = 0;  // processes that use the gate
  std::vector<Part> parts;
};

class SharedQuota final : public Backer {
 public:
  struct Config {
    std::string redis_url = {};  // redis://, rediss:// or unix://
    std::string ca_file = {};    // trusted beside the system's authorities; empty: those alone
    std::string node = {};       // of this process, for people; need not be unique
    Fallback fallback = Fallback::kReserve;
    Nanos timeout = std::chrono::milliseconds{50};  // of a call to Redis
    CircuitBreaker::Config breaker = {};
    // Called when the state changes, on any thread; must not wait.
    std::function<void(const SharedQuotaStatus&)> told = [](const SharedQuotaStatus&) {};
  };

  // Connects in the background. Fails with kInvalidConfig for a URL it cannot use, a time-out that
  // is not positive, or a breaker that cannot be. Gates must have the same `time`, and end first.
  static Result<std::unique_ptr<SharedQuota>> create(Config config,
                                                     TimeSource time = TimeSource::since_boot());
  ~SharedQuota() override;  // closes

  std::shared_ptr<Backing> open(const GateConfig& config, const std::string& domain) override;

  // Returns what is not used, waiting for Redis for no longer than the time-out; gates admit
  // nothing from now on.
  void close();

  SharedQuotaStatus status() const;
  std::optional<QuotaShare> share(const std::string& gate) const;  // nothing if it is unknown

 private:
  struct Parts;
  explicit SharedQuota(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace weir
