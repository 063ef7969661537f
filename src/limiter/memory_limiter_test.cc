#include "weir/limiter/memory_limiter.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "limiter/moving_time.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

// Names a token for each request: "a", "b", … in the order in which they were asked for.
struct MemoryLimiterTest : testing::Test {
  SimulatedTime time;
  const Instant start = time.now();
  std::unique_ptr<MemoryLimiter> memory = std::make_unique<MemoryLimiter>(time.source());
  ResourceLimiter& limiter = *memory;
  std::string ended;  // "a=… b=…"

  Ticket ask(char who, std::string_view resource = "api", Instant deadline = kEndOfTime) {
    return limiter.acquire_async(resource, deadline, [this, who](const Result<void>& result) {
      if (!ended.empty()) ended += ' ';
      ended += who;
      ended += '=' + (result ? std::to_string((time.now() - start) / 1ms) + "ms"
                             : std::string{name(result.error().code)});
    });
  }
  void take(int times, std::string_view resource = "api") {
    for (int i = 0; i < times; ++i) EXPECT_TRUE(limiter.try_acquire(resource));
  }
  Capacity capacity(std::string_view resource = "api") {
    return limiter.capacity(resource).value();
  }
};

// S0.2, S0.3
TEST_F(MemoryLimiterTest, ANewResourceStartsFull) {
  ASSERT_TRUE(limiter.set_capacity("openai-api", 60, 1min));
  const Capacity full = capacity("openai-api");
  EXPECT_EQ(full.resource, "openai-api");
  EXPECT_EQ(full.available, 60);
  EXPECT_EQ(full.total, 60);
  EXPECT_EQ(full.window, 1min);
  EXPECT_EQ(full.in_flight, 0);
  take(60, "openai-api");
  EXPECT_FALSE(limiter.try_acquire("openai-api"));
}

// S0.4
TEST_F(MemoryLimiterTest, FillsEvenlyAtCapacityByWindow) {
  ASSERT_TRUE(limiter.set_capacity("api", 10, 1s));
  take(10);
  time.advance(100ms - 1ns);
  EXPECT_FALSE(limiter.try_acquire("api"));
  time.advance(1ns);
  EXPECT_TRUE(limiter.try_acquire("api"));
  EXPECT_FALSE(limiter.try_acquire("api"));
  time.advance(350ms);
  EXPECT_EQ(capacity().available, 3);
  time.advance(1h);
  EXPECT_EQ(capacity().available, 10);
}

// S0.1, S0.6: one alarm, at the instant at which the token is due.
TEST_F(MemoryLimiterTest, AWaiterWakesWhenItsTokenIsDueAndNobodyPolls) {
  ASSERT_TRUE(limiter.set_capacity("api", 1, 1min));
  take(1);
  ask('a');
  ask('b');
  EXPECT_EQ(time.next_alarm(), start + 1min);
  time.advance(1min);
  EXPECT_EQ(ended, "a=60000ms");
  EXPECT_EQ(time.next_alarm(), start + 2min);
  time.advance(1min);
  EXPECT_EQ(ended, "a=60000ms b=120000ms");
  EXPECT_EQ(time.next_alarm(), std::nullopt);
}

// S0.1: blocking, in real threads on simulated time.
TEST(MemoryLimiterBlocking, AcquireBlocksUntilATokenIsDue) {
  MovingTime time;
  const Instant start = time.now();
  MemoryLimiter limiter{time.source()};
  ASSERT_TRUE(limiter.set_capacity("api", 10, 1s));
  time.run([&] {
    for (int i = 0; i < 15; ++i) EXPECT_TRUE(limiter.acquire("api"));
  });
  EXPECT_EQ(time.now() - start, 500ms);
  EXPECT_EQ(limiter.capacity("api")->in_flight, 15);
}

// S0.1, S0.5: the document's five seconds of patience.
TEST(MemoryLimiterBlocking, AcquireEndsAtItsDeadline) {
  MovingTime time;
  const Instant start = time.now();
  MemoryLimiter limiter{time.source()};
  ASSERT_TRUE(limiter.set_capacity("api", 1, 1min));
  ASSERT_TRUE(limiter.acquire("api"));
  const auto waited = time.run([&] { return limiter.acquire("api", {.deadline = start + 5s}); });
  EXPECT_EQ(waited.error(), Errc::kDeadlineExceeded);
  EXPECT_EQ(time.now() - start, 5s);
  EXPECT_EQ(limiter.capacity("api")->in_flight, 1);
}

