// LocalTokenBucket: the token buckets of agents in the memory of one process (S2.3).
//
// What FleetQuota falls back on while the fleet's own buckets are out of reach. Safe to use from
// any thread; never waits. Limits this process and nobody else: of n processes that fall back, each
// has the whole capacity.
//
// An agent that was never seen has a full bucket, and one whose bucket is full again is forgotten
// when its place is wanted. What an agent's id may be: see DistributedTokenBucket.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "weir/gate/bucket_table.h"

namespace weir {

class LocalTokenBucket {
 public:
  enum class Scope : std::uint8_t { kPerAgent, kAllAgents };

  struct Config {
    Amount capacity = 1000;
    double refill_rate = 10.0;  // tokens a second
    Scope scope = Scope::kPerAgent;
    // How many agents there is room for whose buckets are not full; 43 bytes each. Per agent only.
    std::size_t agents_max = 100'000;
  };

  // Fails with kInvalidConfig, in a message that names the value, unless the capacity is in
  // [1, kAmountMax], the rate in (0, 10^9], the bucket fills within 400 days and agents_max is in
  // [1, BucketTable::kCapacityMax]. A token takes up to a nanosecond longer than asked, at rates
  // above 1 a second up to a twentieth of one. The clock must outlive the bucket.
  static Result<std::unique_ptr<LocalTokenBucket>> create(const Config& config, const Clock& clock);

  // Whether the agent had the tokens; if so they are spent. Fails with kInvalidConfig for an id
  // that cannot be one, kInvalidCost for less than one token, kNeverFits for more than the
  // capacity, kCapacityExhausted when there is no room for another agent.
  Result<bool> acquire(std::string_view agent, Amount tokens);

  // The most that acquire() would give now.
  Result<Amount> available_tokens(std::string_view agent) const;

  // Fills the bucket.
  Result<void> reset(std::string_view agent);

 private:
  LocalTokenBucket(const Config& config, std::unique_ptr<BucketTable> table)
      : config_(config), table_(std::move(table)) {}
  ResourceKey key_of(std::string_view agent) const;

  const Config config_;
  const std::unique_ptr<BucketTable> table_;
};

}  // namespace weir
