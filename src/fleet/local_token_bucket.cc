#include "weir/fleet/local_token_bucket.h"

#include <cmath>

#include "fleet/agent_quota.h"

namespace weir {
namespace {

// Few enough units a period for any rate to fit a word, and the period not above kPeriodMax.
Rate rate_of(double per_second) {
  const Amount units = per_second < 1 ? 1 : 20;
  const double period = std::ceil(static_cast<double>(units) * 1e9 / per_second);
  return {units, std::min(Nanos{static_cast<std::int64_t>(period)}, kPeriodMax)};
}

}  // namespace

Result<std::unique_ptr<LocalTokenBucket>> LocalTokenBucket::create(const Config& config,
                                                                   const Clock& clock) {
  if (auto good = fleet::check_quota(config.capacity, config.refill_rate); !good) {
    return std::unexpected(good.error());
  }
  const bool shared = config.scope == Scope::kAllAgents;
  auto table = BucketTable::create({.limit = {rate_of(config.refill_rate), config.capacity},
                                    .capacity = shared ? 1 : config.agents_max},
                                   clock);
  if (!table) return fail(Errc::kInvalidConfig, table.error().message);
  return std::unique_ptr<LocalTokenBucket>(new LocalTokenBucket(config, std::move(*table)));
}

Result<bool> LocalTokenBucket::acquire(std::string_view agent, Amount tokens) {
  if (auto good = fleet::check_request(agent, tokens, config_.capacity); !good) {
    return std::unexpected(good.error());
  }
  const Decision decision = table_->try_acquire(key_of(agent), tokens);
  if (decision.exact) return decision.admitted();
  return fail(Errc::kCapacityExhausted, "there is no room for another agent");
}

Result<Amount> LocalTokenBucket::available_tokens(std::string_view agent) const {
  if (auto good = fleet::check_agent(agent); !good) return std::unexpected(good.error());
  return std::max<Amount>(table_->available(key_of(agent)).value_or(config_.capacity), 0);
}

Result<void> LocalTokenBucket::reset(std::string_view agent) {
  if (auto good = fleet::check_agent(agent); !good) return good;
  table_->refund(key_of(agent), config_.capacity);
  return {};
}

ResourceKey LocalTokenBucket::key_of(std::string_view agent) const {
  return config_.scope == Scope::kAllAgents ? ResourceKey{} : ResourceKey::of(agent);
}

}  // namespace weir
