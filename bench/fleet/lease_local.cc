#include <memory>

#include "fleet/rows.h"
#include "weir/fleet/shared_quota.h"
#include "weir/gate/gate.h"

namespace weir::bench {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

// A block that does not come in time costs what it takes to wait for it.
Contestant spend(const char* name, Gate& gate) {
  return {name, [&gate](auto ops) {
            return timed_calls(1, ops, [&gate] {
              while (!gate.try_spend(1)) {
              }
              return true;
            });
          }};
}

}  // namespace

Row lease_local(const Settings& settings) {
  const Server redis = start_redis(settings);
  const auto quota = must(SharedQuota::create(
      {.redis_url = redis_url(redis), .ca_file = {}, .node = "bench", .timeout = seconds{1}}));
  const auto leased = must(create_gate(
      {.name = "bench",
       .limits = {LimitSpec::fixed_window(Unit::kRequests, {1'000'000'000'000, hours{1}})}},
      TimeSource::since_boot(), quota.get()));
  const auto plain_gate = [](TimeSource time) {
    return must(create_gate(
        {.name = "bench",
         .limits = {LimitSpec::token_bucket(Unit::kRequests, {1'000'000'000, seconds{1}})}},
        time, nullptr));
  };
  const auto plain = plain_gate(TimeSource::since_boot());
  const auto quick = plain_gate(TimeSource::system());
  // Until blocks are as large as this demand.
  for (int admitted = 0; admitted < 10'000'000;) admitted = leased->try_spend(1) ? admitted + 1 : 0;
  const auto timings = compare("lease_local", Expect::kAdmitted,
                               {spend("leased", *leased), spend("plain", *plain),
                                spend("plain with the quicker clock", *quick)});
  note("calls to Redis: " + std::to_string(quota->status().calls) + ", for " +
       std::to_string(leased->metrics().acquired) + " admissions");
  Row row = smaller_is_better("lease_local", timings[0].ns_per_op, timings[1].ns_per_op, "ns", 0.5,
                              "a plain gate");
  row.more.emplace_back("plain_with_system_clock_ns", timings[2].ns_per_op);
  return row;
}

}  // namespace weir::bench
