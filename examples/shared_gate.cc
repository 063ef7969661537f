// One provider, two of its models, several agents: a path of gates that is passed whole or not at
// all, an estimate that is settled, and a refusal that says when to come back.
#include <array>
#include <cstdio>

#include "weir/gate/gate.h"

int main() {
  using namespace weir;
  using namespace std::chrono_literals;

  auto provider =
      Gate::create({.name = "provider",
                    .limits = {LimitSpec::token_bucket(Unit::kTokens, {300'000, 1min}, 30'000),
                               LimitSpec::concurrency(5)},
                    .stale_after = 6min});
  auto model = Gate::create({.name = "large-model",
                             .limits = {LimitSpec::sliding_window(Unit::kRequests, {2, 1s}),
                                        LimitSpec::fixed_window(Unit::kTokens, {1'000'000, 24h})}});
  if (!provider || !model) return 1;
  const std::array<Gate*, 2> gates{model->get(), provider->get()};
  const Path path = *Path::create(gates);

  const Request request{.cost = Cost::call(12'000), .agent = "planner", .priority = 1};
  {
    Result<Permit> permit = path.acquire(request);  // waits its turn; here there is no need to
    if (!permit) return 1;
    // … the call runs, and used less than was estimated:
    if (!permit->settle(Cost::of(Unit::kTokens, 4'200))) return 1;
  }  // the slot comes back here

  Result<Permit> second = path.acquire(request);
  const std::expected<Permit, Refusal> third = path.try_acquire(request);
  if (!third) {
    const Refusal& refusal = third.error();
    std::printf("refused by \"%s\" of %s, try again in %lld ms\n",
                refusal.gate->limit_name(refusal.limit).c_str(), refusal.gate->name().c_str(),
                static_cast<long long>(refusal.retry_after / 1ms));
  }
  for (const LimitStatus& limit : (*provider)->metrics().limits) {
    std::printf("%-14s %6lld of %lld left\n", limit.name.c_str(),
                static_cast<long long>(limit.available), static_cast<long long>(limit.capacity));
  }
}
