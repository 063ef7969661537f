// Retry: runs a call again after a failure that may pass, with back-off and jitter.
//
// Blocks the calling thread between attempts, on the injected time. Code that must not block asks
// backoff() and delay_after() and does its own waiting. Safe to use from any thread. Does not
// bound the time of an attempt, nor the whole: for that, stop it by its token.
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>

#include "weir/control/backoff.h"
#include "weir/core/call.h"
#include "weir/core/error.h"
#include "weir/core/time.h"
#include "weir/time/timer.h"

namespace weir {

class Retry {
 public:
  // What to do about an error.
  struct Verdict {
    bool again = false;
    // A Retry-After: the jittered delay is added to it, so that callers who were told the same
    // instant do not come back together. max_delay does not cap it.
    Nanos not_before{0};
  };

  struct Config {
    int max_attempts = 4;  // the first one included
    Backoff::Config backoff{};
    std::function<Verdict(const Error&)> classify = again_if_it_may_pass;
    // Fixes the jitter, for tests. Processes that share a seed retry in step.
    std::optional<std::uint64_t> seed{};
  };

  // Again, unless repeating the call cannot help: closed, cancelled, never fits, unknown resource,
  // invalid values.
  static Verdict again_if_it_may_pass(const Error& error);

  // Fails with kInvalidConfig unless max_attempts is positive and the back-off is valid.
  static Result<std::unique_ptr<Retry>> create(Config config, TimeSource time);

  // Runs `f`, which returns Result<T>, T or void, until it succeeds, the attempts are used up or
  // the verdict is not to; gives the last Result. An exception is classified as kCallFailed with
  // its what(), and the last one goes on to the caller. kCancelled if stop is requested before an
  // attempt.
  template <std::invocable F>
  invoke_result_of<F&> run(F&& f, const std::stop_token& stop = {}) {
    Backoff delays = backoff();
    if (stop.stop_requested()) return fail(Errc::kCancelled, "stopped before the first attempt");
    for (int attempt = 1;; ++attempt) {
      std::exception_ptr thrown;
      auto result = [&]() -> invoke_result_of<F&> {
        try {
          return call(f);
        } catch (...) {
          thrown = std::current_exception();
          return std::unexpected(describe(thrown));
        }
      }();
      if (result) return result;
      const std::optional<Nanos> delay = delay_after(attempt, result.error(), delays);
      if (!delay) {
        if (thrown) std::rethrow_exception(thrown);
        return result;
      }
      if (Result<void> slept = sleep(*delay, stop, result.error()); !slept) {
        return std::unexpected(std::move(slept).error());
      }
    }
  }

  // The delays of one run.
  Backoff backoff() { return backoff_.with_seed(seeds_.fetch_add(1, std::memory_order_relaxed)); }

  // How long to wait after attempt number `attempt`, counted from 1, has failed; nullopt: give up.
  std::optional<Nanos> delay_after(int attempt, const Error& error, Backoff& backoff) const;

  // What a thrown attempt is classified as, and what a run ends with that is stopped after one.
  static Error describe(const std::exception_ptr& thrown);
  static Error stopped_after(const Error& error);

  // Where the delays are waited for.
  TimeSource time() const { return time_; }

 private:
  Retry(Config config, Backoff backoff, std::uint64_t seed, TimeSource time);

  // kCancelled, with the error that was to be retried, if stopped.
  Result<void> sleep(Nanos delay, const std::stop_token& stop, const Error& last) const;

  const Config config_;
  const Backoff backoff_;
  std::atomic<std::uint64_t> seeds_;
  const TimeSource time_;
};

}  // namespace weir
