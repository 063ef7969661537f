// async_acquire by every kind of token, in simulated time. S1.5
#include "weir/asio/acquire.h"

#include <gtest/gtest.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "asio/loop.h"
#include "weir/limiter/memory_limiter.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;

struct AcquireTest : testing::Test {
  Loop loop;
  SimulatedTime& time = loop.time;
  const Instant start = time.now();
  std::unique_ptr<Gate> slots = gate({LimitSpec::concurrency(1)});
  const Request call;

  std::unique_ptr<Gate> gate(std::vector<LimitSpec> limits) {
    return Gate::create({.name = "gate", .limits = std::move(limits)}, time.source()).value();
  }
  std::unique_ptr<Gate> bucket(Rate rate, Amount burst) {
    return gate({LimitSpec::token_bucket(Unit::kRequests, rate, burst)});
  }
  // Until destroyed, nobody else has a slot.
  Permit only_slot() { return slots->try_acquire(call).value(); }
};

TEST_F(AcquireTest, ACallbackGetsThePermit) {
  Result<Permit> permit = fail(Errc::kUnavailable);
  async_acquire(*slots, call, asio::bind_executor(loop.io, [&](Result<Permit> granted) {
    permit = std::move(granted);
  }));
  loop.run();
  ASSERT_TRUE(permit);
  EXPECT_FALSE(slots->try_acquire(call));
  permit->release();
  EXPECT_TRUE(slots->try_acquire(call));
}

TEST_F(AcquireTest, AFutureGetsThePermit) {
  std::optional<Permit> held{only_slot()};
  std::future<Result<Permit>> permit =
      async_acquire(*slots, call, asio::bind_executor(loop.io, asio::use_future));
  loop.run();
  EXPECT_EQ(slots->metrics().waiting, 1U);
  held.reset();
  loop.run();
  EXPECT_TRUE(permit.get());
}

TEST_F(AcquireTest, ACoroutineAwaitsTheDefaultToken) {
  const auto gate = bucket({1, 1s}, 1);
  loop.get([](AcquireTest& test, Gate& limited) -> asio::awaitable<void> {
    for (int i = 0; i < 5; ++i) {
      const Result<Permit> permit = co_await async_acquire(limited, test.call);
      EXPECT_TRUE(permit);
      EXPECT_EQ(test.time.now() - test.start, i * 1s);
    }
  }(*this, *gate));
  EXPECT_EQ(time.now() - start, 4s);
}

TEST_F(AcquireTest, ACoroutineAwaitsUseAwaitable) {
  const auto waits = [&](Errc code) -> asio::awaitable<bool> {
    const Result<Permit> permit =
        co_await async_acquire(*slots, call, start + 3s, asio::use_awaitable);
    co_return !permit && permit.error() == code && time.now() == start + 3s;
  };
  const Permit held = only_slot();
  EXPECT_TRUE(loop.get(waits(Errc::kDeadlineExceeded)));
}

TEST_F(AcquireTest, ADeferredOperationOwnsItsArguments) {
  const auto launch_later = [&] {
    std::string agent(100, 'a');
    return async_acquire(*slots, {.agent = agent}, asio::deferred);
  };
  auto operation = launch_later();
  EXPECT_TRUE(slots->try_acquire(call)) << "nothing happens before it is launched";
  std::optional<Permit> held{only_slot()};
  std::future<Result<Permit>> permit =
      std::move(operation)(asio::bind_executor(loop.io, asio::use_future));
  held.reset();
  loop.run();
  EXPECT_TRUE(permit.get());
}

TEST_F(AcquireTest, DeferredOperationsChain) {
  std::future<Amount> tokens = async_acquire(
      *slots, {.cost = Cost::call(7)}, asio::deferred([](const Result<Permit>& permit) {
        return asio::deferred.values(permit->cost()[Unit::kTokens]);
      }))(asio::bind_executor(loop.io, asio::use_future));
  loop.run();
  EXPECT_EQ(tokens.get(), 7);
}

TEST_F(AcquireTest, TokensThatAdaptOthersWork) {
  loop.get([](AcquireTest& test) -> asio::awaitable<void> {
    auto [permit] =
        co_await async_acquire(*test.slots, test.call, asio::as_tuple(asio::use_awaitable));
    EXPECT_TRUE(permit);
  }(*this));
  async_acquire(*slots, call, asio::bind_executor(loop.io, asio::detached));
  loop.run();
  EXPECT_TRUE(slots->try_acquire(call)) << "a permit nobody took has been released";
}

TEST_F(AcquireTest, WithoutAnExecutorTheHandlerRunsOnTheSystemsOwn) {
  std::future<Result<Permit>> permit = async_acquire(*slots, call, asio::use_future);
  EXPECT_TRUE(permit.get());
}

