// The proxy inside the daemon: budgets that outlive it, and keys that nobody sees.
#include "app/daemon_for_test.h"
#include "proxy/proxy_for_test.h"

namespace weir::app {
namespace {

using namespace std::chrono_literals;

class DaemonProxyTest : public DaemonTest {
 protected:
  void add_provider(const std::string& more) {
    provider("openai", "name: openai\ndomain: api.openai.com\nupstream: http://127.0.0.1:" +
                           std::to_string(upstream.port) + "\n" + more);
  }
  // A call of 100 tokens of output, answered with these.
  Answer call(const std::string& answer, const std::string& status = "200 OK") {
    auto called = std::async(std::launch::async, [this] {
      return post("/proxy/openai/v1/chat/completions",
                  R"({"model":"gpt-4o","max_tokens":100,"messages":[]})");
    });
    upstream.next().answer(answer, status);
    return called.get();
  }
  double dollars_left() {
    const Answer answer = get("/v1/resources/openai");
    for (const auto& limit : answer.json.at("limits").as_array()) {
      if (limit.at("unit") == "usd") return limit.at("available").to_number<double>();
    }
    return -1;
  }
  void until_settled() {
    while (get("/metrics").response.body.find("weir_proxy_usd_total{resource=\"openai\"} 0\n") !=
           std::string::npos) {
      nap();
    }
  }

  proxy::Provider upstream;
};

// S3.10
TEST_F(DaemonProxyTest, ABudgetOutlivesTheDaemonAndIsNewAfterItsReset) {
  add_provider(
      "budget: {usd: 0.01, per: 1d, reset: \"06:00\", zone: Europe/Berlin}\n"
      "prices: {\"gpt-4o\": {input: 1, output: 90}}\nmax_wait: 1s\n");
  const std::string main_file = "store: " + directory.path("weir.db") + "\n";
  start(main_file);
  EXPECT_EQ(call(R"({"usage":{"prompt_tokens":100,"completion_tokens":100}})").status, 200);
  until_settled();
  EXPECT_NEAR(dollars_left(), 0.01 - 0.0091, 1e-9);
  for (int life = 0; life < 2; ++life) {
    EXPECT_EQ(post("/proxy/openai/v1/chat/completions",
                   R"({"model":"gpt-4o","max_tokens":100,"messages":[]})")
                  .status,
              429);
    daemon.reset();
    start(main_file);
    EXPECT_NEAR(dollars_left(), 0.01 - 0.0091, 1e-9);
  }
  // The wall begins at midnight UTC: 01:00 in Berlin.
  time.advance(4h + 59min);
  EXPECT_LT(dollars_left(), 0.001);
  time.advance(1min);
  EXPECT_NEAR(dollars_left(), 0.01, 1e-9);
}

TEST_F(DaemonProxyTest, WhoDoesNotWaitStillWaitsForTheStore) {
  add_provider("limits: [{unit: requests, amount: 100, per: 1h}]\n");
  start("store: " + directory.path("weir.db") + "\n");
  auto called = std::async(std::launch::async, [this] {
    return DaemonTest::call({.method = "POST",
                             .target = "/proxy/openai/v1/chat/completions",
                             .body = "{}",
                             .fields = {{"X-Weir-Max-Wait", "0"}}});
  });
  upstream.next().answer("{}");
  EXPECT_EQ(called.get().status, 200);
}

TEST_F(DaemonProxyTest, AKeyIsSeenByTheProviderAlone) {
  const std::string canary = "CANARY-sk-0123456789";
  add_provider("api_key: " + canary + "\n");
  start();
  std::string seen;
  seen += call("{}").response.body;
  seen += call(R"({"error":{"code":"insufficient_quota"}})", "429 Too Many Requests").response.body;
  seen += post("/proxy/openai/v1/chat/completions",
               R"({"model":"gpt-4o","max_tokens":100,"messages":[]})")
              .response.body;
  for (const char* path : {"/api/status", "/metrics", "/v1/resources", "/v1/resources/openai",
                           "/v1/live", "/v1/news", "/v1/history/openai"}) {
    seen += get(path).response.body;
  }
  seen += log();
  EXPECT_NE(seen.find("insufficient_quota"), std::string::npos);
  EXPECT_EQ(seen.find("CANARY"), std::string::npos);
}

}  // namespace
}  // namespace weir::app
