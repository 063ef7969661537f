// What an agent takes from the bus, and what it says there.
#include "weir/fleet/distributed_limiter.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "fleet/distributed_limiter_for_test.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using fleet::CapacityUpdate;
using fleet::kCapacitySubject;
using Status = DistributedLimiterStatus;

// S0.7
TEST_F(DistributedLimiterTest, RefusesAMissingBusOrAgentId) {
  const auto refused = [&](const DistributedLimiterConfig& config) {
    const auto made = DistributedLimiter::create(config, time.source());
    return !made && made.error() == Errc::kInvalidConfig && !made.error().message.empty();
  };
  EXPECT_TRUE(refused({.bus = nullptr, .agent_id = "a"}));
  EXPECT_TRUE(refused(config("")));
  EXPECT_TRUE(refused(config(std::string(201, 'a'))));
  EXPECT_TRUE(refused(config("a\nb")));
  EXPECT_TRUE(refused(config("\xff")));
  EXPECT_FALSE(refused(config(std::string(200, 'a'))));
}

TEST_F(DistributedLimiterTest, RefusesValuesOutOfRange) {
  const auto refused = [&](auto change) {
    DistributedLimiterConfig wrong = config("a");
    change(wrong);
    const auto made = DistributedLimiter::create(wrong, time.source());
    return !made && made.error() == Errc::kInvalidConfig && !made.error().message.empty();
  };
  for (const double factor : {0.0, 1.0, -0.5, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_TRUE(refused([&](auto& wrong) { wrong.reduce_factor = factor; })) << factor;
  }
  for (const double factor : {1.0, 0.5, 1e7, std::numeric_limits<double>::infinity()}) {
    EXPECT_TRUE(refused([&](auto& wrong) { wrong.recovery_factor = factor; })) << factor;
  }
  for (const Nanos interval : {Nanos{0}, Nanos{-1}, kPeriodMax + Nanos{1}}) {
    EXPECT_TRUE(refused([&](auto& wrong) { wrong.recovery_interval = interval; }));
  }
}

TEST_F(DistributedLimiterTest, SaysWhatTheBusSaysIfItCannotSubscribe) {
  bus->close();
  EXPECT_EQ(DistributedLimiter::create(config("a"), time.source()).error(), Errc::kClosed);
}

// S0.7
TEST_F(DistributedLimiterTest, LimitsLikeTheLimiterInMemory) {
  const auto a = agent("a");
  EXPECT_EQ(a->acquire("none").error(), Errc::kResourceUnknown);
  EXPECT_FALSE(a->try_acquire("none"));
  ASSERT_TRUE(a->set_capacity("two", 2, 10s));
  EXPECT_TRUE(a->acquire("two"));
  EXPECT_TRUE(a->try_acquire("two"));
  EXPECT_FALSE(a->try_acquire("two"));
  a->release("two");
  EXPECT_EQ(a->capacity("two").value().in_flight, 1);
  EXPECT_TRUE(a->try_acquire("two"));

  Result<void> waited = fail(Errc::kClosed);
  const Ticket ticket =
      a->acquire_async("two", kEndOfTime, [&](const Result<void>& result) { waited = result; });
  time.advance(5s);
  EXPECT_TRUE(waited);

  EXPECT_EQ(a->set_capacity("two", kAmountMax + 1, 1s).error(), Errc::kInvalidCapacity);
  EXPECT_EQ(a->set_capacity("two", 1, kPeriodMax + 1ns).error(), Errc::kInvalidWindow);
  EXPECT_EQ(total(*a, "two"), 2);
  EXPECT_TRUE(a->set_capacity("two", 0, 1s));
  EXPECT_EQ(a->capacity("two").error(), Errc::kResourceUnknown);
}

// S0.7
TEST_F(DistributedLimiterTest, OneAgentsCutIsTheWholeSwarms) {
  const auto a = agent("a");
  const auto b = agent("b");
  const auto c = agent("c");
  announce(*a);
  for (const auto* each : {a.get(), b.get(), c.get()}) {
    EXPECT_EQ(total(*each), 50);
    EXPECT_EQ(each->capacity("api").value().window, 1min);
  }
  EXPECT_EQ(a->status().own, 1U);
  EXPECT_EQ(a->status().published, 1U);
  EXPECT_EQ(b->status().applied, 1U);

  int admitted = 0;
  while (b->try_acquire("api")) ++admitted;
  EXPECT_EQ(admitted, 50);

  time.advance(1min);  // 50, 55, 60
  announce(*b);
  for (const auto* each : {a.get(), b.get(), c.get()}) EXPECT_EQ(total(*each), 30);
}

// S0.7
TEST_F(DistributedLimiterTest, SaysItInTheSwarmsWords) {
  std::vector<std::string> heard;
  const auto subscription =
      bus->subscribe("ratelimit.capacity",
                     [&](std::string_view payload) { heard.emplace_back(payload); })
          .value();
  const auto a = agent("agent-1");
  a->announce_reduced("api", "received 429 response");
  bus->settle();
  ASSERT_EQ(heard.size(), 1U);
  EXPECT_EQ(heard.front(),
            R"({"resource":"api","agent_id":"agent-1","new_capacity":50,)"
            R"("reason":"received 429 response","timestamp":"2025-01-01T00:00:00.000000000Z"})");
}

TEST_F(DistributedLimiterTest, TenAnswersOf429WithinAWindowAreOneEvent) {
  const auto a = agent("a");
  const auto b = agent("b");
  for (int i = 0; i < 10; ++i) {
    announce(i % 2 == 0 ? *a : *b);
    time.advance(1s);
  }
  EXPECT_EQ(total(*a), 50);
  EXPECT_EQ(total(*b), 50);
  EXPECT_EQ(a->status().published + b->status().published, 1U);

  time.advance(50s);  // the window of the first is over
  announce(*b);
  EXPECT_EQ(total(*b), 30);  // of 60
  EXPECT_EQ(total(*a), 30);
}

TEST_F(DistributedLimiterTest, CutsEachResourceByItself) {
  const auto a = agent("a");
  ASSERT_TRUE(a->set_capacity("other", 10, 1s));
  announce(*a);
  EXPECT_EQ(total(*a, "other"), 10);
  announce(*a, "other");
  EXPECT_EQ(total(*a, "other"), 5);
  time.advance(1s);
  announce(*a, "other");
  EXPECT_EQ(total(*a, "other"), 2);
  announce(*a, "none");
  EXPECT_EQ(a->status().published, 3U);
}

// S0.8: what becomes of each kind of update, at a capacity of 80 out of 100.
TEST_F(DistributedLimiterTest, TakesOnlyWhatLowers) {
  const auto a = noting_agent("a");
  say(cut_to(80, "first"));
  changes.clear();
  const Status before = a->status();
  const auto verdict = [&](std::uint64_t Status::* counter) {
    const Status status = a->status();
    const std::uint64_t judged = status.applied + status.own + status.malformed + status.stale +
                                 status.unknown + status.above + status.redundant;
    EXPECT_EQ(status.received, judged);
    return status.*counter - before.*counter;
  };
  say(cut_to(20, "a"));
  EXPECT_EQ(verdict(&Status::own), 1U);
  say(cut_to(101));
  say(cut_to(kAmountMax));
  EXPECT_EQ(verdict(&Status::above), 2U);
  say(cut_to(100, "b"));
  say(cut_to(81, "c"));
  say(cut_to(80, "d"));
  EXPECT_EQ(verdict(&Status::redundant), 3U);
  CapacityUpdate update = cut_to(20);
  update.resource = "none";
  say(update);
  EXPECT_EQ(verdict(&Status::unknown), 1U);
  EXPECT_EQ(verdict(&Status::applied), 0U);
  EXPECT_EQ(total(*a), 80);
  EXPECT_TRUE(changes.empty());

  say(cut_to(79, "e"));
  EXPECT_EQ(verdict(&Status::applied), 1U);
  EXPECT_EQ(total(*a), 79);
  EXPECT_EQ(changes, (std::vector<std::string>{"api 80>79 429 by e"}));
}

// S0.8
TEST_F(DistributedLimiterTest, CountsWhatIsMalformedAndIgnoresIt) {
  const auto a = agent("a");
  const std::string huge = R"({"resource":")" + std::string(60'000, 'r') + R"("})";
  const std::string deep = std::string(30'000, '[');
  std::vector<std::string> wrong{"", "{}", "50", "\xff\xfe", huge, deep};
  const std::string good = fleet::format_capacity_update(cut_to(50)).value();
  for (const auto& [part, other] :
       std::vector<std::pair<std::string, std::string>>{{":50", ":0"},
                                                        {":50", ":-5"},
                                                        {":50", ":10.5"},
                                                        {":50", ":99999999999999999999"},
                                                        {"2025-01-01", "yesterday"},
                                                        {"reason", "because"}}) {
    wrong.push_back(std::string{good}.replace(good.find(part), part.size(), other));
  }
  for (const std::string& payload : wrong) say(payload);
  EXPECT_EQ(a->status().malformed, wrong.size());
  EXPECT_EQ(a->status().received, wrong.size());
  EXPECT_EQ(total(*a), 100);
  say(cut_to(50));
  EXPECT_EQ(total(*a), 50);
}

TEST_F(DistributedLimiterTest, IgnoresWhatIsOlderThanTheSendersLast) {
  const auto a = agent("a");
  ASSERT_TRUE(a->set_capacity("other", 100, 1min));
  CapacityUpdate update = cut_to(50);
  update.timestamp = time.wall() + 5s;
  say(update);
  EXPECT_EQ(a->status().applied, 1U);

  update.new_capacity = 40;
  say(update);  // not the same, but of the same time
  update.timestamp -= 1ns;
  say(update);
  update.resource = "other";
  say(update);
  EXPECT_EQ(a->status().stale, 3U);
  EXPECT_EQ(total(*a), 50);
  EXPECT_EQ(total(*a, "other"), 100);

  update.timestamp += 10s;
  say(update);
  EXPECT_EQ(total(*a, "other"), 40);
  update.resource = "api";
  update.timestamp -= 1s;  // after the first, before the last
  say(update);
  EXPECT_EQ(a->status().stale, 4U);
  EXPECT_EQ(total(*a), 50);

  update.agent_id = "another";  // has its own time
  say(update);
  EXPECT_EQ(total(*a), 40);
}

// A clock of milliseconds tells two resources' cuts at one time.
TEST_F(DistributedLimiterTest, TakesTwoResourcesOfOneTime) {
  const auto a = agent("a");
  ASSERT_TRUE(a->set_capacity("other", 100, 1min));
  CapacityUpdate update = cut_to(50);
  say(update);
  update.resource = "other";
  say(update);
  EXPECT_EQ(total(*a), 50);
  EXPECT_EQ(total(*a, "other"), 50);
}

TEST_F(DistributedLimiterTest, AReplayDoesNotUndoARecovery) {
  const auto a = agent("a");
  const CapacityUpdate update = cut_to(50);
  say(update);
  for (int step = 0; step < 8; ++step) {
    time.advance(30s);
    say(update);
  }
  EXPECT_EQ(total(*a), 100);
  EXPECT_EQ(a->status().stale, 8U);
}

TEST_F(DistributedLimiterTest, IgnoresWhatIsNotOfThisTime) {
  const auto a = agent("a");
  CapacityUpdate update = cut_to(50, "slow");
  update.timestamp = time.wall() - 30s - 1ns;
  say(update);
  update = cut_to(50, "fast");
  update.timestamp = time.wall() + 30s + 1ns;
  say(update);
  EXPECT_EQ(a->status().stale, 2U);
  EXPECT_EQ(total(*a), 100);

  update = cut_to(50, "slow");
  update.timestamp = time.wall() - 30s;
  say(update);
  EXPECT_EQ(total(*a), 50);
  update = cut_to(40, "fast");  // the one too far ahead did not count as its last
  update.timestamp = time.wall() + 30s;
  say(update);
  EXPECT_EQ(total(*a), 40);
}

TEST_F(DistributedLimiterTest, RemembersAsManySendersAsItSays) {
  const auto a = agent("a");
  const auto from = [&](std::size_t sender) { return cut_to(90, std::to_string(sender)); };
  const auto say_from = [&](std::size_t first, std::size_t last) {
    for (std::size_t sender = first; sender < last; ++sender) {
      ASSERT_TRUE(
          bus->publish(kCapacitySubject, fleet::format_capacity_update(from(sender)).value()));
      if (sender % 1'000 == 0) bus->settle();
    }
    bus->settle();
  };
  say_from(0, DistributedLimiter::kSendersMax);
  EXPECT_EQ(a->status().received, DistributedLimiter::kSendersMax);
  say(from(0));
  EXPECT_EQ(a->status().stale, 1U);
  time.advance(1ns);
  say(from(0));  // has spoken: now 1 is silent for longest
  say(from(DistributedLimiter::kSendersMax));
  time.step_back(1ns);
  say(from(0));
  say(from(2));
  EXPECT_EQ(a->status().stale, 3U);
  say(from(1));
  EXPECT_EQ(a->status().stale, 3U) << "forgotten, so it is news";
}

}  // namespace
}  // namespace weir
