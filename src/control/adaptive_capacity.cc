#include "weir/control/adaptive_capacity.h"

#include <string>
#include <utility>

namespace weir {
namespace {

constexpr double kMillionth = 1e-6;

}  // namespace

Result<AdaptiveCapacity> AdaptiveCapacity::create(const Config& config) {
  if (config.original < 1 || config.original > kAmountMax) {
    return fail(Errc::kInvalidCapacity, "original must be from 1 to " + std::to_string(kAmountMax) +
                                            ", not " + std::to_string(config.original));
  }
  // Negated, because a NaN compares false with everything.
  if (!(config.reduce_factor >= kMillionth && config.reduce_factor <= 1 - kMillionth)) {
    return fail(Errc::kInvalidConfig, "reduce_factor must lie between 0 and 1, not " +
                                          std::to_string(config.reduce_factor));
  }
  if (!(config.recovery_factor >= 1 + kMillionth && config.recovery_factor <= Factor::kMax)) {
    return fail(Errc::kInvalidConfig, "recovery_factor must be above 1 and at most 10^6, not " +
                                          std::to_string(config.recovery_factor));
  }
  if (config.recovery_interval <= Nanos{0} || config.recovery_interval > kPeriodMax) {
    return fail(Errc::kInvalidConfig,
                "recovery_interval must be positive and at most 400 days, not " +
                    std::to_string(config.recovery_interval.count()) + " ns");
  }
  if (config.window < Nanos{0} || config.window > kPeriodMax) {
    return fail(Errc::kInvalidConfig, "window must be from 0 to 400 days, not " +
                                          std::to_string(config.window.count()) + " ns");
  }
  return AdaptiveCapacity(config);
}

AdaptiveCapacity::AdaptiveCapacity(const Config& config)
    : original_(config.original),
      ceiling_(config.max_recovery ? config.original : kAmountMax),
      reduce_factor_(config.reduce_factor),
      recovery_factor_(config.recovery_factor),
      recovery_interval_(config.recovery_interval),
      window_(config.window),
      capacity_(config.original) {}

bool AdaptiveCapacity::reduce(Instant now) {
  now = clamp_instant(now);
  if (now < last_cut_ + window_) return false;
  return cut_to(std::max(static_cast<Amount>(reduce_factor_.times(capacity_)), Amount{1}), now);
}

bool AdaptiveCapacity::reduce_to(Amount capacity, Instant now) {
  if (capacity < 1 || capacity >= capacity_) return false;
  return cut_to(capacity, clamp_instant(now));
}

bool AdaptiveCapacity::recover(Instant now) {
  const Amount before = capacity_;
  while (clamp_instant(now) >= next_recovery_) {
    const Int128 grown = std::max(recovery_factor_.times(capacity_), Int128{capacity_} + 1);
    capacity_ = static_cast<Amount>(std::min(grown, Int128{ceiling_}));
    recover_after(next_recovery_);
  }
  return capacity_ != before;
}

bool AdaptiveCapacity::cut_to(Amount capacity, Instant now) {
  const bool changed = std::exchange(capacity_, capacity) != capacity;
  last_cut_ = std::max(last_cut_, now);
  recover_after(last_cut_);
  return changed;
}

}  // namespace weir
