// kill -9 at random instants under load, counted from outside (S4.6). tools/kills has more of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "app/daemon_for_test.h"
#include "app/kill_campaign_for_test.h"
#include "core/sanitized_for_test.h"
#include "store/postgresql_for_test.h"

namespace weir::app {
namespace {

class KillTest : public ::testing::Test {
 protected:
  static int kills(int wanted) { return kSanitized ? std::min(wanted, 15) : wanted; }

  KillCampaign::Options over_sqlite() {
    return {.program = WEIR_PROGRAM, .directory = directory_.path(), .new_store = [this] {
              return new_database();
            }};
  }
  std::string new_database() {
    return directory_.path("weir" + std::to_string(++databases_) + ".db");
  }

  // Half of the kills under a large limit, with large blocks, and half under a small one, where
  // hardly a moment is without a commit.
  static void expect_never_over(KillCampaign::Options options, int wanted) {
    options.kills = kills(wanted) / 2;
    const std::pair<Amount, int> kinds[] = {{kSanitized ? 30'000 : 100'000, 100}, {1'000, 20}};
    for (const auto& [limit, life_ms] : kinds) {
      options.limit = limit;
      options.life_max = std::chrono::milliseconds{life_ms * (kSanitized ? 5 : 1)};
      const KillReport report = KillCampaign{options}.run();
      EXPECT_EQ(report.kills, options.kills);
      EXPECT_GT(report.admitted, 0);
      EXPECT_LE(report.over, 0);
      EXPECT_EQ(report.max_gain(), 0);
      // A kill costs a block, which is an eighth of what is left, and an answer on each connection
      // that was given and never arrived.
      for (const KillReport::Kill& kill : report.under_load) {
        EXPECT_LE(kill.loss, kill.left / 8 + 1 + static_cast<Amount>(options.callers));
      }
      RecordProperty(fmt::format("loss_of_{}", limit), fmt::to_string(report.mean_loss()));
      RecordProperty(fmt::format("block_of_{}", limit), fmt::to_string(report.mean_block()));
    }
  }

  TemporaryDirectory directory_;

 private:
  int databases_ = 0;
};

TEST_F(KillTest, NeverAdmitsTooMuchOverSqlite) { expect_never_over(over_sqlite(), 100); }

TEST_F(KillTest, NeverAdmitsTooMuchOverADatabaseServer) {
  auto options = over_sqlite();
  options.new_store = [] { return store::PostgresqlForTest::shared().make_database(); };
  expect_never_over(options, 40);
}

TEST_F(KillTest, NeverAdmitsTooMuchWhereItAlsoSurvivesAPowerCut) {
  auto options = over_sqlite();
  options.sync = "power";
  expect_never_over(options, 20);
}

// The campaign can tell: it finds what a snapshot forgets (S4.5).
TEST_F(KillTest, ASnapshotAdmitsTooMuch) {
  auto options = over_sqlite();
  options.durability = "snapshot";
  options.kills = kills(20);
  options.limit = 20'000;
  EXPECT_GT(KillCampaign{options}.run().over, 0);
}

// One caller of a provider alone, one of its model and one of its agent, who must share.
TEST_F(KillTest, NeverAdmitsTooMuchOfAnyOfSeveralLimits) {
  constexpr Amount kTokens = 7;  // of a call
  constexpr Amount kRequestsADay = 2'500;
  constexpr Amount kTokensASecond = 5'000;
  constexpr Amount kTokensAtOnce = 10'000;
  constexpr Amount kModelTokensADay = 3'500;
  constexpr Amount kAgentRequestsADay = 300;
  const std::string provider = fmt::format(R"(
name: many
domain: many.example
limits:
  - {{unit: requests, amount: {}, per: 1d, algorithm: fixed_window}}
  - {{unit: tokens, amount: {}, per: 1s, algorithm: token_bucket, burst: {}}}
models:
  "large-*": {{limits: [{{unit: tokens, amount: {}, per: 1d, algorithm: fixed_window}}]}}
agents:
  greedy: {{limit: {}, period: 1d}}
)",
                                           kRequestsADay, kTokensASecond, kTokensAtOnce,
                                           kModelTokensADay, kAgentRequestsADay);
  const KilledDaemon::Options options{.program = WEIR_PROGRAM,
                                      .directory = directory_.path(),
                                      .provider = directory_.write("many.yaml", provider),
                                      .store = new_database()};
  const std::vector<std::string> bodies{
      R"({"resource":"many","cost":{"tokens":7}})",
      R"({"resource":"many","cost":{"tokens":7},"model":"large-1"})",
      R"({"resource":"many","cost":{"tokens":7},"agent":"greedy"})"};

  struct Life {
    Instant begin;
    Instant end;
    Amount granted;
  };
  std::vector<Life> lives;
  Amount by_anybody = 0;
  Amount by_model = 0;
  Amount by_agent = 0;
  const auto live = [&](auto until_the_kill) {
    KilledDaemon daemon{options};
    daemon.await();
    const Clock& clock = TimeSource::system().clock;
    const Instant begin = clock.now();
    Callers callers{daemon.port(), bodies, Callers::OnRefusal::kGoOn};
    until_the_kill(daemon);
    daemon.kill();
    const std::vector<Amount> granted = callers.join();
    by_anybody += granted[0];
    by_model += granted[1];
    by_agent += granted[2];
    lives.push_back({begin, clock.now(), granted[0] + granted[1] + granted[2]});
  };
  std::mt19937 random{std::random_device{}()};
  std::uniform_int_distribution life_ms{1, 100};
  for (int i = 0; i < kills(40); ++i) {
    live([&](KilledDaemon&) { pause_for(std::chrono::milliseconds{life_ms(random)}); });
  }
  live([](KilledDaemon& daemon) {
    const auto requests_left = [&] {
      return daemon.get("/v1/resources/many").at("limits").at(0).at("available").as_int64();
    };
    while (requests_left() > 0) pause_for(std::chrono::milliseconds{10});
  });

  EXPECT_LE(by_anybody + by_model + by_agent, kRequestsADay);
  EXPECT_LE(by_model * kTokens, kModelTokensADay);
  EXPECT_LE(by_agent, kAgentRequestsADay);
  EXPECT_TRUE(by_anybody > 0 && by_model > 0 && by_agent > 0);
  double tokens_over = 0;  // at most, from the beginning of any life to the end of any
  for (std::size_t first = 0; first < lives.size(); ++first) {
    Amount tokens = 0;
    for (std::size_t last = first; last < lives.size(); ++last) {
      tokens += lives[last].granted * kTokens;
      const std::chrono::duration<double> elapsed = lives[last].end - lives[first].begin;
      const double earned = static_cast<double>(kTokensASecond) * elapsed.count();
      tokens_over = std::max(tokens_over, static_cast<double>(tokens - kTokensAtOnce) - earned);
    }
  }
  EXPECT_EQ(tokens_over, 0);
}

}  // namespace
}  // namespace weir::app
