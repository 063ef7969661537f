// Rate limiters in simulated time: for tests.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "weir/limiter/rate_limiter.h"
#include "weir/time/simulated_time.h"

namespace weir {

struct RateLimiterTest : testing::Test {
  using Config = RateLimiterConfig;
  using Algorithm = RateLimiterConfig::Algorithm;

  SimulatedTime time;
  const Instant start = time.now();

  RateLimiter make(double permits_per_second, Amount burst_size = 1) {
    return RateLimiter::with_burst(permits_per_second, burst_size, time.source()).value();
  }
  RateLimiter make(const Config& config) {
    return RateLimiter::create(config, time.source()).value();
  }
  Nanos elapsed() const { return time.now() - start; }

  // What acquire_n returns, with time moving on until it does.
  Result<Nanos> acquire_n(RateLimiter& limiter, Amount permits) {
    std::optional<Result<Nanos>> waited;
    limiter.acquire_async(permits, kEndOfTime,
                          [&](Result<Nanos> result) { waited.emplace(std::move(result)); });
    while (!waited) time.advance_to(time.next_alarm().value());
    return *waited;
  }
  std::vector<Nanos> acquire(RateLimiter& limiter, int times) {
    std::vector<Nanos> waits;
    for (int i = 0; i < times; ++i) waits.push_back(acquire_n(limiter, 1).value());
    return waits;
  }
};

}  // namespace weir
