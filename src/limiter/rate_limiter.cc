#include "weir/limiter/rate_limiter.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace weir {
namespace {

Error invalid(const char* rule, const std::string& value) {
  return {Errc::kInvalidConfig, std::string{rule} + ": " + value};
}

// In as many digits as it takes.
std::string spell(double value) {
  std::array<char, 32> text{};
  const auto [end, _] = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end};
}
std::string spell(Nanos value) { return std::to_string(value.count()) + " ns"; }

// The simplest fraction within 10^-12 of what was asked, by continued fractions: a third of a
// permit a second is 1 per 3 s and not 3333333333 per 10^10 s.
Rate rate_of(double per_second) {
  const double per_nano = per_second / 1e9;
  double rest = per_nano;
  double amount_before = 0;
  double period_before = 1;
  double amount = 1;
  double period = 0;
  while (true) {
    const double whole = std::floor(rest);
    amount_before = std::exchange(amount, whole * amount + amount_before);
    period_before = std::exchange(period, whole * period + period_before);
    const double error = std::abs(amount / period - per_nano);
    if (amount > 0 && error <= per_nano * 1e-12) break;
    rest = 1 / (rest - whole);
  }
  // The lowest rate's period is rounded to a multiple of 4 ns.
  return {static_cast<Amount>(amount),
          std::min(Nanos{static_cast<std::int64_t>(period)}, kPeriodMax)};
}

Result<LimitSpec> limit_of(const RateLimiterConfig& config) {
  const double lowest = 1e9 / static_cast<double>(kPeriodMax.count());
  if (!(config.permits_per_second >= lowest && config.permits_per_second <= 1e9)) {
    const char* rule = config.permits_per_second > 0
                           ? "permits_per_second must be from 1 in 400 days to 10^9"
                           : "permits_per_second must be positive";
    return std::unexpected(invalid(rule, spell(config.permits_per_second)));
  }
  if (config.burst_size < 1) {
    return std::unexpected(
        invalid("burst_size must be at least 1", std::to_string(config.burst_size)));
  }
  if (config.warmup_period < Nanos{0}) {
    return std::unexpected(
        invalid("warmup_period must not be negative", spell(config.warmup_period)));
  }
  const Rate rate = rate_of(config.permits_per_second);
  LimitSpec spec;
  if (config.algorithm != RateLimiterConfig::Algorithm::kTokenBucket) {
    if (config.window <= Nanos{0}) {
      return std::unexpected(invalid("window must be positive", spell(config.window)));
    }
    if (config.burst_size > 1) {
      return std::unexpected(
          invalid("burst_size is for a token bucket", std::to_string(config.burst_size)));
    }
    if (config.warmup_period > Nanos{0}) {
      return std::unexpected(
          invalid("warmup_period is for a token bucket", spell(config.warmup_period)));
    }
    const double window_seconds = std::chrono::duration<double>(config.window).count();
    const double in_window = std::floor(config.permits_per_second * window_seconds + 1e-9);
    if (in_window < 1) {
      return std::unexpected(
          invalid("a window must hold at least one permit",
                  spell(config.permits_per_second) + "/s in " + spell(window_seconds) + " s"));
    }
    const Rate windowed{static_cast<Amount>(in_window), config.window};
    spec = config.algorithm == RateLimiterConfig::Algorithm::kSlidingLog
               ? LimitSpec::sliding_log(Unit::kRequests, windowed)
               : LimitSpec::sliding_window(Unit::kRequests, windowed);
  } else if (config.warmup_period > Nanos{0}) {
    if (config.burst_size > 1) {
      return std::unexpected(
          invalid("burst_size must be 1 with a warmup_period", std::to_string(config.burst_size)));
    }
    spec = LimitSpec::warm_up_rate(Unit::kRequests, {rate, config.warmup_period});
  } else {
    spec = LimitSpec::token_bucket(Unit::kRequests, rate, config.burst_size);
  }
  spec.oversize = LimitSpec::Oversize::kOnDebt;
  spec.name = "permits";
  return spec;
}

