#include "weir/control/retry.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include "weir/time/sleep.h"

namespace weir {

Retry::Verdict Retry::again_if_it_may_pass(const Error& error) {
  switch (error.code) {
    case Errc::kCapacityExhausted:
    case Errc::kDeadlineExceeded:
    case Errc::kUnavailable:
    case Errc::kBreakerOpen:
    case Errc::kCallFailed: return {.again = true};
    case Errc::kClosed:
    case Errc::kResourceUnknown:
    case Errc::kNeverFits:
    case Errc::kCancelled:
    case Errc::kInvalidCapacity:
    case Errc::kInvalidWindow:
    case Errc::kInvalidConfig:
    case Errc::kInvalidLimit:
    case Errc::kInvalidCost: return {};
  }
  return {};
}

Result<std::unique_ptr<Retry>> Retry::create(Config config, TimeSource time) {
  if (config.max_attempts < 1) {
    return fail(Errc::kInvalidConfig,
                "max_attempts must be at least 1, not " + std::to_string(config.max_attempts));
  }
  if (!config.classify) return fail(Errc::kInvalidConfig, "classify is empty");
  const std::uint64_t seed = config.seed ? *config.seed : [] {
    std::random_device entropy;
    return std::uint64_t{entropy()} << 32 | entropy();
  }();
  Result<Backoff> backoff = Backoff::create(config.backoff, seed);
  if (!backoff) return std::unexpected(std::move(backoff).error());
  return std::unique_ptr<Retry>(new Retry(std::move(config), *backoff, seed, time));
}

Retry::Retry(Config config, Backoff backoff, std::uint64_t seed, TimeSource time)
    : config_(std::move(config)), backoff_(backoff), seeds_(seed), time_(time) {}

std::optional<Nanos> Retry::delay_after(int attempt, const Error& error, Backoff& backoff) const {
  if (attempt >= config_.max_attempts) return std::nullopt;
  const Verdict verdict = config_.classify(error);
  if (!verdict.again) return std::nullopt;
  return std::clamp(verdict.not_before, Nanos{0}, kPeriodMax) + backoff.next();
}

Error Retry::describe(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& exception) {
    return {Errc::kCallFailed, exception.what()};
  } catch (...) {
    return {Errc::kCallFailed, "the call threw something other than a std::exception"};
  }
}

Error Retry::stopped_after(const Error& error) {
  return {Errc::kCancelled, "stopped while waiting to retry after " +
                                std::string(name(error.code)) + ": " + error.message};
}

Result<void> Retry::sleep(Nanos delay, const std::stop_token& stop, const Error& last) const {
  const Instant until = clamp_instant(time_.clock.now()) + delay;
  if (sleep_until(time_, until, stop) == Woken::kTime) return {};
  return std::unexpected(stopped_after(last));
}

}  // namespace weir
