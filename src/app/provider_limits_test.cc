// Seed 003's own list of tests, against the daemon: refill, atomicity, concurrency, staleness,
// metrics, independence, contention, stress.
#include <atomic>

#include "app/daemon_for_test.h"

namespace weir::app {
namespace {

using namespace std::chrono_literals;

// S3.7
constexpr const char* kConfig = R"({
  "orchestrator": {"models": ["not ours"]},
  "agents": {"resilience": {"rate_limit": {
    "anthropic": {"tokens_per_minute": 300000, "max_concurrency": 5},
    "openai": {"tokens_per_minute": 100000, "max_concurrency": 3}
  }}}
})";

class ProviderLimitsTest : public DaemonTest {
 protected:
  ProviderLimitsTest() { start(kConfig); }

  Answer ask(const std::string& provider, int tokens, const std::string& more = {}) {
    return acquire(body(provider, tokens, more));
  }
  static std::string body(const std::string& provider, int tokens, const std::string& more = {}) {
    return "{\"resource\":\"" + provider + "\",\"cost\":{\"tokens\":" + std::to_string(tokens) +
           "}" + more + "}";
  }
  int release(const std::string& permit) {
    return call({.method = "DELETE", .target = "/v1/permits/" + permit}).status;
  }
  std::int64_t status(const std::string& provider, std::string_view key) {
    return get("/api/status")
        .json.at("rate_limits")
        .at(provider)
        .at({key.data(), key.size()})
        .as_int64();
  }
};

// S3.1
TEST_F(ProviderLimitsTest, RefillsATenthEverySixSecondsUpToNineTenths) {
  EXPECT_EQ(status("anthropic", "max_capacity"), 270000);
  release(ask("anthropic", 270000).permit());
  EXPECT_EQ(status("anthropic", "available_tokens"), 0);
  time.advance(6s - 1ns);
  EXPECT_EQ(status("anthropic", "available_tokens"), 0);
  time.advance(1ns);
  EXPECT_EQ(status("anthropic", "available_tokens"), 30000);
  time.advance(10min);
  EXPECT_EQ(status("anthropic", "available_tokens"), 270000);
}

// S3.2
TEST_F(ProviderLimitsTest, TakesTokensAndSlotTogetherOrNeither) {
  std::vector<std::string> permits;
  for (int i = 0; i < 3; ++i) permits.push_back(ask("openai", 10000).permit());
  const Answer refused = ask("openai", 10000);
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.text("limit"), "\"slots\"");
  EXPECT_EQ(status("openai", "available_tokens"), 60000) << "a refused request costs no tokens";
  EXPECT_EQ(release(permits[0]), 200);
  EXPECT_EQ(ask("openai", 60001).status, 429);
  EXPECT_EQ(status("openai", "active_requests"), 2) << "nor a slot";
}

// S3.3
TEST_F(ProviderLimitsTest, SaysAtOnceWhatCanNeverFit) {
  const Answer answer = ask("openai", 90001, ",\"wait_ms\":60000");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.text("error"), "\"never_fits\"");
}

TEST_F(ProviderLimitsTest, ReusesASlotAfterItsReleaseAndWakesWhoWaits) {
  std::vector<std::string> permits;
  for (int i = 0; i < 3; ++i) permits.push_back(ask("openai", 1).permit());
  auto waiting = acquire_waiting(body("openai", 1, ",\"wait_ms\":60000"));
  until_waiting("openai", 1);
  time.advance(1500ms);
  EXPECT_EQ(release(permits[0]), 200);
  const Answer answer = waiting.get();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.number("waited_ms"), 1500);
  EXPECT_EQ(release(permits[0]), 404) << "a permit is released once";
}

// S3.5
TEST_F(ProviderLimitsTest, TakesBackSlotsThatNobodyReleasedAndSaysSo) {
  for (int i = 0; i < 3; ++i) ask("openai", 1, ",\"agent\":\"leaky-7\"");
  const std::string kept = ask("anthropic", 1).permit();
  time.advance(6min - 1ns);  // twice the default request_timeout
  EXPECT_EQ(ask("openai", 1).status, 429);
  EXPECT_EQ(post("/v1/permits/" + kept + "/renew", "").status, 200);
  time.advance(1ns);
  EXPECT_EQ(ask("openai", 1).status, 200);
  EXPECT_EQ(status("openai", "active_requests"), 1);
  EXPECT_EQ(status("anthropic", "active_requests"), 1) << "a renewed permit lives on";
  EXPECT_NE(log().find("\"agent\":\"leaky-7\",\"age_ms\":360000"), std::string::npos) << log();
  EXPECT_EQ(get("/api/status").number("permits_expired"), 3);
}

