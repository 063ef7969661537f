// The daemon as its clients meet it: waiting, going away, reloading, stopping, tokens, secrets.
#include "app/daemon_for_test.h"

#include <atomic>

#include "server/server_for_test.h"

namespace weir::app {
namespace {

using namespace std::chrono_literals;

constexpr const char* kOneASecond =
    "domain: api.example.com\nname: one\nlimits: [{unit: requests, amount: 1, per: 1s}]\n";

TEST_F(DaemonTest, AWaiterIsAnsweredWhenItsTokenIsDue) {
  provider("one", kOneASecond);
  start();
  EXPECT_EQ(acquire(R"({"resource":"one"})").status, 200);
  auto waiting = acquire_waiting(R"({"resource":"one","wait_ms":5000})");
  until_waiting("one", 1);
  time.advance(1s);
  const Answer answer = waiting.get();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.response.body, R"({"permit":null,"waited_ms":1000})");
  const Answer resource = get("/v1/resources/one");
  EXPECT_EQ(resource.number("rejected"), 0) << "to wait is not to be refused";
  EXPECT_EQ(resource.number("waited"), 1);
  EXPECT_EQ(resource.json.at("limits").at(0).at("hits").as_int64(), 1);
}

TEST_F(DaemonTest, AWaitThatEndsInVainSaysWhenToComeBack) {
  provider("one", kOneASecond);
  start();
  acquire(R"({"resource":"one"})");
  auto first = acquire_waiting(R"({"resource":"one","wait_ms":5000})");
  until_waiting("one", 1);
  auto second = acquire_waiting(R"({"resource":"one","wait_ms":500})");
  until_waiting("one", 2);
  time.advance(500ms);
  const Answer answer = second.get();
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.number("retry_after_ms"), 1500) << "behind the one who waits";
  EXPECT_EQ(answer.response.field("Retry-After"), "2");
  EXPECT_EQ(answer.response.field("retry-after-ms"), "1500");
  EXPECT_EQ(answer.response.field("RateLimit"), "\"requests per 1s\";r=0;t=2");
  EXPECT_EQ(answer.response.field("RateLimit-Policy"),
            "\"requests per 1s\";q=1;qu=\"requests\";w=1");
  time.advance(500ms);
  EXPECT_EQ(first.get().status, 200);
}

TEST_F(DaemonTest, WhoGoesAwayLeavesTheQueueAtOnceAndCostsNothing) {
  provider("one", kOneASecond);
  start();
  acquire(R"({"resource":"one"})");
  server::RawClient gone{daemon->port()};
  gone.send(
      "POST /v1/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 34\r\n\r\n"
      R"({"resource":"one","wait_ms":60000})");
  until_waiting("one", 1);
  gone.close();
  until_waiting("one", 0);
  time.advance(1s);
  EXPECT_EQ(acquire(R"({"resource":"one"})").status, 200);
}

TEST_F(DaemonTest, PrioritiesWeightsAndQuotasOfAgentsComeFromTheFile) {
  provider("one", R"(
name: one
domain: api.example.com
max_concurrency: 1
agents:
  default: {limit: 2, period: 1m}
  "planner-*": {priority: 10}
)");
  start();
  const std::string held = acquire(R"({"resource":"one","agent":"a"})").permit();
  auto last = acquire_waiting(R"({"resource":"one","agent":"a","wait_ms":60000})");
  until_waiting("one", 1);
  auto first = acquire_waiting(R"({"resource":"one","agent":"planner-1","wait_ms":60000})");
  until_waiting("one", 2);
  call({.method = "DELETE", .target = "/v1/permits/" + held});
  const std::string second = first.get().permit();
  until_waiting("one", 1);
  call({.method = "DELETE", .target = "/v1/permits/" + second});
  call({.method = "DELETE", .target = "/v1/permits/" + last.get().permit()});

  const Answer third = acquire(R"({"resource":"one","agent":"a"})");
  EXPECT_EQ(third.status, 429) << "the agent's own quota";
  EXPECT_EQ(acquire(R"({"resource":"one","agent":"b"})").status, 200) << "each has its own";
}