// S0.1, S0.5: a real thread that is cancelled.
TEST_F(MemoryLimiterTest, AcquireEndsWhenCancelled) {
  ASSERT_TRUE(limiter.set_capacity("api", 1, 1min));
  take(1);
  std::stop_source stop;
  Result<void> waited;
  std::thread thread{[&] { waited = limiter.acquire("api", {.stop = stop.get_token()}); }};
  stop.request_stop();
  thread.join();
  EXPECT_EQ(waited.error(), Errc::kCancelled);
  EXPECT_EQ(time.now(), start);
}

// S0.5
TEST_F(MemoryLimiterTest, AWaitThatIsGivenUpLeavesNoTrace) {
  ASSERT_TRUE(limiter.set_capacity("api", 1, 1s));
  take(1);
  Ticket a = ask('a');
  ask('b', "api", start + 500ms);
  ask('c');
  a.cancel();
  time.advance(1s);
  EXPECT_EQ(ended, "a=cancelled b=deadline_exceeded c=1000ms");
  EXPECT_EQ(capacity().in_flight, 2);
}

// S0.4
TEST_F(MemoryLimiterTest, ReleaseGivesTheTokenBackForImmediateReuse) {
  ASSERT_TRUE(limiter.set_capacity("api", 2, 1min));
  take(2);
  EXPECT_EQ(capacity().in_flight, 2);
  ask('a');
  limiter.release("api");
  EXPECT_EQ(ended, "a=0ms") << "the waiter has it at once";
  EXPECT_EQ(capacity().in_flight, 2);
  limiter.release("api");
  EXPECT_EQ(capacity().in_flight, 1);
  EXPECT_EQ(capacity().available, 1);
  EXPECT_TRUE(limiter.try_acquire("api"));
}

// S0.4
TEST_F(MemoryLimiterTest, ReleaseNeverGoesPastTheTotalNorBelowZero) {
  ASSERT_TRUE(limiter.set_capacity("api", 5, 1s));
  limiter.release("api");
  EXPECT_EQ(capacity().available, 5);
  EXPECT_EQ(capacity().in_flight, 0);
  take(2);
  limiter.release("api");
  limiter.release("api");
  limiter.release("api");
  EXPECT_EQ(capacity().available, 5);
  EXPECT_EQ(capacity().in_flight, 0);

  take(3);
  time.advance(1s);
  EXPECT_EQ(capacity().available, 5) << "filled meanwhile";
  limiter.release("api");
  EXPECT_EQ(capacity().available, 5);
  EXPECT_EQ(capacity().in_flight, 2);
  take(5);
  EXPECT_FALSE(limiter.try_acquire("api")) << "a release into a full bucket is not saved up";
}

// S0.3
TEST_F(MemoryLimiterTest, AnExistingResourceKeepsItsTokensCappedAtTheNewTotal) {
  ASSERT_TRUE(limiter.set_capacity("api", 10, 10s));
  take(4);
  ASSERT_TRUE(limiter.set_capacity("api", 20, 10s));
  EXPECT_EQ(capacity().available, 6);
  EXPECT_EQ(capacity().total, 20);
  EXPECT_EQ(capacity().in_flight, 4);
  ASSERT_TRUE(limiter.set_capacity("api", 3, 6s));
  EXPECT_EQ(capacity().available, 3);
  EXPECT_EQ(capacity().total, 3);
  EXPECT_EQ(capacity().window, 6s);
  take(3);
  time.advance(2s);
  EXPECT_EQ(capacity().available, 1) << "at the new rate";
  for (int i = 0; i < 7; ++i) limiter.release("api");
  EXPECT_EQ(capacity().available, 3);
  EXPECT_EQ(capacity().in_flight, 0);
}

// S0.3
TEST_F(MemoryLimiterTest, SettingTheSameCapacityAgainMintsNothing) {
  ASSERT_TRUE(limiter.set_capacity("api", 3, 3s));
  take(3);
  for (int i = 0; i < 10; ++i) {
    time.advance(90ms);
    ASSERT_TRUE(limiter.set_capacity("api", 3, 3s));
  }
  EXPECT_FALSE(limiter.try_acquire("api"));
  time.advance(100ms);
  EXPECT_TRUE(limiter.try_acquire("api")) << "and loses nothing";
  EXPECT_FALSE(limiter.try_acquire("api"));
}

