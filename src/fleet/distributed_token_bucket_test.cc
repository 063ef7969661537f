#include "weir/fleet/distributed_token_bucket.h"

#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <vector>

#include "fleet/redis_bucket_for_test.h"
#include "weir/time/simulated_time.h"

namespace weir::fleet {
namespace {

using namespace std::chrono_literals;
using State = CircuitBreaker::State;

constexpr double kHardlyAny = 1e-4;  // tokens a second: none within a test
constexpr int kThreads = 4;
constexpr Amount kHammered = 1500;

// Takes one token at a time until it has been refused 20 times.
Amount hammer(DistributedTokenBucket& bucket) {
  std::atomic<Amount> admitted = 0;
  in_threads(kThreads, [&](int) {
    for (int refused = 0; refused < 20;) {
      bucket.acquire("hammered", 1).value() ? void(++admitted) : void(++refused);
    }
  });
  return admitted;
}

// What this program does when it is run again by HammeredByProcessesAndThreads….
class OtherProcess final : public testing::Environment {
  void SetUp() override {
    const char* url = std::getenv("WEIR_TEST_HAMMER");
    if (url == nullptr) return;
    auto bucket = DistributedTokenBucket::create(
        {.redis_url = url, .capacity = kHammered, .refill_rate = kHardlyAny, .timeout = 20s});
    while (bucket.value()->available_tokens("start").value() != 0) nap();
    std::printf("admitted %lld\n", static_cast<long long>(hammer(**bucket)));
    std::fflush(stdout);
    _exit(0);
  }
};
const auto* const other_process = testing::AddGlobalTestEnvironment(new OtherProcess);

class DistributedTokenBucketTest : public RedisBucketTest {
 protected:
  // Tries again early.
  static Config eager(const std::string& url) {
    Config config = config_of(url);
    config.breaker.open_for = 100ms;
    return config;
  }
  std::unique_ptr<DistributedTokenBucket> make(const Config& config) {
    return DistributedTokenBucket::create(config, time_.source()).value();
  }
  static void open_breaker(DistributedTokenBucket& bucket) {
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(bucket.acquire("a", 1));
    EXPECT_EQ(bucket.status().breaker_opened, 1U);
  }
  static void until_back(DistributedTokenBucket& bucket) {
    until([&] { return bucket.status().breaker == State::kClosed; });
    EXPECT_TRUE(bucket.status().connected);
  }
};

// S2.1
TEST_F(DistributedTokenBucketTest, AdmitsWhatTheBucketHoldsAndIsFullAgainAfterAReset) {
  const auto bucket = this->bucket(100, kHardlyAny);
  EXPECT_EQ(bucket->available_tokens("a"), 100);
  EXPECT_EQ(bucket->acquire("a", 60), true);
  EXPECT_EQ(bucket->acquire("a", 60), false);
  EXPECT_EQ(bucket->available_tokens("a"), 40);
  EXPECT_EQ(bucket->acquire("a", 40), true);
  EXPECT_EQ(bucket->acquire("a", 1), false);
  EXPECT_EQ(bucket->acquire("b", 100), true);
  EXPECT_TRUE(bucket->reset("a"));
  EXPECT_EQ(bucket->available_tokens("a"), 100);
  EXPECT_EQ(bucket->available_tokens("b"), 0);
}

// S2.2
TEST_F(DistributedTokenBucketTest, WritesBothFieldsAlsoWhenItRefuses) {
  const auto bucket = this->bucket(10, 0.01);
  const double before = redis_now();
  ASSERT_EQ(bucket->acquire("a", 10), true);
  EXPECT_EQ(field("a", "tokens"), "0");
  const double admitted_at = number("a", "last_refill");
  EXPECT_GE(admitted_at, before - 1e-6);
  EXPECT_LE(admitted_at, redis_now() + 1e-6);

  ASSERT_EQ(bucket->acquire("a", 10), false);
  const double refused_at = number("a", "last_refill");
  EXPECT_GT(refused_at, admitted_at);
  EXPECT_NEAR(number("a", "tokens"), (refused_at - admitted_at) * 0.01, 1e-9);
  EXPECT_EQ(cli({"HLEN", "quota:a:tokens"}), "2");
}

// S2.2
TEST_F(DistributedTokenBucketTest, LookingWritesNothing) {
  const auto bucket = this->bucket(10, 1.0);
  EXPECT_EQ(bucket->available_tokens("a"), 10);
  EXPECT_EQ(cli({"EXISTS", "quota:a:tokens"}), "0");
  write("a", "3", "1000");
  EXPECT_EQ(bucket->available_tokens("a"), 10);
  EXPECT_EQ(field("a", "tokens"), "3");
  EXPECT_EQ(ttl("a"), -1);
}

// S2.2
TEST_F(DistributedTokenBucketTest, ExpiresAfterAnHourOrTheTimeToFillIfThatIsLonger) {
  ASSERT_EQ(bucket(1000, 10.0)->acquire("a", 1), true);
  EXPECT_LE(ttl("a"), 3600);
  EXPECT_GT(ttl("a"), 3500);
  const auto slow = bucket(1000, 0.003);
  ASSERT_EQ(slow->acquire("b", 1), true);
  EXPECT_LE(ttl("b"), 333'334);
  EXPECT_GT(ttl("b"), 333'200);
  cli({"EXPIRE", "quota:b:tokens", "5"});
  ASSERT_EQ(slow->acquire("b", 1000), false);  // renews it as well
  EXPECT_GT(ttl("b"), 333'200);
}

// S2.2: what was earned is what Redis's clock says, to the last fraction, whoever took it.
TEST_F(DistributedTokenBucketTest, EarnsItsRateByRedissClock) {
  constexpr double kRate = 500;
  const auto bucket = this->bucket(1'000'000, kRate);
  ASSERT_EQ(bucket->acquire("a", 1'000'000), true);
  const double start = number("a", "last_refill");
  std::atomic<int> admitted = 0;
  in_threads(kThreads, [&](int) {
    while (admitted < 300) admitted += bucket->acquire("a", 1).value() ? 1 : 0;
  });
  const double earned = (number("a", "last_refill") - start) * kRate;
  EXPECT_NEAR(earned, admitted + number("a", "tokens"), 1e-3);
  EXPECT_LE(admitted, earned + 1e-3);
}

TEST_F(DistributedTokenBucketTest, EarnsNoMoreThanItsCapacity) {
  const auto bucket = this->bucket(50, 10.0);
  write("a", "0", std::to_string(redis_now() - 3));
  EXPECT_GE(bucket->available_tokens("a").value(), 30);
  write("a", "0", std::to_string(redis_now() - 3600));
  EXPECT_EQ(bucket->available_tokens("a"), 50);
  write("a", "1e300", std::to_string(redis_now()));
  EXPECT_EQ(bucket->available_tokens("a"), 50);
}

// S2.2
TEST_F(DistributedTokenBucketTest, HammeredByProcessesAndThreadsAdmitsExactlyItsCapacity) {
  const auto bucket = this->bucket(kHammered, kHardlyAny);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = "WEIR_TEST_HAMMER='" + server_.url() + "' '" + self + "'";
  std::vector<FILE*> others;
  for (int i = 0; i < 3; ++i) others.push_back(popen(command.c_str(), "r"));
  const auto connected = [&] {
    std::istringstream list{cli({"CLIENT", "LIST"})};
    int named = 0;
    for (std::string line; std::getline(list, line);) named += line.contains("name=weir ") ? 1 : 0;
    return named == 4;
  };
  until(connected);
  ASSERT_EQ(bucket->acquire("start", kHammered), true);

  Amount admitted = hammer(*bucket);
  for (FILE* other : others) {
    ASSERT_NE(other, nullptr);
    std::string said(4096, '\0');
    said.resize(std::fread(said.data(), 1, said.size(), other));
    EXPECT_EQ(pclose(other), 0) << said;
    const auto at = said.find("admitted ");
    ASSERT_NE(at, said.npos) << said;
    admitted += std::strtoll(said.c_str() + at + 9, nullptr, 10);
  }
  EXPECT_EQ(admitted, kHammered);
  EXPECT_LT(number("hammered", "tokens"), 1);
}

// The script of the document, with the clock of whoever calls it.
constexpr const char* kOtherScript = R"(
  local capacity, refill_rate = tonumber(ARGV[1]), tonumber(ARGV[2])
  local requested, now = tonumber(ARGV[3]), tonumber(ARGV[4])
  local state = redis.call('HMGET', KEYS[1], 'tokens', 'last_refill')
  local tokens, last_refill = tonumber(state[1]) or capacity, tonumber(state[2]) or now
  local elapsed = now - last_refill
  tokens = math.min(capacity, tokens + elapsed * refill_rate)
  local granted = 0
  if tokens >= requested then
    tokens = tokens - requested
    granted = 1
  end
  redis.call('HMSET', KEYS[1], 'tokens', tostring(tokens), 'last_refill', tostring(now))
  redis.call('EXPIRE', KEYS[1], 3600)
  return granted
)";

// S2.2
TEST_F(DistributedTokenBucketTest, IsLimitedTogetherWithAnotherImplementation) {
  const auto bucket = this->bucket(20, kHardlyAny);
  const auto other = [&] {
    return cli({"EVAL", kOtherScript, "1", "quota:a:tokens", "20", std::to_string(kHardlyAny), "1",
                std::to_string(redis_now())}) == "1";
  };
  int ours = 0;
  int theirs = 0;
  for (int i = 0; i < 30; ++i) {
    ours += bucket->acquire("a", 1).value() ? 1 : 0;
    theirs += other() ? 1 : 0;
  }
  EXPECT_EQ(ours, 10);
  EXPECT_EQ(theirs, 10);

  cli({"DEL", "quota:a:tokens"});
  for (int i = 0; i < 15; ++i) ASSERT_TRUE(other());
  EXPECT_EQ(bucket->available_tokens("a"), 5);
  write("a", "2.5", std::to_string(redis_now()));
  EXPECT_EQ(bucket->acquire("a", 3), false);
  EXPECT_EQ(bucket->acquire("a", 2), true);
}

TEST_F(DistributedTokenBucketTest, MintsNothingOutOfGarbage) {
  const auto bucket = this->bucket(100, kHardlyAny);
  const std::string now = std::to_string(redis_now());
  for (const std::string bad : {"", "many", "nan", "-nan", "inf", "-inf", "1e999", "-7", "1,5"}) {
    write("a", bad, now);
    EXPECT_EQ(bucket->available_tokens("a"), 0) << bad;
    EXPECT_EQ(bucket->acquire("a", 1), false) << bad;
    EXPECT_LT(std::abs(number("a", "tokens")), 0.1) << bad;
  }
  for (const std::string bad : {"", "today", "nan", "inf", "-inf", "1e999"}) {
    write("a", "7", bad);
    EXPECT_EQ(bucket->acquire("a", 8), false) << bad;
    EXPECT_EQ(bucket->acquire("a", 7), true) << bad;
    EXPECT_NEAR(number("a", "last_refill"), redis_now(), 100) << bad;
  }
  cli({"HDEL", "quota:a:tokens", "tokens"});
  EXPECT_EQ(bucket->available_tokens("a"), 0);
  write("a", "7", now);
  cli({"HDEL", "quota:a:tokens", "last_refill"});
  EXPECT_EQ(bucket->available_tokens("a"), 7);
}

TEST_F(DistributedTokenBucketTest, ALastRefillInTheFutureIsKeptAndMintsNothing) {
  const auto bucket = this->bucket(100, 10.0);
  const double ahead = std::floor(redis_now()) + 3600;
  write("a", "7", std::to_string(ahead));
  EXPECT_EQ(bucket->available_tokens("a"), 7);
  EXPECT_EQ(bucket->acquire("a", 5), true);
  EXPECT_EQ(bucket->acquire("a", 3), false);
  EXPECT_EQ(number("a", "tokens"), 2);
  EXPECT_EQ(number("a", "last_refill"), ahead);
  EXPECT_GT(ttl("a"), 7000);  // an hour after that

  write("a", "7", "32503680000");  // the year 3000 is no clock's mistake
  EXPECT_EQ(bucket->acquire("a", 5), true);
  EXPECT_NEAR(number("a", "last_refill"), redis_now(), 100);
}

// S2.7
TEST_F(DistributedTokenBucketTest, NoIdReachesAnothersKey) {
  const auto bucket = this->bucket(5, kHardlyAny);
  const std::vector<std::string> ids = {
      "a",  "a:tokens", "quota:a", "quota:a:tokens",        ":",
      "a:", ":a",       "tokens",  "Agent_7.b-c@host/path", std::string(200, 'x')};
  for (const auto& id : ids) EXPECT_EQ(bucket->acquire(id, 5), true) << id;
  for (const auto& id : ids) EXPECT_EQ(bucket->acquire(id, 1), false) << id;
  EXPECT_EQ(cli({"DBSIZE"}), std::to_string(ids.size()));
  for (const auto& id : ids) EXPECT_EQ(cli({"EXISTS", "quota:" + id + ":tokens"}), "1") << id;
}

// S2.7
TEST_F(DistributedTokenBucketTest, RefusesBeforeRedisIsAsked) {
  server_.kill();
  const auto bucket = this->bucket(10, 1.0);
  EXPECT_EQ(bucket->acquire("", 1).error().message, "the agent's id is empty");
  EXPECT_EQ(bucket->acquire(std::string(201, 'x'), 1).error().message,
            "the agent's id has 201 bytes, more than 200");
  EXPECT_EQ(bucket->acquire("a{b}", 1).error().message,
            "the agent's id has the byte 0x7b at 1; letters, digits and -_.:@/ may be in it");
  using namespace std::string_view_literals;
  for (const std::string_view bad : {"a b"sv, "a\r\n"sv, "\0"sv, "}"sv, "*"sv, "\xc3\xa9"sv,
                                     "\x7f"sv, "a\"b"sv, "a\\b"sv, "[a]"sv, "a?b"sv}) {
    EXPECT_EQ(bucket->acquire(bad, 1).error(), Errc::kInvalidConfig) << bad;
    EXPECT_EQ(bucket->available_tokens(bad).error(), Errc::kInvalidConfig) << bad;
    EXPECT_EQ(bucket->reset(bad).error(), Errc::kInvalidConfig) << bad;
  }
  EXPECT_EQ(bucket->acquire("a", 0).error(), Errc::kInvalidCost);
  EXPECT_EQ(bucket->acquire("a", -1).error(), Errc::kInvalidCost);
  EXPECT_EQ(bucket->acquire("a", 11).error(), Errc::kNeverFits);
  EXPECT_EQ(bucket->status().failures, 0U);
}

TEST_F(DistributedTokenBucketTest, NamesTheValueItCannotUse) {
  const auto message = [&](auto change) {
    Config config = config_of(server_.url());
    change(config);
    auto made = DistributedTokenBucket::create(config, time_.source());
    EXPECT_TRUE(!made && made.error() == Errc::kInvalidConfig);
    return made ? "" : made.error().message;
  };
  EXPECT_EQ(message([](Config& c) { c.capacity = -4; }),
            "capacity must be from 1 to 1000000000000000: -4");
  EXPECT_EQ(message([](Config& c) { c.refill_rate = 0; }),
            "refill_rate must be above 0 and at most 1000000000 tokens a second: 0");
  EXPECT_EQ(message([](Config& c) { c.refill_rate = 1e-8; }),
            "refill_rate must fill a capacity of 1000 within 400 days: 1e-08");
  EXPECT_EQ(message([](Config& c) { c.timeout = 0ns; }),
            "timeout must be positive and at most 400 days: 0 ns");
  EXPECT_EQ(message([](Config& c) { c.connect_wait = -1ns; }),
            "connect_wait must be from 0 to 400 days: -1 ns");
  EXPECT_EQ(message([](Config& c) { c.breaker.failure_threshold = 0; }),
            "failure_threshold must be at least 1, not 0");
  EXPECT_NE(message([](Config& c) { c.redis_url = "gopher://x"; }), "");
}

TEST_F(DistributedTokenBucketTest, SurvivesAFlushOfTheScripts) {
  const auto bucket = this->bucket(10, kHardlyAny);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(bucket->acquire("a", 1), true);
    cli({"SCRIPT", "FLUSH"});
  }
  EXPECT_EQ(bucket->acquire("a", 1), false);
}

TEST_F(DistributedTokenBucketTest, AKeyThatIsNoBucketFailsItsAgentAlone) {
  const auto bucket = this->bucket(10, kHardlyAny);
  cli({"SET", "quota:a:tokens", "10"});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(bucket->acquire("a", 1).error(), Errc::kInvalidConfig);
  EXPECT_EQ(bucket->status().breaker, State::kClosed);
  EXPECT_EQ(bucket->acquire("b", 1), true);
  EXPECT_EQ(cli({"GET", "quota:a:tokens"}), "10");
}

// S2.4
TEST_F(DistributedTokenBucketTest, AFrozenRedisCostsOneTimeOutAndIsNoticedWhenItComesBack) {
  Config config = eager(server_.url());
  config.timeout = 1s;
  const auto bucket = make(config);
  ASSERT_EQ(bucket->acquire("a", 1), true);
  server_.freeze();
  EXPECT_EQ(bucket->acquire("a", 1).error(), Errc::kDeadlineExceeded);
  // Whoever waits for an answer is told kDeadlineExceeded.
  EXPECT_EQ(bucket->acquire("a", 1).error(), Errc::kUnavailable);
  EXPECT_EQ(bucket->acquire("a", 1).error(), Errc::kUnavailable);
  EXPECT_EQ(bucket->acquire("a", 1).error(), Errc::kBreakerOpen);
  EXPECT_FALSE(bucket->status().connected);
  EXPECT_EQ(bucket->status().failures, 3U);
  EXPECT_NE(bucket->status().failure, "");

  // Probes alone, and no caller, find it still frozen.
  until([&] { return bucket->status().breaker_opened >= 3; });
  EXPECT_EQ(bucket->status().failures, 3U);
  server_.thaw();
  until_back(*bucket);
  EXPECT_EQ(bucket->acquire("a", 1), true);
}

// S2.4
TEST_F(DistributedTokenBucketTest, ComesBackToARedisThatWasKilledAndRestarted) {
  const auto bucket = make(eager(server_.url()));
  ASSERT_EQ(bucket->acquire("a", 1000), true);
  for (int round = 0; round < 2; ++round) {
    server_.kill();
    until([&] { return !bucket->acquire("a", 1).has_value(); });
    until([&] { return bucket->status().breaker != State::kClosed || !bucket->acquire("a", 1); });
    server_.start();
    until([&] { return bucket->acquire("a", 1000).value_or(false); });
  }
  EXPECT_TRUE(bucket->status().connected);
}

TEST_F(DistributedTokenBucketTest, ConnectsToARedisThatComesUpLater) {
  server_.kill();
  const auto bucket = make(eager(server_.url()));
  EXPECT_EQ(bucket->acquire("a", 1).error(), Errc::kUnavailable);
  EXPECT_FALSE(bucket->status().connected);
  EXPECT_NE(bucket->status().failure, "");
  server_.start();
  until([&] { return bucket->acquire("a", 1).value_or(false); });
}

// S2.4: the document's numbers.
TEST_F(DistributedTokenBucketTest, OpensAfterThreeFailuresAndProbesEveryThirtySeconds) {
  server_.kill();
  SimulatedTime time;
  Config config{.redis_url = server_.url(), .connect_wait = 0ns};
  const auto bucket = DistributedTokenBucket::create(config, time.source()).value();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(bucket->status().breaker, State::kClosed);
    EXPECT_EQ(bucket->acquire("a", 1).error(), Errc::kUnavailable);
  }
  const auto opened = [&] { return bucket->status().breaker_opened; };
  for (std::uint64_t times = 1; times < 4; ++times) {
    EXPECT_EQ(bucket->acquire("a", 1).error(), Errc::kBreakerOpen);
    time.advance(30s - 1ns);
    EXPECT_EQ(opened(), times);
    EXPECT_EQ(bucket->status().breaker, State::kOpen);
    time.advance(1ns);
    until([&] { return opened() == times + 1; });
    EXPECT_EQ(bucket->status().breaker, State::kOpen);
  }
  EXPECT_EQ(bucket->status().failures, 3U);
}

TEST_F(DistributedTokenBucketTest, ARefusalOfTheServerIsAFailure) {
  const auto bucket = make(eager(server_.url()));
  cli({"CONFIG", "SET", "maxmemory", "1"});
  EXPECT_EQ(bucket->acquire("a", 1).error(), Errc::kUnavailable);
  EXPECT_TRUE(bucket->status().failure.contains("OOM")) << bucket->status().failure;
  cli({"CONFIG", "SET", "maxmemory", "0"});
  EXPECT_EQ(bucket->acquire("a", 1), true);
}

TEST_F(DistributedTokenBucketTest, SpeaksTlsWithAServerThatItsAuthorityVouchesFor) {
  const auto server = redis::RedisServer::with_tls("IP:127.0.0.1");
  Config config = config_of(server->url());
  EXPECT_EQ(make(config)->acquire("a", 1).error(), Errc::kUnavailable);
  config.ca_file = server->ca_file();
  EXPECT_EQ(make(config)->acquire("a", 1), true);
}

TEST_F(DistributedTokenBucketTest, NeedsNoMoreOfAUserThanItsKeys) {
  const auto set_user = [&](const std::string& name, const std::string& keys) {
    cli({"ACL", "SETUSER", name, "on", ">p:w", keys, "-@all", "+@scripting", "+@connection",
         "+info", "+time", "+hmget", "+hset", "+expire", "+del"});
    return "redis://" + name + ":p%3Aw@127.0.0.1:" + std::to_string(server_.port());
  };
  const auto bucket = make(config_of(set_user("quota", "~quota:*")));
  EXPECT_EQ(bucket->acquire("a", 1000), true);
  EXPECT_TRUE(bucket->reset("a"));
  EXPECT_EQ(bucket->available_tokens("a"), 1000);
  const auto other = make(config_of(set_user("other", "~other:*")));
  EXPECT_EQ(other->acquire("a", 1).error(), Errc::kUnavailable);
  EXPECT_TRUE(other->status().failure.contains("NOPERM")) << other->status().failure;
}

TEST_F(DistributedTokenBucketTest, AnswersEachOfManyCallersWithoutAThread) {
  const auto bucket = this->bucket(700, kHardlyAny);
  std::atomic<int> admitted = 0;
  std::atomic<int> refused = 0;
  for (int i = 0; i < 1000; ++i) {
    bucket->acquire_async("a", 1, [&](Result<bool> got) { ++(got.value() ? admitted : refused); });
  }
  until([&] { return admitted + refused == 1000; });
  EXPECT_EQ(admitted, 700);
}

TEST_F(DistributedTokenBucketTest, ClosingEndsWhatIsUnderWayAndAllThatComesLater) {
  const auto bucket = this->bucket(10, 1.0);
  ASSERT_EQ(bucket->acquire("a", 1), true);
  server_.freeze();
  std::atomic<int> closed = 0;
  for (int i = 0; i < 10; ++i) {
    bucket->acquire_async(
        "a", 1, [&](Result<bool> got) { closed += got.error() == Errc::kClosed ? 1 : 0; });
  }
  bucket->close();
  until([&] { return closed == 10; });
  EXPECT_EQ(bucket->acquire("a", 1).error(), Errc::kClosed);
  EXPECT_EQ(bucket->available_tokens("a").error(), Errc::kClosed);
  EXPECT_EQ(bucket->reset("a").error(), Errc::kClosed);
  bucket->close();
}

TEST_F(DistributedTokenBucketTest, ClosesWhileItsBreakerIsOpen) {
  server_.kill();
  const auto bucket = make(config_of(server_.url()));
  open_breaker(*bucket);
  bucket->close();
  EXPECT_EQ(bucket->acquire("a", 1).error(), Errc::kClosed);
}

TEST_F(DistributedTokenBucketTest, MayBeClosedByACallerWhoHasJustBeenAnswered) {
  const auto bucket = this->bucket(10, 1.0);
  std::atomic<bool> closed = false;
  bucket->acquire_async("a", 1, [&](Result<bool> got) {
    EXPECT_EQ(got, true);
    bucket->close();
    closed = true;
  });
  until([&] { return closed.load(); });
  EXPECT_EQ(bucket->acquire("a", 1).error(), Errc::kClosed);
}

}  // namespace
}  // namespace weir::fleet
