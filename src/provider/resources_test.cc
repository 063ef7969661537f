#include "provider/resources.h"

#include "net/host.h"
#include "provider/resources_for_test.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

using Names = std::vector<std::string>;

Amount available(Resources& resources, std::string_view name, std::size_t limit = 0) {
  return resources.find(name)->gate().metrics().limits.at(limit).available;
}

Names names_of(const Resources& resources) {
  Names names;
  for (const auto& resource : resources.all()) names.push_back(resource->name());
  return names;
}

// S4.3
TEST_F(ResourcesTest, AreFoundByNameAndByTheHostOfAUrl) {
  ASSERT_TRUE(resources.apply({provider("b", {}), provider("a", {})}));
  EXPECT_EQ(names_of(resources), (Names{"a", "b"}));
  EXPECT_EQ(resources.find("a")->name(), "a");
  EXPECT_EQ(resources.find("c"), nullptr);
  const auto by_url = [&](std::string_view url) {
    const auto resource = resources.find_by_host(net::host_of(url).value());
    return resource == nullptr ? "" : resource->name();
  };
  EXPECT_EQ(by_url("https://api.A.com:8443/v1"), "a");
  EXPECT_EQ(by_url("https://b.com./"), "b");
  EXPECT_EQ(by_url("https://nota.com/"), "");  // runs unlimited
}

TEST_F(ResourcesTest, WithoutADomainAreFoundByNameAlone) {  // S3.7
  ProviderConfig a = provider("a", {});
  ProviderConfig b = provider("b", {});
  a.domain = b.domain = "";
  ASSERT_TRUE(resources.apply({a, b}));
  EXPECT_NE(resources.find("b"), nullptr);
  EXPECT_EQ(resources.find_by_host(""), nullptr);
}

TEST_F(ResourcesTest, AReloadKeepsCounts) {
  ASSERT_TRUE(resources.apply(
      {provider("p", {named("r", requests_each(10, 1min)), tokens_each(100, 1min)},
                {{.pattern = "m", .limits = {named("r", requests_each(5, 1min))}}},
                {{.pattern = "*", .limits = {named("r", requests_each(4, 1min))}}})}));
  const auto resource = resources.find("p");
  EXPECT_EQ(passes("p", {.agent = "a", .model = "m"}, 3), 3);
  ASSERT_TRUE(pass("p", {.agent = "b"}, 60));
  ASSERT_TRUE(resources.apply(
      {provider("p", {tokens_each(80, 1min), named("r", requests_each(20, 1min))},
                {{.pattern = "*", .limits = {named("r", requests_each(7, 1min))}},
                 {.pattern = "m", .limits = {named("r", requests_each(4, 1min))}}},
                {{.pattern = "a*", .limits = {named("r", requests_each(6, 1min))}}})}));
  EXPECT_EQ(resources.find("p"), resource);
  EXPECT_EQ(available(resources, "p", 0), 40);
  EXPECT_EQ(available(resources, "p", 1), 16);
  const auto models = resource->model_gates();
  EXPECT_EQ(models[0].second->metrics().limits[0].available, 7);
  EXPECT_EQ(models[1].second->metrics().limits[0].available, 1);
  const auto agents = resource->agent_gates();
  ASSERT_EQ(agents.size(), 1U);  // b has no limits of its own any more
  EXPECT_EQ(agents[0].second->metrics().limits[0].available, 3);
}

TEST_F(ResourcesTest, AReloadThatChangesTheAlgorithmMintsNothing) {
  ASSERT_TRUE(resources.apply({provider("p", {named("r", requests_each(10, 1min))})}));
  EXPECT_EQ(passes("p", {}, 9), 9);
  const LimitConfig bucket{.spec = LimitSpec::token_bucket(Unit::kRequests, {10, 1min})};
  ASSERT_TRUE(resources.apply({provider("p", {named("r", bucket)})}));
  EXPECT_EQ(available(resources, "p"), 1);
  LimitConfig calendar = named("r", requests_each(10, 1min));
  calendar.align = Alignment{};
  ASSERT_TRUE(resources.apply({provider("p", {calendar})}));
  EXPECT_EQ(available(resources, "p"), 1);
}

