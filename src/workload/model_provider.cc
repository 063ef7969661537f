#include "workload/model_provider.h"

#include "provider/calendar_ends.h"
#include "provider/pattern.h"
#include "weir/core/int128.h"

namespace weir::workload {
namespace {

double seconds(Nanos span) { return static_cast<double>(span.count()) / 1e9; }

}  // namespace

std::vector<LimitConfig> limits_of(const ProviderConfig& config, std::string_view model) {
  std::vector<LimitConfig> limits = config.limits;
  if (const ModelConfig* rule = most_specific(config.models, model)) {
    limits.insert(limits.end(), rule->limits.begin(), rule->limits.end());
  }
  return limits;
}

Result<ModelProvider> ModelProvider::create(const ProviderConfig& config, std::string_view model,
                                            const Clock& clock) {
  ModelProvider provider;
  const Instant now = clock.now();
  const auto calendar = std::make_shared<Calendar>(clock);
  for (auto& [spec, align] : limits_of(config, model)) {
    if (spec.unit == Unit::kMicroUsd) continue;
    if (align) spec.ends = std::make_shared<CalendarEnds>(*align, spec.period, calendar);
    auto limit = Limit::create(std::move(spec), now);
    if (!limit) return std::unexpected(limit.error());
    provider.limits_.push_back({.limit = std::move(*limit), .looked_at = now, .held_since = now});
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
      return capacity + amount * static_cast<double>(span / spec.period);
    case LimitSpec::Algorithm::kFixedWindow:
    case LimitSpec::Algorithm::kSlidingWindow:
    case LimitSpec::Algorithm::kSlidingLog:
      return amount * static_cast<double>(ceil_div(span.count(), spec.period.count()));
  }
  return 0;
}

}  // namespace weir::workload
