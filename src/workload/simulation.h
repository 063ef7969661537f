// A fleet of agents and a provider with a quota, in simulated time: without Weir, and with it.
//
// With Weir the calls pass the gates that the daemon has (provider/resources.h), made from the same
// configuration; nothing of them is copied here. The provider (model_provider.h) counts by itself.
//
// An agent works on tasks of several calls, one call at a time. Its calls fall due at its own pace
// (Sampler); one that falls due while another is under way is made as soon as that has ended, so an
// agent that is kept waiting makes fewer calls. A call that is given up ends its task: what the
// task's calls have cost until then is wasted.
//   without Weir  calls go to the provider at once; after a 429 they come again as the official
//                 SDKs do it (sdk_retry.h), then the call is given up.
//   with Weir     a call waits in the gates for as long as the agent has patience.
// What counts is what the provider took within the time. Calls that still wait at its end are
// neither done nor given up.
// A call is taken to ask for exactly the output that it gets, so what it costs is known beforehand.
//
// The same options give the same outcome. Memory does not grow with the number of calls.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/model.h"
#include "workload/sdk_retry.h"
#include "workload/tally.h"
#include "workload/trace.h"

namespace weir::workload {

struct SimulationOptions {
  std::uint32_t agents = 50;
  std::uint32_t greedy = 0;  // as many of them want ten times as much
  Nanos duration = std::chrono::hours{1};
  const Trace* trace = nullptr;               // sizes and rhythm; outlives the simulation
  Nanos mean_gap = std::chrono::seconds{10};  // between the calls of an agent
  ProviderConfig provider;
  std::string model;
  Nanos latency = std::chrono::milliseconds{800};           // of an answer, without its tokens
  Nanos latency_per_token = std::chrono::milliseconds{10};  // of output
  Nanos patience = std::chrono::minutes{1};
  std::uint32_t retries = kSdkRetries;
  enum class Hint : std::uint8_t { kRetryAfter, kNone } hint = Hint::kRetryAfter;  // in a 429
  std::uint64_t seed = 1;

  static constexpr std::uint32_t kAgentsMax = 100'000;
  static constexpr double kCallsMax = 2e8;  // expected, so that a simulation ends within minutes
  static constexpr std::uint32_t kTaskCalls = 5;
  static constexpr double kGreed = 10;

  double expected_calls() const;
};

enum class Mode : std::uint8_t { kDirect, kWeir };

// One of kIntervals equal parts of the time.
struct Interval {
  double used = 0;     // of what Outcome::limit earns in the time; above 1 while a burst lasts
  double waiting = 0;  // calls, on average
  std::uint64_t asked = 0;
  std::uint64_t refusals = 0;
  std::uint64_t given_up = 0;
  Nanos wait_p50{0};  // of calls that were taken in it
  Nanos wait_p99{0};
};

struct Outcome {
  static constexpr std::size_t kIntervals = 120;

  Tally tally;
  std::string limit;  // to which quota_used and Interval::used refer; empty if there is none
  std::size_t limit_index = 0;
  std::vector<Interval> intervals;
  std::vector<Share> shares;  // by agent
};

// `progress` hears how much is done, from 0 to 1. `limit` is the index of the one to refer to, such
// as the other mode's; else it is the one of which most was used. Fails with kInvalidConfig for
// options out of range, with what a gate says to the provider's limits.
Result<Outcome> simulate(const SimulationOptions& options, Mode mode,
                         const std::function<void(double)>& progress = {},
                         std::optional<std::size_t> limit = {});

}  // namespace weir::workload
