// RateLimiter: so many permits a second, with a burst; wait for them or not (S1).
//
//   auto limiter = weir::RateLimiter::with_burst(100.0, 20);
//   if (limiter->try_acquire()) …                  // never waits
//   auto waited = limiter->acquire();              // waits its turn
//   auto answer = limiter->with_limit([] { return call_the_api(); });
//
// Safe to use from any thread. Attempts are lock-free while nobody waits; who waits is served in
// order of arrival and woken when its permits are due. Permits are consumed, never given back.
#pragma once

#include <memory>

#include "weir/core/call.h"
#include "weir/gate/gate.h"

namespace weir {

struct RateLimiterConfig {
  enum class Algorithm : std::uint8_t {
    kTokenBucket,    // a steady rate and a burst; with a warm-up, Guava's smooth warming up
    kSlidingWindow,  // at most rate × window in a sliding window, by two counters
    kSlidingLog,     // the same, exactly, by remembering each request
  };

  double permits_per_second = 1.0;
  Amount burst_size = 1;  // token bucket only
  // How long the rate climbs from a third of itself after idleness. Token bucket only, and not with
  // a burst above 1, nor at a rate that one word cannot count (some above 20,000 a second).
  Nanos warmup_period{0};
  Algorithm algorithm = Algorithm::kTokenBucket;
  Nanos window = std::chrono::seconds{1};  // sliding algorithms only

  RateLimiterConfig with_permits_per_second(double value) const {
    return with(&RateLimiterConfig::permits_per_second, value);
  }
  RateLimiterConfig with_burst_size(Amount value) const {
    return with(&RateLimiterConfig::burst_size, value);
  }
  RateLimiterConfig with_warmup_period(Nanos value) const {
    return with(&RateLimiterConfig::warmup_period, value);
  }
  RateLimiterConfig with_algorithm(Algorithm value) const {
    return with(&RateLimiterConfig::algorithm, value);
  }
  RateLimiterConfig with_window(Nanos value) const {
    return with(&RateLimiterConfig::window, value);
  }

 private:
  template <class T>
  RateLimiterConfig with(T RateLimiterConfig::* field, T value) const {
    RateLimiterConfig config = *this;
    config.*field = value;
    return config;
  }
};

struct RateLimiterMetrics {
  std::uint64_t total_acquired = 0;
  std::uint64_t total_rejected = 0;
  Nanos total_wait_time{0};
  Nanos average_wait_time{0};  // over all that were acquired
};

class RateLimiter {
 public:
  // Each fails with kInvalidConfig and a message that names the value.
  static Result<RateLimiter> create(const RateLimiterConfig& config,
                                    TimeSource time = TimeSource::system());
  static Result<RateLimiter> create(double permits_per_second,
                                    TimeSource time = TimeSource::system());
  static Result<RateLimiter> with_burst(double permits_per_second, Amount burst_size,
                                        TimeSource time = TimeSource::system());
  // Admits everything.
  static RateLimiter unlimited();

  // Waits for its permits and tells how long that took, 0 if they were there. More than the burst
  // is admitted once the bucket is full, on debt: those who come next pay for it. No permits
  // succeed at once; a negative count is kInvalidCost.
  Result<Nanos> acquire(const Patience& patience = {}) { return acquire_n(1, patience); }
  Result<Nanos> acquire_n(Amount permits, const Patience& patience = {});

  // Without a thread: `done` gets what acquire_n returns. Must neither wait nor throw.
  using Done = std::move_only_function<void(Result<Nanos>)>;
  Ticket acquire_async(Amount permits, Instant deadline, Done done);

  // Never waits. Refused: kCapacityExhausted, or kClosed; more than the burst: kNeverFits.
  bool try_acquire() { return gate_->try_spend(1); }
  bool try_acquire(Instant now) { return gate_->try_spend(1, now); }
  Result<void> try_acquire_n(Amount permits);

  // Runs `f` once its permits are there; gives what it gives, as a Result.
  template <std::invocable F>
  invoke_result_of<F> with_limit(F&& f) {
    return with_limit_n(1, std::forward<F>(f));
  }
  template <std::invocable F>
  invoke_result_of<F> with_limit_n(Amount permits, F&& f) {
    if (auto waited = acquire_n(permits); !waited) return std::unexpected(waited.error());
    return call(std::forward<F>(f));
  }

  // Fractions included, negative while in debt; infinite if unlimited.
  double available_permits() const;
  // How long an acquire() of one permit would wait now.
  Nanos estimated_wait() const;
  double rate_per_second() const { return rate_per_second_; }
  RateLimiterMetrics metrics() const;

  // Ends every wait with kClosed and refuses from now on.
  void close() { gate_->close(); }

 private:
  RateLimiter(std::unique_ptr<Gate> gate, double rate_per_second, Amount burst)
      : gate_(std::move(gate)), rate_per_second_(rate_per_second), burst_(burst) {}

  std::unique_ptr<Gate> gate_;
  double rate_per_second_;
  Amount burst_;  // what an attempt can get at most
};

}  // namespace weir
