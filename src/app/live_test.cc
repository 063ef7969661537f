// What the page reads, from a daemon with real traffic in stepped time.
#include "app/daemon_for_test.h"
#include "proxy/proxy_for_test.h"
#include "server/server_for_test.h"

namespace weir::app {
namespace {

using namespace std::chrono_literals;
namespace json = boost::json;

class LiveTest : public DaemonTest {
 protected:
  json::value live() { return get("/v1/live").json; }
  json::value resource() { return live().at("resources").at(0); }
  json::value limit(std::string_view name) {
    const json::value one = resource();
    for (const json::value& row : one.at("limits").as_array()) {
      if (row.at("name").as_string() == name) return row;
    }
    return {};
  }
  // The codes of the warnings, and their sentences.
  std::string warnings() {
    std::string all;
    const json::value now = live();
    for (const json::value& warning : now.at("warnings").as_array()) {
      for (const char* key : {"code", "text", "advice"}) {
        all += std::string{std::string_view{warning.at(key).as_string()}} + "\n";
      }
    }
    return all;
  }
  void put_back(const std::string& permit) {
    EXPECT_EQ(call({.method = "DELETE", .target = "/v1/permits/" + permit}).status, 200);
  }
  // Watches these types until an event with `until` in it has come whole.
  std::future<std::string> watch(const std::string& types, std::string until) {
    return std::async(std::launch::async, [this, types, until] {
      std::string events;
      net::HttpClient http = client();
      (void)http.stream({.target = "/v1/events?only=" + types}, [&](std::string_view bytes) {
        events += bytes;
        watching = true;
        const std::size_t found = events.find(until);
        return found == std::string::npos || events.find("\n\n", found) == std::string::npos;
      });
      return events;
    });
  }
  void until_watching() {
    while (!watching) nap();
  }

