// The closed set of things that can go wrong, and the type that carries them.
//
// A refusal by a limit is not an error but a value (Decision, Refusal); it becomes one of these
// only where an interface promises to wait and the wait ends without a permit.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace weir {

enum class Errc {
  kClosed,             // the gate or limiter was closed
  kResourceUnknown,    // no such resource, or it was removed while waiting
  kCapacityExhausted,  // no capacity now, and no wish to wait for it, or no room in the queue
  kNeverFits,          // the cost is larger than a limit can ever admit
  kCancelled,          // the caller's stop token or cancellation slot fired
  kDeadlineExceeded,   // the caller's deadline passed first
  kUnavailable,        // the backing cannot say how far to admit
  kBreakerOpen,        // the circuit breaker lets nothing through
  kCallFailed,         // a call run under a limiter, breaker or retry failed
  kInvalidCapacity,
  kInvalidWindow,
  kInvalidConfig,
  kInvalidLimit,
  kInvalidCost,
};

// The code as users see it: "resource_unknown".
constexpr std::string_view name(Errc code) {
  switch (code) {
    case Errc::kClosed: return "closed";
    case Errc::kResourceUnknown: return "resource_unknown";
    case Errc::kCapacityExhausted: return "capacity_exhausted";
    case Errc::kNeverFits: return "never_fits";
    case Errc::kCancelled: return "cancelled";
    case Errc::kDeadlineExceeded: return "deadline_exceeded";
    case Errc::kUnavailable: return "unavailable";
    case Errc::kBreakerOpen: return "breaker_open";
    case Errc::kCallFailed: return "call_failed";
    case Errc::kInvalidCapacity: return "invalid_capacity";
    case Errc::kInvalidWindow: return "invalid_window";
    case Errc::kInvalidConfig: return "invalid_config";
    case Errc::kInvalidLimit: return "invalid_limit";
    case Errc::kInvalidCost: return "invalid_cost";
  }
  return "unknown";
}

struct Error {
  Errc code;
  std::string message;  // a sentence that names the value; may be empty

  friend bool operator==(const Error& error, Errc expected) { return error.code == expected; }
};

template <class T>
using Result = std::expected<T, Error>;

inline std::unexpected<Error> fail(Errc code, std::string message = {}) {
  return std::unexpected(Error{code, std::move(message)});
}

}  // namespace weir
