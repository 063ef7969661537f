#include "workload/model_provider.h"

#include <algorithm>
#include <cmath>

#include "provider/calendar_ends.h"
#include "provider/pattern.h"

namespace weir::workload {
namespace {

double seconds(Nanos span) { return static_cast<double>(span.count()) / 1e9; }

}  // namespace

Result<ModelProvider> ModelProvider::create(const ProviderConfig& config, std::string_view model,
                                            const Clock& clock) {
  ModelProvider provider;
  const Instant now = clock.now();
  const auto calendar = std::make_shared<Calendar>(clock);
  const auto add = [&](const std::vector<LimitConfig>& limits) -> Result<void> {
    for (const LimitConfig& config_of : limits) {
      if (config_of.spec.unit == Unit::kMicroUsd) continue;
      LimitSpec spec = config_of.spec;
      if (config_of.align) {
        spec.ends = std::make_shared<CalendarEnds>(*config_of.align, spec.period, calendar);
      }
      auto limit = Limit::create(std::move(spec), now);
      if (!limit) return std::unexpected(limit.error());
      provider.limits_.push_back({.limit = std::move(*limit), .looked_at = now, .held_since = now});
    }
    return {};
  };
  if (auto added = add(config.limits); !added) return std::unexpected(added.error());
  if (const ModelConfig* rule = most_specific(config.models, model)) {
    if (auto added = add(rule->limits); !added) return std::unexpected(added.error());
  }
  return provider;
}

Decision ModelProvider::admit(const Cost& cost, Instant now) {
  Decision worst = Decision::admit();
  for (const Counted& counted : limits_) {
    const Decision decision = counted.limit.check(cost[counted.limit.unit()], now);
    if (decision.kind == Decision::Kind::kNever) return decision;
    if (!decision.admitted() && (worst.admitted() || decision.retry_after > worst.retry_after)) {
      worst = decision;
    }
  }
  if (!worst.admitted()) return worst;
  for (Counted& counted : limits_) {
    const Amount amount = cost[counted.limit.unit()];
    counted.limit.take(amount, now);
    if (counted.limit.borrowed()) {
      count_held(counted, now);
      counted.held += amount;
    } else {
      counted.used += static_cast<double>(amount);
    }
  }
  return worst;
}

void ModelProvider::answered(const Cost& cost, Instant now) {
  for (Counted& counted : limits_) {
    if (!counted.limit.borrowed()) continue;
    count_held(counted, now);
    counted.held -= cost[Unit::kSlots];
    counted.limit.give_back(cost[Unit::kSlots]);
  }
}

void ModelProvider::count_held(Counted& counted, Instant now) {
  counted.used += static_cast<double>(counted.held) * seconds(now - counted.held_since);
  counted.held_since = now;
}

ModelProvider::Use ModelProvider::look(std::size_t limit, Instant now) {
  Counted& counted = limits_[limit];
  count_held(counted, now);
  const LimitSpec& spec = counted.limit.spec();
  const double span = seconds(now - std::exchange(counted.looked_at, now));
  const double rate = counted.limit.borrowed()
                          ? static_cast<double>(spec.amount)
                          : static_cast<double>(spec.amount) / seconds(spec.period);
  return {.used = std::exchange(counted.used, 0), .allowed = rate * span};
}

double ModelProvider::allowance(std::size_t limit, Nanos span) const {
  const Limit& counted = limits_[limit].limit;
  const LimitSpec& spec = counted.spec();
  const auto amount = static_cast<double>(spec.amount);
  const auto capacity = static_cast<double>(counted.capacity());
  switch (spec.algorithm) {
    case LimitSpec::Algorithm::kConcurrency: return amount * seconds(span);
    case LimitSpec::Algorithm::kTokenBucket:
    case LimitSpec::Algorithm::kWarmUp:
      return capacity + amount * seconds(span) / seconds(spec.period);
    case LimitSpec::Algorithm::kStepped:
      return capacity + amount * std::floor(seconds(span) / seconds(spec.period));
    case LimitSpec::Algorithm::kFixedWindow:
    case LimitSpec::Algorithm::kSlidingWindow:
    case LimitSpec::Algorithm::kSlidingLog:
      return amount * std::ceil(seconds(span) / seconds(spec.period));
  }
  return 0;
}

}  // namespace weir::workload
