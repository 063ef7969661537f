// The way of a request through the gates of one provider.
#include "provider/resource.h"

#include "provider/resources_for_test.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

using ResourceTest = ResourcesTest;
using Names = std::vector<std::string>;

// S4.4
TEST_F(ResourceTest, AWindowStartsAtItsFirstRequestAndResetsWhenItsPeriodHasElapsed) {
  ASSERT_TRUE(resources.apply({provider("seed", {requests_each(300, 1min)})}));
  time.advance(10min);
  EXPECT_EQ(passes("seed", {}, 295), 295);
  time.advance(27s);
  EXPECT_EQ(passes("seed", {}, 10), 5);
  const Passage refused = pass("seed");
  EXPECT_EQ(refused.outcome.error().retry_after, 33s);
  EXPECT_EQ(refused.outcome.error().gate->limit_name(0), "requests per 1m");
  time.advance(33s - 1ns);
  EXPECT_EQ(passes("seed", {}, 1), 0);
  time.advance(1ns);
  EXPECT_EQ(passes("seed", {}, 301), 300);
}

TEST_F(ResourceTest, AWindowOnTheCalendarEndsAtItsReset) {
  time.set_wall(CalendarTime{std::chrono::sys_days{std::chrono::year{2025} / 6 / 1}} + 22h);
  LimitConfig daily = requests_each(2, 24h);
  daily.align = Alignment{.zone = Zone::load("America/New_York").value(), .reset = 60min};
  ASSERT_TRUE(resources.apply({provider("daily", {daily})}));
  EXPECT_EQ(passes("daily", {}, 3), 2);
  EXPECT_EQ(pass("daily").outcome.error().retry_after, 7h);  // 05:00 UTC
  time.advance(7h);
  EXPECT_EQ(passes("daily", {}, 3), 2);
  time.set_wall(SimulatedTime::kWallStart);  // a wall that jumps mints nothing
  time.advance(24h - 1ns);
  EXPECT_EQ(passes("daily", {}, 1), 0);
  time.advance(1ns);
  EXPECT_EQ(passes("daily", {}, 3), 2);
}

TEST_F(ResourceTest, AProviderWithoutLimitsAdmitsEverything) {
  ASSERT_TRUE(resources.apply({provider("free", {})}));
  EXPECT_EQ(passes("free", {.agent = "a", .model = "m"}, 100), 100);
}

// S3.10
TEST_F(ResourceTest, APatternOfModelsIsOnePoolForAllItMatches) {
  ASSERT_TRUE(resources.apply(
      {provider("anthropic", {requests_each(10, 1min)},
                {{.pattern = "claude-opus-*", .limits = {requests_each(3, 1min)}},
                 {.pattern = "claude-opus-4", .limits = {requests_each(2, 1min)}}})}));
  EXPECT_EQ(passes("anthropic", {.model = "claude-opus-3"}, 2), 2);
  EXPECT_EQ(passes("anthropic", {.model = "claude-opus-5"}, 2), 1);
  EXPECT_EQ(passes("anthropic", {.model = "claude-opus-4"}, 3), 2);
  const Passage refused = pass("anthropic", {.model = "claude-opus-4"});
  EXPECT_EQ(refused.outcome.error().gate->name(), "anthropic model claude-opus-4");
  EXPECT_EQ(passes("anthropic", {.model = "haiku"}, 10), 5);
  const auto gates = resources.find("anthropic")->model_gates();
  ASSERT_EQ(gates.size(), 2U);
  EXPECT_EQ(gates[0].first, "claude-opus-*");
  EXPECT_EQ(gates[0].second->metrics().acquired, 3U);
}

