// Several daemons on one quota: processes, a real Redis and a real NATS, with faults.
#include "app/fleet_for_test.h"

#include <future>

#include "bus/nats_for_test.h"
#include "gate/real_time_for_test.h"
#include "proxy/proxy_for_test.h"

namespace weir::app {
namespace {

using namespace std::chrono_literals;
using redis::RedisServer;

// A day, so that hardly any run sees the end of a window.
constexpr const char* kSixHundred = "limit: 600\nperiod: 1d\n";

Instant now() { return TimeSource::system().clock.now(); }

TEST_F(FleetTest, ThreeDaemonsAdmitExactlyWhatOneLimitSays) {
  provider("window", kSixHundred);
  const auto daemons = start_three();
  for (const auto& daemon : daemons) admit_one(*daemon, "window");
  std::vector<std::unique_ptr<Hammer>> hammers;
  for (const auto& daemon : daemons) {
    hammers.push_back(std::make_unique<Hammer>(*daemon, "window", Hammer::Options{.pace = 10ms}));
  }
  const auto total = [&] {
    Amount sum = 3;
    for (const auto& hammer : hammers) sum += hammer->admitted();
    return sum;
  };
  until("all 600", [&] { return total() >= 600; });
  for (std::size_t i = 0; i < daemons.size(); ++i) {
    const Amount before = hammers[i]->refused();
    until("refusals", [&] { return hammers[i]->refused() > before + 50; });
    EXPECT_GT(hammers[i]->admitted(), 0) << "nobody has it all";
    const auto refused = decided(*daemons[i], "window");
    EXPECT_EQ(refused.status, 429);
    EXPECT_EQ(refused.text("limit"), "requests per 1d") << refused.body;
    EXPECT_EQ(daemons[i]->members("window"), 3);
    EXPECT_EQ(daemons[i]->share("window", "free"), 0);
    EXPECT_EQ(daemons[i]->share("window", "leased"), 0);
  }
  for (const auto& hammer : hammers) hammer->stop();
  EXPECT_EQ(total(), 600);
}

TEST_F(FleetTest, WhatOneDaemonDoesNotUseTheOthersGet) {
  provider("unused", kSixHundred);
  const auto a = start({.node = "a"});
  const auto b = start({.node = "b"});
  admit_one(*a, "unused");
  Amount total = 1;
  for (int i = 0; i < 200; ++i) total += a->acquire("unused").status == 200 ? 1 : 0;
  total += hold_a_block(*a, "unused");
  EXPECT_EQ(total + admit_all(*b, "unused", 600 - total), 600);
}

TEST_F(FleetTest, ABucketIsSharedAndNeverOver) {
  provider(
      "bucket",
      "limits: [{unit: requests, amount: 100, per: 1s, algorithm: token_bucket, burst: 400}]\n");
  std::vector<std::unique_ptr<FleetDaemon>> daemons;
  for (const char* node : {"a", "b", "c"}) daemons.push_back(start({.node = node}));
  const Instant began = now();
  admit_one(*daemons[0], "bucket");
  Amount total = 1;
  std::vector<std::unique_ptr<Hammer>> hammers;
  for (const auto& daemon : daemons) hammers.push_back(std::make_unique<Hammer>(*daemon, "bucket"));
  const Instant full = now();
  pause_for(2s);
  for (const auto& hammer : hammers) {
    hammer->stop();
    EXPECT_GT(hammer->admitted(), 0);
    total += hammer->admitted();
  }
  const double most = std::chrono::duration<double>(now() - began).count() * 100 + 400;
  const double least = std::chrono::duration<double>(now() - full).count() * 100 / 2;
  EXPECT_LE(static_cast<double>(total), most);
  EXPECT_GE(static_cast<double>(total), least);
}

TEST_F(FleetTest, SlotsAreSharedAndFreeAgainElsewhere) {
  provider("slots", "max_concurrency: 4\n");
  const auto daemons = start_three();
  until("the first slot", [&] {
    const auto first = daemons[0]->acquire("slots");
    return first.status == 200 && daemons[0]->release(first.text("permit")) == 200;
  });
  Occupancy held;
  std::atomic<int> served = 0;
  in_threads(9, [&](int i) {
    const FleetDaemon& daemon = *daemons[static_cast<std::size_t>(i % 3)];
    for (int round = 0; round < 4; ++round) {
      const auto got = daemon.acquire("slots", R"(,"wait_ms":30000)");
      ASSERT_EQ(got.status, 200) << got.body;
      held.enter();
      pause_for(3ms);
      held.leave();
      ++served;
      ASSERT_EQ(daemon.release(got.text("permit")), 200);
    }
  });
  EXPECT_EQ(served, 36);
  EXPECT_LE(held.most(), 4);

  std::vector<std::string> permits;
  for (int i = 0; i < 4; ++i) {
    const auto got = daemons[0]->acquire("slots", R"(,"wait_ms":10000)");
    ASSERT_EQ(got.status, 200) << got.body;
    permits.push_back(got.text("permit"));
  }
  EXPECT_EQ(decided(*daemons[1], "slots", R"(,"wait_ms":300)").status, 429);
  auto waiting = std::async(std::launch::async,
                            [&] { return daemons[2]->acquire("slots", R"(,"wait_ms":20000)"); });
  until("somebody waits",
        [&] { return daemons[2]->get("/v1/resources/slots").json.at("waiting").as_int64() == 1; });
  const Instant released = now();
  EXPECT_EQ(daemons[0]->release(permits[0]), 200);
  EXPECT_EQ(waiting.get().status, 200);
  EXPECT_LT(now() - released, 15s) << "about a second, on a machine that is not busy";
}

TEST_F(FleetTest, ADaemonThatIsKilledTakesNoMoreThanItsBlockWithIt) {
  provider("killed", "limit: 1500\nperiod: 1d\n");
  const auto daemons = start_three();
  std::vector<std::unique_ptr<Hammer>> hammers;
  for (const auto& daemon : daemons) {
    hammers.push_back(std::make_unique<Hammer>(*daemon, "killed", Hammer::Options{.pace = 10ms}));
  }
  const auto total = [&] {
    return hammers[0]->admitted() + hammers[1]->admitted() + hammers[2]->admitted();
  };
  until("all have some", [&] { return hammers[1]->admitted() > 50 && total() > 400; });
  const Amount block = daemons[1]->share("killed", "leased");
  daemons[1]->kill();
  const auto used_up = [&](std::size_t i) {
    return daemons[i]->share("killed", "free") == 0 && daemons[i]->share("killed", "leased") == 0;
  };
  until("the rest is used", [&] { return used_up(0) && used_up(2); });
  for (const auto& hammer : hammers) hammer->stop();
  EXPECT_LE(total(), 1500);
  EXPECT_GE(total(), 1500 - std::max<Amount>(2 * block, 400)) << "of a block of about " << block;
}

TEST_F(FleetTest, AFrozenRedisCostsOneTimeOutInAllAndIsBackByItself) {
  RedisServer own;
  provider("frozen", kSixHundred);
  settle(own);
  Amount total = 0;
  for (const std::string fallback : {"deny", "reserve"}) {
    const auto a = start({.node = fallback, .fallback = fallback, .redis = own.url()});
    admit_one(*a, "frozen");
    own.freeze();
    const Instant began = now();
    FleetDaemon::Answer last;
    for (int i = 0; i < 300; ++i) {
      last = a->acquire("frozen");
      total += last.status == 200 ? 1 : 0;
    }
    EXPECT_LT(now() - began, 30s) << "one by one it would be 300 s";
    EXPECT_EQ(last.status, 503) << last.body;
    EXPECT_EQ(last.text("error"), "store_unavailable");
    EXPECT_NE(last.text("message").find("quota"), std::string::npos) << last.body;
    EXPECT_EQ(a->state(), "away");
    EXPECT_NE(a->log().find("the fleet's quota is away"), std::string::npos);
    EXPECT_EQ(a->log().find("\"why\":\"\""), std::string::npos) << a->log();
    own.thaw();
    admit_one(*a, "frozen");
    total += 2;
    EXPECT_EQ(a->state(), "shared");
    EXPECT_EQ(a->stop(), 0);
  }
  const auto rest = start({.node = "rest", .redis = own.url()});
  EXPECT_EQ(total + admit_all(*rest, "frozen", 600 - total), 600);
}

TEST_F(FleetTest, ARedisThatForgotEverythingIsToldWhatWasUsed) {
  RedisServer own;
  provider("forgot", kSixHundred);
  settle(own);
  const auto a = start({.node = "a", .redis = own.url()});
  const auto b = start({.node = "b", .redis = own.url()});
  admit_one(*a, "forgot");
  admit_one(*b, "forgot");
  Amount total = 2;
  for (int i = 0; i < 150; ++i) {
    total += a->acquire("forgot").status == 200 ? 1 : 0;
    total += b->acquire("forgot").status == 200 ? 1 : 0;
  }
  EXPECT_GT(total, 250);
  own.kill();
  until("away", [&] { return a->acquire("forgot").status == 503 || a->state() == "away"; });
  own.start();
  Hammer first{*a, "forgot", {.pace = 5ms}};
  Hammer second{*b, "forgot", {.pace = 5ms}};
  until("quarantine", [&] { return a->state() == "quarantine"; });
  EXPECT_NE(a->get("/metrics").body.find("weir_fleet_state{state=\"quarantine\"} 1"),
            std::string::npos);
  until("shared", [&] { return a->state() == "shared" && b->state() == "shared"; });
  until("used up", [&] {
    return a->share("forgot", "free") == 0 && a->share("forgot", "leased") == 0 &&
           b->share("forgot", "leased") == 0 && b->share("forgot", "free") == 0;
  });
  first.stop();
  second.stop();
  total += first.admitted() + second.admitted();
  EXPECT_LE(total, 600);
  EXPECT_GT(total, 300) << "the rest is used";
}

TEST_F(FleetTest, TheFallbackDecidesWhileRedisIsAway) {
  struct Row {
    std::string fallback;  // and the resource
    Amount least, most;    // of 120 calls to each of two
    std::vector<std::unique_ptr<FleetDaemon>> daemons = {};
  };
  std::array<Row, 3> rows{{{"open", 120, 120}, {"local", 30, 40}, {"share", 10, 20}}};
  for (const Row& row : rows) provider(row.fallback, "limit: 40\nperiod: 1d\n");
  RedisServer own;
  settle(own);
  for (Row& row : rows) {
    for (const char* node : {"-a", "-b"}) {
      row.daemons.push_back(
          start({.node = row.fallback + node, .fallback = row.fallback, .redis = own.url()}));
    }
  }
  for (const Row& row : rows) {
    for (const auto& daemon : row.daemons) admit_one(*daemon, row.fallback);
    // Who came first may have given its block back already, and then it hears nothing.
    const FleetDaemon& first = *row.daemons[0];
    if (first.members(row.fallback) != 2) admit_one(first, row.fallback);
  }
  for (const Row& row : rows) {
    for (const auto& daemon : row.daemons) {
      until("they know of one another", [&] { return daemon->members(row.fallback) == 2; });
    }
  }
  own.kill();
  for (const Row& row : rows) {
    for (const auto& daemon : row.daemons) {
      until("away", [&] { return daemon->state() == "away"; });
      Amount admitted = 0;
      for (int i = 0; i < 120; ++i) admitted += daemon->acquire(row.fallback).status == 200 ? 1 : 0;
      EXPECT_GE(admitted, row.least) << row.fallback;
      EXPECT_LE(admitted, row.most) << row.fallback;
      EXPECT_EQ(daemon->get("/metrics").body.find("weir_fleet_fallback_total 0\n"),
                std::string::npos);
    }
  }
}

TEST_F(FleetTest, ACleanStopGivesBackWhatWasLeased) {
  provider("stopped", kSixHundred);
  const auto a = start({.node = "a"});
  admit_one(*a, "stopped");
  Amount total = 1;
  for (int i = 0; i < 100; ++i) total += a->acquire("stopped").status == 200 ? 1 : 0;
  total += hold_a_block(*a, "stopped");
  EXPECT_EQ(a->stop(), 0);
  EXPECT_TRUE(a->log().ends_with("\"message\":\"stopped\"}\n")) << a->log();
  const auto b = start({.node = "b"});
  EXPECT_EQ(total + admit_all(*b, "stopped", 600 - total), 600);
}

TEST_F(FleetTest, WhoWaitsIsServedByWhatAnotherReturns) {
  provider("wanted", kSixHundred);
  const auto a = start({.node = "a"});
  const auto b = start({.node = "b"});
  admit_one(*a, "wanted");
  // A large one, so that the block is large too.
  const Instant asked = now();
  ASSERT_EQ(a->acquire("wanted", R"(,"cost":{"requests":29},"wait_ms":20000)").status, 200);
  const Amount leased = a->share("wanted", "leased");
  EXPECT_TRUE(leased > 0 || now() - asked > 900ms) << "of no use for a second it goes back";
  for (int i = 0; i < 19; ++i) {
    const auto got = b->acquire("wanted", R"(,"cost":{"requests":30},"wait_ms":20000)");
    ASSERT_EQ(got.status, 200) << i << got.body;
  }
  EXPECT_EQ(decided(*b, "wanted").status, 429);
}

TEST_F(FleetTest, AReloadChangesTheLimitOfAllAndForgetsNothing) {
  provider("reloaded", kSixHundred);
  const auto a = start({.node = "a"});
  const auto b = start({.node = "b"});
  admit_one(*a, "reloaded");
  Amount total = 1 + admit_all(*a, "reloaded", 599);
  EXPECT_EQ(total, 600);
  EXPECT_EQ(decided(*b, "reloaded").status, 429);
  provider("reloaded", "limit: 700\nperiod: 1d\n");
  for (const auto* daemon : {a.get(), b.get()}) EXPECT_EQ(daemon->post("/v1/reload").status, 200);
  total += admit_all(*b, "reloaded", 100);
  EXPECT_EQ(total, 700);
  EXPECT_EQ(decided(*a, "reloaded").status, 429);
  provider("reloaded", "limit: 650\nperiod: 1d\n");
  EXPECT_EQ(a->post("/v1/reload").status, 200);
  EXPECT_EQ(decided(*a, "reloaded").status, 429);
}

TEST_F(FleetTest, AFleetThatHasChangedIsWarnedAboutAtAReload) {
  provider("same", kSixHundred);
  const auto a = start({.node = "a"});
  EXPECT_EQ(a->post("/v1/reload").status, 200);
  EXPECT_EQ(a->log().find("takes effect at the next start"), std::string::npos);
  main_file({.node = "a", .fallback = "open"});
  EXPECT_EQ(a->post("/v1/reload").status, 200);
  EXPECT_NE(a->log().find("`fleet` has changed, which takes effect at the next start"),
            std::string::npos)
      << a->log();
}

TEST_F(FleetTest, AUrlThatCannotBeUsedIsAMistakeAndItsPasswordIsNotShown) {
  provider("any", kSixHundred);
  for (const char* url : {"redis://u:CANARY@", "redis://u:CANARY@h:99999", "redis://u:CANARY@h/x",
                          "http://u:CANARY@h", "redis://u:CAN%ZZARY@h"}) {
    const std::string file = main_file({.node = "a", .redis = url});
    Process process{{WEIR_PROGRAM, "start", "--config", file}, directory.path("wrong")};
    EXPECT_EQ(process.wait(), 2) << url;
    EXPECT_NE(process.err().find("edis"), std::string::npos) << process.err();
    EXPECT_EQ((process.out() + process.err()).find("CAN"), std::string::npos) << process.err();
  }
}

TEST_F(FleetTest, CheckTakesAFileWithAFleet) {
  provider("checked", kSixHundred);
  Process process{{WEIR_PROGRAM, "check", main_file({.node = "a"})}, directory.path("check")};
  EXPECT_EQ(process.wait(), 0) << process.err();
  EXPECT_NE(process.out().find("at most 600 requests"), std::string::npos) << process.out();
}

TEST_F(FleetTest, APasswordIsNotSeenAnywhere) {
  RedisServer own;
  bus::NatsServer nats{{"--auth", "CANARY-token"}};
  const auto url = [&](const std::string& password) {
    return "redis://:" + password + "@127.0.0.1:" + std::to_string(own.port());
  };
  provider("secret", kSixHundred);
  settle(own);
  own.cli({"CONFIG", "SET", "requirepass", "CANARY-right"});
  const auto good =
      start({.node = "good", .redis = url("CANARY-right"), .bus = nats.url("CANARY-token")});
  const auto bad =
      start({.node = "bad", .redis = url("CANARY-wrong"), .bus = nats.url("CANARY-forged")});
  const auto status = [](const FleetDaemon& daemon) {
    return daemon.get("/api/status").json.at("fleet").as_object();
  };
  until("one is refused", [&] {
    return status(*bad).at("quota").as_object().contains("failure") &&
           status(*bad).at("bus").as_object().contains("failure");
  });
  until("the other is not", [&] { return status(*good).at("bus").at("connected").as_bool(); });
  admit_one(*good, "secret");
  until("it says so", [&] { return bad->acquire("secret").text("error") == "store_unavailable"; });
  std::string seen;
  for (const auto* daemon : {good.get(), bad.get()}) {
    seen += daemon->acquire("secret").body;
    for (const char* path : {"/api/status", "/metrics", "/v1/resources", "/v1/resources/secret",
                             "/readyz", "/openapi.json"}) {
      seen += daemon->get(path).body;
    }
  }
  own.kill();
  nats.kill();
  until("away", [&] { return good->acquire("secret").status == 503; });
  seen += good->get("/api/status").body + good->get("/metrics").body;
  for (auto* daemon : {good.get(), bad.get()}) {
    EXPECT_EQ(daemon->stop(), 0);
    seen += daemon->log();
  }
  EXPECT_NE(seen.find("WRONGPASS"), std::string::npos);
  EXPECT_EQ(seen.find("CANARY"), std::string::npos) << seen.substr(seen.find("CANARY") - 200, 400);
}

TEST_F(FleetTest, ADaemonWhoseBusIsAwayStopsCleanly) {
  provider("any", kSixHundred);
  const redis::Port unused;
  const std::string nowhere = "nats://127.0.0.1:" + std::to_string(unused.number());
  for (int i = 0; i < 8; ++i) {
    const auto a = start({.node = "a", .bus = nowhere});
    until("an attempt has failed", [&] {
      const auto bus = a->get("/api/status").json.at("fleet").at("bus");
      return bus.at("failure").as_string() != "not connected yet";
    });
    EXPECT_EQ(a->stop(), 0) << i;
  }
}

TEST_F(FleetTest, StatusAndMetricsTellHowTheQuotaIsShared) {
  const RedisServer fresh;  // which is trusted after a while
  bus::NatsServer nats;
  provider("told", kSixHundred);
  const auto a = start({.node = "first", .redis = fresh.url(), .bus = nats.url()});
  admit_one(*a, "told");
  until("the bus",
        [&] { return a->get("/api/status").json.at("fleet").at("bus").at("connected").as_bool(); });
  const auto fleet = a->get("/api/status").json.at("fleet");
  EXPECT_EQ(fleet.at("node").as_string(), "first");
  EXPECT_TRUE(fleet.at("quota").at("connected").as_bool());
  EXPECT_EQ(fleet.at("quota").at("breaker").as_string(), "closed");
  EXPECT_GE(fleet.at("quota").at("granted").as_int64(), 1);
  EXPECT_EQ(a->members("told"), 1);
  const std::string metrics = a->get("/metrics").body;
  for (const char* line : {"weir_fleet_redis_up 1\n", "weir_fleet_state{state=\"shared\"} 1\n",
                           "weir_fleet_breaker_open 0\n", "weir_fleet_bus_up 1\n"}) {
    EXPECT_NE(metrics.find(line), std::string::npos) << line;
  }
}

TEST_F(FleetTest, WhatAProviderTellsOneDaemonTheOthersHeed) {
  proxy::Provider upstream;
  bus::NatsServer nats;
  provider("api", "upstream: http://127.0.0.1:" + std::to_string(upstream.port) +
                      "\napi_key: key\nlimit: 600\nperiod: 1d\n");
  const auto a = start({.node = "a", .bus = nats.url()});
  const auto b = start({.node = "b", .bus = nats.url()});
  for (const auto* daemon : {a.get(), b.get()}) {
    admit_one(*daemon, "api");
    until("the bus", [&] {
      return daemon->get("/api/status").json.at("fleet").at("bus").at("connected").as_bool();
    });
  }
  const auto call = [](const FleetDaemon& daemon) {
    return daemon.call({.method = "POST",
                        .target = "/proxy/api/v1/things",
                        .body = "{}",
                        .fields = {{"X-Weir-Max-Wait", "10"}}});
  };
  auto told = std::async(std::launch::async, [&] { return call(*a); });
  upstream.next().answer("{}", "429 Too Many Requests", "Retry-After: 60\r\n");
  EXPECT_EQ(told.get().status, 429);
  until("the other has heard of it", [&] {
    const auto accounts = b->get("/v1/resources/api").json.at("accounts").as_array();
    return !accounts.empty() && accounts[0].at("held_ms").as_int64() > 0;
  });
  EXPECT_EQ(call(*b).status, 429);
  EXPECT_TRUE(upstream.idle()) << "the provider was not asked";
}

}  // namespace
}  // namespace weir::app
