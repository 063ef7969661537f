// Limiters under real threads: nothing is lost, nothing is over, nobody hangs.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "limiter/moving_time.h"
#include "weir/limiter/memory_limiter.h"
#include "weir/limiter/provider_limiter.h"
#include "weir/limiter/rate_limiter.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

template <class F>
void in_threads(int count, F f) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&f, i] { f(i); });
}

// S1.9: at 100 a second, in simulated time: 1,000 permits take 9.99 s.
TEST(RateLimiterThreads, TenTimesAHundredAcquiresAllComplete) {
  MovingTime time;
  const Instant start = time.now();
  RateLimiter limiter = RateLimiter::create(100.0, time.source()).value();
  std::atomic<int> acquired = 0;
  time.run([&] {
    in_threads(10, [&](int) {
      for (int i = 0; i < 100; ++i) acquired += limiter.acquire() ? 1 : 0;
    });
  });
  EXPECT_EQ(acquired, 1'000);
  EXPECT_EQ(time.now() - start, 9'990ms);
  EXPECT_EQ(limiter.metrics().total_acquired, 1'000U);
}

// S1.9: the same in real time, at a rate that does not keep a test waiting.
TEST(RateLimiterThreads, TenTimesAHundredAcquiresAllCompleteInRealTime) {
  RateLimiter limiter = RateLimiter::create(20'000.0).value();
  const Instant start = TimeSource::system().clock.now();
  std::atomic<int> acquired = 0;
  in_threads(10, [&](int) {
    for (int i = 0; i < 100; ++i) acquired += limiter.acquire() ? 1 : 0;
  });
  EXPECT_EQ(acquired, 1'000);
  EXPECT_GE(TimeSource::system().clock.now() - start, 999 * 50us - 10us);
}

// S1.2: attempts that contend for one word admit the burst and not one more.
TEST(RateLimiterThreads, ContendingAttemptsAdmitTheBurst) {
  SimulatedTime time;
  RateLimiter limiter = RateLimiter::with_burst(1.0, 1'000, time.source()).value();
  std::atomic<int> admitted = 0;
  in_threads(4, [&](int) {
    for (int i = 0; i < 1'000; ++i) admitted += limiter.try_acquire() ? 1 : 0;
  });
  EXPECT_EQ(admitted, 1'000);
  EXPECT_EQ(limiter.metrics().total_acquired, 1'000U);
  EXPECT_EQ(limiter.metrics().total_rejected, 3'000U);
}

// S1.5: cancelling, closing and serving at once; every wait ends once.
TEST(RateLimiterThreads, EveryWaitEndsOnceWhileItIsServedCancelledAndClosed) {
  RateLimiter limiter = RateLimiter::create(10'000.0).value();
  std::atomic<int> ended = 0;
  std::atomic<std::uint64_t> served = 0;
  in_threads(4, [&](int thread) {
    for (int i = 0; i < 250; ++i) {
      Ticket ticket = limiter.acquire_async(1, kEndOfTime, [&](const Result<Nanos>& waited) {
        ++ended;
        served += waited ? 1U : 0U;
      });
      if (i % 3 == 0) ticket.cancel();
    }
    if (thread == 0) limiter.close();
  });
  EXPECT_EQ(ended, 1'000);
  EXPECT_EQ(limiter.metrics().total_acquired, served);
}

// S0.6
TEST(MemoryLimiterThreads, TokensAreConservedAmongThreads) {
  SimulatedTime time;
  MemoryLimiter limiter{time.source()};
  ASSERT_TRUE(limiter.set_capacity("api", 5, 1h));
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  in_threads(8, [&](int) {
    for (int i = 0; i < 200; ++i) {
      ASSERT_TRUE(limiter.acquire("api"));
      const int now = ++inside;
      for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
      }
      --inside;
      limiter.release("api");
    }
  });
  EXPECT_LE(most, 5);
  EXPECT_EQ(limiter.capacity("api")->available, 5);
  EXPECT_EQ(limiter.capacity("api")->in_flight, 0);
}

// S0.3, S0.5: everything at once, then close.
TEST(MemoryLimiterThreads, ChangesRemovalsAndClosingRaceWithEverything) {
  auto limiter = std::make_unique<MemoryLimiter>();
  ASSERT_TRUE(limiter->set_capacity("api", 100, 10ms));
  std::atomic<int> strange = 0;
  in_threads(6, [&](int thread) {
    for (int i = 0; i < 300; ++i) {
      if (thread == 0) {
        (void)limiter->set_capacity("api", i % 7 == 0 ? 0 : 50 + i % 3 * 50, 10ms);
      } else if (thread == 1) {
        const auto capacity = limiter->capacity("api");
        if (capacity && (capacity->available > capacity->total || capacity->in_flight < 0)) {
          ++strange;
        }
      } else {
        const auto acquired = limiter->acquire("api");
        if (acquired) {
          limiter->release("api");
        } else if (acquired.error() != Errc::kResourceUnknown &&
                   acquired.error() != Errc::kClosed) {
          ++strange;
        }
      }
    }
    if (thread == 0) limiter->close();
  });
  EXPECT_EQ(strange, 0);
  limiter.reset();
}

// S3.2, S3.11: high load; never more than the slots, and every token accounted for.
TEST(ProviderLimiterThreads, NeverOverCommitsUnderLoad) {
  constexpr Amount kTokens = 10;
  SimulatedTime time;
  const auto limiter =
      ProviderLimiter::create("p", {.tokens_per_minute = 1'000'000, .max_concurrency = 3},
                              time.source())
          .value();
  std::atomic<int> active = 0;
  std::atomic<int> over = 0;
  std::atomic<Amount> spent = 0;
  in_threads(8, [&](int thread) {
    const std::string agent = "agent " + std::to_string(thread % 4);
    for (int i = 0; i < 200; ++i) {
      const auto permit = limiter->acquire({}, kTokens, agent);
      ASSERT_TRUE(permit);
      over += ++active > 3 ? 1 : 0;
      spent += kTokens;
      --active;
    }
  });
  EXPECT_EQ(over, 0);
  const ProviderStats stats = limiter->stats();
  EXPECT_EQ(stats.active_requests, 0);
  EXPECT_EQ(stats.available_tokens, stats.max_capacity - spent);
}

// S3.5, S3.11: slots leak, are taken back and come back late, while others wait and all is stopped.
TEST(ProviderLimiterThreads, StaleSlotsLateReleasesAndStopRace) {
  std::atomic<int> reclaimed = 0;
  const auto limiter =
      ProviderLimiter::create(
          "p", {.tokens_per_minute = 1'000'000'000, .max_concurrency = 2, .request_timeout = 20us},
          TimeSource::system(), [&](std::string_view) { ++reclaimed; })
          .value();
  std::atomic<int> permits = 0;
  in_threads(5, [&](int thread) {
    std::vector<Permit> leaked;
    for (int i = 0; i < 100; ++i) {
      auto permit = limiter->acquire({}, 1, "agent " + std::to_string(thread));
      if (!permit) break;
      ++permits;
      if (i % 4 == 0) leaked.push_back(std::move(*permit));
    }
    if (thread == 0) limiter->stop();
  });
  EXPECT_GT(permits, 0);
  EXPECT_GT(reclaimed, 0);
  EXPECT_EQ(limiter->stats().active_requests, 0);
}

}  // namespace
}  // namespace weir
