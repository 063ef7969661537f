#include "server/binding.h"

#include <algorithm>

#include "server/refusal.h"

namespace weir::server {

Nanos time_until(const LimitStatus& limit, const Cost& cost) {
  const Amount needed = cost[limit.unit];
  const Amount missing = std::min(needed, limit.capacity) - limit.available;
  if (needed == 0 || missing <= 0) return Nanos{0};
  if (limit.unit == Unit::kSlots) return std::chrono::seconds{1};
  if (limit.resets_in) return *limit.resets_in;
  const double periods = static_cast<double>(missing) / static_cast<double>(limit.amount);
  const double nanos = periods * static_cast<double>(limit.period.count());
  return Nanos{static_cast<std::int64_t>(std::min(nanos, static_cast<double>(kPeriodMax.count())))};
}

double used_part(const LimitStatus& limit) {
  const auto left = static_cast<double>(limit.available);
  return std::max(1 - left / static_cast<double>(std::max<Amount>(limit.capacity, 1)), 0.0);
}

std::string binding_limit(const Resource& resource, const Path& path, const Cost& cost) {
  std::string name;
  std::pair<Nanos, double> most{-1, 0};
  for (const Gate* gate : path.gates()) {
    const GateMetrics metrics = gate->metrics();
    for (const LimitStatus& limit : metrics.limits) {
      const std::pair weight{time_until(limit, cost), used_part(limit)};
      if (weight > most) std::tie(most, name) = std::pair{weight, limit.name};
    }
    if (metrics.held && metrics.held_for > most.first) {
      most.first = metrics.held_for;
      name = resource.paused() ? kPaused : "hold";
    }
  }
  return name;
}

}  // namespace weir::server
