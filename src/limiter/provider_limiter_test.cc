#include "weir/limiter/provider_limiter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "limiter/moving_time.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

struct ProviderLimiterTest : testing::Test {
  SimulatedTime time;
  const Instant start = time.now();
  std::vector<std::string> log;
  std::unique_ptr<ProviderLimiter> limiter;
  // Who was admitted, in order, with the permit; and how the others ended.
  std::vector<std::pair<std::string, Permit>> admitted;
  std::vector<Errc> refused;

  // Before `admitted` dies, whose permits would serve those who still wait.
  void TearDown() override {
    if (limiter) limiter->stop();
  }

  void open(Amount tokens_per_minute, Amount max_concurrency, Nanos request_timeout = 3min) {
    limiter = ProviderLimiter::create("anthropic",
                                      {.tokens_per_minute = tokens_per_minute,
                                       .max_concurrency = max_concurrency,
                                       .request_timeout = request_timeout},
                                      time.source(),
                                      [this](std::string_view line) { log.emplace_back(line); })
                  .value();
  }
  Ticket ask(Amount tokens, const std::string& agent) {
    return limiter->acquire_async(tokens, agent, kEndOfTime, [this, agent](Result<Permit> permit) {
      if (permit) {
        admitted.emplace_back(agent, std::move(*permit));
      } else {
        refused.push_back(permit.error().code);
      }
    });
  }
  Permit take(Amount tokens, std::string_view agent = "agent") {
    return limiter->try_acquire(tokens, agent).value();
  }
  Amount available() const { return limiter->stats().available_tokens; }
};

// S3.1
TEST_F(ProviderLimiterTest, HoldsNinetyPercentAndStartsFull) {
  for (const auto& [tokens_per_minute, most] : {std::pair<Amount, Amount>{300'000, 270'000},
                                                {100'000, 90'000},
                                                {10, 9},
                                                {15, 13},
                                                {19, 17}}) {
    open(tokens_per_minute, 5);
    EXPECT_EQ(limiter->stats().max_capacity, most);
    EXPECT_EQ(available(), most);
  }
}

