// Exponential back-off with full jitter: how long to wait before the next attempt.
//
// A pure value: no clock, no lock; one object for one sequence of attempts. The n-th delay is
// drawn evenly from [0, min(max_delay, initial × factor^(n-1))]: spreading over the whole interval
// keeps callers that failed together from coming back together. The same seed gives the same
// delays.
#pragma once

#include <cstdint>

#include "weir/control/factor.h"
#include "weir/core/error.h"
#include "weir/core/time.h"

namespace weir {

class Backoff {
 public:
  struct Config {
    Nanos initial = std::chrono::milliseconds{100};
    double factor = 2.0;
    Nanos max_delay = std::chrono::seconds{30};
  };

  // Fails with kInvalidConfig unless 0 < initial <= max_delay <= kPeriodMax and factor lies in
  // [1, Factor::kMax]; it counts to six decimals.
  static Result<Backoff> create(const Config& config, std::uint64_t seed);

  Nanos next();

  // The longest that next() may return.
  Nanos ceiling() const { return ceiling_; }

  // A copy that goes on with other random numbers.
  Backoff with_seed(std::uint64_t seed) const;

 private:
  Backoff(const Config& config, std::uint64_t seed);

  Factor factor_;
  Nanos max_delay_;
  Nanos ceiling_;
  std::uint64_t random_;
};

}  // namespace weir