TEST_F(ResourceTest, EachAgentUnderAPatternHasLimitsOfItsOwn) {
  ASSERT_TRUE(resources.apply(
      {provider("p", {requests_each(100, 1min)}, {},
                {{.pattern = "*", .limits = {requests_each(2, 1min)}},
                 {.pattern = "planner-*", .limits = {requests_each(5, 1min)}},
                 {.pattern = "admin", .limits = {}, .weight = 4, .priority = 10}})}));
  EXPECT_EQ(passes("p", {.agent = "a"}, 10), 2);
  EXPECT_EQ(passes("p", {.agent = "b"}, 10), 2);
  EXPECT_EQ(passes("p", {.agent = "planner-1"}, 10), 5);
  EXPECT_EQ(passes("p", {.agent = "admin"}, 10), 10);
  Names names;
  for (const auto& [name, gate] : resources.find("p")->agent_gates()) names.push_back(name);
  EXPECT_EQ(names, (Names{"a", "b", "planner-1"}));
}

TEST_F(ResourceTest, ARequestPassesItsAgentsGateThenItsModelsThenItsProviders) {
  ASSERT_TRUE(resources.apply(
      {provider("p", {requests_each(9, 1min)}, {{.pattern = "m", .limits = {tokens_each(9, 1min)}}},
                {{.pattern = "*", .limits = {requests_each(9, 1min)}}})}));
  const Passage passage = pass("p", {.agent = "a", .model = "m"});
  Names names;
  for (const Gate* gate : passage.route.path.gates()) names.push_back(gate->name());
  EXPECT_EQ(names, (Names{"p agent a", "p model m", "p"}));
  EXPECT_EQ(pass("p", {.agent = "a"}).route.path.gates().size(), 2U);
}

TEST_F(ResourceTest, ARefusalByOneGateCostsNothingInTheOthers) {
  ASSERT_TRUE(resources.apply({provider("p", {requests_each(10, 1min)},
                                        {{.pattern = "m", .limits = {requests_each(1, 1min)}}},
                                        {{.pattern = "*", .limits = {requests_each(10, 1min)}}})}));
  EXPECT_EQ(passes("p", {.agent = "a", .model = "m"}, 5), 1);
  const auto resource = resources.find("p");
  EXPECT_EQ(resource->gate().metrics().limits[0].available, 9);
  EXPECT_EQ(resource->agent_gates()[0].second->metrics().limits[0].available, 9);
}

TEST_F(ResourceTest, WeightAndPriorityOfTheAgentReachTheRequest) {
  ASSERT_TRUE(resources.apply(
      {provider("p", {}, {}, {{.pattern = "planner-*", .limits = {}, .weight = 4, .priority = 10}}),
       provider("plain", {})}));
  const auto route = [&](std::string_view name, const Caller& caller) {
    const auto found = resources.find(name)->route(caller).value();
    return std::pair{found.weight, found.priority};
  };
  EXPECT_EQ(route("p", {.agent = "planner-7"}), (std::pair{4U, 10}));
  EXPECT_EQ(route("p", {.agent = "planner-7", .priority = 3}), (std::pair{4U, 3}));
  EXPECT_EQ(route("p", {.agent = "other"}), (std::pair{1U, 0}));
  EXPECT_EQ(route("p", {.agent = "other", .priority = -2}), (std::pair{1U, -2}));
  EXPECT_EQ(route("plain", {.agent = "planner-7", .priority = 5}), (std::pair{1U, 5}));
}

TEST_F(ResourceTest, PausedItAdmitsNothingAndKeepsItsWaitersUntilItResumes) {
  ASSERT_TRUE(resources.apply({provider("p", {requests_each(10, 1min)})}));
  const auto resource = resources.find("p");
  resource->pause();
  EXPECT_TRUE(resource->paused());
  wait("p", {});
  EXPECT_FALSE(pass("p"));
  ASSERT_TRUE(resources.apply({provider("p", {requests_each(20, 1min)})}));
  EXPECT_TRUE(resource->paused());
  EXPECT_EQ(ended_now(), Names{});
  resource->resume();
  EXPECT_FALSE(resource->paused());
  EXPECT_EQ(ended_now(), Names{"admitted"});
}

