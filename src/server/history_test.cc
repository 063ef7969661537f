// What was: steps of 10 s and of 2 min, in stepped time.
#include "server/history.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "provider/resources_for_test.h"

namespace weir::server {
namespace {

using namespace std::chrono_literals;
namespace json = boost::json;
using Span = History::Span;
using Holds = Activity::Visit::Holds;

struct HistoryTest : ResourcesTest {
  HistoryTest() {
    EXPECT_TRUE(resources.apply({provider("api", {named("tokens", tokens_each(1'000, 1h))})}));
  }
  std::shared_ptr<Resource> api() const { return resources.find("api"); }
  // A call that waits and takes so long.
  void call(std::string_view name, Nanos wait, Nanos takes, Amount tokens = 0) {
    const auto resource = resources.find(name);
    auto visit =
        resource->activity().arrive({.agent = "a", .cost = Cost::call(tokens)}, time.now());
    visit.queued(time.now());
    time.advance(wait);
    visit.admitted(time.now(), Holds::kSomething);
    time.advance(takes);
    visit.ended(time.now());
  }
  json::value read(std::string_view name, Span span) const {
    return json::parse(history.json(name, span));
  }
  std::string column(std::string_view name, Span span = Span::kHour) const {
    return json::serialize(read("api", span).at(name));
  }

  EventHub hub{time.source()};
  History history{resources, hub, time.source()};
};

TEST_F(HistoryTest, OfWhatWasNotUsedThereIsNone) {
  time.advance(1min);
  EXPECT_EQ(column("time_ms"), "[]");
  EXPECT_EQ(column("limits"), "[]");
  EXPECT_EQ(history.upstream_usual("api"), std::nullopt);
}

TEST_F(HistoryTest, AStepHasWhatHappenedInIt) {
  call("api", 2s, 1s, 70);
  call("api", 0s, 3s, 30);
  api()->activity().limited(time.now());
  api()->activity().failed(time.now());
  auto refused = api()->activity().arrive({.agent = "b"}, time.now());
  refused.refused(time.now());
  time.advance(4s);
  EXPECT_EQ(column("time_ms"), "[1735689610000]");
  EXPECT_EQ(column("admitted"), "[2]");
  EXPECT_EQ(column("refused"), "[1]");
  EXPECT_EQ(column("abandoned"), "[0]");
  EXPECT_EQ(column("limited"), "[1]");
  EXPECT_EQ(column("failed"), "[1]");
  EXPECT_EQ(column("wait_ms"), "[1000]");
  EXPECT_EQ(column("upstream_ms"), "[2000]");
  EXPECT_EQ(column("waits"), "[2]");
  EXPECT_EQ(column("answers"), "[2]");
  EXPECT_EQ(column("until_ms"), "1735689610000");
  EXPECT_EQ(column("waiting"), "[1]");
  EXPECT_EQ(column("in_flight"), "[1]");
  EXPECT_EQ(column("tokens"), "[100]");
  time.advance(10s);
  EXPECT_EQ(column("admitted"), "[2,0]");
  EXPECT_EQ(column("wait_ms"), "[1000,null]");
  EXPECT_EQ(column("waiting"), "[1,0]");
  EXPECT_EQ(history.upstream_usual("api"), 2s);
}

TEST_F(HistoryTest, KeepsAnHourAndADay) {
  call("api", 0s, 1s);
  time.advance(25h);
  const auto hour = read("api", Span::kHour);
  EXPECT_EQ(hour.at("step_ms").as_int64(), 10'000);
  ASSERT_EQ(hour.at("time_ms").as_array().size(), 360U);
  const auto day = read("api", Span::kDay);
  EXPECT_EQ(day.at("step_ms").as_int64(), 120'000);
  const auto& times = day.at("time_ms").as_array();
  ASSERT_EQ(times.size(), 720U);
  for (std::size_t i = 1; i < times.size(); ++i) {
    EXPECT_EQ(times[i].as_int64() - times[i - 1].as_int64(), 120'000);
  }
  EXPECT_EQ(day.at("limits").at(0).at("used").as_array().size(), 720U);
}

TEST_F(HistoryTest, ALongStepIsTheSumOfTwelveAndOfALimitTheMost) {
  for (int i = 0; i < 12; ++i) {
    if (i % 2 == 0) call("api", 1s, 2s);
    if (i == 5) (void)pass("api", {}, 900);
    time.advance_to(SimulatedTime::kStart + (i + 1) * 10s);
  }
  EXPECT_EQ(column("admitted", Span::kDay), "[6]");
  EXPECT_EQ(column("wait_ms", Span::kDay), "[1000]");
  EXPECT_EQ(column("upstream_ms", Span::kDay), "[2000]");
  EXPECT_EQ(column("waiting", Span::kDay), "[1]");
  const double most =
      read("api", Span::kDay).at("limits").at(0).at("used").at(0).to_number<double>();
  EXPECT_NEAR(most, 0.9, 0.01);
}

TEST_F(HistoryTest, TheLongStepUnderWayHasWhatHappenedSoFar) {
  call("api", 1s, 2s);
  api()->activity().limited(time.now());
  (void)pass("api", {}, 900);
  time.advance_to(SimulatedTime::kStart + 110s);
  EXPECT_EQ(column("time_ms", Span::kDay), "[1735689720000]")
      << "its end, two minutes from the start";
  EXPECT_EQ(column("until_ms", Span::kDay), "1735689710000");
  EXPECT_EQ(column("limited", Span::kDay), "[1]");
  EXPECT_EQ(column("answers", Span::kDay), "[1]");
  EXPECT_EQ(read("api", Span::kDay).at("limits").at(0).at("used").as_array().size(), 1U);
  time.advance(10s);
  EXPECT_EQ(column("time_ms", Span::kDay), "[1735689720000]") << "the same one, over";
  EXPECT_EQ(column("limited", Span::kDay), "[1]");
}

TEST_F(HistoryTest, LimitsThatComeAndGoAreNullWhereTheyWereNot) {
  call("api", 0s, 1s);
  time.advance(9s);
  EXPECT_TRUE(resources.put(provider("api", {named("requests", requests_each(10, 1h))})));
  time.advance(10s);
  const auto limits = read("api", Span::kHour).at("limits");
  ASSERT_EQ(limits.as_array().size(), 2U);
  EXPECT_EQ(limits.at(0).at("name"), "tokens");
  EXPECT_EQ(json::serialize(limits.at(0).at("used")), "[0,null]");
  EXPECT_EQ(limits.at(1).at("name"), "requests");
  EXPECT_EQ(limits.at(1).at("scope"), "provider");
  EXPECT_EQ(json::serialize(limits.at(1).at("used")), "[null,0]");
}

TEST_F(HistoryTest, TellsHowFarALimitWasUsed) {
  call("api", 0s, 1s);
  time.advance(9s);
  EXPECT_TRUE(pass("api", {}, 500));
  time.advance(10s);
  const auto samples = history.use_of("api", {.name = "tokens", .scope = "provider"});
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[0].age, 10s);
  EXPECT_EQ(samples[0].used, 0);
  EXPECT_EQ(samples[1].age, 0s);
  EXPECT_NEAR(samples[1].used, 0.5, 0.01);
  EXPECT_TRUE(history.use_of("api", {.name = "tokens", .scope = "learned"}).empty());
  EXPECT_TRUE(history.use_of("other", {.name = "tokens", .scope = "provider"}).empty());
}

TEST_F(HistoryTest, CutsAndRecoveriesBecomeNews) {
  const auto route = api()->route({.account = Resource::kOwnAccount}).value();
  route.account->set_known_rate(Rate{100, 1min});
  call("api", 0s, 1s);
  Signals limited;
  limited.kind = Signals::Kind::kLimited;
  route.account->answered(limited, Cost::call(), time.now());
  time.advance(9s);
  EXPECT_EQ(column("reduced"), "[1]");
  EXPECT_NE(hub.news().find(R"("type":"reduced")"), std::string::npos);
  EXPECT_NE(hub.news().find(R"("resource":"api","limit":"pace","from":100,"to":50)"),
            std::string::npos)
      << hub.news();
  time.advance(30s);
  EXPECT_EQ(column("recovered"), "[0,0,0,1]");
  EXPECT_NE(hub.news().find(R"("from":50,"to":55)"), std::string::npos) << hub.news();
  const auto limits = limits_of(*api());
  ASSERT_EQ(limits.size(), 2U);
  EXPECT_EQ(limits[1].name, "pace");
  EXPECT_EQ(limits[1].scope, "learned");
  EXPECT_EQ(limits[1].amount, 55);
  EXPECT_EQ(limits[1].period, 1min);
  EXPECT_EQ(limits[1].configured, 100);
}

TEST_F(HistoryTest, FollowsTheTwoHundredThatWereUsedFirst) {
  std::vector<ProviderConfig> many;
  for (std::size_t i = 0; i < History::kTracksMax + 2; ++i) {
    many.push_back(provider("p" + std::to_string(i), {}));
  }
  EXPECT_TRUE(resources.apply(many));
  for (std::size_t i = 0; i < History::kTracksMax; ++i) {
    call("p" + std::to_string(i), 0s, 0s);
  }
  time.advance(10s);
  const std::string late = "p" + std::to_string(History::kTracksMax + 1);
  call(late, 0s, 0s);
  time.advance(10s);
  EXPECT_EQ(read("p0", Span::kHour).at("time_ms").as_array().size(), 2U);
  EXPECT_EQ(read(late, Span::kHour).at("time_ms").as_array().size(), 0U);
  EXPECT_TRUE(resources.remove("p0"));
  time.advance(10s);
  EXPECT_EQ(read(late, Span::kHour).at("time_ms").as_array().size(), 1U)
      << "the place of one that was removed";
}

TEST_F(HistoryTest, AnotherProviderOfTheSameNameCountsFromZero) {
  call("api", 0s, 1s);
  call("api", 0s, 1s);
  time.advance(8s);
  EXPECT_TRUE(resources.remove("api"));
  EXPECT_TRUE(resources.put(provider("api", {})));
  call("api", 0s, 1s);
  time.advance(9s);
  EXPECT_EQ(column("admitted"), "[2,1]");
}

}  // namespace
}  // namespace weir::server
