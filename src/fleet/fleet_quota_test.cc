#include "weir/fleet/fleet_quota.h"

#include <atomic>
#include <map>
#include <string>

#include "fleet/redis_bucket_for_test.h"
#include "weir/time/simulated_time.h"

namespace weir::fleet {
namespace {

using namespace std::chrono_literals;
using State = CircuitBreaker::State;
using Fallback = FleetQuota::Fallback;
using Mode = FleetQuota::Mode;
using Scope = LocalTokenBucket::Scope;

using Variables = std::map<std::string, std::string>;

FleetQuota::Getenv environment(Variables variables) {
  return [variables = std::move(variables)](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

// Time passes a hundred times slower, and deadlines with it.
class SlowClock final : public Clock {
 public:
  CalendarTime wall() const override { return real_.wall(); }

 private:
  Instant read() const override { return start_ + (real_.now() - start_) / 100; }

  const MonotonicClock real_;
  const Instant start_ = real_.now();
};

// Without a server.
class FleetQuotaAloneTest : public testing::Test {
 protected:
  std::unique_ptr<FleetQuota> from(Variables variables) {
    return FleetQuota::from_environment(environment(std::move(variables)), time_.source()).value();
  }
  std::string mistake_in(Variables variables) {
    const auto made =
        FleetQuota::from_environment(environment(std::move(variables)), time_.source());
    EXPECT_TRUE(!made && made.error() == Errc::kInvalidConfig);
    return made ? "" : made.error().message;
  }

  SimulatedTime time_;
};

// S2.3, S2.5
TEST_F(FleetQuotaAloneTest, IsLocalAndAsTheDocumentSaysIfNothingIsSet) {
  for (const Variables& variables :
       {Variables{},
        Variables{{"REDIS_URL", ""}, {"TOKEN_BUCKET_SIZE", ""}, {"TOKEN_REFILL_RATE", ""}}}) {
    const auto quota = from(variables);
    EXPECT_EQ(quota->check_and_consume("a", 1000), true);
    EXPECT_EQ(quota->check_and_consume("a", 1), false);
    EXPECT_EQ(quota->check_and_consume("b", 1000), true);
    time_.advance(100ms);
    EXPECT_EQ(quota->check_and_consume("a", 1), true);
    EXPECT_EQ(quota->check_and_consume("a", 1), false);
    const auto status = quota->status();
    EXPECT_EQ(status.mode, Mode::kLocal);
    EXPECT_EQ(status.otherwise.admitted, 3U);
    EXPECT_EQ(status.otherwise.refused, 2U);
    EXPECT_EQ(status.by_redis.admitted + status.by_redis.refused, 0U);
  }
}

// S2.5
TEST_F(FleetQuotaAloneTest, ReadsTheSizeAndTheRate) {
  const auto quota = from({{"TOKEN_BUCKET_SIZE", "5"}, {"TOKEN_REFILL_RATE", "0.5"}});
  EXPECT_EQ(quota->check_and_consume("a", 6).error(), Errc::kNeverFits);
  EXPECT_EQ(quota->check_and_consume("a", 5), true);
  time_.advance(2s - 1ns);
  EXPECT_EQ(quota->check_and_consume("a", 1), false);
  time_.advance(1ns);
  EXPECT_EQ(quota->check_and_consume("a", 1), true);
}

// S2.5
TEST_F(FleetQuotaAloneTest, NamesTheVariableAndTheValueItCannotUse) {
  for (const std::string bad :
       {"many", "1e3", "10.5", " 7", "7 ", "0x10", "99999999999999999999"}) {
    EXPECT_EQ(mistake_in({{"TOKEN_BUCKET_SIZE", bad}}),
              "TOKEN_BUCKET_SIZE must be a whole number: " + bad);
  }
  EXPECT_EQ(mistake_in({{"TOKEN_BUCKET_SIZE", "0"}}),
            "TOKEN_BUCKET_SIZE must be from 1 to 1000000000000000: 0");
  EXPECT_EQ(mistake_in({{"TOKEN_BUCKET_SIZE", "-5"}}),
            "TOKEN_BUCKET_SIZE must be from 1 to 1000000000000000: -5");
  for (const std::string bad : {"fast", "10/s", "1,5", "1e999"}) {
    EXPECT_EQ(mistake_in({{"TOKEN_REFILL_RATE", bad}}),
              "TOKEN_REFILL_RATE must be a number: " + bad);
  }
  for (const std::string bad : {"0", "-1", "nan", "inf"}) {
    EXPECT_EQ(mistake_in({{"TOKEN_REFILL_RATE", bad}}),
              "TOKEN_REFILL_RATE must be above 0 and at most 1000000000 tokens a second: " + bad);
  }
  EXPECT_EQ(mistake_in({{"TOKEN_REFILL_RATE", "0.00001"}}),
            "TOKEN_REFILL_RATE must fill a TOKEN_BUCKET_SIZE of 1000 within 400 days: 1e-05");
}

// S2.5
TEST_F(FleetQuotaAloneTest, NamesAUrlItCannotUseWithoutItsPassword) {
  for (const std::string bad :
       {"gopher://me:secret@host:1", "redis://me:secret@host:99999", "me:secret@host",
        "redis:/me:secret@host", "redis://:secret@host:x", "redis://me:sec@ret@ho st",
        "redis://:secret@", "redis://me:secret%zz@host", "unix://x?password=secret"}) {
    const std::string message = mistake_in({{"REDIS_URL", bad}});
    EXPECT_TRUE(message.starts_with("REDIS_URL: ")) << bad << ": " << message;
    EXPECT_FALSE(message.contains("sec")) << bad << ": " << message;
  }
  EXPECT_TRUE(
      mistake_in({{"REDIS_URL", "gopher://me:secret@host:1"}}).contains("gopher://***@host:1"));
}

// S2.5
TEST_F(FleetQuotaAloneTest, RefusesEverythingAfterTheCleanUp) {
  const auto quota = from({});
  EXPECT_EQ(quota->check_and_consume("a", 1), true);
  quota->cleanup();
  EXPECT_EQ(quota->check_and_consume("a", 1).error(), Errc::kClosed);
  quota->cleanup();
}

TEST_F(FleetQuotaAloneTest, NamesItsModes) {
  EXPECT_EQ(name(Mode::kLocal), "local");
  EXPECT_EQ(name(Mode::kFleet), "fleet");
  EXPECT_EQ(name(Mode::kFallback), "fallback");
}

class FleetQuotaTest : public RedisBucketTest {
 protected:
  // Ten tokens that hardly refill; a breaker that tries again early.
  FleetQuota::Config config() const {
    FleetQuota::Config config{.bucket = config_of(server_.url())};
    config.bucket.capacity = 10;
    config.bucket.refill_rate = 1e-4;
    config.bucket.breaker.open_for = 100ms;
    return config;
  }
  std::unique_ptr<FleetQuota> make(const FleetQuota::Config& config) {
    return FleetQuota::create(config, time_.source()).value();
  }
  std::unique_ptr<FleetQuota> make(Fallback fallback) {
    FleetQuota::Config config = this->config();
    config.fallback = fallback;
    return make(config);
  }
};

// S2.5
TEST_F(FleetQuotaTest, LimitsAllManagersOfAnEnvironmentTogether) {
  const auto getenv = environment(
      {{"REDIS_URL", server_.url()}, {"TOKEN_BUCKET_SIZE", "20"}, {"TOKEN_REFILL_RATE", "0.001"}});
  RealTime<SlowClock> time;
  const auto one = FleetQuota::from_environment(getenv, time.source()).value();
  const auto two = FleetQuota::from_environment(getenv, time.source()).value();
  EXPECT_EQ(one->check_and_consume("agent-123", 12), true);
  EXPECT_EQ(two->check_and_consume("agent-123", 12), false);
  EXPECT_EQ(two->check_and_consume("agent-123", 8), true);
  EXPECT_EQ(one->check_and_consume("agent-123", 1), false);

  // S2.8
  const auto status = one->status();
  EXPECT_EQ(status.mode, Mode::kFleet);
  EXPECT_TRUE(status.redis.connected);
  EXPECT_EQ(status.redis.breaker, State::kClosed);
  EXPECT_EQ(status.by_redis.admitted, 1U);
  EXPECT_EQ(status.by_redis.refused, 1U);
  EXPECT_EQ(status.otherwise.admitted + status.otherwise.refused, 0U);
}

// S2.3
TEST_F(FleetQuotaTest, DecidesLocallyWhenConnectingFailsAndByRedisOnceItIsThere) {
  server_.kill();
  const auto quota = make(Fallback::kLocal);
  EXPECT_EQ(quota->check_and_consume("a", 9), true);
  EXPECT_EQ(quota->check_and_consume("a", 2), false);
  EXPECT_EQ(quota->check_and_consume("b", 10), true);
  auto status = quota->status();
  EXPECT_EQ(status.mode, Mode::kFallback);
  EXPECT_FALSE(status.redis.connected);
  EXPECT_EQ(status.redis.failures, 3U);
  EXPECT_EQ(status.otherwise.admitted, 2U);
  EXPECT_EQ(status.otherwise.refused, 1U);
  EXPECT_EQ(quota->check_and_consume("b", 1), false);  // with the breaker open

  server_.start();
  until([&] { return quota->status().mode == Mode::kFleet; });
  EXPECT_EQ(quota->check_and_consume("b", 10), true);
  EXPECT_EQ(quota->status().by_redis.admitted, 1U);
}

// S2.3
TEST_F(FleetQuotaTest, GivesAllAgentsOneLocalBucketIfSetSo) {
  server_.kill();
  FleetQuota::Config config = this->config();
  config.local_scope = Scope::kAllAgents;
  const auto quota = make(config);
  EXPECT_EQ(quota->check_and_consume("a", 6), true);
  EXPECT_EQ(quota->check_and_consume("b", 6), false);
}

TEST_F(FleetQuotaTest, DeniesOrAdmitsEverythingIfSetSo) {
  server_.kill();
  const auto deny = make(Fallback::kDeny);
  const auto open = make(Fallback::kOpen);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(deny->check_and_consume("a", 1).error(), Errc::kUnavailable);
    EXPECT_EQ(open->check_and_consume("a", 1), true);
  }
  EXPECT_EQ(deny->status().otherwise.refused, 20U);
  EXPECT_EQ(open->status().otherwise.admitted, 20U);
}

TEST_F(FleetQuotaTest, DoesNotFallBackForACallersMistake) {
  const auto quota = make(Fallback::kOpen);
  EXPECT_EQ(quota->check_and_consume("a b", 1).error(), Errc::kInvalidConfig);
  EXPECT_EQ(quota->check_and_consume("a", 0).error(), Errc::kInvalidCost);
  EXPECT_EQ(quota->check_and_consume("a", 11).error(), Errc::kNeverFits);
  server_.kill();
  EXPECT_EQ(quota->check_and_consume("a b", 1).error(), Errc::kInvalidConfig);
  EXPECT_EQ(quota->check_and_consume("a", 11).error(), Errc::kNeverFits);
}

// S2.4: ten threads decide on, at the price of one time-out for all of them; nobody waits for the
// probes that follow.
TEST_F(FleetQuotaTest, AFrozenRedisCostsAllThreadsOneTimeOut) {
  FleetQuota::Config config = this->config();
  config.bucket.timeout = 1s;
  const auto quota = make(config);
  ASSERT_EQ(quota->check_and_consume("a", 1), true);
  server_.freeze();
  const Instant start = time_.clock.now();
  in_threads(10, [&](int) {
    for (int i = 0; i < 30; ++i) EXPECT_TRUE(quota->check_and_consume("a", 1));
  });
  // Half open the breaker is for its probe, and no caller fails.
  const std::uint64_t failures = quota->status().redis.failures;
  until([&] {
    EXPECT_TRUE(quota->check_and_consume("a", 1));
    return quota->status().redis.breaker_opened >= 5;
  });
  EXPECT_LT(time_.clock.now() - start, 20s) << "one by one it would be 30 s";
  EXPECT_EQ(quota->status().redis.failures, failures);
  EXPECT_EQ(quota->status().mode, Mode::kFallback);
  EXPECT_EQ(quota->status().by_redis.admitted, 1U);
  EXPECT_EQ(quota->status().otherwise.admitted, 10U);

  server_.thaw();
  until([&] { return quota->status().mode == Mode::kFleet; });
  const auto before = quota->status().by_redis;
  EXPECT_TRUE(quota->check_and_consume("b", 1));
  EXPECT_EQ(quota->status().by_redis.admitted, before.admitted + 1);
}

// S2.4
TEST_F(FleetQuotaTest, NeverStopsDecidingWhileRedisComesAndGoes) {
  FleetQuota::Config config = this->config();
  config.bucket.timeout = 300ms;
  const auto quota = make(config);
  std::atomic<bool> over = false;
  std::atomic<std::uint64_t> decided = 0;
  std::jthread caller{[&] {
    while (!over) {
      EXPECT_TRUE(quota->check_and_consume("a", 1));
      ++decided;
    }
  }};
  for (int round = 0; round < 3; ++round) {
    until([&] { return quota->status().mode == Mode::kFleet; });
    round % 2 == 0 ? server_.kill() : server_.freeze();
    until([&] { return quota->status().redis.breaker != State::kClosed; });
    const std::uint64_t now = decided;
    until([&] { return decided > now + 100; });
    round % 2 == 0 ? server_.start() : server_.thaw();
  }
  until([&] { return quota->status().mode == Mode::kFleet; });
  over = true;
}

TEST_F(FleetQuotaTest, DecidesWithoutAThread) {
  const auto quota = make(Fallback::kLocal);
  std::atomic<int> admitted = 0;
  std::atomic<int> refused = 0;
  const auto ask = [&](int times) {
    const int all = admitted + refused + times;
    for (int i = 0; i < times; ++i) {
      quota->check_and_consume_async(
          "a", 1, [&](Result<bool> got) { ++(got.value() ? admitted : refused); });
    }
    until([&] { return admitted + refused == all; });
  };
  ask(20);
  EXPECT_EQ(admitted, 10);
  server_.kill();
  until([&] { return quota->status().mode == Mode::kFallback; });
  ask(20);
  EXPECT_EQ(admitted, 20);
}

TEST_F(FleetQuotaTest, TheCleanUpEndsWhatIsUnderWay) {
  const auto quota = make(config());
  server_.freeze();
  std::atomic<int> closed = 0;
  for (int i = 0; i < 10; ++i) {
    quota->check_and_consume_async(
        "a", 1, [&](Result<bool> got) { closed += !got && got.error() == Errc::kClosed ? 1 : 0; });
  }
  quota->cleanup();
  until([&] { return closed == 10; });
  EXPECT_EQ(quota->check_and_consume("a", 1).error(), Errc::kClosed);
}

// S2.8
TEST_F(FleetQuotaTest, ShowsNoPassword) {
  cli({"CONFIG", "SET", "requirepass", "right"});
  FleetQuota::Config config = this->config();
  config.bucket.redis_url = "redis://:hunter2@127.0.0.1:" + std::to_string(server_.port());
  const auto quota = make(config);
  EXPECT_EQ(quota->check_and_consume("a", 1), true);  // locally
  const auto status = quota->status();
  EXPECT_FALSE(status.redis.connected);
  EXPECT_NE(status.redis.failure, "");
  EXPECT_FALSE(status.redis.failure.contains("hunter2")) << status.redis.failure;
}

}  // namespace
}  // namespace weir::fleet
