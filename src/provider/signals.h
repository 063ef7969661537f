// Signals: what one answer of a provider teaches about its limits.
//
// Pure: no clock, no lock. Whatever bytes come, nothing throws; what is absurd (negative, past, not
// a number) is ignored and what is large is bounded. Providers are told apart by what they send;
// the profile decides only where the same header means different things.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "config/model.h"
#include "net/http_head.h"
#include "weir/core/cost.h"
#include "weir/core/time.h"

namespace weir {

// What headers say of one quota. Amounts lie in [0, kAmountMax], times in [0, kPeriodMax].
struct Quota {
  Unit unit = Unit::kRequests;
  Nanos period{0};  // 0: not said
  std::optional<Amount> limit = {};
  std::optional<Amount> remaining = {};  // at most this; see signals.cc for what is rounded
  // A bucket is full again, or a window new. Of a quota without a period: more may be had.
  std::optional<Nanos> reset_in = {};
  bool fixed_window = false;

  friend bool operator==(const Quota&, const Quota&) = default;
};

struct Signals {
  enum class Kind : std::uint8_t {
    kServed,
    kLimited,     // too fast: 429, and 403 of those who say it so
    kOverloaded,  // the provider is, whoever asks: 503, 529
    kExhausted,   // a daily quota, a spend cap, a balance: waiting seconds does not help
    kFailed,      // anything else from 400 on
  };

  // A longer wait is asked about again after an hour: a retry-after of 277,403 s has been seen
  // where the limit was back within minutes.
  static constexpr Nanos kRetryAfterMax = std::chrono::hours{1};
  // The longest day: asking an exhausted account once a day costs nothing.
  static constexpr Nanos kResetMax = std::chrono::hours{25};
  // An answer states at most this many quotas; the rest are not looked at.
  static constexpr std::size_t kQuotasMax = 8;
  static constexpr std::size_t kReasonBytesMax = 128;

  Kind kind = Kind::kServed;
  // When to come back, in (0, kRetryAfterMax]. Only of kLimited and kOverloaded.
  std::optional<Nanos> retry_after = {};
  // Of kExhausted: until it is over, in (0, kResetMax]; nothing if nobody knows.
  std::optional<Nanos> resets_in = {};
  // For people: "anthropic: enforced_spend_limit_reached". Printable ASCII; empty if served.
  std::string reason = {};

  // One for each pair of unit and period: of several the strictest.
  std::span<const Quota> quotas() const { return {quotas_.data(), count_}; }
  void add(const Quota& quota);

 private:
  std::array<Quota, kQuotasMax> quotas_{};
  std::size_t count_ = 0;
};

// `body`: the first kSignalBodyBytes of an answer whose status is 400 or more, else nothing; as it
// is without a content coding. `wall`: when it came.
Signals read_signals(Profile profile, const net::ResponseHead& head, std::string_view body,
                     CalendarTime wall);
inline constexpr std::size_t kSignalBodyBytes = 16 * 1024;

}  // namespace weir
