#include "weir/control/backoff.h"

#include <algorithm>
#include <string>

namespace weir {
namespace {

// splitmix64: one word of state, and seeds that differ by 1 give unrelated numbers.
std::uint64_t next_random(std::uint64_t& state) {
  std::uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

Result<Backoff> Backoff::create(const Config& config, std::uint64_t seed) {
  const auto ns = [](Nanos time) { return std::to_string(time.count()) + " ns"; };
  if (config.max_delay <= Nanos{0} || config.max_delay > kPeriodMax) {
    return fail(Errc::kInvalidConfig,
                "max_delay must be positive and at most 400 days, not " + ns(config.max_delay));
  }
  if (config.initial <= Nanos{0} || config.initial > config.max_delay) {
    return fail(Errc::kInvalidConfig, "initial must be positive and at most max_delay (" +
                                          ns(config.max_delay) + "), not " + ns(config.initial));
  }
  // Negated, because a NaN compares false with everything.
  if (!(config.factor >= 1 && config.factor <= Factor::kMax)) {
    return fail(Errc::kInvalidConfig,
                "factor must be from 1 to 10^6, not " + std::to_string(config.factor));
  }
  return Backoff(config, seed);
}

Backoff::Backoff(const Config& config, std::uint64_t seed)
    : factor_(config.factor),
      max_delay_(config.max_delay),
      ceiling_(config.initial),
      random_(seed) {}

Nanos Backoff::next() {
  const Int128 choices = Int128{ceiling_.count()} + 1;
  const auto drawn = static_cast<Nanos::rep>(choices * (next_random(random_) >> 1) >> 63);
  const Int128 grown = factor_.times(ceiling_.count());
  ceiling_ = Nanos{static_cast<Nanos::rep>(std::min(grown, Int128{max_delay_.count()}))};
  return Nanos{drawn};
}

Backoff Backoff::with_seed(std::uint64_t seed) const {
  Backoff copy = *this;
  copy.random_ = seed;
  return copy;
}

}  // namespace weir
