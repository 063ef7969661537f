// Providers in simulated time: for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "provider/resources.h"
#include "weir/time/simulated_time.h"

namespace weir {

inline LimitConfig requests_each(Amount amount, Nanos period) {
  return {.spec = LimitSpec::fixed_window(Unit::kRequests, {amount, period})};
}
inline LimitConfig tokens_each(Amount amount, Nanos period) {
  return {.spec = LimitSpec::token_bucket(Unit::kTokens, {amount, period})};
}
inline LimitConfig named(std::string name, LimitConfig limit) {
  limit.spec.name = std::move(name);
  return limit;
}

inline ProviderConfig provider(std::string name, std::vector<LimitConfig> limits,
                               std::vector<ModelConfig> models = {},
                               std::vector<AgentConfig> agents = {}) {
  ProviderConfig config;
  config.name = std::move(name);
  config.domain = config.name + ".com";
  config.limits = std::move(limits);
  config.models = std::move(models);
  config.agents = std::move(agents);
  return config;
}

// A request on its way: what a caller keeps beside the permit.
struct Passage {
  std::shared_ptr<Resource> resource;
  Resource::Route route;
  std::expected<Permit, Refusal> outcome;

  explicit operator bool() const { return outcome.has_value(); }
};

struct ResourcesTest : testing::Test {
  Passage pass(std::string_view name, const Caller& caller = {}, Amount tokens = 0) {
    auto resource = resources.find(name);
    auto route = resource->route(caller).value();
    auto outcome = route.path.try_acquire({.cost = Cost::call(tokens),
                                           .agent = caller.agent,
                                           .priority = route.priority,
                                           .weight = route.weight});
    return {std::move(resource), std::move(route), std::move(outcome)};
  }
  // How many of `attempts` requests pass one after the other.
  int passes(std::string_view name, const Caller& caller, int attempts) {
    int passed = 0;
    for (int i = 0; i < attempts; ++i) passed += pass(name, caller) ? 1 : 0;
    return passed;
  }
  // Waits; "admitted" or why not goes to `ended`.
  void wait(std::string_view name, const Caller& caller, Amount tokens = 0) {
    auto resource = resources.find(name);
    auto route = std::make_shared<Resource::Route>(resource->route(caller).value());
    route->path.acquire_async(
        {.cost = Cost::call(tokens),
         .agent = caller.agent,
         .priority = route->priority,
         .weight = route->weight},
        kEndOfTime, [this, resource, route](Result<Permit> outcome) {
          ended.push_back(outcome ? "admitted" : std::string{weir::name(outcome.error().code)});
        });
  }
  std::vector<std::string> ended_now() { return std::exchange(ended, {}); }

  SimulatedTime time;
  std::vector<std::string> ended;
  Resources resources{time.source(), /*agents_max=*/100};
};

}  // namespace weir
