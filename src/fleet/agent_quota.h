// What the buckets of a fleet's agents have in common, wherever they are kept.
#pragma once

#include <future>
#include <string_view>
#include <utility>

#include "weir/core/cost.h"
#include "weir/core/error.h"

namespace weir::fleet {

// What the values are called where they come from.
struct QuotaNames {
  std::string_view capacity = "capacity";
  std::string_view refill_rate = "refill_rate";
};

// kInvalidConfig, in a message that names the value, unless the capacity is in [1, kAmountMax], the
// rate in (0, 10^9] tokens a second, and an empty bucket fills within kPeriodMax.
Result<void> check_quota(Amount capacity, double refill_rate, QuotaNames names = {});

// kInvalidConfig unless `agent` is of 1 to 200 letters, digits and -_.:@/ in ASCII.
Result<void> check_agent(std::string_view agent);

// check_agent(); then kInvalidCost for less than one token, kNeverFits above the capacity.
Result<void> check_request(std::string_view agent, Amount tokens, Amount capacity);

// Waits for what the callback given to `start` gets. Not on the thread that is to call it.
template <class T, class Start>
Result<T> await(Start start) {
  std::promise<Result<T>> promise;
  auto outcome = promise.get_future();
  start([promise = std::move(promise)](Result<T> result) mutable {
    promise.set_value(std::move(result));
  });
  return outcome.get();
}

}  // namespace weir::fleet
