// How the official SDKs of OpenAI and Anthropic send a call again, in Python and in Node: after
// what Retry-After says if that is a minute at most, else after 0.5 s, doubling up to 8 s, less up
// to a quarter by chance; twice.
#pragma once

#include <algorithm>
#include <cstdint>

#include "weir/core/time.h"
#include "workload/trace.h"

namespace weir::workload {

inline constexpr std::uint32_t kSdkRetries = 2;

// Before the retry, counted from 1. `retry_after`: 0 if it was not said.
inline Nanos sdk_pause(std::uint32_t retry, Nanos retry_after, std::uint64_t& random) {
  constexpr Nanos kRetryAfterMax = std::chrono::minutes{1};
  constexpr Nanos kFirst = std::chrono::milliseconds{500};
  constexpr std::uint32_t kDoublings = 4;  // to 8 s
  if (retry_after > Nanos{0} && retry_after <= kRetryAfterMax) return retry_after;
  const Nanos longest = kFirst * (std::int64_t{1} << std::min(retry - 1, kDoublings));
  return Nanos{static_cast<std::int64_t>(static_cast<double>(longest.count()) *
                                         (1 - next_unit(random) / 4))};
}

}  // namespace weir::workload
