#include "workload/feed.h"

#include <algorithm>

namespace weir::workload {
namespace {

double served(const Tally& tally) {
  return tally.wanted == 0 ? 1
                           : static_cast<double>(tally.done) / static_cast<double>(tally.wanted);
}

}  // namespace

Result<Feed> feed(const SimulationOptions& options, const FeedGoal& goal,
                  const std::function<void(std::uint32_t, double)>& progress) {
  Feed feed;
  SimulationOptions tried = options;
  tried.greedy = 0;
  const auto try_with = [&](std::uint32_t agents) -> Result<bool> {
    tried.agents = agents;
    auto outcome = simulate(tried, Mode::kWeir, [&](double done) {
      if (progress) progress(agents, done);
    });
    if (!outcome) return std::unexpected(outcome.error());
    const Tally& tally = outcome->tally;
    const bool fed = tally.waits.spread().p99 <= goal.wait_p99 && served(tally) >= goal.served;
    feed.curve.push_back({agents, tally, fed});
    return fed;
  };
  // What a simulation may have by its number of calls.
  tried.agents = 1;
  const auto most = static_cast<std::uint32_t>(
      std::clamp(SimulationOptions::kCallsMax / std::max(tried.expected_calls(), 1.0), 1.0,
                 double{SimulationOptions::kAgentsMax}));

  std::uint32_t fed = 0;
  std::uint32_t hungry = 0;  // 0: not found yet
  for (std::uint32_t agents = 1; hungry == 0; agents = std::min(agents * 2, most)) {
    const auto good = try_with(agents);
    if (!good) return std::unexpected(good.error());
    if (!*good) {
      hungry = agents;
    } else {
      fed = agents;
      if (agents == most) break;
    }
  }
  while (hungry != 0 && hungry - fed > std::max(1U, fed / 100)) {
    const std::uint32_t middle = fed + (hungry - fed) / 2;
    const auto good = try_with(middle);
    if (!good) return std::unexpected(good.error());
    (*good ? fed : hungry) = middle;
  }
  std::ranges::sort(feed.curve, {}, &FeedPoint::agents);
  feed.agents = fed;
  feed.all = hungry == 0;
  return feed;
}

}  // namespace weir::workload