TEST_F(ResourcesTest, AReloadThatChangesNothingLetsACalendarWindowRunOn) {
  LimitConfig daily = requests_each(2, 24h);
  daily.align = Alignment{};
  ASSERT_TRUE(resources.apply({provider("p", {daily})}));
  EXPECT_EQ(passes("p", {}, 3), 2);
  time.set_wall(SimulatedTime::kWallStart - 1h);
  daily.spec.amount = 3;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(resources.apply({provider("p", {daily})}));
    EXPECT_EQ(passes("p", {}, 3), i == 0 ? 1 : 0);
  }
}

TEST_F(ResourcesTest, AReloadKeepsWaitersAndServesThemByTheNewLimits) {
  ASSERT_TRUE(resources.apply({provider("p", {requests_each(1, 1min)})}));
  ASSERT_TRUE(pass("p"));
  wait("p", {.agent = "a"});
  wait("p", {.agent = "b"});
  ASSERT_TRUE(resources.apply({provider("p", {requests_each(2, 1min)})}));
  EXPECT_EQ(ended_now(), Names{"admitted"});
  time.advance(1min);
  EXPECT_EQ(ended_now(), Names{"admitted"});
}

TEST_F(ResourcesTest, WhoWaitsAtAPoolThatIsGoneWaitsForItsProviderAlone) {
  const auto limits = {requests_each(3, 1min)};
  ASSERT_TRUE(
      resources.apply({provider("p", limits, {{.pattern = "m", .limits = {requests_each(1, 1min)}}},
                                {{.pattern = "*", .limits = {requests_each(1, 1min)}}})}));
  ASSERT_TRUE(pass("p", {.agent = "a", .model = "m"}));
  wait("p", {.agent = "a"});
  wait("p", {.agent = "b", .model = "m"});
  wait("p", {.agent = "c", .model = "m"});
  ASSERT_TRUE(resources.apply({provider("p", limits)}));
  EXPECT_EQ(ended_now(), (Names{"admitted", "admitted"}));
  time.advance(1min);
  EXPECT_EQ(ended_now(), Names{"admitted"});
}

TEST_F(ResourcesTest, ARemovedProviderEndsItsWaitersAndIsNotFoundAnyMore) {
  ASSERT_TRUE(resources.apply({provider("gone", {requests_each(1, 1min)},
                                        {{.pattern = "m", .limits = {requests_each(1, 1min)}}}),
                               provider("stays", {requests_each(1, 1min)})}));
  Passage held = pass("gone", {.model = "m"});
  ASSERT_TRUE(held);
  wait("gone", {});
  wait("gone", {.model = "m"});
  ASSERT_TRUE(pass("stays"));
  wait("stays", {});
  ASSERT_TRUE(resources.apply({provider("stays", {requests_each(1, 1min)})}));
  EXPECT_EQ(ended_now(), (Names{"resource_unknown", "resource_unknown"}));
  EXPECT_EQ(resources.find("gone"), nullptr);
  EXPECT_EQ(resources.find_by_host("gone.com"), nullptr);
  EXPECT_TRUE(held.outcome->settle(Cost::of(Unit::kRequests, 0)));
  EXPECT_EQ(held.route.path.try_acquire({}).error().code, Errc::kResourceUnknown);
}

TEST_F(ResourcesTest, AChangedDomainIsFoundUnderItsNewNameAlone) {
  ASSERT_TRUE(resources.apply({provider("p", {requests_each(5, 1min)})}));
  ASSERT_TRUE(pass("p"));
  ProviderConfig moved = provider("p", {requests_each(5, 1min)});
  moved.domain = "moved.org";
  ASSERT_TRUE(resources.apply({moved}));
  EXPECT_EQ(resources.find_by_host("p.com"), nullptr);
  EXPECT_EQ(resources.find_by_host("api.moved.org"), resources.find("p"));
  EXPECT_EQ(resources.find("p")->domain(), "moved.org");
  EXPECT_EQ(available(resources, "p"), 4);
}

