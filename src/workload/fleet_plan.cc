#include "workload/fleet_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace weir::workload {
namespace {

constexpr Nanos kPause = std::chrono::seconds{1};
constexpr Nanos kGreedyPause = std::chrono::milliseconds{20};
constexpr Amount kInputMin = 16;

double seconds(Nanos span) { return std::chrono::duration<double>{span}.count(); }

// What `amount` in the time and the burst comes to in a minute, as a round number.
Amount per_minute(double amount, Nanos span, double round_to) {
  const double minute = amount * 60 / (seconds(span) + seconds(Quota::kBurst));
  return static_cast<Amount>(std::max(1.0, std::ceil(minute / round_to)) * round_to);
}

}  // namespace

Amount PlannedCall::max_output() const {
  Amount most = 256;
  while (most < output) most *= 2;
  return most;
}

Plan Plan::draw(const Trace& trace, const Options& options) {
  Plan plan;
  plan.lasting = options.lasting;
  plan.demand.resize(options.agents);
  std::uint64_t seeds = options.seed;
  for (std::size_t agent = 0; agent < options.agents; ++agent) {
    const bool greedy = agent == 0;
    plan.agents.push_back(greedy ? "greedy" : fmt::format("agent-{}", agent));
    for (std::size_t lane = 0; lane < (greedy ? kGreedyLanes : kLanes); ++lane) {
      Sampler sampler{trace, greedy ? kGreedyPause : kPause, next_random(seeds)};
      std::vector<PlannedCall> calls;
      for (Nanos at{0}; at < options.lasting || calls.size() % kCallsOfATask != 0;) {
        const Sampler::Draw draw = sampler.next();
        const TracedCall& traced = trace.calls[draw.call];
        const PlannedCall call{
            .pause = draw.gap,
            .input = std::clamp(traced.input_tokens, kInputMin, kInputMax),
            .output = std::max<Amount>(traced.output_tokens, 1),
            .ends_task = calls.size() % kCallsOfATask == kCallsOfATask - 1,
        };
        calls.push_back(call);
        at += call.pause;
        if (at < options.lasting) {
          ++plan.demand[agent].calls;
          plan.demand[agent].tokens += call.charge();
        }
        at += options.latency + call.output * options.latency_per_token;
      }
      plan.lanes.push_back({.agent = agent, .calls = std::move(calls)});
    }
  }
  return plan;
}

Quota Quota::for_plan(const Plan& plan) {
  double calls = 0;
  double tokens = 0;
  for (const Plan::Demand& demand : plan.demand) {
    calls += static_cast<double>(demand.calls);
    tokens += static_cast<double>(demand.tokens);
  }
  constexpr double kRequestsToSpare = 1.4;
  return {.requests_per_minute = per_minute(calls / kDemand * kRequestsToSpare, plan.lasting, 10),
          .tokens_per_minute = per_minute(tokens / kDemand, plan.lasting, 1000),
          .slots = std::max<Amount>(1, static_cast<Amount>(plan.lanes.size() * 3 / 4))};
}

std::vector<LimitSpec> Quota::limits(std::chrono::seconds burst) const {
  constexpr Nanos kMinute = std::chrono::minutes{1};
  const auto bucket = [&](Unit unit, Amount amount) {
    return LimitSpec::token_bucket(unit, {amount, kMinute},
                                   std::max<Amount>(1, amount * burst.count() / 60));
  };
  return {bucket(Unit::kRequests, requests_per_minute), bucket(Unit::kTokens, tokens_per_minute),
          LimitSpec::concurrency(slots)};
}

double Quota::tokens_in(Nanos span) const {
  return static_cast<double>(tokens_per_minute) * (seconds(span) + seconds(kBurst)) / 60;
}

}  // namespace weir::workload
