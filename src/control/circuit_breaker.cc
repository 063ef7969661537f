#include "weir/control/circuit_breaker.h"

#include <string>

namespace weir {

bool CircuitBreaker::is_service_failure(const Error& error) {
  switch (error.code) {
    case Errc::kDeadlineExceeded:
    case Errc::kUnavailable:
    case Errc::kBreakerOpen:
    case Errc::kCallFailed: return true;
    case Errc::kClosed:
    case Errc::kResourceUnknown:
    case Errc::kCapacityExhausted:
    case Errc::kNeverFits:
    case Errc::kCancelled:
    case Errc::kInvalidCapacity:
    case Errc::kInvalidWindow:
    case Errc::kInvalidConfig:
    case Errc::kInvalidLimit:
    case Errc::kInvalidCost: return false;
  }
  return true;
}

Result<std::unique_ptr<CircuitBreaker>> CircuitBreaker::create(Config config, const Clock& clock) {
  const auto refuse = [](std::string what, auto value) {
    return fail(Errc::kInvalidConfig, what + ", not " + std::to_string(value));
  };
  if (config.failure_threshold < 1) {
    return refuse("failure_threshold must be at least 1", config.failure_threshold);
  }
  if (config.half_open_calls < 1) {
    return refuse("half_open_calls must be at least 1", config.half_open_calls);
  }
  if (config.open_for <= Nanos{0} || config.open_for > kPeriodMax) {
    return refuse("open_for must be positive and at most 400 days in ns", config.open_for.count());
  }
  if (!config.is_failure) return fail(Errc::kInvalidConfig, "is_failure is empty");
  return std::unique_ptr<CircuitBreaker>(new CircuitBreaker(std::move(config), clock));
}

Result<CircuitBreaker::Pass> CircuitBreaker::try_enter() {
  const Instant now = clamp_instant(clock_.now());
  const std::scoped_lock lock(mutex_);
  if (state_ != state_at(now)) change_to(State::kHalfOpen);
  if (state_ == State::kClosed) return Pass(*this, era_);
  if (state_ == State::kHalfOpen && trials_ < config_.half_open_calls) {
    ++trials_;
    return Pass(*this, era_);
  }
  ++counters_.rejected;
  if (state_ == State::kHalfOpen) {
    return fail(Errc::kBreakerOpen, "the circuit breaker waits for the outcome of " +
                                        std::to_string(trials_) + " trial calls");
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(retry_at_ - now);
  return fail(Errc::kBreakerOpen,
              "the circuit breaker tries again in " + std::to_string(left.count()) + " ms");
}

CircuitBreaker::State CircuitBreaker::state(Instant now) const {
  const std::scoped_lock lock(mutex_);
  return state_at(clamp_instant(now));
}

CircuitBreaker::Counters CircuitBreaker::counters() const {
  const std::scoped_lock lock(mutex_);
  return counters_;
}

CircuitBreaker::State CircuitBreaker::state_at(Instant now) const {
  return state_ == State::kOpen && now >= retry_at_ ? State::kHalfOpen : state_;
}

void CircuitBreaker::change_to(State state) {
  state_ = state;
  ++era_;
  trials_ = 0;
}

void CircuitBreaker::end_call(std::uint64_t era, Pass::Outcome outcome) {
  const Instant now = clamp_instant(clock_.now());
  const std::scoped_lock lock(mutex_);
  if (era != era_) return;
  const bool trial = state_ == State::kHalfOpen;
  switch (outcome) {
    case Pass::Outcome::kNeither:
      if (trial) --trials_;
      break;
    case Pass::Outcome::kSuccess:
      failures_ = 0;
      if (trial) change_to(State::kClosed);
      break;
    case Pass::Outcome::kFailure:
      if (!trial && ++failures_ < config_.failure_threshold) break;
      change_to(State::kOpen);
      retry_at_ = now + config_.open_for;
      ++counters_.opened;
      break;
  }
}

}  // namespace weir
