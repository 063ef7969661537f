#include "server/metrics_text.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "provider/resources_for_test.h"

namespace weir::server {
namespace {

using namespace std::chrono_literals;

struct MetricsTextTest : ResourcesTest {
  std::vector<std::string> lines() const {
    std::istringstream text{metrics_text(resources, daemon)};
    std::vector<std::string> all;
    for (std::string line; std::getline(text, line);) all.push_back(line);
    return all;
  }
  bool has(const std::string& line) const {
    const auto all = lines();
    return std::ranges::find(all, line) != all.end();
  }

  DaemonCounts daemon;
};

TEST_F(MetricsTextTest, ShowsWhatGatesAndTheDaemonHaveCounted) {
  LimitConfig budget{.spec = LimitSpec::fixed_window(Unit::kMicroUsd, {50'250'000, 24h})};
  ASSERT_TRUE(resources.apply(
      {provider("api", {named("requests", requests_each(2, 1min)), named("budget", budget)},
                {{"large-*", {named("tokens", tokens_each(100, 1min))}}})}));
  EXPECT_EQ(passes("api", {}, 3), 2);
  EXPECT_TRUE(pass("api", {.model = "large-1"}).outcome.error().retry_after > 0s);
  resources.find("api")->pause();
  daemon = {.version = "1.2\"3",
            .uptime = 1500ms,
            .http = {.requests = 9,
                     .replies_by_class = {0, 0, 5, 0, 3, 1},
                     .refused = 2,
                     .connections = 7},
            .permits = 4,
            .permits_expired = 6};
  for (
      const std::string line : {
          R"(weir_acquired_total{resource="api",model=""} 2)",
          R"(weir_rejected_total{resource="api",model=""} 2)",
          R"(weir_acquired_total{resource="api",model="large-*"} 0)",
          R"(weir_waited_total{resource="api",model=""} 0)",
          R"(weir_wait_seconds_total{resource="api",model=""} 0)",
          R"(weir_waiting{resource="api",model=""} 0)",
          R"(weir_held{resource="api",model=""} 1)",
          R"(weir_held{resource="api",model="large-*"} 0)",
          R"(weir_limit_available{resource="api",model="",limit="requests",unit="requests"} 0)",
          R"(weir_limit_capacity{resource="api",model="",limit="requests",unit="requests"} 2)",
          R"(weir_limit_hits_total{resource="api",model="",limit="requests",unit="requests"} 2)",
          R"(weir_limit_capacity{resource="api",model="",limit="budget",unit="usd"} 50.25)",
          R"(weir_limit_capacity{resource="api",model="large-*",limit="tokens",unit="tokens"} 100)",
          R"(weir_permits 4)",
          R"(weir_permits_expired_total 6)",
          R"(weir_http_connections 7)",
          R"(weir_http_requests_total 9)",
          R"(weir_http_replies_total{class="2xx"} 5)",
          R"(weir_http_replies_total{class="4xx"} 3)",
          R"(weir_http_replies_total{class="5xx"} 1)",
          R"(weir_http_refused_total 2)",
          R"(weir_uptime_seconds 1.5)",
          R"(weir_build_info{version="1.2\"3"} 1)",
      }) {
    EXPECT_TRUE(has(line)) << line;
  }
}

TEST_F(MetricsTextTest, EscapesLabels) {
  ASSERT_TRUE(resources.apply(
      {provider("a", {named("b\"c\\d\ne", requests_each(1, 1min))}, {{"m\"\\\n*", {}}})}));
  EXPECT_TRUE(
      has(R"(weir_limit_capacity{resource="a",model="",limit="b\"c\\d\ne",unit="requests"} 1)"));
  EXPECT_TRUE(has(R"(weir_waiting{resource="a",model="m\"\\\n*"} 0)"));
}

// What Prometheus wants of a page, or it takes nothing of it.
TEST_F(MetricsTextTest, EveryFamilyIsInOnePieceAndEverySampleUnique) {
  ASSERT_TRUE(resources.apply(
      {provider("one", {named("x", requests_each(1, 1min)), named("y", tokens_each(1, 1min))},
                {{"large-*", {named("x", tokens_each(5, 1min))}}, {"small-*", {}}}),
       provider("two", {named("x", requests_each(1, 1min))}, {{"large-*", {}}}),
       provider("none", {})}));
  const auto all = lines();
  std::map<std::string, int> helps;
  std::map<std::string, std::string> types;
  std::set<std::string> samples;
  std::string family;
  for (const std::string& line : all) {
    std::istringstream words{line};
    std::string first, what, name, type;
    if (line.starts_with("#")) {
      words >> first >> what >> name >> type;
      if (what == "HELP") {
        EXPECT_EQ(++helps[name], 1) << line;
        EXPECT_TRUE(name.starts_with("weir_")) << line;
        family = name;
      } else {
        EXPECT_EQ(what, "TYPE");
        EXPECT_EQ(name, family);
        EXPECT_TRUE(types.emplace(name, type).second) << line;
        EXPECT_EQ(type, name.ends_with("_total") ? "counter" : "gauge") << line;
      }
      continue;
    }
    const std::size_t value = line.rfind(' ');
    EXPECT_TRUE(samples.insert(line.substr(0, value)).second) << line;
    EXPECT_EQ(line.substr(0, line.find_first_of("{ ")), family) << line;
    std::size_t read = 0;
    std::stod(line.substr(value + 1), &read);
    EXPECT_EQ(read, line.size() - value - 1) << line;
  }
  EXPECT_EQ(helps.size(), 17U);
  EXPECT_EQ(types.size(), helps.size());
}

}  // namespace
}  // namespace weir::server
