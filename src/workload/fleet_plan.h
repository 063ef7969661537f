// Plan: what every agent of a fleet is going to ask for, drawn beforehand from a seed, so that two
// runs have the same demand; and a quota that is too small for it.
//
// Agents work on a few tasks at once. A task is several calls, one after the other, with a pause
// before each; the sizes and pauses have the shape of a trace. The first agent is greedy: it works
// on more tasks at once and hardly pauses. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weir/core/limit.h"
#include "workload/trace.h"

namespace weir::workload {

struct PlannedCall {
  Nanos pause{0};  // before it
  Amount input = 0;
  Amount output = 0;
  bool ends_task = false;

  // A round figure that people set, large enough.
  Amount max_output() const;
  // As OpenAI charges it.
  Amount charge() const { return std::max(input, max_output()); }
};

// Calls that are made one after the other.
struct Lane {
  std::size_t agent = 0;
  std::vector<PlannedCall> calls;  // of whole tasks; begins anew at its end
};

struct Plan {
  struct Options {
    std::size_t agents = 24;
    Nanos lasting = std::chrono::seconds{40};
    Nanos latency{0};  // of an answer, and more for each token of output
    Nanos latency_per_token{0};
    std::uint64_t seed = 1;
  };
  // What an agent would have had if every call were answered at once.
  struct Demand {
    std::uint64_t calls = 0;
    Amount tokens = 0;  // charged
  };

  static constexpr std::size_t kCallsOfATask = 5;
  static constexpr std::size_t kLanes = 6;  // of an agent
  static constexpr std::size_t kGreedyLanes = 16;
  // Prompts of the trace that are longer are cut, so that a few seconds' quota holds each.
  static constexpr Amount kInputMax = 4'000;

  static Plan draw(const Trace& trace, const Options& options);

  std::vector<std::string> agents;
  std::vector<Lane> lanes;
  std::vector<Demand> demand;  // by agent
  Nanos lasting{0};
};

// What a provider publishes: buckets that hold a few seconds' worth, and slots.
struct Quota {
  Amount requests_per_minute = 0;
  Amount tokens_per_minute = 0;
  Amount slots = 0;

  // Of which the plan's demand is `kDemand` times as much, in tokens; there are requests for some
  // refusals more, and slots for most of the lanes.
  static constexpr double kDemand = 1.6;
  static Quota for_plan(const Plan& plan);

  // A provider's buckets hold kBurst. A call arrives later than it is admitted, and not all equally
  // late: who keeps to the quota should count on a second less.
  static constexpr std::chrono::seconds kBurst{3};
  static constexpr std::chrono::seconds kSafeBurst{2};
  std::vector<LimitSpec> limits(std::chrono::seconds burst) const;

  // All the tokens that are to be had in a time, a full bucket at its start included.
  double tokens_in(Nanos span) const;
};

}  // namespace weir::workload