Result<void> check_permits(Amount permits) {
  if (permits >= 0 && permits <= kAmountMax) return {};
  return fail(Errc::kInvalidCost, "permits must be from 0 to " + std::to_string(kAmountMax) + ": " +
                                      std::to_string(permits));
}

Result<Nanos> waited_since(Instant asked, const Result<Permit>& permit) {
  if (!permit) return std::unexpected(permit.error());
  return permit->waited() ? std::max(permit->charged_at() - asked, Nanos{0}) : Nanos{0};
}

}  // namespace

Result<RateLimiter> RateLimiter::create(const RateLimiterConfig& config, TimeSource time) {
  auto limit = limit_of(config);
  if (!limit) return std::unexpected(limit.error());
  auto gate = Gate::create({.name = "rate limiter", .limits = {std::move(*limit)}}, time);
  if (!gate) return fail(Errc::kInvalidConfig, gate.error().message);
  const Amount burst = (*gate)->metrics().limits[0].capacity;
  return RateLimiter{std::move(*gate), config.permits_per_second, burst};
}

Result<RateLimiter> RateLimiter::create(double permits_per_second, TimeSource time) {
  return create(RateLimiterConfig{}.with_permits_per_second(permits_per_second), time);
}

Result<RateLimiter> RateLimiter::with_burst(double permits_per_second, Amount burst_size,
                                            TimeSource time) {
  return create(
      RateLimiterConfig{}.with_permits_per_second(permits_per_second).with_burst_size(burst_size),
      time);
}

RateLimiter RateLimiter::unlimited() {
  return {*Gate::create({.name = "unlimited", .limits = {}}),
          std::numeric_limits<double>::infinity(), kAmountMax};
}

Result<Nanos> RateLimiter::acquire_n(Amount permits, const Patience& patience) {
  if (auto good = check_permits(permits); !good) return std::unexpected(good.error());
  if (permits == 0) return Nanos{0};
  const Instant asked = gate_->clock().now();
  const auto permit = gate_->acquire({.cost = Cost::of(Unit::kRequests, permits)}, patience);
  return waited_since(asked, permit);
}

Ticket RateLimiter::acquire_async(Amount permits, Instant deadline, Done done) {
  if (auto good = check_permits(permits); !good) {
    done(std::unexpected(good.error()));
    return {};
  }
  if (permits == 0) {
    done(Nanos{0});
    return {};
  }
  const Instant asked = gate_->clock().now();
  return gate_->acquire_async(
      {.cost = Cost::of(Unit::kRequests, permits)}, deadline,
      [asked, done = std::move(done)](const Result<Permit>& permit) mutable {
        done(waited_since(asked, permit));
      });
}

Result<void> RateLimiter::try_acquire_n(Amount permits) {
  if (auto good = check_permits(permits); !good || permits == 0) return good;
  if (permits > burst_) {
    return fail(Errc::kNeverFits, "more permits than the burst of " + std::to_string(burst_) +
                                      ": " + std::to_string(permits));
  }
  const auto permit = gate_->try_acquire({.cost = Cost::of(Unit::kRequests, permits)});
  if (!permit) return fail(permit.error().code);
  return {};
}

double RateLimiter::available_permits() const {
  return std::isinf(rate_per_second_) ? rate_per_second_ : gate_->level(0);
}

Nanos RateLimiter::estimated_wait() const {
  return gate_->forecast(Cost::of(Unit::kRequests, 1), gate_->clock().now()).retry_after;
}

RateLimiterMetrics RateLimiter::metrics() const {
  const GateMetrics metrics = gate_->metrics();
  return {.total_acquired = metrics.acquired,
          .total_rejected = metrics.rejected,
          .total_wait_time = metrics.total_wait,
          .average_wait_time = metrics.average_wait()};
}

}  // namespace weir
