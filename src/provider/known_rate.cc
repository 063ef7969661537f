#include "provider/known_rate.h"

#include "provider/pattern.h"

namespace weir {

std::optional<Rate> known_rate(const ProviderConfig& provider, std::string_view model) {
  std::optional<Rate> known;
  const auto look = [&](const std::vector<LimitConfig>& limits) {
    for (const auto& [spec, align] : limits) {
      if (spec.unit != Unit::kRequests || (known && known->period <= spec.period)) continue;
      known = Rate{spec.amount, spec.period};
    }
  };
  look(provider.limits);
  if (const ModelConfig* pool = most_specific(provider.models, model)) look(pool->limits);
  return known;
}

}  // namespace weir
