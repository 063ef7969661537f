// One quota for every process that runs this: a thousand calls a minute together. Reads REDIS_URL;
// without a Redis each process has the quota for itself.
#include <cstdlib>
#include <iostream>

#include "weir/fleet/shared_quota.h"
#include "weir/gate/gate.h"

int main() {
  using namespace std::chrono_literals;
  const char* url = std::getenv("REDIS_URL");
  const weir::TimeSource time = weir::TimeSource::since_boot();
  auto quota = weir::SharedQuota::create({.redis_url = url != nullptr ? url : "redis://127.0.0.1",
                                          .node = "example",
                                          .fallback = weir::Fallback::kLocal},
                                         time);
  if (!quota) {
    std::cerr << quota.error().message << "\n";
    return 1;
  }
  const auto gate = weir::create_gate(
      {.name = "example",
       .limits = {weir::LimitSpec::fixed_window(weir::Unit::kRequests, {1000, 1min})}},
      time, quota->get());
  if (!gate) {
    std::cerr << gate.error().message << "\n";
    return 1;
  }
  for (int call = 1; call <= 3; ++call) {
    const auto permit = (*gate)->acquire({.cost = weir::Cost::of(weir::Unit::kRequests, 1)},
                                         {.deadline = time.clock.now() + 2s});
    if (!permit) {
      std::cerr << weir::name(permit.error().code) << "\n";
      return 1;
    }
  }
  const auto share = (*quota)->share("example");
  std::cout << "the quota is " << weir::name(share->state) << ", members: " << share->members
            << ", left for all: " << share->parts[0].free << "\n";
}