TEST_F(DaemonTest, ModelsShareAPoolOfTheirOwn) {
  provider("one", R"(
name: one
domain: api.example.com
limits: [{unit: tokens, amount: 1000, per: 1m}]
models:
  "big-*": {limits: [{unit: tokens, amount: 100, per: 1m}]}
)");
  start();
  const auto ask = [&](const std::string& model, int tokens) {
    return acquire("{\"resource\":\"one\",\"model\":\"" + model +
                   "\",\"cost\":{\"tokens\":" + std::to_string(tokens) + "}}")
        .status;
  };
  EXPECT_EQ(ask("big-1", 60), 200);
  EXPECT_EQ(ask("big-2", 60), 429) << "one pool for all that the pattern matches";
  EXPECT_EQ(ask("small", 900), 200);
  EXPECT_EQ(ask("big-2", 40), 200);
  EXPECT_EQ(ask("small", 1), 429) << "and all of it counts at the provider";
}

TEST_F(DaemonTest, SettlingRefundsOnceAndReleasingKeepsTheCost) {
  provider("one", R"(
name: one
domain: api.example.com
limits: [{unit: tokens, amount: 1000, per: 1h}, {unit: usd, amount: 2, per: 1d}]
)");
  start();
  const auto left = [&](std::size_t limit) {
    return boost::json::serialize(
        get("/v1/resources/one").json.at("limits").at(limit).at("available"));
  };
  const Answer granted =
      acquire(R"({"resource":"one","cost":{"tokens":900,"usd":0.75},"hold_ms":5000})");
  EXPECT_EQ(granted.number("expires_ms"), 5000);
  EXPECT_EQ(left(0), "100");
  EXPECT_EQ(get("/v1/resources/one").response.body.find("\"available\":1.25") != std::string::npos,
            true);
  const std::string permit = "/v1/permits/" + granted.permit();
  EXPECT_EQ(post(permit + "/settle", R"({"cost":{"tokens":-1}})").status, 400);
  EXPECT_EQ(post(permit + "/settle", R"({"cost":{"tokens":400}})").status, 200);
  EXPECT_EQ(left(0), "600");
  EXPECT_EQ(post(permit + "/settle", R"({"cost":{"tokens":0}})").status, 409);
  EXPECT_EQ(call({.method = "DELETE", .target = permit}).status, 200);
  EXPECT_EQ(left(0), "600");
  EXPECT_EQ(post(permit + "/renew", "").status, 404);
  EXPECT_EQ(post(permit + "/settle", R"({"cost":{"tokens":0}})").status, 404);
}

TEST_F(DaemonTest, AReloadKeepsCountsAndWaiters) {
  provider("one", "name: one\ndomain: api.example.com\nlimit: 2\nperiod: 1h\n");
  start();
  EXPECT_EQ(acquire(R"({"resource":"one"})").status, 200);
  EXPECT_EQ(acquire(R"({"resource":"one"})").status, 200);
  auto waiting = acquire_waiting(R"({"resource":"one","wait_ms":3600000})");
  until_waiting("one", 1);
  provider("one", "name: one\ndomain: api.example.com\nlimit: 3\nperiod: 1h\n");
  provider("two", "name: two\ndomain: two.example.com\nlimit: 1\nperiod: 1h\n");
  EXPECT_EQ(post("/v1/reload", "").number("resources"), 2);
  EXPECT_EQ(waiting.get().status, 200) << "there is room for one more, and only for one";
  EXPECT_EQ(acquire(R"({"resource":"one"})").status, 429);
  EXPECT_EQ(acquire(R"({"resource":"two"})").status, 200);
}

