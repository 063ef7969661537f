// What a user of a shared quota sees, on a real Redis.
#include "weir/fleet/shared_quota.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fleet/spending_process_for_test.h"
#include "gate/real_time_for_test.h"

namespace weir::fleet {
namespace {

using namespace std::chrono_literals;
using redis::RedisServer;
using Config = SharedQuota::Config;
using State = SharedQuotaStatus::State;

constexpr Amount kLimit = 1'000;  // in an hour

class SharedQuotaTest : public testing::Test {
 protected:
  // One process of a fleet, as far as the others can tell.
  struct Node {
    std::unique_ptr<SharedQuota> quota;
    std::shared_ptr<Gate> gate;
  };

  static Config config(const std::string& url, Fallback fallback = Fallback::kDeny) {
    return {.redis_url = url,
            .node = "node",
            .fallback = fallback,
            .timeout = 20s,  // generous: the machine may be busy
            .breaker = {.open_for = 100ms}};
  }
  Node node(Config config, const std::string& gate = "api") {
    auto quota = SharedQuota::create(std::move(config), time_.source()).value();
    auto made = create_gate(
        {.name = gate, .limits = {LimitSpec::fixed_window(Unit::kRequests, {kLimit, 1h})}},
        time_.source(), quota.get());
    return {std::move(quota), std::move(made.value())};
  }

  static void spend(Node& node, Amount units) {
    for (; units > 0; --units) {
      ASSERT_TRUE(eventually([&] { return node.gate->try_spend(1); }))
          << node.quota->status().failure;
    }
  }
  // Without waiting for anything.
  static Amount spend_at_once(Node& node, int attempts) {
    Amount admitted = 0;
    for (int i = 0; i < attempts; ++i) admitted += node.gate->try_spend(1) ? 1 : 0;
    return admitted;
  }
  static bool becomes(const Node& node, State state) {
    return eventually([&] { return node.quota->status().state == state; });
  }