// S0.3: waiters follow the change.
TEST_F(MemoryLimiterTest, AWaiterIsServedAtTheRateOfTheDay) {
  ASSERT_TRUE(limiter.set_capacity("api", 1, 1min));
  take(1);
  ask('a');
  ask('b');
  ASSERT_TRUE(limiter.set_capacity("api", 10, 1s));
  time.advance(200ms);
  EXPECT_EQ(ended, "a=100ms b=200ms");
}

// S0.3, S0.5
TEST_F(MemoryLimiterTest, ACapacityOrWindowOfZeroOrLessRemovesTheResource) {
  const std::pair<Amount, Nanos> removals[] = {
      {0, 1min}, {-1, 1min}, {5, 0s}, {5, -1ns}, {std::numeric_limits<Amount>::min(), 1min}};
  for (const auto& [amount, window] : removals) {
    ended.clear();
    ASSERT_TRUE(limiter.set_capacity("api", 1, 1min));
    take(1);
    ask('a');
    ask('b');
    ASSERT_TRUE(limiter.set_capacity("api", amount, window));
    EXPECT_EQ(ended, "a=resource_unknown b=resource_unknown");
    EXPECT_EQ(limiter.capacity("api").error(), Errc::kResourceUnknown);
    EXPECT_EQ(limiter.acquire("api").error(), Errc::kResourceUnknown);
    EXPECT_FALSE(limiter.try_acquire("api"));
    EXPECT_TRUE(limiter.set_capacity("api", amount, window)) << "there is nothing to remove";
  }
}

// S0.3: what was in flight then is forgotten.
TEST_F(MemoryLimiterTest, AResourceThatComesBackIsNew) {
  ASSERT_TRUE(limiter.set_capacity("api", 2, 1min));
  take(2);
  ASSERT_TRUE(limiter.set_capacity("api", 0, 1min));
  ASSERT_TRUE(limiter.set_capacity("api", 2, 1min));
  EXPECT_EQ(capacity().available, 2);
  EXPECT_EQ(capacity().in_flight, 0);
  take(1);
  limiter.release("api");
  limiter.release("api");
  EXPECT_EQ(capacity().in_flight, 0);
  EXPECT_EQ(capacity().available, 2);
}

// S0.3: real threads that wait on a resource while it is removed.
TEST_F(MemoryLimiterTest, BlockedThreadsEndWhenTheirResourceIsRemoved) {
  ASSERT_TRUE(limiter.set_capacity("api", 1, 1min));
  take(1);
  std::vector<Result<void>> results(4);
  {
    std::vector<std::jthread> threads;
    for (auto& result : results) threads.emplace_back([&] { result = limiter.acquire("api"); });
    ASSERT_TRUE(limiter.set_capacity("api", 0, 1min));
  }
  for (const auto& result : results) EXPECT_EQ(result.error(), Errc::kResourceUnknown);
}

// S0.5
TEST_F(MemoryLimiterTest, AnUnknownResourceIsNamed) {
  const auto refused = limiter.acquire("nothing");
  EXPECT_EQ(refused.error(), Errc::kResourceUnknown);
  EXPECT_NE(refused.error().message.find("nothing"), std::string::npos);
  EXPECT_EQ(limiter.capacity("nothing").error(), Errc::kResourceUnknown);
  EXPECT_FALSE(limiter.try_acquire("nothing"));
  limiter.release("nothing");
  ask('a', "nothing");
  EXPECT_EQ(ended, "a=resource_unknown");
}

// S0.5
TEST_F(MemoryLimiterTest, ValuesAboveTheRangeAreRefusedAndChangeNothing) {
  ASSERT_TRUE(limiter.set_capacity("api", 5, 1s));
  const auto capacity_refused = limiter.set_capacity("api", kAmountMax + 1, 1s);
  EXPECT_EQ(capacity_refused.error(), Errc::kInvalidCapacity);
  EXPECT_NE(capacity_refused.error().message.find(std::to_string(kAmountMax + 1)),
            std::string::npos);
  const auto window_refused = limiter.set_capacity("api", 5, kPeriodMax + 1ns);
  EXPECT_EQ(window_refused.error(), Errc::kInvalidWindow);
  EXPECT_NE(window_refused.error().message.find(std::to_string((kPeriodMax + 1ns).count())),
            std::string::npos);
  EXPECT_EQ(capacity().total, 5);
  EXPECT_EQ(capacity().window, 1s);
  EXPECT_TRUE(limiter.set_capacity("api", kAmountMax, kPeriodMax));
  EXPECT_TRUE(limiter.set_capacity("new", kAmountMax, 1ns));
  EXPECT_TRUE(limiter.set_capacity("rare", 1, kPeriodMax));
}

