#include "server/forecast.h"

#include <algorithm>

namespace weir::server {

std::optional<Nanos> time_left(const Quantity& now, std::span<const UseSample> past) {
  Nanos back = kPaceSpan;
  if (now.resets_in) back = std::min(back, now.period - *now.resets_in);
  const auto oldest =
      std::ranges::find_if(past, [&](const UseSample& sample) { return sample.age <= back; });
  if (oldest == past.end() || oldest->age < kPaceSpanMin) return std::nullopt;
  const double risen = now.used - oldest->used;
  if (risen <= 0) return std::nullopt;
  const double left = std::max(1 - now.used, 0.0) / risen;  // of what was used in that time
  const double nanos = left * static_cast<double>(oldest->age.count());
  if (nanos > static_cast<double>(kPeriodMax.count())) return std::nullopt;
  const Nanos lasts{static_cast<std::int64_t>(nanos)};
  if (now.resets_in && lasts >= *now.resets_in) return std::nullopt;
  return lasts;
}

}  // namespace weir::server