  RealTime<BootClock> time_;
};

TEST_F(SharedQuotaTest, RefusesWhatItCannotUse) {
  const auto refused = [&](Config config) {
    const auto quota = SharedQuota::create(std::move(config), time_.source());
    return quota ? std::string{} : std::string{name(quota.error().code)} + quota.error().message;
  };
  for (const char* url : {"", "localhost", "http://localhost", "redis://:secret@localhost:port"}) {
    const std::string why = refused(config(url));
    EXPECT_TRUE(why.starts_with("invalid_config")) << url << ": " << why;
    EXPECT_FALSE(why.contains("secret")) << why;
  }
  Config hasty = config("redis://localhost");
  hasty.timeout = 0s;
  EXPECT_TRUE(refused(hasty).contains("time-out")) << refused(hasty);
  Config brittle = config("redis://localhost");
  brittle.breaker.failure_threshold = 0;
  EXPECT_TRUE(refused(brittle).starts_with("invalid_config")) << refused(brittle);
}

// S2.8
TEST_F(SharedQuotaTest, GatesOfOneNameCountAsOneAndSayWhatEachHas) {
  const RedisServer server;
  std::atomic<int> told = 0;
  Config telling = config(settled(server).url());
  telling.told = [&](const SharedQuotaStatus& status) { told += status.state == State::kShared; };
  Node a = node(telling);
  Node b = node(config(server.url()));
  Amount admitted = 0;
  EXPECT_TRUE(eventually([&] {
    admitted += spend_at_once(a, 3) + spend_at_once(b, 3);
    return admitted >= kLimit;
  })) << admitted;
  let_pass(300ms);
  EXPECT_EQ(admitted + spend_at_once(a, 10) + spend_at_once(b, 10), kLimit);

  EXPECT_EQ(told, 1);
  const SharedQuotaStatus status = a.quota->status();
  EXPECT_EQ(status.state, State::kShared);
  EXPECT_EQ(status.breaker, CircuitBreaker::State::kClosed);
  EXPECT_TRUE(status.connected);
  EXPECT_EQ(status.connects, 1U);
  EXPECT_GT(status.calls, 1U);
  EXPECT_EQ(status.failures, 0U) << status.failure;
  EXPECT_EQ(
      status.granted + b.quota->status().granted - status.returned - b.quota->status().returned,
      static_cast<std::uint64_t>(kLimit));

  const QuotaShare share = a.quota->share("api").value();
  EXPECT_EQ(share.members, 2);
  ASSERT_EQ(share.parts.size(), 1U);
  EXPECT_EQ(share.parts[0].free, 0);
  EXPECT_EQ(share.parts[0].leased, 0);
  EXPECT_FALSE(a.quota->share("other"));
}

TEST_F(SharedQuotaTest, ReturnsWhatIsNotUsedWhenItCloses) {
  const RedisServer server;
  Node a = node(config(settled(server).url()));
  Node b = node(config(server.url()));
  spend(a, 100);
  EXPECT_GT(a.quota->share("api")->parts[0].leased, 0);
  a.quota->close();
  EXPECT_EQ(a.gate->try_acquire({}).error().code, Errc::kUnavailable);
  spend(b, kLimit - 100);
  let_pass(300ms);
  EXPECT_EQ(spend_at_once(b, 10), 0);
}

TEST_F(SharedQuotaTest, AFrozenRedisDelaysNobodyAfterTheFirstTimeOut) {
  const RedisServer server;
  Config config = this->config(settled(server).url());
  config.timeout = 1s;
  Node node = this->node(config);
  spend(node, 10);
  server.freeze();
  Amount admitted = 10;
  const auto refused = [&] {
    const auto permit = node.gate->acquire({});
    admitted += permit ? 1 : 0;
    return permit ? Errc::kCancelled : permit.error().code;
  };
  while (refused() == Errc::kCancelled) {
  }
  const Instant start = time_.clock.now();
  for (int i = 0; i < 1'000; ++i) ASSERT_EQ(refused(), Errc::kUnavailable);
  // A time-out each would be 1,000 s.
  EXPECT_LT(time_.clock.now() - start, 20s);
  EXPECT_EQ(node.quota->status().state, State::kAway);
  EXPECT_TRUE(eventually([&] { return node.quota->status().failures > 0; }));
  EXPECT_NE(node.quota->status().failure, "");

  server.thaw();
  EXPECT_TRUE(becomes(node, State::kShared));
  spend(node, kLimit - admitted);
  EXPECT_EQ(node.quota->status().breaker, CircuitBreaker::State::kClosed);
}

TEST_F(SharedQuotaTest, GoesByItsFallbackWithoutRedisAndComesBackByItself) {
  struct Row {
    Fallback fallback;
    Amount at_least;
    Amount at_most;
  };
  const std::vector<Row> rows{{Fallback::kDeny, 0, 0},
                              {Fallback::kReserve, kLimit / 100, kLimit / 100},
                              {Fallback::kShare, kLimit * 9 / 10, kLimit},
                              {Fallback::kOpen, 3 * kLimit, 3 * kLimit},
                              {Fallback::kLocal, kLimit * 9 / 10, kLimit - 10}};
  RedisServer server;
  std::vector<Node> nodes;
  for (const Row& row : rows) {
    const std::string gate = "api" + std::to_string(nodes.size());
    nodes.push_back(node(config(settled(server, gate).url(), row.fallback), gate));
    spend(nodes.back(), 10);
  }
  server.kill();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Node& node = nodes[i];
    EXPECT_TRUE(eventually([&] { return !node.quota->status().connected; }));
    const std::string gate = "api" + std::to_string(i);
    EXPECT_TRUE(eventually([&] { return node.quota->share(gate)->state == State::kAway; }));
    const auto leased = node.quota->share(gate)->parts[0].leased;
    const Amount admitted = spend_at_once(node, 3 * kLimit);
    const bool granted_only = rows[i].at_most < kLimit / 2;
    EXPECT_GE(admitted, rows[i].at_least + (granted_only ? leased : 0)) << i;
    EXPECT_LE(admitted, rows[i].at_most + (granted_only ? leased : 0)) << i;
    EXPECT_EQ(node.quota->status().fallback_draws > 0, !granted_only) << i;
  }
  server.start();
  for (const Node& node : nodes) EXPECT_TRUE(becomes(node, State::kShared));
  spend(nodes[0], 100);
  // What was used meanwhile counts.
  EXPECT_EQ(spend_at_once(nodes[3], 10), 0);
}

TEST_F(SharedQuotaTest, SaysThatSomethingElseIsWhereTheBookShouldBe) {
  const RedisServer server;
  const std::string book = book_keys("api")[0];
  Node node = this->node(config(settled(server).url()));
  spend(node, 10);
  server.cli({"RENAME", book, "{api}"});
  server.cli({"SET", book, "a mistake"});
  Amount admitted = 10;
  EXPECT_TRUE(eventually([&] {
    admitted += spend_at_once(node, 10);
    return node.quota->status().state == State::kAway;
  }));
  EXPECT_TRUE(node.quota->status().failure.contains("WRONGTYPE")) << node.quota->status().failure;
  EXPECT_TRUE(node.quota->status().connected);
  admitted += spend_at_once(node, kLimit);
  EXPECT_EQ(node.gate->try_acquire({}).error().code, Errc::kUnavailable);

  server.cli({"DEL", book});
  server.cli({"RENAME", "{api}", book});
  EXPECT_TRUE(becomes(node, State::kShared));
  spend(node, kLimit - admitted);
}

// S2.6
TEST_F(SharedQuotaTest, SharesOverTlsWithACertificateThatItCanVerify) {
  const auto server = RedisServer::with_tls("IP:127.0.0.1");
  Config trusting = config(settled(*server).url());
  trusting.ca_file = server->ca_file();
  Node node = this->node(trusting);
  spend(node, 10);
  const Node wary = this->node(config(server->url()));
  EXPECT_TRUE(eventually([&] { return wary.quota->status().failure.contains("certificate"); }))
      << wary.quota->status().failure;
  EXPECT_FALSE(wary.gate->try_spend(1));
}

// S2.6
TEST_F(SharedQuotaTest, SharesWithAPasswordThatNoMessageHolds) {
  const RedisServer server;
  settled(server).cli({"CONFIG", "SET", "requirepass", "right-secret"});
  const auto url = [&](const std::string& password) {
    return "redis://:" + password + "@127.0.0.1:" + std::to_string(server.port());
  };
  Node node = this->node(config(url("right-secret")));
  spend(node, 10);
  const Node wrong = this->node(config(url("wrong-secret")));
  EXPECT_TRUE(eventually([&] { return !wrong.quota->status().failure.empty(); }));
  EXPECT_FALSE(wrong.quota->status().failure.contains("secret")) << wrong.quota->status().failure;
  EXPECT_FALSE(wrong.gate->try_spend(1));
}

}  // namespace
}  // namespace weir::fleet