TEST_F(ResourceTest, DrainingEndsEveryWaitAndLetsNewOnesIn) {
  ASSERT_TRUE(resources.apply({provider("p", {requests_each(1, 1min)},
                                        {{.pattern = "m", .limits = {requests_each(1, 1min)}}})}));
  ASSERT_TRUE(pass("p", {.model = "m"}));
  wait("p", {.model = "m"});
  wait("p", {});
  resources.find("p")->drain();
  EXPECT_EQ(ended_now(), (Names{"cancelled", "cancelled"}));
  time.advance(1min);
  EXPECT_TRUE(pass("p"));
}

struct EvictionTest : ResourcesTest {
  EvictionTest() {
    EXPECT_TRUE(resources.apply(
        {provider("p", {}, {},
                  {{.pattern = "*",
                    .limits = {requests_each(2, 1min), {.spec = LimitSpec::concurrency(1)}}}})}));
  }
  Result<Resource::Route> route(const std::string& agent) {
    return resources.find("p")->route({.agent = agent});
  }
  void fill() {
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(pass("p", {.agent = "busy " + std::to_string(i)}));
  }
  std::size_t agents() { return resources.find("p")->agent_gates().size(); }
};

TEST_F(EvictionTest, AnAgentWithoutAPlaceIsRefusedWhileAllAreBusy) {
  fill();
  EXPECT_EQ(route("new").error(), Errc::kCapacityExhausted);
  EXPECT_EQ(agents(), 100U);
  EXPECT_EQ(passes("p", {.agent = "busy 7"}, 5), 1);  // what was used is not forgotten
  time.advance(1min);
  EXPECT_EQ(passes("p", {.agent = "new"}, 5), 2);
  EXPECT_EQ(agents(), 100U);
}

TEST_F(EvictionTest, NobodyIsEvictedWhoseRouteSomebodyHolds) {
  std::vector<Resource::Route> routes;
  for (int i = 0; i < 100; ++i) routes.push_back(route("idle " + std::to_string(i)).value());
  EXPECT_EQ(route("new").error(), Errc::kCapacityExhausted);
  routes[42] = routes[41];
  time.advance(1s);
  ASSERT_TRUE(route("new"));
  for (const auto& [name, gate] : resources.find("p")->agent_gates()) EXPECT_NE(name, "idle 42");
}

TEST_F(EvictionTest, NobodyIsEvictedWhoWaitsOrHoldsASlot) {
  for (int i = 0; i < 99; ++i) ASSERT_TRUE(route("busy " + std::to_string(i)).has_value());
  const Passage held = pass("p", {.agent = "holder"});
  wait("p", {.agent = "holder"});
  time.advance(1h);
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(route("new " + std::to_string(i)));
  EXPECT_FALSE(pass("p", {.agent = "holder"}));
  EXPECT_EQ(agents(), 100U);
}

// However agents come and go, none gets more than its limit in a window.
TEST_F(EvictionTest, MintsNothing) {
  std::map<std::string, std::vector<Instant>> admitted;
  std::uint64_t random = 1;
  for (int i = 0; i < 20'000; ++i) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    if (random >> 33 & 1U) time.advance(1s);
    const std::string agent = std::to_string((random >> 40) % 150);
    if (!route(agent)) continue;
    if (pass("p", {.agent = agent})) admitted[agent].push_back(time.now());
  }
  ASSERT_EQ(admitted.size(), 150U);
  for (const auto& [agent, at] : admitted) {
    // Windows start at the first request after the last one ended, evicted or not.
    Instant end{};
    int used = 0;
    for (const Instant t : at) {
      if (t >= end) {
        end = t + 1min;
        used = 0;
      }
      ASSERT_LE(++used, 2) << agent;
    }
  }
}

}  // namespace
}  // namespace weir