TEST_F(DaemonTest, ABadConfigurationIsRefusedWholeWithAllItsMistakes) {
  provider("one", "name: one\ndomain: api.example.com\nlimit: 1\nperiod: 1h\n");
  start();
  EXPECT_EQ(acquire(R"({"resource":"one"})").status, 200);
  provider("one", "name: one\ndomain: api.example.com\nlimit: 100\nperiod: 1h\n");
  provider("two", "domain: two.example.com\nlimit: many\nperiod: 5x\nburts: 3\n");
  const Answer refused = post("/v1/reload", "");
  EXPECT_EQ(refused.status, 400);
  ASSERT_EQ(refused.json.at("mistakes").as_array().size(), 3U) << refused.response.body;
  EXPECT_NE(refused.response.body.find("two.yaml:3:"), std::string::npos);
  EXPECT_EQ(acquire(R"({"resource":"one"})").status, 429) << "the old limits stay";
  EXPECT_NE(log().find("reload refused"), std::string::npos);
}

TEST_F(DaemonTest, AReloadChangesTheTokens) {
  const auto tokens = [](const std::string& token) {
    return "auth: {tokens: [{name: a, scope: admin, token: " + token + "}]}\n";
  };
  start(tokens("the-old-token-0123456789"));
  const auto status = [&](const std::string& token) {
    return client(token).get("/api/status")->status;
  };
  EXPECT_EQ(status("the-old-token-0123456789"), 200);
  directory.write("weir.yaml", tokens("the-new-token-0123456789"));
  ASSERT_TRUE(daemon->reload());
  EXPECT_EQ(status("the-old-token-0123456789"), 401);
  EXPECT_EQ(status("the-new-token-0123456789"), 200);
}

TEST_F(DaemonTest, ABudgetIsThereAgainAtItsTimeOfDayInItsZone) {
  provider("one", R"(
name: one
domain: api.example.com
budget: {usd: 1, per: 1d, reset: "06:00", zone: Europe/Berlin}
)");
  start();  // at midnight UTC, which is 01:00 in Berlin
  EXPECT_EQ(acquire(R"({"resource":"one","cost":{"usd":0.6}})").status, 200);
  const Answer refused = acquire(R"({"resource":"one","cost":{"usd":0.6}})");
  EXPECT_EQ(refused.text("limit"), "\"budget\"");
  EXPECT_EQ(refused.number("retry_after_ms"), 5 * 3'600'000);
  EXPECT_EQ(acquire(R"({"resource":"one","cost":{"usd":0.4}})").status, 200);
  time.advance(5h);
  EXPECT_EQ(acquire(R"({"resource":"one","cost":{"usd":1}})").status, 200);
  EXPECT_EQ(acquire(R"({"resource":"one","cost":{"usd":0.1}})").number("retry_after_ms"),
            24 * 3'600'000);
}

TEST_F(DaemonTest, ARemovedProviderEndsItsWaiters) {
  provider("one", kOneASecond);
  start();
  acquire(R"({"resource":"one"})");
  auto waiting = acquire_waiting(R"({"resource":"one","wait_ms":60000})");
  until_waiting("one", 1);
  std::filesystem::remove(directory.path("providers/one.yaml"));
  ASSERT_TRUE(daemon->reload());
  EXPECT_EQ(waiting.get().status, 404);
}

TEST_F(DaemonTest, StoppingAnswersWhoWaits) {
  provider("one", kOneASecond);
  start();
  acquire(R"({"resource":"one"})");
  auto waiting = acquire_waiting(R"({"resource":"one","wait_ms":60000})");
  until_waiting("one", 1);
  daemon->stop();
  const Answer answer = waiting.get();
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.text("error"), "\"closing\"");
}