TEST_F(ResourcesTest, ABadConfigurationChangesNothing) {
  const ProviderConfig good = provider("p", {requests_each(5, 1min)});
  ASSERT_TRUE(resources.apply({good, provider("q", {})}));
  ASSERT_TRUE(pass("p"));
  const ProviderConfig changed = provider("p", {requests_each(50, 1min)});
  const std::vector<LimitConfig> bad{requests_each(0, 1min)};
  ProviderConfig twin = provider("twin", {});
  twin.domain = "p.com";
  LimitConfig aligned = tokens_each(5, 1min);
  aligned.align = Alignment{};
  for (const ProviderConfig& mistake : {provider("x", bad), provider("q", bad),
                                        provider("x", {}, {{.pattern = "m", .limits = bad}}),
                                        provider("x", {}, {}, {{.pattern = "*", .limits = bad}}),
                                        twin, provider("p", {}), provider("x", {aligned})}) {
    EXPECT_FALSE(resources.apply({changed, mistake})) << mistake.name;
    EXPECT_EQ(names_of(resources), (Names{"p", "q"}));
    EXPECT_EQ(available(resources, "p"), 4);
    EXPECT_EQ(resources.find("p")->config()->limits[0].spec.amount, 5);
    EXPECT_EQ(resources.find_by_host("p.com")->name(), "p");
  }
  EXPECT_EQ(
      resources.apply({provider("x", {}, {{.pattern = "m*", .limits = bad}})}).error().message,
      "x model m*: requests per 1m: " + Limit::create(bad[0].spec, {}).error().message.substr(17));
}

TEST_F(ResourcesTest, OneCanBePutAndRemovedByHandUntilTheNextReload) {
  ASSERT_TRUE(resources.apply({provider("p", {requests_each(5, 1min)})}));
  ASSERT_TRUE(pass("p"));
  const auto added = resources.put(provider("added", {requests_each(1, 1min)}));
  ASSERT_TRUE(added);
  EXPECT_EQ(resources.find_by_host("added.com"), *added);
  EXPECT_EQ(resources.put(provider("p", {requests_each(9, 1min)})).value(), resources.find("p"));
  EXPECT_EQ(available(resources, "p"), 8);
  EXPECT_FALSE(resources.put(provider("added", {requests_each(-1, 1min)})));
  ProviderConfig twin = provider("twin", {});
  twin.domain = "p.com";
  EXPECT_EQ(resources.put(twin).error(), Errc::kInvalidConfig);
  EXPECT_EQ(names_of(resources), (Names{"added", "p"}));

  ASSERT_TRUE(pass("p"));
  EXPECT_TRUE(resources.remove("p"));
  EXPECT_FALSE(resources.remove("p"));
  EXPECT_EQ(names_of(resources), Names{"added"});
  ASSERT_TRUE(resources.apply({provider("p", {requests_each(5, 1min)})}));
  EXPECT_EQ(names_of(resources), Names{"p"});
}

TEST_F(ResourcesTest, RemovingByHandEndsItsWaiters) {
  ASSERT_TRUE(resources.put(provider("p", {requests_each(1, 1min)})));
  ASSERT_TRUE(pass("p"));
  wait("p", {});
  EXPECT_TRUE(resources.remove("p"));
  EXPECT_EQ(ended_now(), Names{"resource_unknown"});
}

TEST_F(ResourcesTest, ClosingEndsEveryWaitAndRefusesEverything) {
  ASSERT_TRUE(resources.apply({provider("p", {requests_each(1, 1min)}), provider("q", {})}));
  ASSERT_TRUE(pass("p"));
  wait("p", {});
  resources.close(Errc::kClosed);
  EXPECT_EQ(ended_now(), Names{"closed"});
  EXPECT_EQ(pass("q").outcome.error().code, Errc::kClosed);
  EXPECT_EQ(resources.apply({}).error(), Errc::kClosed);
  EXPECT_EQ(resources.put(provider("r", {})).error(), Errc::kClosed);
}

}  // namespace
}  // namespace weir
