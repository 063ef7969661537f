// Circuit breaker: stops calling a service that keeps failing, and tries again after a while.
//
//   closed     every call passes; `failure_threshold` failures in a row open it.
//   open       nothing passes for `open_for`.
//   half open  `half_open_calls` at once may try: the first success closes it, a failure opens it.
//
// A call that began before the last change of state says nothing about the present one: its
// outcome is ignored. Safe to use from any thread; holds no lock while a call runs. Does not
// bound how long a call takes: one that hangs in the half-open state holds its place.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "weir/core/call.h"
#include "weir/core/error.h"
#include "weir/core/time.h"
#include "weir/time/clock.h"

namespace weir {

class CircuitBreaker {
 public:
  enum class State : std::uint8_t { kClosed, kOpen, kHalfOpen };

  struct Config {
    int failure_threshold = 3;
    Nanos open_for = std::chrono::seconds{30};
    int half_open_calls = 1;
    // Which errors are the service's failure; the others count neither way.
    std::function<bool(const Error&)> is_failure = is_service_failure;
  };

  // Weir's own refusals (closed, cancelled, no capacity, never fits, unknown resource, invalid
  // values) are not the service's fault; every other code is.
  static bool is_service_failure(const Error& error);

  // The right to make one call. Say how it ended, once; destroyed without a word it counts neither
  // way and gives its half-open place back. The breaker must outlive it.
  class [[nodiscard]] Pass {
   public:
    Pass(Pass&& other) noexcept
        : breaker_(std::exchange(other.breaker_, nullptr)), era_(other.era_) {}
    Pass& operator=(Pass&&) = delete;
    ~Pass() { end(Outcome::kNeither); }

    void success() { end(Outcome::kSuccess); }
    void failure() { end(Outcome::kFailure); }

    // Success, failure or neither, by the breaker's is_failure.
    template <class T>
    void judge(const Result<T>& result) {
      if (result) return success();
      if (breaker_ != nullptr && breaker_->config_.is_failure(result.error())) failure();
    }

   private:
    friend class CircuitBreaker;
    enum class Outcome : std::uint8_t { kSuccess, kFailure, kNeither };

    Pass(CircuitBreaker& breaker, std::uint64_t era) : breaker_(&breaker), era_(era) {}
    void end(Outcome outcome) {
      if (breaker_ != nullptr) std::exchange(breaker_, nullptr)->end_call(era_, outcome);
    }

    CircuitBreaker* breaker_;
    std::uint64_t era_;
  };

  struct Counters {
    std::uint64_t opened = 0;
    std::uint64_t rejected = 0;
  };

  // Fails with kInvalidConfig unless both counts are positive and open_for is in (0, kPeriodMax].
  // The clock must outlive the breaker.
  static Result<std::unique_ptr<CircuitBreaker>> create(Config config, const Clock& clock);

  // kBreakerOpen, with a message that says when it tries again, if the call may not be made.
  Result<Pass> try_enter();

  // Runs `f`, which returns Result<T>, T or void, and gives its Result. An exception counts as a
  // failure and goes on to the caller. kBreakerOpen if `f` was not run.
  template <std::invocable F>
  invoke_result_of<F> run(F&& f) {
    Result<Pass> pass = try_enter();
    if (!pass) return std::unexpected(std::move(pass).error());
    try {
      auto result = call(std::forward<F>(f));
      pass->judge(result);
      return result;
    } catch (...) {
      pass->failure();
      throw;
    }
  }

  // An open breaker whose time has passed is half open, whether or not somebody has tried yet.
  State state(Instant now) const;
  Counters counters() const;

 private:
  CircuitBreaker(Config config, const Clock& clock) : config_(std::move(config)), clock_(clock) {}

  State state_at(Instant now) const;
  void change_to(State state);
  void end_call(std::uint64_t era, Pass::Outcome outcome);

  const Config config_;
  const Clock& clock_;

  mutable std::mutex mutex_;
  State state_ = State::kClosed;
  std::uint64_t era_ = 0;  // counts changes of state
  int failures_ = 0;       // in a row, while closed
  int trials_ = 0;         // under way, while half open
  Instant retry_at_{};     // while open
  Counters counters_;
};

// "closed", "open", "half_open".
constexpr std::string_view name(CircuitBreaker::State state) {
  switch (state) {
    case CircuitBreaker::State::kClosed: return "closed";
    case CircuitBreaker::State::kOpen: return "open";
    case CircuitBreaker::State::kHalfOpen: return "half_open";
  }
  return "unknown";
}

}  // namespace weir