TEST_F(DaemonTest, OperatorsPauseResumeDrainChangeAndRemove) {
  provider("one", kOneASecond);
  start();
  EXPECT_EQ(post("/v1/resources/one/pause", "").status, 200);
  const Answer paused = acquire(R"({"resource":"one"})");
  EXPECT_EQ(paused.status, 429);
  EXPECT_EQ(paused.text("limit"), "\"paused\"");
  auto patient = acquire_waiting(R"({"resource":"one","wait_ms":60000})");
  until_waiting("one", 1);
  EXPECT_EQ(post("/v1/resources/one/resume", "").status, 200);
  EXPECT_EQ(patient.get().status, 200);

  auto drained = acquire_waiting(R"({"resource":"one","wait_ms":60000})");
  until_waiting("one", 1);
  EXPECT_EQ(post("/v1/resources/one/drain", "").status, 200);
  EXPECT_EQ(drained.get().text("error"), "\"drained\"");

  const auto put = [&](const std::string& name, const std::string& body) {
    return call({.method = "PUT", .target = "/v1/resources/" + name, .body = body});
  };
  EXPECT_EQ(put("new", R"({"limits":[{"unit":"requests","amount":1,"per":"1m"}]})").status, 201);
  EXPECT_EQ(acquire(R"({"resource":"new"})").status, 200);
  EXPECT_EQ(put("new", R"({"limits":[{"unit":"requests","amount":2,"per":"1m"}]})").status, 200);
  const Answer wrong = put("new", R"({"limits":[{"unit":"bananas","amount":2,"per":"1m"}]})");
  EXPECT_EQ(wrong.status, 400);
  EXPECT_NE(wrong.response.body.find("limits[0].unit"), std::string::npos);
  EXPECT_EQ(put("no%20name", "{}").status, 400);
  EXPECT_EQ(call({.method = "DELETE", .target = "/v1/resources/new"}).status, 200);
  EXPECT_EQ(acquire(R"({"resource":"new"})").status, 404);
}

TEST_F(DaemonTest, TokensOpenWhatTheirScopeAllows) {
  provider("one", kOneASecond);
  start(R"(
auth:
  tokens:
    - {name: agents, scope: client, token: client-token-0123456789}
    - {name: dashboard, scope: read, token: read-token-0123456789}
    - {name: root, scope: admin, token: admin-token-0123456789}
)");
  const auto status = [&](const std::string& token, const std::string& method,
                          const std::string& target, const std::string& body = {}) {
    net::HttpClient http = client(token);
    return http.call({.method = method, .target = target, .body = body})->status;
  };
  const std::string kAsk = R"({"resource":"one","hold_ms":1000})";
  for (const auto& [token, asks, reads, changes] :
       std::vector<std::tuple<std::string, int, int, int>>{
           {"", 401, 401, 401},
           {"guess-token-0123456789", 401, 401, 401},
           {"client-token-0123456789", 200, 403, 403},
           {"read-token-0123456789", 403, 200, 403},
           {"admin-token-0123456789", 200, 200, 200}}) {
    time.advance(1s);
    EXPECT_EQ(status(token, "POST", "/v1/acquire", kAsk), asks) << token;
    EXPECT_EQ(status(token, "GET", "/api/status"), reads) << token;
    EXPECT_EQ(status(token, "POST", "/v1/resources/one/resume"), changes) << token;
    EXPECT_EQ(status(token, "GET", "/healthz"), 200) << token;
  }
}

