// FleetRun: a plan's agents at work, as asynchronous HTTP clients on the calling thread.
//
// Agents behave as the official SDKs do: a call that is answered 408, 409, 429, 5xx or not at all
// is sent again (sdk_retry.h). A call that still fails is given up, and its task with it: what the
// task's earlier calls have cost is wasted, and the agent goes on to the next one.
//
// What counts is what the provider took within the plan's time. Calls that still wait at its end
// are neither done nor given up.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "weir/time/timer.h"
#include "workload/fleet_plan.h"
#include "workload/tally.h"

namespace weir::workload {

class FleetRun {
 public:
  struct Progress {
    Nanos elapsed{0};
    const Tally& tally;  // so far; no fairness yet
  };
  struct Outcome {
    Tally tally;                // without what the provider alone knows: refusals and quota_used
    std::vector<Share> shares;  // by agent, in tokens charged
    Nanos late{0};              // the most that it overslept: the machine was busy
  };
  struct Options {
    std::string url;                            // below which /v1/chat/completions is
    std::function<void(const Progress&)> told;  // about five times a second
    std::function<void()> time_over;            // the plan's time; calls under way still end
  };

  // The plan must outlive it, and `time` too. Fails with kInvalidConfig for what is no URL.
  static Result<std::unique_ptr<FleetRun>> create(const Plan& plan, Options options,
                                                  TimeSource time);
  ~FleetRun();

  // Sends no call once the plan's time is over, and returns after the last answer; at once if
  // stopped. Once.
  Outcome run(std::stop_token stop);

 private:
  struct Agents;
  explicit FleetRun(std::unique_ptr<Agents> agents);
  std::unique_ptr<Agents> agents_;
};

}  // namespace weir::workload
