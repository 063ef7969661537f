// What is wrong, and what to change: from figures to sentences that a stranger understands (S3.9).
//
// Pure: no clock, no lock. One warning a cause, the most severe first, at most kWarningsMax.
#pragma once

#include <vector>

#include "server/live_view.h"

namespace weir::server {

inline constexpr std::size_t kWarningsMax = 20;

// Our own congestion: calls wait so long for quota, and at least as long as the API itself takes.
inline constexpr Nanos kCongestedWait = std::chrono::seconds{1};
inline constexpr double kCongestedPart = 0.5;  // of the time of a call
inline constexpr Nanos kCongestedBadly = std::chrono::seconds{10};
// Or calls that do not wait are refused: so many in the last minute, and such a part of all.
inline constexpr std::uint64_t kRefusedMin = 10;
inline constexpr double kRefusedPart = 0.5;
// The API fails: so many calls got no whole answer in the last minute, and such a part of all.
inline constexpr std::uint64_t kFailedMin = 3;
inline constexpr double kFailedPart = 0.5;
// The API is slow: it takes so many times as long as usual, while nobody waits for us.
inline constexpr double kSlowerThanUsual = 2;
inline constexpr Nanos kSlowUpstream = std::chrono::seconds{1};
// Fewer calls than this tell nothing.
inline constexpr std::uint64_t kCallsMin = 3;
// Reservations are far too high when so little of them is used.
inline constexpr double kUsedOfEstimate = 0.5;
// A hold of less than this is everyday life.
inline constexpr Nanos kLongHold = std::chrono::seconds{5};
inline constexpr Nanos kExpiredLately = std::chrono::minutes{10};
inline constexpr Nanos kSourcesLate = std::chrono::minutes{1};
inline constexpr Nanos kBudgetSoon = std::chrono::hours{1};

std::vector<Warning> diagnose(const LiveView& live);

}  // namespace weir::server