// S4.7
TEST_F(DaemonTest, NoByteThatLeavesItHoldsASecret) {
  // A canary in every place of the configuration that may hold a secret.
  const std::string canary = "CANARY-sk-0123456789abcdef";
  setenv("WEIR_TEST_CANARY", (canary + "-env").c_str(), 1);
  directory.write("key", canary + "-file\n");
  directory.write("token", canary + "-token-file\n");
  provider("a", "name: a\ndomain: a.example\nlimit: 1\nperiod: 1h\napi_key: " + canary + "\n");
  provider("b", "name: b\ndomain: b.example\napi_key_env: WEIR_TEST_CANARY\n");
  provider("c", "name: c\ndomain: c.example\napi_key_file: ../key\n");
  const std::string main_file = "store: postgresql://user:" + canary + "@db/weir\n" +
                                "auth:\n  tokens:\n" +
                                "    - {name: t, scope: admin, token: " + canary + "-token}\n" +
                                "    - {name: u, scope: read, token_file: token}\n" +
                                "    - {name: v, scope: client, token_env: WEIR_TEST_CANARY}\n";
  start(main_file);

  net::HttpClient http = client(canary + "-token");
  std::string seen;
  const auto collect = [&](const net::HttpClient::Call& one) {
    const auto response = http.call(one);
    ASSERT_TRUE(response);
    for (const auto& [name, value] : response->fields) seen += name + ": " + value + "\n";
    seen += response->body + "\n";
  };
  std::atomic<bool> watched = false;
  std::thread watcher{[&, events = std::string{}]() mutable {
    net::HttpClient watching = client(canary + "-token");
    (void)watching.stream({.target = "/v1/events"}, [&](std::string_view bytes) {
      events += bytes;
      return events.find("operated") == std::string::npos;
    });
    seen += events;
    watched = true;
  }};
  while (!watched) ASSERT_TRUE(http.post("/v1/resources/a/resume", ""));
  watcher.join();
  collect({.method = "POST", .target = "/v1/acquire", .body = R"({"resource":"a"})"});
  time.advance(2min);
  for (const char* target : {"/api/status", "/metrics", "/v1/resources", "/v1/resources/a",
                             "/v1/live", "/v1/news", "/v1/history/a", "/v1/history/a?span=24h",
                             "/openapi.json", "/healthz", "/readyz", "/nothing"}) {
    collect({.target = target});
  }
  collect({.method = "POST", .target = "/v1/acquire", .body = R"({"resource":"a"})"});
  collect({.method = "POST", .target = "/v1/acquire", .body = R"({"resource":"a"})"});
  collect({.method = "POST", .target = "/v1/acquire", .body = "{\"resource\":"});
  // Mistakes beside secrets, and in the very field.
  provider("a", "name: a\ndomain: a.example\nlimit: x\napi_key: [" + canary + "]\n");
  provider("b", "name: b\ndomain: b.example\napi_key: {" + canary + ": 1}\nunknown: 1\n");
  directory.write("weir.yaml", main_file + "    - {name: w, scope: nobody, token: " + canary +
                                   "}\nfleet: {redis: 'redis://u:" + canary + "@h', x: 1}\n");
  collect({.method = "POST", .target = "/v1/reload"});
  provider("a", "name: a\ndomain: a.example\napi_key: \"" + canary + "\n");
  collect({.method = "POST", .target = "/v1/reload"});
  EXPECT_NE(seen.find("invalid_config"), std::string::npos);
  EXPECT_EQ(seen.find("CANARY"), std::string::npos) << seen;
  EXPECT_EQ(log().find("CANARY"), std::string::npos) << log();
}

TEST_F(DaemonTest, ListeningBeyondLoopbackWithoutTokensIsRefused) {
  server::Log log{STDERR_FILENO, server::Log::Format::kJson, time};
  const auto started = Daemon::start({.files = {}, .listen = Listen{.host = "0.0.0.0", .port = 0}},
                                     time.source(), log);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().exit_code, 2);
}

TEST_F(DaemonTest, APortInUseIsOneClearLine) {
  start();
  server::Log log{STDERR_FILENO, server::Log::Format::kJson, time};
  const auto second =
      Daemon::start({.files = {}, .listen = Listen{.host = "127.0.0.1", .port = daemon->port()}},
                    time.source(), log);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().exit_code, 1);
  EXPECT_EQ(second.error().lines,
            std::vector{"cannot listen on 127.0.0.1:" + std::to_string(daemon->port()) +
                        ": the port is in use"});
}

}  // namespace
}  // namespace weir::app