// S3.6
TEST_F(ProviderLimitsTest, CountsWhatEachLimitMadeWait) {
  release(ask("openai", 90000).permit());
  EXPECT_EQ(ask("openai", 1).status, 429);
  EXPECT_EQ(ask("openai", 1).status, 429);
  time.advance(1min);
  for (int i = 0; i < 3; ++i) ask("openai", 1);
  EXPECT_EQ(ask("openai", 1).status, 429);
  EXPECT_EQ(get("/api/status").json.at("rate_limits").at("openai"),
            boost::json::parse(R"({"available_tokens":89997,"max_capacity":90000,
                "active_requests":3,"max_concurrency":3,
                "token_limit_hits":2,"concurrency_hits":1})"));
}

TEST_F(ProviderLimitsTest, KeepsProvidersApart) {
  for (int i = 0; i < 3; ++i) ask("openai", 30000);
  EXPECT_EQ(ask("openai", 1).status, 429);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(ask("anthropic", 54000).status, 200);
  EXPECT_EQ(status("anthropic", "concurrency_hits"), 0);
}

// S3.11
TEST_F(ProviderLimitsTest, SharesFairlyAmongAgentsThatCompeteAndEndsEveryWaiterWhenItStops) {
  std::vector<std::string> held;
  for (int i = 0; i < 3; ++i) held.push_back(ask("openai", 1).permit());
  const auto queue = [&](const std::string& agent, int count, int already) {
    std::vector<std::future<Answer>> answers;
    for (int i = 0; i < count; ++i) {
      answers.push_back(
          acquire_waiting(body("openai", 1, ",\"wait_ms\":600000,\"agent\":\"" + agent + "\"")));
      until_waiting("openai", already + i + 1);
    }
    return answers;
  };
  auto greedy = queue("greedy", 6, 0);
  auto modest = queue("modest", 2, 6);
  for (int i = 0; i < 3; ++i) {
    release(held[static_cast<std::size_t>(i)]);
    until_waiting("openai", 7 - i);
  }
  daemon->stop();
  const auto served = [](std::vector<std::future<Answer>>& answers) {
    int count = 0;
    for (auto& answer : answers) {
      const int status = answer.get().status;
      EXPECT_TRUE(status == 200 || status == 503) << status;
      count += status == 200 ? 1 : 0;
    }
    return count;
  };
  EXPECT_EQ(served(greedy), 2);
  EXPECT_EQ(served(modest), 1) << "though six were there before it";
}

// Real concurrency: eight clients, slots and tokens, never over either.
TEST_F(ProviderLimitsTest, HoldsUnderStress) {
  std::atomic<int> active = 0;
  std::atomic<int> most = 0;
  std::atomic<int> spent = 0;
  std::vector<std::jthread> clients;
  for (int c = 0; c < 8; ++c) {
    clients.emplace_back([&] {
      net::HttpClient http = client();
      for (int i = 0; i < 200; ++i) {
        const auto response = http.post("/v1/acquire", body("openai", 100));
        ASSERT_TRUE(response);
        if (response->status != 200) continue;
        spent += 100;
        const int now_active = ++active;
        int seen = most;
        while (seen < now_active && !most.compare_exchange_weak(seen, now_active)) {
        }
        const auto reply = boost::json::parse(response->body);
        --active;
        const auto released =
            http.call({.method = "DELETE",
                       .target = "/v1/permits/" +
                                 std::string{std::string_view{reply.at("permit").as_string()}}});
        ASSERT_TRUE(released);
        EXPECT_EQ(released->status, 200);
      }
    });
  }
  clients.clear();
  EXPECT_LE(most, 3);
  EXPECT_LE(spent, 90000);
  EXPECT_EQ(status("openai", "active_requests"), 0);
  EXPECT_EQ(status("openai", "available_tokens"), 90000 - spent);
}

}  // namespace
}  // namespace weir::app