TEST_F(AcquireTest, EveryKindOfLimiterHasIts) {
  const auto other = bucket({1, 1s}, 1);
  const std::array<Gate*, 2> both{slots.get(), other.get()};
  const Path path = Path::create(both).value();
  RateLimiter rate = RateLimiter::create(2.0, time.source()).value();
  MemoryLimiter resources{time.source()};
  ASSERT_TRUE(resources.set_capacity("api", 1, 1s));
  const auto provider =
      ProviderLimiter::create("p", {.tokens_per_minute = 100, .max_concurrency = 1}, time.source())
          .value();
  loop.get([](AcquireTest& test, const Path& way, RateLimiter& limiter, ResourceLimiter& named,
              ProviderLimiter& metered) -> asio::awaitable<void> {
    const SimulatedTime& clock = test.time;
    EXPECT_TRUE(co_await async_acquire(way, test.call));
    EXPECT_TRUE(co_await async_acquire(way, test.call, clock.now() + 1s));
    EXPECT_EQ(clock.now(), test.start + 1s);

    EXPECT_EQ(co_await async_acquire(limiter, 3), 0ns);
    EXPECT_EQ(co_await async_acquire(limiter, 1), 1500ms);
    EXPECT_EQ((co_await async_acquire(limiter, 1, clock.now() + 499ms)).error(),
              Errc::kDeadlineExceeded);
    EXPECT_EQ((co_await async_acquire(limiter, -1)).error(), Errc::kInvalidCost);

    EXPECT_TRUE(co_await async_acquire(named, "api"));
    EXPECT_EQ((co_await async_acquire(named, "api", clock.now() + 1ms)).error(),
              Errc::kDeadlineExceeded);
    EXPECT_EQ((co_await async_acquire(named, "another")).error(), Errc::kResourceUnknown);

    {
      const Result<Permit> held = co_await async_acquire(metered, 90, "agent");
      EXPECT_TRUE(held);
      EXPECT_EQ((co_await async_acquire(metered, 0, "agent", clock.now() + 1s)).error(),
                Errc::kDeadlineExceeded);
    }
    EXPECT_EQ((co_await async_acquire(metered, 91, "agent")).error(), Errc::kNeverFits);
  }(*this, path, rate, resources, *provider));
}

TEST_F(AcquireTest, ARefusalIsAValue) {
  const auto outcome = [&](const Request& request) {
    return loop.get(async_acquire(*slots, request, asio::use_awaitable)).error().code;
  };
  EXPECT_EQ(outcome({.cost = Cost::of(Unit::kSlots, 2)}), Errc::kNeverFits);
  EXPECT_EQ(outcome({.cost = Cost::of(Unit::kSlots, -1)}), Errc::kInvalidCost);
  slots->close();
  EXPECT_EQ(outcome(call), Errc::kClosed);
}

TEST_F(AcquireTest, ADestroyedGateEndsItsWaits) {
  auto gate = bucket({1, 1s}, 1);
  ASSERT_TRUE(gate->try_acquire(call));
  std::future<Result<Permit>> permit =
      async_acquire(*gate, call, asio::bind_executor(loop.io, asio::use_future));
  gate.reset();
  loop.run();
  EXPECT_EQ(permit.get().error(), Errc::kClosed);
}

TEST_F(AcquireTest, TheHandlerNeverRunsInsideTheInitiatingFunction) {
  bool ran = false;
  asio::post(loop.io, [&] {
    async_acquire(*slots, call,
                  asio::bind_executor(loop.io, [&](const Result<Permit>&) { ran = true; }));
    EXPECT_FALSE(ran);
    async_acquire(*slots, {.cost = Cost::of(Unit::kSlots, 2)},
                  asio::bind_executor(loop.io, [](const Result<Permit>&) {}));
  });
  loop.run();
  EXPECT_TRUE(ran);
}

TEST_F(AcquireTest, TheHandlerNeverRunsInsideTheReleaseThatServesIt) {
  bool ran = false;
  std::optional<Permit> held{only_slot()};
  async_acquire(*slots, call,
                asio::bind_executor(loop.io, [&](const Result<Permit>&) { ran = true; }));
  asio::post(loop.io, [&] {
    held.reset();
    EXPECT_FALSE(ran);
  });
  loop.run();
  EXPECT_TRUE(ran);
}

TEST_F(AcquireTest, TheHandlerRunsOnItsStrand) {
  auto strand = asio::make_strand(loop.io);
  int in_strand = 0;
  const auto gate = bucket({10, 1s}, 1);
  for (int i = 0; i < 10; ++i) {
    async_acquire(*gate, call, asio::bind_executor(strand, [&](const Result<Permit>&) {
      in_strand += strand.running_in_this_thread() ? 1 : 0;
    }));
  }
  loop.run();
  EXPECT_EQ(in_strand, 10);
}