// S0.5
TEST_F(MemoryLimiterTest, CloseWakesEveryWaiterAndRefusesFromThenOn) {
  ASSERT_TRUE(limiter.set_capacity("api", 1, 1min));
  ASSERT_TRUE(limiter.set_capacity("other", 1, 1min));
  take(1);
  take(1, "other");
  ask('a');
  ask('b', "other");
  limiter.close();
  EXPECT_NE(ended.find("a=closed"), std::string::npos);
  EXPECT_NE(ended.find("b=closed"), std::string::npos);
  limiter.close();
  EXPECT_EQ(limiter.acquire("api").error(), Errc::kClosed);
  EXPECT_EQ(limiter.capacity("api").error(), Errc::kClosed);
  EXPECT_EQ(limiter.set_capacity("api", 1, 1min).error(), Errc::kClosed);
  EXPECT_FALSE(limiter.try_acquire("api"));
  limiter.release("api");
  ended.clear();
  ask('c');
  EXPECT_EQ(ended, "c=closed");
}

// S0.5: real threads that wait while the limiter closes.
TEST_F(MemoryLimiterTest, BlockedThreadsEndWhenTheLimiterCloses) {
  ASSERT_TRUE(limiter.set_capacity("api", 1, 1min));
  take(1);
  std::vector<Result<void>> results(4);
  {
    std::vector<std::jthread> threads;
    for (auto& result : results) threads.emplace_back([&] { result = limiter.acquire("api"); });
    limiter.close();
  }
  for (const auto& result : results) EXPECT_EQ(result.error(), Errc::kClosed);
}

TEST_F(MemoryLimiterTest, DestroyingItEndsItsWaits) {
  ASSERT_TRUE(limiter.set_capacity("api", 1, 1min));
  take(1);
  ask('a');
  memory.reset();
  EXPECT_EQ(ended, "a=closed");
}

TEST_F(MemoryLimiterTest, AWaiterMayCallTheLimiterWhenItEnds) {
  ASSERT_TRUE(limiter.set_capacity("api", 1, 1s));
  take(1);
  int served = 0;
  std::move_only_function<void()> again = [&] {
    limiter.acquire_async("api", kEndOfTime, [&](const Result<void>& result) {
      if (!result) return;
      limiter.release("api");
      EXPECT_TRUE(limiter.set_capacity("api", 1, 1s));
      if (++served < 1'000) again();
    });
  };
  again();
  limiter.release("api");
  EXPECT_EQ(served, 1'000);
  limiter.acquire_async("api", kEndOfTime, [&](const Result<void>&) {
    EXPECT_TRUE(limiter.set_capacity("api", 0, 1s)) << "removes the resource it waited for";
  });
  EXPECT_EQ(limiter.capacity("api").error(), Errc::kResourceUnknown);
}

TEST_F(MemoryLimiterTest, ResourcesDoNotInterfere) {
  ASSERT_TRUE(limiter.set_capacity("one", 1, 1min));
  ASSERT_TRUE(limiter.set_capacity("two", 1, 1min));
  take(1, "one");
  EXPECT_FALSE(limiter.try_acquire("one"));
  EXPECT_TRUE(limiter.try_acquire("two"));
  EXPECT_EQ(capacity("one").in_flight, 1);
}

// S0.1: a swarm of one process has nobody to tell.
TEST_F(MemoryLimiterTest, AnnouncingChangesNothing) {
  ASSERT_TRUE(limiter.set_capacity("api", 100, 1min));
  limiter.announce_reduced("api", "received 429 response");
  limiter.announce_reduced("nothing", "");
  EXPECT_EQ(capacity().total, 100);
}

// S0.5: the names users see.
TEST(ResourceErrors, AreNamedAsPromised) {
  EXPECT_EQ(name(Errc::kClosed), "closed");
  EXPECT_EQ(name(Errc::kResourceUnknown), "resource_unknown");
  EXPECT_EQ(name(Errc::kCapacityExhausted), "capacity_exhausted");
  EXPECT_EQ(name(Errc::kInvalidCapacity), "invalid_capacity");
  EXPECT_EQ(name(Errc::kInvalidWindow), "invalid_window");
  EXPECT_EQ(name(Errc::kInvalidConfig), "invalid_config");
  EXPECT_EQ(name(Errc::kCancelled), "cancelled");
  EXPECT_EQ(name(Errc::kDeadlineExceeded), "deadline_exceeded");
}

}  // namespace
}  // namespace weir
