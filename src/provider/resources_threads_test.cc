// Look-ups, routes and reloads from many threads at once.
#include <gtest/gtest.h>

#include "gate/real_time_for_test.h"
#include "provider/resources_for_test.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

std::vector<ProviderConfig> version(int i) {
  std::vector<ModelConfig> models{{.pattern = "m*", .limits = {tokens_each(1000 + i, 1ms)}}};
  std::vector<AgentConfig> agents{{.pattern = "*", .limits = {tokens_each(500 + i % 3, 1ms)}}};
  if (i % 3 == 0) models.clear();
  if (i % 4 == 0) agents.clear();
  std::vector<ProviderConfig> providers{provider(
      "p", {tokens_each(2000 + i % 2, 1ms), {.spec = LimitSpec::concurrency(4)}}, models, agents)};
  if (i % 2 == 0) providers.push_back(provider("sometimes", {tokens_each(100, 1ms)}));
  return providers;
}

TEST(ResourcesThreadsTest, LookingUpAndWaitingRaceWithReloadsAndEvictions) {
  constexpr int kThreads = 4;
  RealTime<> real;
  Resources resources{real.source(), /*agents_max=*/8};
  ASSERT_TRUE(resources.apply(version(1)));
  std::atomic<int> working = kThreads - 1;
  std::atomic<std::uint64_t> admitted = 0;
  in_threads(kThreads, [&](int thread) {
    if (thread == 0) {
      for (int i = 0; working > 0; ++i) {
        EXPECT_TRUE(resources.apply(version(i)));
        EXPECT_TRUE(i % 5 != 0 || resources.put(provider("by hand", {})));
        EXPECT_TRUE(i % 7 != 0 || resources.remove("p"));
        for (const auto& resource : resources.all()) {
          resource->gate().metrics();
          resource->config();
          for (const auto& [name, gate] : resource->agent_gates()) gate->metrics();
        }
      }
      return;
    }
    for (int i = 0; i < 1'000; ++i) {
      const auto resource =
          i % 3 == 0 ? resources.find_by_host("api.sometimes.com") : resources.find("p");
      if (resource == nullptr) continue;
      const std::string agent = "agent " + std::to_string((thread * 7 + i) % 12);
      const auto route = resource->route({.agent = agent, .model = i % 2 == 0 ? "m1" : "x"});
      if (!route) {
        EXPECT_EQ(route.error(), Errc::kCapacityExhausted);
        continue;
      }
      const auto permit = route->path.acquire(
          {.cost = Cost::call(1 + i % 50), .agent = agent, .weight = route->weight},
          {.deadline = real.clock.now() + 5ms});
      if (permit) ++admitted;
    }
    --working;
  });
  EXPECT_GT(admitted, 0U);
  if (const auto resource = resources.find("p")) {
    EXPECT_EQ(resource->gate().metrics().waiting, 0U);
    EXPECT_EQ(resource->gate().metrics().limits[1].available, 4);
    for (const auto& [name, gate] : resource->agent_gates()) {
      EXPECT_EQ(gate->metrics().waiting, 0U);
    }
  }
}

}  // namespace
}  // namespace weir
