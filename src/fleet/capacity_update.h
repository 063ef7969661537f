// CapacityUpdate: what an agent tells the swarm about a resource, as JSON on kCapacitySubject.
//
//   {"resource":"api","agent_id":"a-1","new_capacity":50,"reason":"429",
//    "timestamp":"2025-01-01T00:00:00.000000000Z"}
//
// A daemon also says whose answer it was: "model" and "credential_hash".
//
// Pure: no clock, no I/O. Whatever comes from the bus is foreign text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "weir/core/cost.h"
#include "weir/core/time.h"

namespace weir::fleet {

inline constexpr std::string_view kCapacitySubject = "ratelimit.capacity";

inline constexpr std::size_t kUpdateBytesMax = 8 * 1024;
inline constexpr std::size_t kAgentIdBytesMax = 200;
inline constexpr std::size_t kReasonBytesMax = 512;  // of what we write

struct CapacityUpdate {
  std::string resource;
  std::string agent_id;
  Amount new_capacity = 0;
  std::string reason = {};
  CalendarTime timestamp{};  // from 1970 and before 2200
  std::optional<std::string> model = {};
  std::optional<std::string> credential_hash = {};  // see src/provider/fleet_signals.h

  bool operator==(const CapacityUpdate&) const = default;
};

// 1 to kAgentIdBytesMax bytes without control characters.
bool is_agent_id(std::string_view text);

// The reason is cut at kReasonBytesMax, and left out if it is not UTF-8. Nothing where
// parse_capacity_update() would refuse it: nobody could read it.
std::optional<std::string> format_capacity_update(CapacityUpdate update);

// Nothing unless it is a JSON object of at most kUpdateBytesMax, not deeply nested, that has all
// five fields: a resource that is not empty, an agent_id of 1 to kAgentIdBytesMax bytes without
// control characters, a new_capacity that is an integer from 1 to kAmountMax, a reason and a
// timestamp by RFC 3339. `model` and `credential_hash`, where they are, must be strings; fields
// beyond these are allowed.
std::optional<CapacityUpdate> parse_capacity_update(std::string_view text);

}  // namespace weir::fleet
