// Sources through the daemon: a real HTTP server as the outside world, in stepped time (S4.8).
#include "app/sources_for_test.h"

#include <atomic>
#include <fstream>
#include <sstream>

#include "store/source_store.h"

namespace weir::app {
namespace {

using namespace std::chrono_literals;

TEST_F(SourcesTest, ASourceIsFetchedAtOnceAndThenRegularly) {
  start();
  world.answer(World::good(R"({"price":1})"));
  const Answer added = put(
      "a", "url: " + world.url("/p?q=1") + "\nevery: 5m\nheaders: {Accept: text/csv, X-Kind: b}\n");
  EXPECT_EQ(added.status, 201);
  EXPECT_EQ(added.text("stored"), "true");
  EXPECT_EQ(added.text("resource"), "null");
  until_last("a", 200);
  const std::string request = world.last();
  EXPECT_TRUE(request.starts_with("GET /p?q=1 HTTP/1.1\r\nHost: 127.0.0.1:")) << request;
  EXPECT_TRUE(request.contains("Accept: text/csv\r\n") && request.contains("X-Kind: b\r\n"));
  EXPECT_FALSE(request.contains("Accept: */*"));
  const Answer shown = source("a");
  EXPECT_EQ(shown.text("state"), "\"scheduled\"");
  EXPECT_EQ(shown.number("every_ms"), 300'000);
  EXPECT_EQ(shown.text("headers"), R"({"Accept":"text/csv","X-Kind":"b"})");
  EXPECT_EQ(shown.json.at("results").as_array().size(), 1U);
  EXPECT_EQ(shown.json.at("last").at("bytes").as_int64(), 11);
  const Answer body = get("/v1/sources/a/body");
  EXPECT_EQ(body.response.body, R"({"price":1})");
  EXPECT_EQ(body.response.field("content-type"), "application/json");
  time.advance(299s);
  EXPECT_EQ(world.count(), 1);
  time.advance(1s);
  until_fetched(2);
}

// S4.8, S4.9: scenario 2 of seed 004 with the scheduler running.
TEST_F(SourcesTest, OfTenSourcesFiveFitTheWindowAndFiveComeInTheNext) {
  limited("limit: 300\nperiod: 1m\n");
  start();
  std::string batch = R"({"requests":[)";
  for (int i = 0; i < 295; ++i) batch += std::string{i == 0 ? "" : ","} + R"({"resource":"world"})";
  ASSERT_EQ(post("/v1/acquire_batch", batch + "]}").status, 200);
  for (int i = 0; i < 10; ++i) add(fmt::format("s{}", i));
  until_fetched(5);
  second();
  EXPECT_EQ(world.count(), 5 + 1);  // and the tick
  const Answer all = get("/v1/sources");
  EXPECT_EQ(all.number("total"), 11);
  int held = 0;
  for (const auto& one : all.json.at("sources").as_array()) {
    if (one.at("state") != "held_back") continue;
    ++held;
    EXPECT_EQ(one.at("failures").as_int64(), 0);
    EXPECT_EQ(one.at("resource"), "world");
  }
  EXPECT_EQ(held, 5);
  time.advance(1min);
  until([&] { return world.visits().size() == 11; });
  for (const auto& [path, count] : world.visits())
    EXPECT_TRUE(count == 1 || path == "/tick") << path;
}

// S4.8
TEST_F(SourcesTest, TenThousandSourcesStayWithinOneLimitAndEachHasItsTurn) {
  constexpr int kSources = 10'000;
  constexpr int kLimit = 2'500;
  limited(fmt::format("limit: {}\nperiod: 1h\n", kLimit));
  start();
  net::HttpClient http = client();
  for (int i = 0; i < kSources; ++i) {
    const auto added = http.call({.method = "PUT",
                                  .target = fmt::format("/v1/sources/s{:05}", i),
                                  .body = fmt::format(R"({{"url":"{}","every":"1m"}})",
                                                      world.url(fmt::format("/s{:05}", i)))});
    ASSERT_TRUE(added && added->status == 201) << i;
  }
  const auto fetched = [&] {
    int count = 0;
    for (const auto& [path, visits] : world.visits()) count += path == "/tick" ? 0 : visits;
    return count;
  };
  for (int window = 1; window <= kSources / kLimit; ++window) {
    const Instant opened = time.now();  // or later
    until_quiet();
    while (fetched() < window * kLimit) second();
    for (int i = 0; i < 5; ++i) second();
    EXPECT_EQ(fetched(), window * kLimit);
    // Time does not leap while anything can be under way: a connection would take too long.
    if (window < kSources / kLimit) time.advance_to(opened + 1h - 1s);
  }
  auto visits = world.visits();
  visits.erase("/tick");
  EXPECT_EQ(visits.size(), std::size_t{kSources});
  for (const auto& [path, count] : visits) EXPECT_EQ(count, 1) << path;
}

// S4.8: the worker asks again. What an account has learned is a pace that the peek cannot add up,
// so some are refused there; they are put back and have not failed.
TEST_F(SourcesTest, RateLimitExceededIsPutBackAndNoFailure) {
  limited("limit: 100\nperiod: 1m\n");
  world.answer(World::status("429 Too Many Requests"));
  start();
  for (int i = 0; i < 6; ++i) add(fmt::format("s{}", i));
  until([&] { return !get("/metrics").response.body.contains("{result=\"limited\"} 0\n"); });
  until_quiet();
  world.answer(World::good("{}"));
  for (int i = 0; i < 6; ++i) {
    while (!source(fmt::format("s{}", i)).json.at("last").is_object()) second();
  }
  EXPECT_FALSE(get("/metrics").response.body.contains("{result=\"rate_limit_exceeded\"} 0\n"));
  for (int i = 0; i < 6; ++i) {
    const Answer answer = source(fmt::format("s{}", i));
    EXPECT_EQ(answer.number("failures"), 0);
    EXPECT_EQ(answer.json.at("results").as_array().size(), 1U);
    EXPECT_EQ(answer.json.at("last").at("status").as_int64(), 200);
  }
}

// Truth 5: no starving.
TEST_F(SourcesTest, AStandingQueueOfAgentsDoesNotKeepASourceOut) {
  constexpr int kCalls = 8;
  limited("limits: [{unit: requests, amount: 6, per: 1m, burst: 1}]\n");
  start();
  std::atomic<int> answered = 0;
  std::vector<std::future<void>> agents;
  for (int i = 0; i < kCalls; ++i) {
    agents.push_back(std::async(std::launch::async, [&, i] {
      const std::string agent = i % 2 == 0 ? "even" : "odd";
      EXPECT_EQ(
          acquire(R"({"resource":"world","wait_ms":3600000,"agent":")" + agent + "\"}").status,
          200);
      ++answered;
    }));
  }
  until_waiting("world", kCalls - 1);
  add("late");
  for (int i = 0; i < 5; ++i) second();
  until_waiting("world", kCalls);
  const auto fetched = [&] { return world.visits()["/late"]; };
  for (int served = 2; served <= kCalls + 1; ++served) {
    time.advance(10s);
    until([&] { return answered + fetched() == served; });
    EXPECT_TRUE(served < 4 || fetched() == 1) << "a turn for each: two agents and the source";
  }
}

// S4.7: the key goes to the provider and nowhere else, not even if it comes back.
TEST_F(SourcesTest, TheKeyIsSentAndNeitherKeptNorShown) {
  const std::string canary = "CANARY-0123456789";
  limited("limit: 100\nperiod: 1m\napi_key: " + canary + "\n");
  world.answer([](const std::string& request) { return World::good(request, "text/plain"); });
  start("store: " + directory.path("weir.db") + "\n");
  add("a");
  until_last("a", 200);
  EXPECT_TRUE(world.last().contains("authorization: Bearer " + canary)) << world.last();
  std::string seen = log();
  for (const char* target : {"/v1/sources", "/v1/sources/a", "/v1/sources/a/body", "/metrics",
                             "/api/status", "/v1/live", "/v1/news"}) {
    seen += get(target).response.body;
  }
  EXPECT_TRUE(seen.contains("authorization: Bearer *****"));
  daemon.reset();
  for (const auto& file : std::filesystem::directory_iterator{directory.path("")}) {
    if (!file.path().filename().string().starts_with("weir.db")) continue;
    std::ostringstream bytes;
    bytes << std::ifstream{file.path(), std::ios::binary}.rdbuf();
    seen += bytes.str();
  }
  EXPECT_TRUE(seen.contains("SQLite format 3"));
  EXPECT_FALSE(seen.contains("CANARY"));
}

// S4.7: what a refusal says of it is told: in the log, in results and on the page.
TEST_F(SourcesTest, AKeyThatARefusalRepeatsIsNotTold) {
  const auto refuse = [&](const std::string& status, const std::string& code) {
    const std::string body = R"({"error":{"code":")" + code + R"("}})";
    world.answer(
        fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\n\r\n{}", status, body.size(), body));
  };
  limited("limit: 100\nperiod: 1m\napi_key: CANARY/0123\n");
  start();
  refuse("401 Unauthorized", R"(invalid: CANARY\/0123)");
  add("a");
  until_last("a", 401);
  refuse("402 Payment Required", "no money: CANARY/0123");
  EXPECT_EQ(get("/proxy/world/x").status, 402);
  EXPECT_TRUE(log().contains("quota is exhausted")) << log();
  std::string seen = log();
  for (const char* target : {"/v1/sources/a", "/v1/resources/world", "/metrics", "/api/status",
                             "/v1/live", "/v1/news"}) {
    seen += get(target).response.body;
  }
  EXPECT_TRUE(seen.contains("invalid: ************")) << seen;
  EXPECT_TRUE(seen.contains("no money: ***********")) << seen;
  EXPECT_FALSE(seen.contains("CANARY")) << seen;
}

TEST_F(SourcesTest, AQuotaThatIsUsedUpIsLoggedWithoutTheKey) {
  limited("limit: 100\nperiod: 1m\napi_key: CANARY-0123\n");
  world.answer(World::status("402 Payment Required", "X-Amzn-Errortype: CANARY-0123\r\n"));
  start();
  add("a");
  until([&] { return log().contains("quota is exhausted"); });
  EXPECT_TRUE(log().contains("generic: ***********")) << log();
  EXPECT_FALSE((log() + get("/v1/live").response.body).contains("CANARY"));
}

// S4.7: as Alpha Vantage has it.
TEST_F(SourcesTest, AKeyInTheQueryIsNeitherKeptNorShown) {
  limited("limit: 100\nperiod: 1m\napi_key: CANARY/0123\napi_key_parameter: appid\n");
  world.answer([](const std::string& request) { return World::good(request, "text/plain"); });
  start();
  ASSERT_EQ(put("a", "url: " + world.url("/query?symbol=IBM") + "\n").status, 201);
  until_last("a", 200);
  EXPECT_TRUE(world.last().starts_with("GET /query?symbol=IBM&appid=CANARY%2F0123 HTTP/1.1\r\n"))
      << world.last();
  EXPECT_FALSE(world.last().contains("uthorization"));
  EXPECT_EQ(put("b", "url: " + world.url("/query?appid=mine") + "\n").status, 400);
  std::string seen = log();
  for (const char* target :
       {"/v1/sources/a", "/v1/sources/a/body", "/metrics", "/api/status", "/v1/live", "/v1/news"}) {
    seen += get(target).response.body;
  }
  EXPECT_TRUE(seen.contains("GET /query?symbol=IBM&appid=************* HTTP"));
  EXPECT_FALSE(seen.contains("CANARY"));
}

TEST_F(SourcesTest, AKeyIsNotSentInTheClear) {
  provider("world", "name: world\ndomain: 127.0.0.1\napi_key: CANARY-1\n");  // https:// alone
  start();
  add("a");
  until_last("a", 0);
  EXPECT_EQ(world.count(), 0);
  EXPECT_TRUE(source("a").text("last").contains("not sent over http://"));
}

TEST_F(SourcesTest, KeysInDefinitionsAreRefusedWithTheirPlace) {
  limited("profile: gemini\n");
  start();
  const Answer header =
      put("a", "url: https://x.example/\nheaders: {Authorization: Bearer CANARY}\n");
  EXPECT_EQ(header.status, 400);
  EXPECT_TRUE(header.text("mistakes").contains("body:2:11: headers.Authorization: put the key"))
      << header.response.body;
  const Answer query = put("a", "url: " + world.url("/x?key=CANARY") + "\n");
  EXPECT_EQ(query.status, 400);
  EXPECT_FALSE((header.response.body + query.response.body + log()).contains("CANARY"));
  EXPECT_EQ(source("a").status, 404);
}

TEST_F(SourcesTest, WhatAServerSaysOfItsLimitsIsLearned) {
  limited("limit: 100\nperiod: 1m\n");
  world.answer(World::status("429 Too Many Requests", "Retry-After: 30\r\n"));
  start();
  add("a");
  until_fetched(1);
  until([&] { return source("a").number("rate_limited") == 1; });
  EXPECT_EQ(state("a"), "\"held_back\"");
  EXPECT_EQ(source("a").number("failures"), 0);
  EXPECT_EQ(acquire(R"({"resource":"world"})").status, 429);  // everybody waits
  world.answer(World::good("{}"));
  time.advance(28s);
  second();
  EXPECT_EQ(source("a").text("last"), "null");
  time.advance(5s);
  until_last("a", 200);
}

TEST_F(SourcesTest, SourcesGoOnAfterARestartWhereTheyStopped) {
  const std::string main_file = "store: " + directory.path("weir.db") + "\n";
  world.answer(World::good("first"));
  start(main_file);
  add("a", "every: 1h\nheaders: {X-Kind: b}\n");
  until_last("a", 200);
  add("gone");
  until_last("gone", 200);
  world.answer(World::status("500 Internal Server Error"));
  time.advance(1h);
  until_last("a", 500);
  EXPECT_EQ(call({.method = "DELETE", .target = "/v1/sources/gone"}).status, 200);
  const Answer before = source("a");
  daemon.reset();
  start(main_file);
  const Answer after = source("a");
  for (const char* key :
       {"url", "every_ms", "headers", "due_at_ms", "failures", "last", "results"}) {
    EXPECT_EQ(after.text(key), before.text(key)) << key;
  }
  EXPECT_EQ(after.number("failures"), 1);
  EXPECT_EQ(after.json.at("results").as_array().size(), 2U);
  EXPECT_EQ(get("/v1/sources/a/body").response.body, "first");  // a failure leaves it
  EXPECT_EQ(source("gone").status, 404);
  EXPECT_EQ(get("/v1/sources").number("total"), 1);
  world.answer(World::good("second"));
  time.advance(10s);
  until_last("a", 200);
  until([&] { return get("/v1/sources/a/body").response.body == "second"; });
}

TEST_F(SourcesTest, AServerThatKeepsFailingIsLeftAloneUntilItIsBack) {
  world.answer(World::status("500 Internal Server Error"));
  start();
  for (int i = 0; i < 8; ++i) add(fmt::format("s{}", i), "every: 1s\n");
  until([&] { return get("/v1/live").text("sources").contains("\"breakers_open\":[\"127"); });
  until_quiet();
  const int before = world.count();
  EXPECT_GE(before, 5);
  time.advance(20s);
  until_quiet();
  EXPECT_EQ(world.count(), before);
  world.answer(World::good("{}"));
  while (!get("/v1/live").text("sources").contains("\"failing\":0")) second();
  const std::string news = get("/v1/news").response.body;
  for (const char* what : {"added", "failed", "breaker_opened", "breaker_closed", "recovered"}) {
    EXPECT_TRUE(news.contains(fmt::format("\"what\":\"{}\"", what))) << what << news;
  }
}

TEST_F(SourcesTest, ARefusalIsTheSourcesOwnFailure) {
  world.answer(World::status("404 Not Found"));
  start();
  for (int i = 0; i < 8; ++i) add(fmt::format("s{}", i));
  for (int i = 0; i < 8; ++i) until_last(fmt::format("s{}", i), 404);
  const std::string sources = get("/v1/live").text("sources");
  EXPECT_TRUE(sources.contains("\"failing\":8")) << sources;
  EXPECT_TRUE(sources.contains("\"breakers_open\":[]")) << sources;
  EXPECT_EQ(get("/v1/sources/s0/body").status, 404);
  EXPECT_TRUE(log().contains("\"why\":\"404\"")) << log();
}

TEST_F(SourcesTest, AnErrorOfTheServersOwnIsAFailedCallOfItsProvider) {
  world.answer(World::status("500 Internal Server Error"));
  limited("limit: 100\nperiod: 1m\n");
  start();
  add("a");
  until_last("a", 500);
  const std::string live = get("/v1/live").response.body;
  EXPECT_TRUE(live.contains("\"failed\":1,")) << live;
}

// An account remembers it as well, but it is the host that fails, limited or not.
TEST_F(SourcesTest, AnOverloadIsAFailureAndItsRetryAfterIsHeeded) {
  limited("limit: 100\nperiod: 1m\n");
  world.answer(World::status("503 Service Unavailable", "Retry-After: 60\r\n"));
  start();
  add("a");
  ASSERT_EQ(put("b", "url: " + world.url("/b", "localhost") + "\nevery: 1h\n").status, 201);
  for (const char* name : {"a", "b"}) {
    until_last(name, 503);
    const Answer answer = source(name);
    EXPECT_EQ(answer.number("failures"), 1);
    EXPECT_EQ(answer.number("rate_limited"), 0);
    EXPECT_EQ(answer.text("state"), "\"backing_off\"");
    EXPECT_EQ(answer.number("due_at_ms") - answer.json.at("last").at("at_ms").as_int64(), 60'000);
  }
  const std::string live = get("/v1/live").response.body;
  EXPECT_TRUE(live.contains("\"failed\":1,")) << live;
  world.answer(World::good("{}"));
  time.advance(59s);
  until_quiet();
  EXPECT_EQ(world.count(), 2);
  for (const char* name : {"a", "b"}) {
    while (source(name).json.at("last").at("status").as_int64() != 200) second();
  }
}

TEST_F(SourcesTest, NobodyThereAndTooSlowAreFailuresWithAReason) {
  start();
  world.answer("");  // never
  add("slow", "timeout: 10s\n");
  until_fetched(1);
  put("nobody", "url: http://localhost:1/\n");
  until_last("nobody", 0);
  EXPECT_EQ(source("nobody").number("failures"), 1);
  EXPECT_FALSE(source("nobody").json.at("last").at("message").as_string().empty());
  EXPECT_EQ(state("slow"), "\"running\"");
  time.advance(11s);
  until_last("slow", 0);
}

TEST_F(SourcesTest, ALongAnswerIsCutAndAPageIsNotShownAsOne) {
  start();
  world.answer(World::good(std::string(100'000, 'x'), "text/html"));
  add("a", "max_body: 1KiB\n");
  until_last("a", 200);
  EXPECT_EQ(source("a").json.at("last").at("bytes").as_int64(), 100'000);
  const Answer body = get("/v1/sources/a/body");
  EXPECT_EQ(body.response.body, std::string(1024, 'x'));
  EXPECT_EQ(body.response.field("content-type"), "application/octet-stream");
  EXPECT_EQ(body.response.field("x-content-type-options"), "nosniff");
  EXPECT_TRUE(body.response.field("content-security-policy").contains("sandbox"));
  EXPECT_EQ(body.response.field("x-weir-cut"), "true");
  EXPECT_EQ(source("a").json.at("last").at("message"), "cut to 1024 bytes (max_body)");
}

TEST_F(SourcesTest, ARedirectIsAnAnswerAndIsNotFollowed) {
  start();
  world.answer(World::status("302 Found", "Location: " + world.url("/else") + "\r\n"));
  add("a");
  until_last("a", 302);
  EXPECT_EQ(source("a").number("failures"), 0);
  EXPECT_FALSE(world.visits().contains("/else"));
}

TEST_F(SourcesTest, OnlyASuccessReplacesTheBody) {
  start();
  world.answer(World::good("first"));
  add("a");
  until_last("a", 200);
  int results = 1;
  for (const auto& [status, answer] :
       {std::pair{304, std::string{"HTTP/1.1 304 Not Modified\r\n\r\n"}},
        {302, World::status("302 Found", "Location: /y\r\n")}}) {
    world.answer(answer);
    time.advance(1h);
    until_last("a", status);
    EXPECT_EQ(get("/v1/sources/a/body").response.body, "first") << status;
    EXPECT_EQ(source("a").json.at("results").as_array().size(), ++results);
  }
}

TEST_F(SourcesTest, BeforeTheStoreWasReadNothingIsSaidNotToBeThere) {
  auto other = store::open_sources({.where = directory.path("weir.db")});
  ASSERT_TRUE(other);
  start("store: " + directory.path("weir.db") + "\n");
  for (const char* target : {"/v1/sources", "/v1/sources/a", "/v1/sources/a/body"}) {
    const Answer answer = get(target);
    EXPECT_EQ(answer.status, 503) << target;
    EXPECT_EQ(answer.text("error"), "\"store_unavailable\"") << target;
  }
  other->reset();
  until([&] {
    time.advance(1s);
    return get("/v1/sources").status == 200;
  });
  EXPECT_EQ(source("a").status, 404);
  until([&] { return log().contains("the sources' store is open again"); });
}

TEST_F(SourcesTest, AStoreThatWasRemovedIsSeenAndMadeAnew) {
  const std::string main_file = "store: " + directory.path("weir.db") + "\n";
  start(main_file);
  add("a");
  until_last("a", 200);
  EXPECT_EQ(get("/v1/sources/a/body").status, 200);
  for (const char* end : {"", "-wal", "-shm"}) {
    std::filesystem::remove(directory.path("weir.db-sources") + end);
  }
  const Answer added = put("b", "url: " + world.url("/b") + "\nevery: 1h\n");
  EXPECT_EQ(added.status, 201);
  EXPECT_EQ(added.text("stored"), "false");
  EXPECT_EQ(source("a").text("results"), "null");
  EXPECT_TRUE(source("a").json.at("last").is_object());
  EXPECT_EQ(get("/v1/sources/a/body").status, 503);
  const auto says = [&](const char* target, const char* what) {
    return get(target).response.body.contains(what);
  };
  EXPECT_TRUE(says("/metrics", "weir_sources_store_open 0\n"));
  EXPECT_TRUE(says("/metrics", "weir_source_results_given_up_total 0\n"));
  EXPECT_TRUE(says("/v1/live", "\"store_open\":false,\"results_given_up\":0"));
  EXPECT_TRUE(says("/v1/live", "The sources' store does not answer ("));
  EXPECT_EQ(call({.method = "DELETE", .target = "/v1/sources/b"}).response.body,
            R"({"removed":true,"stored":false})");
  add("c");
  until([&] {
    time.advance(1s);
    return says("/metrics", "weir_sources_store_open 1\n");
  });
  EXPECT_EQ(call({.method = "DELETE", .target = "/v1/sources/c"}).response.body,
            R"({"removed":true,"stored":true})");
  daemon.reset();
  start(main_file);
  EXPECT_EQ(get("/v1/sources").number("total"), 1);
  EXPECT_EQ(source("a").status, 200);
}

TEST_F(SourcesTest, ReplacingKeepsResultsAndRemovingDoesNot) {
  start();
  add("a");
  until_last("a", 200);
  EXPECT_EQ(put("a", "url: " + world.url("/new") + "\n").status, 200);
  until([&] { return source("a").json.at("results").as_array().size() == 2; });
  EXPECT_EQ(call({.method = "DELETE", .target = "/v1/sources/a"}).status, 200);
  EXPECT_EQ(call({.method = "DELETE", .target = "/v1/sources/a"}).status, 404);
  add("a");
  until_last("a", 200);
  EXPECT_EQ(source("a").json.at("results").as_array().size(), 1U);
}

TEST_F(SourcesTest, ChangesNeedAnAdminAndLooksAReader) {
  start(
      "auth:\n  tokens:\n    - {name: r, scope: read, token: reader-token-123}\n"
      "    - {name: c, scope: client, token: client-token-123}\n");
  const auto status = [&](const std::string& token, const std::string& method) {
    return client(token)
        .call({.method = method, .target = "/v1/sources/a", .body = "url: " + world.url() + "\n"})
        ->status;
  };
  EXPECT_EQ(status("reader-token-123", "PUT"), 403);
  EXPECT_EQ(status("reader-token-123", "DELETE"), 403);
  EXPECT_EQ(status("reader-token-123", "GET"), 404);
  EXPECT_EQ(status("client-token-123", "GET"), 403);
  EXPECT_EQ(world.count(), 0);
}

TEST_F(SourcesTest, AListComesInPages) {
  start();
  for (const char* name : {"a", "b", "c"}) add(name);
  const Answer page = get("/v1/sources?after=a&count=1");
  EXPECT_EQ(page.number("total"), 3);
  ASSERT_EQ(page.json.at("sources").as_array().size(), 1U);
  EXPECT_EQ(page.json.at("sources").at(0).at("name"), "b");
  EXPECT_EQ(get("/v1/sources?count=0").status, 400);
  EXPECT_EQ(get("/v1/sources?count=x").status, 400);
}

}  // namespace
}  // namespace weir::app
