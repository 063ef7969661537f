// FleetQuota: may this agent spend so many tokens? Asks the fleet's Redis, and something nearer
// when that is out of reach (S2.5). The ResourceQuotaManager of the document.
//
//   auto quota = weir::FleetQuota::from_environment();
//   if (auto got = (*quota)->check_and_consume("agent-123", 10); got && *got) …
//
// Safe to use from any thread. Decides by a DistributedTokenBucket; where that fails, because Redis
// cannot be connected to, does not answer in time, or its circuit breaker is open, by `fallback`.
// Goes back to Redis by itself, with the probe that closes the breaker. Without a URL all decisions
// are local.
//
// A Redis that stops answering costs its callers one time-out in all, not one each. What a caller
// was not told of may have been spent in Redis; what was admitted by the fallback was not.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "weir/fleet/distributed_token_bucket.h"
#include "weir/fleet/local_token_bucket.h"

namespace weir {

class FleetQuota {
 public:
  // What decides while Redis does not.
  enum class Fallback : std::uint8_t {
    kLocal,  // a LocalTokenBucket of the same capacity and rate
    kDeny,   // nobody: kUnavailable
    kOpen,   // everything is admitted
  };

  struct Config {
    DistributedTokenBucket::Config bucket = {};  // an empty redis_url: all decisions are local
    Fallback fallback = Fallback::kLocal;
    LocalTokenBucket::Scope local_scope = LocalTokenBucket::Scope::kPerAgent;
    std::size_t local_agents_max = LocalTokenBucket::Config{}.agents_max;
  };

  enum class Mode : std::uint8_t {
    kLocal,     // no URL is set
    kFleet,     // Redis decides
    kFallback,  // Redis is out of reach or its breaker is not closed
  };
  struct Counts {
    std::uint64_t admitted = 0;
    std::uint64_t refused = 0;
  };
  struct Status {
    Mode mode = Mode::kLocal;
    DistributedTokenBucket::Status redis = {};  // as it begins, if no URL is set
    Counts by_redis = {};
    Counts otherwise = {};  // locally or by the fallback
  };

  // Fails as DistributedTokenBucket::create() and LocalTokenBucket::create() do.
  static Result<std::unique_ptr<FleetQuota>> create(const Config& config,
                                                    TimeSource time = TimeSource::system());

  // REDIS_URL, TOKEN_BUCKET_SIZE (1000) and TOKEN_REFILL_RATE (10.0, tokens a second) as `getenv`
  // gives them; an empty one counts as not set. A value that cannot be used is kInvalidConfig, with
  // a message that names the variable and the value, of a URL what does not tell a password.
  using Getenv = std::function<const char*(const char* name)>;
  static Result<std::unique_ptr<FleetQuota>> from_environment(
      const Getenv& getenv = ::getenv, TimeSource time = TimeSource::system());
  ~FleetQuota();

  // Whether the agent had the tokens; if so they are spent. Fails with kInvalidConfig for an id
  // that cannot be one or a key in Redis that is no bucket, kInvalidCost for less than one token,
  // kNeverFits for more than the capacity, kUnavailable as the fallback says, kCapacityExhausted
  // when there is no room for another agent locally, kClosed.
  Result<bool> check_and_consume(std::string_view agent, Amount tokens);

  // Without a thread: `done` gets what check_and_consume() returns, perhaps before this returns,
  // else on a thread that all callers share. Must neither wait nor throw.
  using Done = DistributedTokenBucket::Done;
  void check_and_consume_async(std::string_view agent, Amount tokens, Done done);

  Status status() const;

  // Closes the connection. All calls, under way and later, end with kClosed.
  void cleanup();

 private:
  class Core;
  explicit FleetQuota(std::shared_ptr<Core> core);

  std::shared_ptr<Core> core_;
};

// As users see it: "local", "fleet", "fallback".
std::string_view name(FleetQuota::Mode mode);

}  // namespace weir
