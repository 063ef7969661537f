// What a caller wants of a gate or a path.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string_view>

#include "weir/core/cost.h"
#include "weir/core/error.h"
#include "weir/core/time.h"

namespace weir {

class Gate;
class Permit;

struct Request {
  Cost cost = Cost::call();
  // Whose turn it is: waiters of equal priority are served fairly by agent, not by arrival.
  std::string_view agent = {};
  // Higher goes first, strictly. No starving is promised within a priority only.
  int priority = 0;
  // An agent of weight 4 gets four times the share of one of weight 1. 0 counts as 1.
  std::uint32_t weight = 1;
  // False: if it waits, then for a backing's word; a limit that refuses it ends the wait at once,
  // with kDeadlineExceeded.
  bool waits_for_limits = true;
};

// When a blocking caller gives up.
struct Patience {
  Instant deadline = kEndOfTime;
  std::stop_token stop = {};
};

// Why an attempt was refused. A refused attempt has cost nothing in any limit of any gate.
struct Refusal {
  enum class Kind : std::uint8_t { kWait, kNever, kEnded };

  Kind kind = Kind::kWait;
  // With kWait: the first instant at which the same call would succeed if nobody else came,
  // waiters ahead included; a suggestion where that cannot be known (slots, a backing).
  bool exact = true;
  bool for_backing = false;  // the limits would admit it; a backing is about to say how far
  Errc code = Errc::kCapacityExhausted;  // as an error: kNeverFits, kClosed, …
  std::uint8_t limit = 0;                // index of the deciding limit in `gate`
  const Gate* gate = nullptr;
  Nanos retry_after{0};
};

// Gets the permit, or why there is none; called exactly once, without any lock held, on the
// thread that decided: the caller's, a releaser's or the timer's. Must neither wait nor throw.
using Callback = std::move_only_function<void(Result<Permit>)>;

}  // namespace weir