// S3.1
TEST_F(ProviderLimiterTest, GetsATenthEverySixSecondsAndNoneBetween) {
  open(300'000, 5);
  take(270'000);
  const std::vector<std::pair<Nanos, Amount>> timeline{
      {0s, 0},        {6s - 1ns, 0},  {6s, 30'000},   {12s - 1ns, 30'000}, {12s, 60'000},
      {53s, 240'000}, {54s, 270'000}, {60s, 270'000}, {1h + 3s, 270'000}};
  for (const auto& [at, tokens] : timeline) {
    time.advance_to(start + at);
    EXPECT_EQ(available(), tokens) << at.count() << " ns";
  }
  take(270'000);
  time.advance(3s);
  EXPECT_EQ(available(), 30'000) << "the steps keep their places";
}

// S3.1: in any minute at most the bucket and the refills crossed.
TEST_F(ProviderLimiterTest, NeverAdmitsMoreThanTheBucketAndItsRefills) {
  open(1'000, 100);
  Amount spent = 0;
  for (Nanos at{0}; at <= 10min; at += 500ms) {
    time.advance_to(start + at);
    while (const auto permit = limiter->try_acquire(7, "a")) spent += 7;
    ASSERT_LE(spent, 900 + at / 6s * 100);
  }
  EXPECT_GE(spent, 900 + 100 * 100 - 7);
}

// S3.2
TEST_F(ProviderLimiterTest, TokensAreConsumedAndSlotsBorrowed) {
  open(1'000, 2);
  Permit permit = take(400);
  EXPECT_EQ(limiter->stats().active_requests, 1);
  EXPECT_EQ(available(), 500);
  permit.release();
  EXPECT_EQ(limiter->stats().active_requests, 0);
  EXPECT_EQ(available(), 500);
}

// S3.2: who waits for a slot has taken no tokens, so nothing is over-committed.
TEST_F(ProviderLimiterTest, TokensAndSlotAreTakenTogetherOrNotAtAll) {
  open(100'000, 5);
  std::vector<Permit> busy;
  for (int i = 0; i < 5; ++i) busy.push_back(take(0));
  ask(90'000, "a");
  ask(50'000, "a");
  EXPECT_EQ(available(), 90'000);
  time.advance(1min);
  EXPECT_EQ(available(), 90'000);
  EXPECT_TRUE(admitted.empty());

  busy.pop_back();
  EXPECT_EQ(admitted.size(), 1U);
  EXPECT_EQ(available(), 0);
  busy.pop_back();
  EXPECT_EQ(limiter->stats().active_requests, 4) << "who waits for tokens holds no slot";
  time.advance(30s);
  EXPECT_EQ(admitted.size(), 2U);
  EXPECT_EQ(limiter->stats().active_requests, 5);
}

// S3.3
TEST_F(ProviderLimiterTest, ARequestLargerThanTheBucketFailsAtOnce) {
  open(300'000, 5);
  const auto never = limiter->acquire({}, 270'001, "agent");
  ASSERT_FALSE(never);
  EXPECT_EQ(never.error(), Errc::kNeverFits);
  EXPECT_NE(never.error().message.find("anthropic"), std::string::npos) << never.error().message;
  EXPECT_NE(never.error().message.find("tokens"), std::string::npos) << never.error().message;
  ask(270'001, "a");
  EXPECT_EQ(refused, std::vector<Errc>{Errc::kNeverFits});
  const auto attempt = limiter->try_acquire(270'001, "a");
  ASSERT_FALSE(attempt);
  EXPECT_EQ(attempt.error().kind, Refusal::Kind::kNever);
  EXPECT_TRUE(limiter->try_acquire(270'000, "a"));
  EXPECT_EQ(limiter->acquire({}, -1, "a").error(), Errc::kInvalidCost);
}

// S3.4
TEST_F(ProviderLimiterTest, APermitGivesItsSlotBackOnceOnEveryWayOut) {
  open(1'000, 1);
  const auto active = [&] { return limiter->stats().active_requests; };
  {
    const Permit held = take(0);
  }
  EXPECT_EQ(active(), 0) << "end of scope";
  try {
    const Permit held = take(0);
    throw 0;
  } catch (int) {
  }
  EXPECT_EQ(active(), 0) << "exception";
  Permit first = take(0);
  Permit moved = std::move(first);
  EXPECT_EQ(active(), 1);
  moved.release();
  moved.release();
  first.release();  // NOLINT: a moved-from permit holds nothing
  EXPECT_EQ(active(), 0);
  const Permit second = take(0);
  moved.release();
  EXPECT_EQ(active(), 1) << "the slot is another's now";
  first = Permit{};
  moved = Permit{};
  EXPECT_EQ(active(), 1);
}

// S3.4: blocking, in a real thread.
TEST(ProviderLimiterBlocking, AcquireWaitsForTheNextRefill) {
  MovingTime time;
  const Instant start = time.now();
  const auto limiter =
      ProviderLimiter::create("p", {.tokens_per_minute = 100, .max_concurrency = 2}, time.source())
          .value();
  time.run([&] {
    EXPECT_TRUE(limiter->acquire({}, 90, "a"));
    EXPECT_TRUE(limiter->acquire({}, 15, "a"));
  });
  EXPECT_EQ(time.now() - start, 12s);
}

// S3.4: a real thread that is cancelled.
TEST_F(ProviderLimiterTest, AcquireEndsWhenCancelled) {
  open(1'000, 1);
  const Permit held = take(100);
  std::stop_source cancel;
  Result<Permit> permit;
  std::thread thread{[&] { permit = limiter->acquire(cancel.get_token(), 100, "a"); }};
  cancel.request_stop();
  thread.join();
  EXPECT_EQ(permit.error(), Errc::kCancelled);
  EXPECT_EQ(available(), 800);
}

// S3.5
TEST_F(ProviderLimiterTest, AStaleSlotIsTakenBackWhenSlotsAreFullAndTheLogSaysWhose) {
  open(1'000, 2, 3min);
  Permit leaked = take(0, "agent-7");
  time.advance(2min);
  const Permit fresh = take(0, "agent-8");
  time.advance(4min);
  EXPECT_FALSE(limiter->try_acquire(0, "agent-9")) << "exactly twice the timeout is not longer";
  EXPECT_TRUE(log.empty());
  time.advance(1s);
  EXPECT_TRUE(log.empty()) << "nobody asks for a slot";
  const Permit next = take(0, "agent-9");
  EXPECT_EQ(log, std::vector<std::string>{"anthropic: took back a slot that agent \"agent-7\" has "
                                          "held for 361 s without releasing it"});
  EXPECT_EQ(limiter->stats().active_requests, 2);

  leaked.release();
  EXPECT_EQ(limiter->stats().active_requests, 2) << "a late release changes nothing";
  EXPECT_FALSE(limiter->try_acquire(0, "agent-9"));
}

// S3.5
TEST_F(ProviderLimiterTest, SlotsAreNotTakenBackWhileThereIsAFreeOne) {
  open(1'000, 2, 1s);
  const Permit old = take(0, "slow");
  time.advance(1h);
  const Permit other = take(0, "other");
  EXPECT_EQ(limiter->stats().active_requests, 2);
  EXPECT_TRUE(log.empty());
}

// S3.5: whoever waits for the slot gets it without asking again.
TEST_F(ProviderLimiterTest, AWaiterGetsTheStaleSlotWhenItsTimeIsOver) {
  open(1'000, 1, 3min);
  const Permit leaked = take(0, "agent-7");
  ask(10, "agent-8");
  time.advance(6min);
  EXPECT_TRUE(admitted.empty());
  time.advance(1ns);
  ASSERT_EQ(admitted.size(), 1U);
  EXPECT_EQ(log.size(), 1U);
  time.advance(1h);
  EXPECT_EQ(log.size(), 1U) << "nobody waits for the new one's slot";
}

// S3.6
TEST_F(ProviderLimiterTest, CountsHowOftenTokensAndSlotsWereWaitedFor) {
  open(1'000, 2);
  EXPECT_EQ(limiter->stats().token_limit_hits, 0U);
  EXPECT_EQ(limiter->stats().concurrency_hits, 0U);
  ask(900, "a");
  ask(50, "b");  // waits for tokens
  EXPECT_EQ(limiter->stats().token_limit_hits, 1U);
  EXPECT_EQ(limiter->stats().concurrency_hits, 0U);
  time.advance(6s);
  ASSERT_EQ(admitted.size(), 2U);
  ask(50, "c");  // waits for a slot
  EXPECT_EQ(limiter->stats().token_limit_hits, 1U);
  EXPECT_EQ(limiter->stats().concurrency_hits, 1U);
  ask(900, "d");
  EXPECT_EQ(limiter->stats().concurrency_hits, 2U);
  time.advance(1min);
  EXPECT_EQ(limiter->stats().concurrency_hits, 2U) << "once a request, however long it waits";

  const ProviderStats stats = limiter->stats();
  EXPECT_EQ(stats.max_capacity, 900);
  EXPECT_EQ(stats.available_tokens, 900);
  EXPECT_EQ(stats.active_requests, 2);
  EXPECT_EQ(stats.max_concurrency, 2);
}

// S3.7
TEST(ProviderLimiters, HaveTheDocumentsDefaults) {
  const auto defaults = ProviderLimiters::defaults();
  ASSERT_EQ(defaults.size(), 3U);
  EXPECT_EQ(defaults.at("anthropic").tokens_per_minute, 300'000);
  EXPECT_EQ(defaults.at("anthropic").max_concurrency, 5);
  EXPECT_EQ(defaults.at("openai").tokens_per_minute, 100'000);
  EXPECT_EQ(defaults.at("openai").max_concurrency, 3);
  EXPECT_EQ(defaults.at("openai_official").tokens_per_minute, 150'000);
  EXPECT_EQ(defaults.at("openai_official").max_concurrency, 5);
  for (const auto& [provider, limits] : defaults) EXPECT_EQ(limits.request_timeout, 3min);
}

// S3.7
TEST(ProviderLimiters, RefuseLimitsAndNameProviderAndValue) {
  const std::pair<ProviderLimits, std::string> kBad[] = {
      {{.tokens_per_minute = 0, .max_concurrency = 1}, "tokens_per_minute"},
      {{.tokens_per_minute = -5, .max_concurrency = 1}, "-5"},
      {{.tokens_per_minute = 9, .max_concurrency = 1}, ": 9"},
      {{.tokens_per_minute = kAmountMax + 1, .max_concurrency = 1}, std::to_string(kAmountMax + 1)},
      {{.tokens_per_minute = 100, .max_concurrency = 0}, "max_concurrency"},
      {{.tokens_per_minute = 100, .max_concurrency = -3}, "-3"},
      {{.tokens_per_minute = 100, .max_concurrency = 1, .request_timeout = 0s}, "request_timeout"},
      {{.tokens_per_minute = 100, .max_concurrency = 1, .request_timeout = -1s}, "-1000000000"},
      {{.tokens_per_minute = 100, .max_concurrency = 1, .request_timeout = 401 * 24h},
       "request_timeout"},
  };
  for (const auto& [limits, named] : kBad) {
    const auto limiters = ProviderLimiters::create({{"mine", limits}});
    ASSERT_FALSE(limiters) << named;
    EXPECT_EQ(limiters.error(), Errc::kInvalidConfig);
    EXPECT_EQ(limiters.error().message.find("mine: "), 0U) << limiters.error().message;
    EXPECT_NE(limiters.error().message.find(named), std::string::npos) << limiters.error().message;
  }
}

// S3.1, S3.6: each provider is independent of the others.
TEST(ProviderLimiters, DoNotInterfere) {
  SimulatedTime time;
  const auto limiters =
      ProviderLimiters::create(ProviderLimiters::defaults(), time.source()).value();
  EXPECT_EQ(limiters.find("unknown"), nullptr);
  ProviderLimiter& anthropic = *limiters.find("anthropic");
  EXPECT_EQ(anthropic.provider(), "anthropic");
  const Permit held = anthropic.try_acquire(270'000, "a").value();
  EXPECT_FALSE(anthropic.try_acquire(1, "a"));
  const auto stats = limiters.stats();
  ASSERT_EQ(stats.size(), 3U);
  EXPECT_EQ(stats.at("anthropic").available_tokens, 0);
  EXPECT_EQ(stats.at("anthropic").active_requests, 1);
  EXPECT_EQ(stats.at("anthropic").token_limit_hits, 1U);
  EXPECT_EQ(stats.at("openai").available_tokens, 90'000);
  EXPECT_EQ(stats.at("openai").active_requests, 0);
  EXPECT_EQ(stats.at("openai").token_limit_hits, 0U);
}

// S3.11
TEST_F(ProviderLimiterTest, AgentsOfEqualDemandTakeTurns) {
  open(1'000'000, 1);
  std::optional<Permit> busy{take(0)};
  for (int i = 0; i < 12; ++i) ask(100, "greedy");
  for (int i = 0; i < 3; ++i) ask(100, "modest");
  for (int i = 0; i < 3; ++i) ask(100, "shy");
  busy.reset();
  std::map<std::string, int> served;
  while (!admitted.empty()) {
    auto [agent, permit] = std::move(admitted.back());
    admitted.clear();
    ++served[agent];
    if (served["modest"] == 3 && served["shy"] == 3) break;
  }
  EXPECT_EQ(served["modest"], 3);
  EXPECT_EQ(served["shy"], 3);
  EXPECT_LE(served["greedy"], 4);
}

// S3.11: shares of the tokens, not of the requests.
TEST_F(ProviderLimiterTest, LargeAndSmallRequestsGetEqualSharesOfTheTokens) {
  open(100'000, 1'000);
  const Permit all = take(90'000);
  for (int i = 0; i < 60; ++i) ask(1'000, "large");
  for (int i = 0; i < 600; ++i) ask(100, "small");
  time.advance(10 * 6s);  // a hundred thousand tokens, less what a full bucket cannot hold
  std::map<std::string, Amount> tokens;
  for (const auto& [agent, permit] : admitted) tokens[agent] += permit.cost()[Unit::kTokens];
  EXPECT_NEAR(static_cast<double>(tokens["large"]), static_cast<double>(tokens["small"]), 1'000);
  EXPECT_EQ(tokens["large"] + tokens["small"], 100'000);
}

// S3.11
TEST_F(ProviderLimiterTest, ALargeRequestIsNotOvertakenForEver) {
  open(100'000, 1'000);
  const Permit all = take(90'000);
  ask(90'000, "large");
  std::size_t steps = 0;
  for (; steps < 100 && std::ranges::find(admitted, "large",
                                          &std::pair<std::string, Permit>::first) == admitted.end();
       ++steps) {
    for (int i = 0; i < 10; ++i) ask(1'000, "small");
    time.advance(6s);
  }
  EXPECT_LE(steps, 18U) << "when the others have had as much";
}

// S3.11
TEST_F(ProviderLimiterTest, StopEndsEveryWaiterAndPermitsStayValid) {
  open(1'000, 1);
  Permit held = take(0);
  for (int i = 0; i < 5; ++i) ask(100, "a");
  limiter->stop();
  EXPECT_EQ(refused, std::vector<Errc>(5, Errc::kClosed));
  EXPECT_EQ(limiter->acquire({}, 1, "a").error(), Errc::kClosed);
  EXPECT_EQ(limiter->try_acquire(1, "a").error().code, Errc::kClosed);
  held.release();
  EXPECT_EQ(limiter->stats().active_requests, 0);
}

// S3.11
TEST(ProviderLimiters, StopEndsTheWaitersOfAllProviders) {
  SimulatedTime time;
  auto limiters = ProviderLimiters::create(ProviderLimiters::defaults(), time.source()).value();
  int closed = 0;
  std::vector<Permit> held;
  for (const auto& [provider, stats] : limiters.stats()) {
    ProviderLimiter& limiter = *limiters.find(provider);
    held.push_back(limiter.try_acquire(stats.max_capacity, "a").value());
    limiter.acquire_async(1, "a", kEndOfTime, [&](const Result<Permit>& permit) {
      closed += !permit && permit.error() == Errc::kClosed ? 1 : 0;
    });
  }
  limiters.stop();
  EXPECT_EQ(closed, 3);
}

TEST(ProviderLimiterLog, GoesToStandardErrorByDefault) {
  testing::internal::CaptureStderr();
  ProviderLimiter::log_to_stderr("a line");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "weir: a line\n");
}

}  // namespace
}  // namespace weir
