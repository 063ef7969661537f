// ResourceView: what there is to show of one provider at one instant; a plain value.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "provider/resource.h"

namespace weir::server {

struct LimitView {
  std::string name;
  Unit unit = Unit::kRequests;
  std::string scope;  // "provider", "model claude-opus-*", "agent planner-1", "learned"
  // Of micro_usd: micro-dollars. Fractions are of a pace alone.
  double amount = 0;
  Nanos period{0};  // 0: slots
  Amount capacity = 0;
  Amount available = 0;
  double used = 0;  // 0 to 1, and beyond while in debt
  std::uint64_t hits = 0;
  std::optional<double> configured = {};  // nothing where it is learned
  std::optional<Nanos> resets_in = {};
  std::optional<Nanos> ends_in = {};  // at its pace (forecast.h)
  Nanos blocks_for{0};                // who is first in the queue, or the next call
};

struct ResourceView {
  enum class State : std::uint8_t { kOpen, kHeld, kPaused, kExhausted };

  std::string name;
  std::string domain;
  Profile profile = Profile::kGeneric;
  State state = State::kOpen;
  Nanos held_for{0};        // Nanos::max() for a pause
  Nanos held_in_part{0};    // some model or key, while others go on
  std::string reason = {};  // why an account is exhausted; unless all are, the state is another
  Nanos reason_for{0};      // and when it is asked again
  std::vector<LimitView> limits = {};
  std::optional<std::size_t> binding = {};  // which of them people wait for, or would next
  Activity::View activity = {};
  std::optional<Nanos> upstream_usual = {};  // the mean of the last hour
};

std::string_view name(ResourceView::State state);

// The limits of the provider, of its models, and what was learned of its accounts: of each name the
// one that is used most. At most kLimitsShown.
inline constexpr std::size_t kLimitsShown = 24;
// Of a provider's accounts at most so many are looked at.
inline constexpr std::size_t kAccountsSeen = 256;
// `first`: who waits longest, if anybody. Limits of its agent that hold it back are then among
// them, and those of other models do not block it.
std::vector<LimitView> limits_of(Resource& resource, const Activity::Queued* first = nullptr);

ResourceView view_of(Resource& resource, Instant now);

}  // namespace weir::server