  std::atomic<bool> watching = false;
};

constexpr const char* kSlots =
    "name: api\ndomain: api.example.com\nmax_concurrency: 1\nlimits: [{unit: tokens, amount: 6000, "
    "per: 1m}]\n";

TEST_F(LiveTest, ShowsWhoWaitsForWhatAndWhoIsUnderWay) {
  provider("api", kSlots);
  start();
  EXPECT_EQ(live().at("scope"), "admin");
  EXPECT_EQ(live().at("resources_total"), 1);
  EXPECT_TRUE(resource().at("binding").is_null());
  const std::string permit =
      acquire(R"({"resource":"api","agent":"first","cost":{"tokens":600}})").permit();
  auto waiting = acquire_waiting(
      R"({"resource":"api","agent":"second","model":"m","wait_ms":60000,"cost":{"tokens":300}})");
  until_waiting("api", 1);
  time.advance(4s);

  json::value now = resource();
  EXPECT_EQ(now.at("waiting"), 1);
  EXPECT_EQ(now.at("in_flight"), 1);
  EXPECT_EQ(json::serialize(now.at("binding")),
            R"({"limit":"slots","unit":"slots","scope":"provider"})");
  EXPECT_EQ(json::serialize(now.at("queue")),
            R"([{"agent":"second","model":"m","waited_ms":4000,"tokens":300,"priority":0}])");
  EXPECT_EQ(now.at("agents").at(0).at("name"), "first");
  EXPECT_EQ(now.at("agents").at(0).at("share"), 1);
  EXPECT_EQ(now.at("agents").at(1).at("waiting"), 1);
  EXPECT_EQ(now.at("agents_total"), 2);
  EXPECT_EQ(limit("slots").at("used"), 1);
  EXPECT_EQ(limit("slots").at("configured"), 1);
  EXPECT_EQ(limit("tokens per 1m").at("available"), 5'800);

  put_back(permit);
  const std::string second = waiting.get().permit();
  time.advance(2s);
  put_back(second);
  now = resource();
  EXPECT_EQ(now.at("wait").at("count"), 2);
  EXPECT_EQ(now.at("wait").at("mean_ms"), 2'000);
  EXPECT_EQ(now.at("wait").at("max_ms"), 4'000);
  EXPECT_EQ(now.at("upstream").at("count"), 2);
  EXPECT_EQ(now.at("upstream").at("mean_ms"), 3'000);
  EXPECT_EQ(now.at("minute").at("admitted"), 2);
  EXPECT_EQ(now.at("minute").at("tokens"), 900);
  ASSERT_EQ(now.at("slowest").as_array().size(), 1U);
  EXPECT_EQ(now.at("slowest").at(0).at("agent"), "second");
  EXPECT_EQ(now.at("slowest").at(0).at("limit"), "slots");
  EXPECT_EQ(now.at("slowest").at(0).at("waited_ms"), 4'000);
}

TEST_F(LiveTest, TheLimitThatBindsMayBeTheAgentsOwn) {
  provider("api",
           "name: api\ndomain: a.com\nlimits: [{unit: requests, amount: 100, per: 1m}]\n"
           "agents:\n  slow-*: {limits: [{unit: requests, amount: 1, per: 10s}]}\n");
  start();
  acquire(R"({"resource":"api","agent":"slow-1"})");
  auto waiting = acquire_waiting(R"({"resource":"api","agent":"slow-1","wait_ms":60000})");
  while (resource().at("waiting") != 1) nap();
  EXPECT_EQ(json::serialize(resource().at("binding")),
            R"({"limit":"requests per 10s","unit":"requests","scope":"agent slow-1"})");
  time.advance(5s);
  EXPECT_NE(
      warnings().find("The limit that binds is \"requests per 10s\" (agent slow-1), 100% used."
                      "\nIt is this agent's own limit"),
      std::string::npos)
      << warnings();
  time.advance(5s);
  EXPECT_EQ(waiting.get().status, 200);

  // One that holds nobody is not shown, whoever waits.
  time.advance(10s);
  acquire(R"({"resource":"api","cost":{"requests":100}})");
  auto other = acquire_waiting(
      R"({"resource":"api","agent":"slow-1","cost":{"requests":1},"wait_ms":60000})");
  while (resource().at("waiting") != 1) nap();
  EXPECT_EQ(resource().at("limits").as_array().size(), 1U);
  EXPECT_EQ(resource().at("binding").at("scope"), "provider");
  time.advance(10s);
  EXPECT_EQ(other.get().status, 200);
}

TEST_F(LiveTest, TheLimitsOfAnotherModelBindNobodyElse) {
  provider("api",
           "name: api\ndomain: a.com\nmax_concurrency: 1\nmodels:\n"
           "  opus: {limits: [{unit: tokens, amount: 100, per: 1h, algorithm: fixed_window}]}\n");
  start();
  const std::string permit =
      acquire(R"({"resource":"api","model":"opus","cost":{"tokens":100}})").permit();
  auto waiting =
      acquire_waiting(R"({"resource":"api","model":"haiku","cost":{"tokens":9},"wait_ms":60000})");
  while (resource().at("waiting") != 1) nap();
  EXPECT_EQ(json::serialize(resource().at("binding")),
            R"({"limit":"slots","unit":"slots","scope":"provider"})");
  put_back(permit);
  EXPECT_EQ(waiting.get().status, 200);
}

TEST_F(LiveTest, ACallThatHoldsNothingHasNoTimeUpstream) {
  provider("one", "name: one\ndomain: a.com\nlimits: [{unit: requests, amount: 2, per: 1m}]\n");
  start();
  for (int i = 0; i < 3; ++i) acquire(R"({"resource":"one"})");
  post("/v1/acquire_batch", R"({"requests":[{"resource":"one"},{"resource":"one"}]})");
  const json::value now = resource();
  EXPECT_EQ(now.at("minute").at("arrived"), 5);
  EXPECT_EQ(now.at("minute").at("admitted"), 2);
  EXPECT_EQ(now.at("minute").at("refused"), 3);
  EXPECT_EQ(now.at("in_flight"), 0);
  EXPECT_EQ(now.at("upstream").at("count"), 0);
}

TEST_F(LiveTest, WhoGoesAwayIsCountedAsGone) {
  provider("api", kSlots);
  start();
  acquire(R"({"resource":"api"})");
  server::RawClient gone{daemon->port()};
  gone.send(
      "POST /v1/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 34\r\n\r\n"
      R"({"resource":"api","wait_ms":60000})");
  until_waiting("api", 1);
  gone.close();
  while (resource().at("minute").at("abandoned") != 1) nap();
  EXPECT_EQ(resource().at("waiting"), 0);
}

// S3.9
TEST_F(LiveTest, WarnsOfOurOwnCongestionAndSaysWhatToChange) {
  provider("api", kSlots);
  start();
  EXPECT_EQ(warnings(), "");
  acquire(R"({"resource":"api"})");
  auto waiting = acquire_waiting(R"({"resource":"api","wait_ms":60000})");
  until_waiting("api", 1);
  time.advance(12s);
  const std::string said = warnings();
  EXPECT_NE(said.find("congestion\n1 call waits now, the longest for 12 s. The limit that "
                      "binds is \"slots\", 100% used."),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("raise max_concurrency"), std::string::npos) << said;
  post("/v1/resources/api/drain", "");
  EXPECT_EQ(waiting.get().status, 503);
}

TEST_F(LiveTest, APermitThatIsNeverReleasedIsToldAsAStaleSlot) {
  provider("api", kSlots);
  start();
  acquire(R"({"resource":"api","agent":"lost","hold_ms":5000})");
  time.advance(6s);
  EXPECT_NE(warnings().find("stale_slots\n1 permit was never released"), std::string::npos);
  EXPECT_EQ(resource().at("in_flight"), 0);
  EXPECT_EQ(resource().at("upstream").at("count"), 0);
  const std::string news = get("/v1/news").response.body;
  EXPECT_NE(news.find(R"("type":"expired")"), std::string::npos);
  EXPECT_NE(news.find(R"("agent":"lost")"), std::string::npos);
}

TEST_F(LiveTest, ForecastsTheEndOfABudgetAndItsReset) {
  provider("api", "name: api\ndomain: a.com\nbudget: {usd: 10}\n");
  start();
  for (int i = 0; i < 30; ++i) {  // a dollar in five minutes: ten would last 50
    acquire(R"({"resource":"api","cost":{"usd":0.033333}})");
    time.advance(10s);
  }
  const json::value budget = limit("budget");
  const std::int64_t midnight = 1'735'689'600'000 + 24 * 3'600'000;
  EXPECT_EQ(budget.at("resets_at_ms"), midnight);
  const std::int64_t ends_in_minutes =
      (budget.at("ends_at_ms").as_int64() - live().at("time_ms").as_int64()) / 60'000;
  EXPECT_NEAR(static_cast<double>(ends_in_minutes), 45, 3);
  EXPECT_NE(warnings().find("budget_ends\nAt this pace \"budget\" ends in 4"), std::string::npos)
      << warnings();
  time.advance(20min);
  EXPECT_TRUE(limit("budget").at("ends_at_ms").is_null()) << "nobody uses it any more";
}

TEST_F(LiveTest, AWindowThatStartsWithItsFirstRequestSaysWhenItEnds) {
  provider("api", "name: api\ndomain: a.com\nlimit: 5\nperiod: 2h\n");
  start();
  EXPECT_TRUE(limit("requests per 2h").at("resets_at_ms").is_null());
  time.advance(10min);
  acquire(R"({"resource":"api"})");
  time.advance(10min);
  EXPECT_EQ(limit("requests per 2h").at("resets_at_ms"), 1'735'689'600'000 + 130 * 60'000);
}

TEST_F(LiveTest, TheHistoryIsThatOfAnHourOrADay) {
  provider("api", kSlots);
  start();
  put_back(acquire(R"({"resource":"api"})").permit());
  time.advance(2min);
  const Answer hour = get("/v1/history/api");
  EXPECT_EQ(hour.number("step_ms"), 10'000);
  EXPECT_EQ(hour.json.at("admitted").as_array().size(), 12U);
  EXPECT_EQ(hour.json.at("admitted").at(0), 1);
  EXPECT_EQ(hour.json.at("limits").at(0).at("name"), "slots");
  const Answer day = get("/v1/history/api?span=24h");
  EXPECT_EQ(day.number("step_ms"), 120'000);
  EXPECT_EQ(day.text("admitted"), "[1]");
  EXPECT_EQ(get("/v1/history/api?span=2h").status, 400);
  EXPECT_EQ(get("/v1/history/nobody").status, 404);
}

TEST_F(LiveTest, TheBusiestComeFirst) {
  for (const char* name : {"a", "b", "c"}) {
    provider(name,
             std::string{"name: "} + name + "\ndomain: " + name + ".com\nmax_concurrency: 1\n");
  }
  start();
  const std::string b = acquire(R"({"resource":"b"})").permit();
  const std::string c = acquire(R"({"resource":"c"})").permit();
  auto waits = acquire_waiting(R"({"resource":"c","wait_ms":60000})");
  until_waiting("c", 1);
  std::string order;
  const json::value now = live();
  for (const json::value& one : now.at("resources").as_array()) order += one.at("name").as_string();
  EXPECT_EQ(order, "cba") << "who waits, who is under way, the rest";
  put_back(c);
  EXPECT_EQ(waits.get().status, 200);
}

TEST_F(LiveTest, LiveAndPointsComeToWhoAsksForThem) {
  provider("api", kSlots);
  start();
  put_back(acquire(R"({"resource":"api","agent":"a"})").permit());
  auto watched = watch("live,point,operated", "event: point");
  until_watching();
  post("/v1/resources/api/pause", "");
  for (int i = 0; i < 20; ++i) time.advance(1s);
  const std::string events = watched.get();
  EXPECT_NE(events.find("event: live\ndata: {\"time\":\"2025-"), std::string::npos) << events;
  EXPECT_NE(events.find("event: operated"), std::string::npos);
  EXPECT_EQ(events.find("\"scope\":\"admin\""), std::string::npos) << "is of who asks";
  const std::size_t point = events.find("event: point\ndata: ") + 19;
  const json::value points = json::parse(events.substr(point, events.find('\n', point) - point));
  const json::value& one = points.at("points").at(0);
  EXPECT_EQ(one.at("resource"), "api");
  EXPECT_EQ(one.at("admitted"), 1);
  EXPECT_TRUE(one.at("upstream_ms").is_number());
  EXPECT_EQ(one.at("limits").at(0).at("name"), "slots");
}

TEST_F(LiveTest, AnUnknownTypeOfEventIsRefused) {
  start();
  EXPECT_EQ(get("/v1/events?only=everything").status, 400);
}

TEST_F(LiveTest, WhatOperatorsDoIsInTheNewsThoughNobodyWatched) {
  provider("api", kSlots);
  start();
  post("/v1/resources/api/pause", "");
  EXPECT_EQ(resource().at("state"), "paused");
  EXPECT_NE(warnings().find("paused\nAn operator has paused this provider."), std::string::npos);
  post("/v1/resources/api/resume", "");
  EXPECT_EQ(resource().at("state"), "open");
  call({.method = "PUT", .target = "/v1/resources/api", .body = R"({"max_concurrency":3})"});
  const json::value news = get("/v1/news").json;
  std::string what;
  for (const json::value& event : news.at("events").as_array()) {
    EXPECT_EQ(event.at("type"), "operated");
    EXPECT_EQ(event.at("resource"), "api");
    what += std::string{std::string_view{event.at("what").as_string()}} + ", ";
  }
  EXPECT_EQ(what, "pause, resume, limits changed, ");
}

TEST_F(LiveTest, LimitsPutBackAsTheyWereToldChangeNothing) {
  provider("api", R"(
name: api
domain: a.com
limit: 100
period: 1h
tokens_per_minute: 60000
max_concurrency: 3
limits: [{unit: tokens, amount: 1000, per: 1h, burst: 300}]
budget: {usd: 2.5, reset: "06:30", zone: Europe/Berlin}
)");
  start();
  acquire(R"({"resource":"api","cost":{"tokens":250,"usd":0.5}})");
  const Answer before = get("/v1/resources/api");
  std::string specs;  // as text: a number keeps its digits
  const std::string& told = before.response.body;
  constexpr std::string_view kKey = "\"spec\":";
  for (auto at = told.find(kKey); at != told.npos; at = told.find(kKey, at + 1)) {
    const std::size_t begin = at + kKey.size();
    specs += (specs.empty() ? "" : ",") + told.substr(begin, told.find('}', begin) + 1 - begin);
  }
  const auto put = [&] {
    return call(
        {.method = "PUT", .target = "/v1/resources/api", .body = "{\"limits\":[" + specs + "]}"});
  };
  const Answer after = put();
  EXPECT_EQ(after.status, 200) << after.response.body;
  EXPECT_EQ(before.json.at("limits").as_array().size(), 5U);
  EXPECT_EQ(after.text("limits"), before.text("limits"));
  // One of them is changed.
  const std::string_view one = "\"amount\":1000,\"per\":\"1h\"";
  specs.replace(specs.find(one), one.size(), "\"amount\":2000,\"per\":\"1h\"");
  EXPECT_EQ(put().status, 200);
  EXPECT_EQ(limit("tokens per 1h").at("amount"), 2'000);
  EXPECT_EQ(limit("budget").at("available"), 2) << "what was used stays used";
  const std::string_view minute = "\"amount\":6000,\"per\":\"6s\"";
  specs.replace(specs.find(minute), minute.size(), "\"amount\":4000,\"per\":\"6s\"");
  EXPECT_EQ(put().status, 200);
  EXPECT_NE(
      get("/v1/news").response.body.find(R"("limit":"tokens per minute","from":60000,"to":40000)"),
      std::string::npos)
      << get("/v1/news").response.body;
  EXPECT_NE(get("/v1/news").response.body.find(R"("limit":"tokens per 1h","from":1000,"to":2000)"),
            std::string::npos);
  EXPECT_NE(log().find(R"("limit":"tokens per 1h","from":"1000","to":"2000")"), std::string::npos)
      << log();
}

TEST_F(LiveTest, TheScopeIsThatOfWhoAsks) {
  start(
      "auth:\n  tokens:\n    - {name: r, scope: read, token: reading-reading-reading}\n"
      "    - {name: c, scope: client, token: client-client-client}\n");
  net::HttpClient reader = client("reading-reading-reading");
  EXPECT_NE(reader.get("/v1/live")->body.find(R"("scope":"read")"), std::string::npos);
  for (const char* path : {"/v1/live", "/v1/news", "/v1/history/x", "/v1/events?only=live"}) {
    net::HttpClient other = client("client-client-client");
    EXPECT_EQ(other.get(path)->status, 403) << path;
  }
}

TEST_F(LiveTest, WhoseTokenIsTakenAwayWatchesNoLonger) {
  const std::string auth =
      "auth:\n  tokens:\n    - {name: boss, scope: admin, token: admin-admin-admin-admin}\n";
  std::atomic<int> seen = 0;
  std::atomic<bool> ended = false;
  start(auth + "    - {name: leaver, scope: read, token: reading-reading-reading}\n");
  auto watched = std::async(std::launch::async, [&] {
    net::HttpClient reader = client("reading-reading-reading");
    (void)reader.stream({.target = "/v1/events?only=live"}, [&](std::string_view) {
      ++seen;
      return true;
    });
    ended = true;
  });
  const auto sees_more = [&] {
    for (const int before = seen; seen < before + 2; nap()) time.advance(1s);
  };
  sees_more();
  ASSERT_TRUE(daemon->reload());
  sees_more();  // nothing has changed for it
  directory.write("weir.yaml", auth);
  ASSERT_TRUE(daemon->reload());
  EXPECT_TRUE(eventually([&] {
    time.advance(1s);  // of which it would be told
    return ended.load();
  }));
  net::HttpClient reader = client("reading-reading-reading");
  EXPECT_EQ(reader.get("/v1/events?only=live")->status, 401);
}

class LiveProxyTest : public LiveTest {
 protected:
  void start_with(const std::string& more) {
    provider("openai", "name: openai\ndomain: api.openai.com\nupstream: http://127.0.0.1:" +
                           std::to_string(upstream.port) + "\n" + more);
    start();
  }
  std::future<Answer> ask(const std::string& agent = "planner") {
    return std::async(std::launch::async, [this, agent] {
      return call({.method = "POST",
                   .target = "/proxy/openai/v1/chat/completions",
                   .body = R"({"model":"gpt-4o","max_tokens":100,"messages":[]})",
                   .fields = {{"X-Weir-Agent", agent}},
                   .timeout = kLongEnough});
    });
  }

  proxy::Provider upstream;
};

// S3.9
TEST_F(LiveProxyTest, TheTimeInTheApiStandsBesideTheTimeWaitedForQuota) {
  start_with("max_concurrency: 1\n");
  auto first = ask("first");
  const auto sent = upstream.next();
  auto second = ask("second");
  while (resource().at("waiting") != 1) nap();
  EXPECT_EQ(resource().at("in_flight"), 1);
  time.advance(5s);
  sent.answer(R"({"usage":{"prompt_tokens":7,"completion_tokens":30}})");
  EXPECT_EQ(first.get().status, 200);
  const auto next = upstream.next();
  time.advance(3s);
  next.answer(R"({"usage":{"prompt_tokens":7,"completion_tokens":50}})");
  EXPECT_EQ(second.get().status, 200);
  while (resource().at("in_flight") != 0) nap();
  const json::value now = resource();
  EXPECT_EQ(now.at("upstream").at("count"), 2);
  EXPECT_EQ(now.at("upstream").at("mean_ms"), 4'000);
  EXPECT_EQ(now.at("wait").at("max_ms"), 5'000);
  EXPECT_EQ(now.at("minute").at("tokens"), 94);
  EXPECT_EQ(now.at("slowest").at(0).at("agent"), "second");
  EXPECT_EQ(now.at("slowest").at(0).at("model"), "gpt-4o");
  EXPECT_EQ(now.at("slowest").at(0).at("limit"), "slots");
  EXPECT_EQ(now.at("agents").at(0).at("name"), "second");
}

// S3.9
TEST_F(LiveProxyTest, AnApiThatHangsIsSeenBeforeAnyCallHasEnded) {
  start_with("");
  const std::string body = R"({"model":"gpt-4o","max_tokens":100,"messages":[]})";
  server::RawClient impatient{daemon->port()};
  impatient.send(
      "POST /proxy/openai/v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
      "Content-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body);
  const auto sent = upstream.next();
  time.advance(80s);
  EXPECT_EQ(resource().at("in_flight"), 1);
  EXPECT_EQ(resource().at("in_flight_age_ms"), 80'000);
  impatient.close();
  while (resource().at("in_flight") != 0) nap();
  EXPECT_EQ(resource().at("upstream").at("count"), 1) << "it has waited so long for the API";
  EXPECT_EQ(resource().at("upstream").at("mean_ms"), 80'000);
  EXPECT_EQ(resource().at("in_flight_age_ms"), 0);
}

TEST_F(LiveProxyTest, OneModelThatIsHeldDoesNotStopTheOthers) {
  start_with("max_wait: 30s\n");
  const auto call_of = [&](const std::string& model) {
    return std::async(std::launch::async, [this, model] {
      return call({.method = "POST",
                   .target = "/proxy/openai/v1/chat/completions",
                   .body = R"({"model":")" + model + R"(","max_tokens":10,"messages":[]})",
                   .timeout = kLongEnough});
    });
  };
  auto small = call_of("gpt-4o-mini");
  const auto under_way = upstream.next();
  auto large = call_of("gpt-4o");
  upstream.next().answer("{}", "429 Too Many Requests", "Retry-After: 20\r\n");
  while (resource().at("waiting") != 1) nap();
  EXPECT_EQ(resource().at("state"), "open");
  EXPECT_NE(warnings().find("held_in_part\nThe provider has asked to wait"), std::string::npos)
      << warnings();
  under_way.answer("{}");
  EXPECT_EQ(small.get().status, 200);
  while (resource().at("in_flight") != 0) nap();
  EXPECT_EQ(resource().at("state"), "held") << "now nobody goes";
  time.advance(25s);
  upstream.next().answer("{}");
  EXPECT_EQ(large.get().status, 200);
}

TEST_F(LiveProxyTest, A429IsToldAndTheLoweredPaceIsAWarning) {
  start_with("limits: [{unit: requests, amount: 600, per: 1m}]\nmax_wait: 30s\n");
  auto asked = ask();
  upstream.next().answer("{}", "429 Too Many Requests");
  while (resource().at("waiting") != 1) nap();
  EXPECT_EQ(resource().at("minute").at("limited"), 1);
  const std::string news = get("/v1/news").response.body;
  EXPECT_NE(news.find(R"("type":"limited")"), std::string::npos);
  EXPECT_NE(
      news.find(R"("resource":"openai","agent":"planner","model":"gpt-4o","retry_after_ms":null)"),
      std::string::npos)
      << news;
  const std::string said = warnings();
  EXPECT_NE(said.find("limit_lowered\nThe rate is lowered to 50% of 600 requests a minute after "
                      "answers of 429; it grows back by a tenth every 30 s."),
            std::string::npos)
      << said;
  EXPECT_EQ(limit("pace").at("amount"), 300);
  EXPECT_EQ(limit("pace").at("configured"), 600);
  time.advance(10s);
  upstream.next().answer("{}");
  EXPECT_EQ(asked.get().status, 200);
  EXPECT_NE(get("/v1/news").response.body.find(R"("limit":"pace","from":600,"to":300)"),
            std::string::npos);
  EXPECT_EQ(resource().at("minute").at("admitted"), 1) << "one call, though it was sent twice";

  // A step of the day is the sum of its steps of 10 s, or the most in them.
  time.advance(110s);
  const json::value hour = get("/v1/history/openai").json;
  const json::value day = get("/v1/history/openai?span=24h").json;
  for (const char* column : {"admitted", "refused", "limited", "reduced", "recovered", "tokens"}) {
    std::int64_t sum = 0;
    for (const json::value& step : hour.at(column).as_array()) sum += step.as_int64();
    EXPECT_EQ(day.at(column).at(0), sum) << column;
  }
  EXPECT_EQ(day.at("limited").at(0), 1);
  EXPECT_EQ(day.at("reduced").at(0), 1);
  EXPECT_GE(day.at("recovered").at(0).as_int64(), 1);
  EXPECT_EQ(day.at("waiting").at(0), 1);
}

TEST_F(LiveProxyTest, AnExhaustedQuotaIsAStateWithItsReason) {
  start_with("");
  auto asked = ask();
  upstream.next().answer(R"({"error":{"code":"insufficient_quota"}})", "429 Too Many Requests");
  EXPECT_EQ(asked.get().status, 429);
  EXPECT_EQ(resource().at("state"), "exhausted");
  EXPECT_NE(json::serialize(resource().at("reason")).find("insufficient_quota"), std::string::npos);
  EXPECT_NE(warnings().find("exhausted\n"), std::string::npos);
  EXPECT_EQ(ask().get().status, 429);
  EXPECT_EQ(resource().at("minute").at("refused"), 1) << "by us, without asking";
}

TEST_F(LiveProxyTest, ABrokenAnswerIsAFailure) {
  start_with("");
  auto asked = ask();
  upstream.next().send("nonsense\r\n\r\n");
  EXPECT_EQ(asked.get().status, 502);
  EXPECT_EQ(resource().at("minute").at("failed"), 1);
  EXPECT_EQ(resource().at("in_flight"), 0);
}

}  // namespace
}  // namespace weir::app