TEST_F(AcquireTest, AWaitIsOutstandingWork) {
  std::optional<Permit> held{only_slot()};
  async_acquire(*slots, call, asio::bind_executor(loop.io, asio::detached));
  loop.settle();
  EXPECT_FALSE(loop.io.stopped());
  held.reset();
  loop.settle();
  EXPECT_TRUE(loop.io.stopped());
}

TEST_F(AcquireTest, ACompletionThatIsNeverRunGivesItsPermitBack) {
  {
    asio::io_context unused;
    async_acquire(*slots, call, asio::bind_executor(unused, asio::detached));
    EXPECT_FALSE(slots->try_acquire(call));
  }
  EXPECT_TRUE(slots->try_acquire(call));
}

template <class T>
struct CountingAllocator {
  using value_type = T;

  explicit CountingAllocator(int* live_blocks) : live(live_blocks) {}
  template <class U>
  CountingAllocator(const CountingAllocator<U>& other) : live(other.live) {}  // NOLINT: converts

  T* allocate(std::size_t n) {
    ++*live;
    return std::allocator<T>{}.allocate(n);
  }
  void deallocate(T* block, std::size_t n) {
    --*live;
    std::allocator<T>{}.deallocate(block, n);
  }
  friend bool operator==(const CountingAllocator&, const CountingAllocator&) = default;

  int* live;
};

TEST_F(AcquireTest, TheCompletionIsAllocatedByTheHandlersAllocatorAndFreedBeforeItRuns) {
  int live = 0;
  int live_in_handler = -1;
  async_acquire(*slots, call,
                asio::bind_allocator(CountingAllocator<char>{&live},
                                     asio::bind_executor(loop.io, [&](const Result<Permit>&) {
                                       live_in_handler = live;
                                     })));
  EXPECT_EQ(live, 1);
  loop.run();
  EXPECT_EQ(live_in_handler, 0);
}

TEST_F(AcquireTest, TheFirstOfTwoWaitsWinsAndTheOtherLeavesNoTrace) {
  const auto slow = bucket({1, 5s}, 1);
  const auto slower = bucket({1, 7s}, 1);
  ASSERT_TRUE(slow->try_acquire(call));
  ASSERT_TRUE(slower->try_acquire(call));
  const auto race = [&]() -> asio::awaitable<std::size_t> {
    std::variant<Result<Permit>, Result<Permit>> first =
        co_await (async_acquire(*slower, call, asio::use_awaitable) ||
                  async_acquire(*slow, call, asio::use_awaitable));
    EXPECT_TRUE(std::get<1>(first));
    EXPECT_EQ(time.now(), start + 5s);
    co_return first.index();
  };
  EXPECT_EQ(loop.get(race()), 1U);
  EXPECT_EQ(slower->metrics().waiting, 0U);
  EXPECT_EQ(slower->metrics().acquired, 1U);
  time.advance(7s - (time.now() - start));
  EXPECT_TRUE(slower->try_acquire(call)) << "its token is there at 7 s";
}

TEST_F(AcquireTest, TwoWaitsTogetherEndWithTheLater) {
  const auto slow = bucket({1, 5s}, 1);
  const auto slower = bucket({1, 7s}, 1);
  ASSERT_TRUE(slow->try_acquire(call));
  ASSERT_TRUE(slower->try_acquire(call));
  const auto both = [&]() -> asio::awaitable<Instant> {
    auto [one, two] = co_await (async_acquire(*slower, call, asio::use_awaitable) &&
                                async_acquire(*slow, call, asio::use_awaitable));
    EXPECT_TRUE(one && two);
    co_return time.now();
  };
  EXPECT_EQ(loop.get(both()), start + 7s);
}

TEST_F(AcquireTest, AThousandCoroutinesShareOneGate) {
  const auto shared =
      gate({LimitSpec::token_bucket(Unit::kRequests, {100, 1s}, 1), LimitSpec::concurrency(10)});
  int running = 0;
  int most = 0;
  int done = 0;
  const auto worker = [&](int id) -> asio::awaitable<void> {
    const Result<Permit> permit =
        co_await async_acquire(*shared, {.agent = "agent " + std::to_string(id)});
    EXPECT_TRUE(permit);
    most = std::max(most, ++running);
    const auto until = bucket({1, 50ms}, 1);  // a call takes 50 ms
    (void)co_await async_acquire(*until, call);
    (void)co_await async_acquire(*until, call);
    --running;
    ++done;
  };
  for (int i = 0; i < 1'000; ++i) asio::co_spawn(loop.io, worker(i), asio::detached);
  loop.run();
  EXPECT_EQ(done, 1'000);
  EXPECT_EQ(most, 5);  // 100 a second, each for 50 ms
  EXPECT_EQ(time.now() - start, 999 * 10ms + 50ms);
  EXPECT_EQ(shared->metrics().acquired, 1'000U);
}

}  // namespace
}  // namespace weir
