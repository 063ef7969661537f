// How many agents a quota can feed: the most whose calls are served, and soon enough, with Weir.
#pragma once

#include "workload/simulation.h"

namespace weir::workload {

// When agents count as fed.
struct FeedGoal {
  Nanos wait_p99 = std::chrono::seconds{10};  // at most
  double served = 0.99;                       // of the calls that they want to make, at least
};

struct FeedPoint {
  std::uint32_t agents = 0;
  Tally tally;
  bool fed = false;
};

struct Feed {
  std::uint32_t agents = 0;      // fed; 0: not even one
  bool all = false;              // more were not tried: `agents` is all that a simulation can have
  std::vector<FeedPoint> curve;  // every number that was tried, in order
};

// Doubles the number until they are not fed, then bisects, to within 1% above 100: a whole
// simulated run each time. `options.agents` does not matter. Fails as simulate() does.
Result<Feed> feed(const SimulationOptions& options, const FeedGoal& goal,
                  const std::function<void(std::uint32_t agents, double done)>& progress = {});

}  // namespace weir::workload
