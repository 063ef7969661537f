// Processes that spend one quota on real servers while everything fails that may: together they are
// never over, and what is left of the quota is used.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "fleet/spending_process_for_test.h"
#include "net/tcp_proxy_for_test.h"
#include "redis/slots.h"

namespace weir::fleet {
namespace {

using namespace std::chrono_literals;
using redis::RedisCluster;
using redis::RedisServer;
using State = SharedQuotaStatus::State;
using Way = SpendingPlan::Way;

constexpr Amount kLimit = 6'000;  // in an hour
constexpr Amount kRate = 1'000;   // of a process

std::string url_of(const net::TcpProxy& proxy) {
  return "redis://127.0.0.1:" + std::to_string(proxy.port());
}

void spend_until(const SpendingFleet& fleet, Amount admitted) {
  ASSERT_TRUE(eventually([&] { return fleet.admitted() >= admitted; })) << fleet.admitted();
}

// All but `lost` of the window is used, and nothing beyond it.
void expect_used(SpendingFleet& fleet, Amount lost) {
  Amount last = -1;
  EXPECT_TRUE(eventually([&] {
    const Amount before = std::exchange(last, fleet.admitted());
    if (last > before || last < kLimit - lost) return let_pass(300ms), false;
    return true;
  })) << last;
  fleet.stop();
  EXPECT_LE(fleet.admitted(), kLimit);
  testing::Test::RecordProperty("admitted", std::to_string(fleet.admitted()));
}

// Until all processes have known that Redis is another one, and have it back.
void await_quarantine(SpendingFleet& fleet, std::size_t processes) {
  for (std::size_t i = 0; i < processes; ++i) {
    EXPECT_TRUE(eventually([&] { return fleet.has_seen(i, State::kQuarantine); })) << i;
    EXPECT_TRUE(eventually([&] { return fleet.state(i) == State::kShared; })) << i;
  }
}

TEST(SharedQuotaFaults, ProcessesAndThreadsTogetherUseAWholeWindowAndNoMore) {
  const RedisServer server;
  SpendingFleet fleet{settled(server).url(), {.amount = kLimit}};
  fleet.start(3);
  expect_used(fleet, kLimit / 1000);
}

TEST(SharedQuotaFaults, ProcessesAndThreadsTogetherHoldNoMoreSlotsThanThereAre) {
  const RedisServer server;
  SpendingFleet fleet{settled(server).url(),
                      {.algorithm = LimitSpec::Algorithm::kConcurrency,
                       .amount = 5,
                       .period = 0s,
                       .way = Way::kHold,
                       .threads = 4}};
  fleet.start(3);
  // Whoever comes first does not keep them all.
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(eventually([&] { return fleet.admitted(i) >= 100; })) << fleet.admitted(i);
  }
  fleet.stop();
  EXPECT_LE(fleet.most_held(), 5);
  EXPECT_GE(fleet.most_held(), 4);
}

TEST(SharedQuotaFaults, WhoIsKilledLosesNoMoreThanItsBlocks) {
  constexpr int kKills = 3;
  const RedisServer server;
  SpendingFleet fleet{settled(server).url(), {.amount = kLimit, .rate = kRate}};
  fleet.start(3);
  for (int killed = 0; killed < kKills; ++killed) {
    spend_until(fleet, (killed + 1) * kLimit / 8);
    fleet.kill(static_cast<std::size_t>(killed));
    fleet.start();
  }
  // What it spends in a second, and half of that again.
  expect_used(fleet, kKills * kRate * 3 / 2);
}

// When the window that the book is in ends, by the clock of the processes.
Instant window_end(const RedisServer& server) {
  const std::string said = server.cli({"HVALS", book_keys("api")[0]});
  const auto bar = said.find('|');
  if (bar == std::string::npos) return {};
  const BootClock clock;
  const auto wall = std::chrono::microseconds{std::stoll(said.substr(bar + 1))};
  return clock.now() + (CalendarTime{wall} - clock.wall());
}

TEST(SharedQuotaFaults, WhoSleepsPastTheEndOfTheWindowSpendsNothingOfItInTheNext) {
  constexpr Amount kPerWindow = 1'000;
  const RedisServer server;
  const BootClock clock;
  SpendingFleet fleet{settled(server).url(), {.amount = kPerWindow, .period = 1s, .rate = kRate}};
  fleet.start(3);
  spend_until(fleet, 1);
  std::vector<Instant> ends{window_end(server)};
  for (std::size_t sleeper = 0; sleeper < 3; ++sleeper) {
    const Amount before = fleet.admitted();
    spend_until(fleet, before + kPerWindow / 4);
    fleet.freeze(sleeper);
    ASSERT_TRUE(eventually([&] { return clock.now() > ends.back() + 50ms; }));
    fleet.thaw(sleeper);
    ASSERT_TRUE(eventually([&] {
      const Instant end = window_end(server);
      if (end > ends.back() + 500ms) ends.push_back(end);
      return ends.size() == sleeper + 2;
    }));
  }
  ASSERT_TRUE(eventually([&] { return clock.now() > ends.back(); }));
  fleet.stop();
  Instant last = ends.front() - 1s;
  for (const Instant end : ends) {
    const Amount windows = (end - last + 10ms) / 1s;  // a busy machine may have missed one
    EXPECT_LE(fleet.admitted_between(std::exchange(last, end), end), windows * kPerWindow);
  }
  EXPECT_GE(fleet.admitted(), std::ssize(ends) * kPerWindow / 2);
}

TEST(SharedQuotaFaults, WhoSleepsPastItsLeaseOverdrawsNoBucket) {
  constexpr Amount kBucketRate = 2'000;
  constexpr Amount kBurst = 4'000;
  const RedisServer server;
  SpendingFleet fleet{settled(server).url(),
                      {.algorithm = LimitSpec::Algorithm::kTokenBucket,
                       .amount = kBucketRate,
                       .period = 1s,
                       .burst = kBurst,
                       .rate = 2'000,
                       .timeout = 200ms}};  // a longer one would make a call of each unit
  fleet.start(3);
  spend_until(fleet, kBurst);
  for (std::size_t sleeper = 0; sleeper < 3; ++sleeper) {
    const Amount before = fleet.admitted();
    fleet.freeze(sleeper);
    let_pass(700ms);
    fleet.thaw(sleeper);
    spend_until(fleet, before + 300);
  }
  fleet.stop();
  const double in_a_bin = kBucketRate * 0.001;
  EXPECT_LE(fleet.largest_burst(kBucketRate), kBurst + 2 * in_a_bin);
}

enum class Kept : std::uint8_t { kNothing, kOldCopy, kAppendOnly };

class RestartedRedis : public testing::TestWithParam<Kept> {};

TEST_P(RestartedRedis, TheProcessesBearWitness) {
  RedisServer server{GetParam() == Kept::kAppendOnly
                         ? std::vector<std::string>{"--appendonly", "yes"}
                         : std::vector<std::string>{}};
  SpendingFleet fleet{settled(server).url(), {.amount = kLimit, .rate = kRate}};
  fleet.start(3);
  spend_until(fleet, kLimit / 5);
  if (GetParam() == Kept::kOldCopy) server.cli({"SAVE"});
  spend_until(fleet, kLimit / 2);
  server.kill();
  fleet.forget_seen();
  server.start();
  await_quarantine(fleet, 3);
  expect_used(fleet, kLimit / 100);
}

INSTANTIATE_TEST_SUITE_P(SharedQuotaFaults, RestartedRedis,
                         testing::Values(Kept::kNothing, Kept::kOldCopy, Kept::kAppendOnly),
                         [](const auto& with) {
                           switch (with.param) {
                             case Kept::kNothing: return "WithNothing";
                             case Kept::kOldCopy: return "WithAnOldCopy";
                             case Kept::kAppendOnly: return "WithItsLog";
                           }
                           return "";
                         });

TEST(SharedQuotaFaults, AReplicaThatHasNotHeardTheLastTakesThePlaceOfItsMaster) {
  RedisServer master{{"--repl-diskless-sync-delay", "0"}};
  net::TcpProxy copying{master.port()};
  const RedisServer replica{{"--replicaof", "127.0.0.1 " + std::to_string(copying.port())}};
  ASSERT_TRUE(eventually(
      [&] { return replica.cli({"INFO", "replication"}).contains("master_link_status:up"); }));
  net::TcpProxy proxy{settled(master).port()};
  SpendingFleet fleet{url_of(proxy), {.amount = kLimit, .rate = kRate}};
  fleet.start(3);
  spend_until(fleet, kLimit / 4);
  copying.drop(true);
  spend_until(fleet, kLimit / 2);
  EXPECT_NE(replica.cli({"HVALS", book_keys("api")[0]}),
            master.cli({"HVALS", book_keys("api")[0]}));
  master.kill();
  fleet.forget_seen();
  replica.cli({"REPLICAOF", "NO", "ONE"});
  proxy.switch_to(replica.port());
  await_quarantine(fleet, 3);
  expect_used(fleet, kLimit / 100);
}

TEST(SharedQuotaFaults, AnswersThatAreLateOrLostOrCutOff) {
  const RedisServer server;
  net::TcpProxy proxy{settled(server).port()};
  SpendingFleet fleet{
      url_of(proxy),
      {.amount = kLimit, .fallback = Fallback::kReserve, .rate = kRate, .timeout = 200ms}};
  fleet.start(3);
  spend_until(fleet, kLimit / 10);
  const std::vector<std::function<void(bool)>> troubles{
      [&](bool on) { proxy.delay(on ? 30ms : 0ms); },
      [&](bool on) { proxy.delay(on ? 150ms : 0ms); },  // there and back: too late
      [&](bool on) { proxy.drop(on); },
      [&](bool) { proxy.cut(); },
      [&](bool on) {
        proxy.cut_after(on ? 3'000 : std::int64_t{1} << 60);
        if (on) proxy.cut();
      },
      [&](bool on) {
        proxy.refuse(on);
        if (on) proxy.cut();
      },
  };
  for (const auto& trouble : troubles) {
    trouble(true);
    let_pass(300ms);
    trouble(false);
    const Amount before = fleet.admitted();
    spend_until(fleet, std::min(before + kLimit / 20, kLimit * 97 / 100));
  }
  // The reserve is for outages.
  expect_used(fleet, kLimit * 3 / 100);
}

TEST(SharedQuotaFaults, AForgottenScriptIsSentAgain) {
  const RedisServer server;
  SpendingFleet fleet{settled(server).url(), {.amount = kLimit, .way = Way::kWait, .rate = kRate}};
  fleet.start(3);
  for (Amount i = 1; i < 20; ++i) {
    spend_until(fleet, i * kLimit / 20);
    server.cli({"SCRIPT", "FLUSH"});
  }
  expect_used(fleet, kLimit / 1000);
  EXPECT_EQ(fleet.errors(), 0U);
}

// S2.6
TEST(SharedQuotaFaults, ABookMovesThroughAClusterUnderLoad) {
  RedisCluster cluster;
  const std::vector<std::string> keys = book_keys("api");
  const int slot = redis::slot_of(keys[0]);
  const int from = cluster.master_of(slot);
  const int to = (from + 1) % 3;
  const auto set_slot = [&](int which, const std::string& state, int other) {
    cluster.node(which).cli({"CLUSTER", "SETSLOT", std::to_string(slot), state, cluster.id(other)});
  };
  settled(cluster.node(from));
  SpendingFleet fleet{cluster.url(), {.amount = kLimit, .way = Way::kWait, .rate = kRate}};
  fleet.start(3);
  spend_until(fleet, kLimit / 2);
  fleet.forget_seen();
  set_slot(to, "IMPORTING", from);
  set_slot(from, "MIGRATING", to);
  let_pass(50ms);
  for (const std::string& key : keys) {
    cluster.node(from).cli(
        {"MIGRATE", "127.0.0.1", std::to_string(cluster.node(to).port()), key, "0", "5000"});
    let_pass(50ms);
  }
  set_slot(to, "NODE", to);
  set_slot(from, "NODE", to);
  await_quarantine(fleet, 3);
  // Who leaves it may be told that it lasts for others; then nobody is refused any more.
  EXPECT_TRUE(eventually([&] {
    const std::uint64_t errors = fleet.errors();
    let_pass(300ms);
    return fleet.errors() == errors;
  }));
  expect_used(fleet, kLimit / 100);
}

}  // namespace
}  // namespace weir::fleet
