// Breaker, retry and limiter around coroutines. S1.5, S1.8
#include "weir/asio/control.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "asio/loop.h"
#include "limiter/moving_time.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using State = CircuitBreaker::State;

struct Tools {
  explicit Tools(TimeSource source)
      : breaker(CircuitBreaker::create({.failure_threshold = 3, .open_for = 30s}, source.clock)
                    .value()),
        retry(Retry::create({.max_attempts = 5, .seed = 1}, source).value()),
        limiter(RateLimiter::create(10.0, source).value()) {}

  std::unique_ptr<CircuitBreaker> breaker;
  std::unique_ptr<Retry> retry;
  RateLimiter limiter;
};

struct ControlTest : testing::Test {
  Loop loop;
  Tools tools{loop.time.source()};
  const Instant start = loop.time.now();
  asio::cancellation_signal signal;
  int calls = 0;

  asio::awaitable<Result<int>> fails() {
    ++calls;
    co_return fail(Errc::kCallFailed, "no");
  }
  template <class T>
  std::future<T> spawn(asio::awaitable<T> coroutine) {
    return asio::co_spawn(loop.io, std::move(coroutine),
                          asio::bind_cancellation_slot(signal.slot(), asio::use_future));
  }
  void cancel() {
    signal.emit(asio::cancellation_type::terminal);
    loop.run();
  }
};

TEST_F(ControlTest, ResultsAreFlatAtAnyDepth) {
  const auto deep = [&](auto f) {
    return async_run(*tools.breaker, [this, f] {
      return async_run(*tools.retry, [this, f] { return async_with_limit(tools.limiter, f); });
    });
  };
  const auto value = [] -> asio::awaitable<int> { co_return 7; };
  const auto result = [] -> asio::awaitable<Result<int>> { co_return 7; };
  const auto nothing = [] -> asio::awaitable<void> { co_return; };
  const auto moved = [] -> asio::awaitable<std::unique_ptr<int>> {
    co_return std::make_unique<int>(7);
  };
  const auto refused = [] -> asio::awaitable<Result<void>> {
    co_return fail(Errc::kNeverFits, "9 > 5");
  };
  static_assert(std::is_same_v<decltype(deep(value)), asio::awaitable<Result<int>>>);
  static_assert(std::is_same_v<decltype(deep(result)), asio::awaitable<Result<int>>>);
  static_assert(std::is_same_v<decltype(deep(nothing)), asio::awaitable<Result<void>>>);
  EXPECT_EQ(loop.get(deep(value)), 7);
  EXPECT_EQ(loop.get(deep(result)), 7);
  EXPECT_TRUE(loop.get(deep(nothing)));
  EXPECT_EQ(*loop.get(deep(moved)).value(), 7);
  EXPECT_EQ(loop.get(deep(refused)).error().message, "9 > 5");
}

// What a call under all three tools, nested in some order, does: the same whether it blocks or not.
struct Trace {
  Result<int> result = 0;
  int calls = 0;
  Nanos took{0};
  State breaker{};
  std::uint64_t refused_by_breaker = 0;
  std::uint64_t permits = 0;

  void note(const Tools& tools, Instant start, Instant now) {
    took = now - start;
    breaker = tools.breaker->state(now);
    refused_by_breaker = tools.breaker->counters().rejected;
    permits = tools.limiter.metrics().total_acquired;
  }
  friend bool operator==(const Trace& a, const Trace& b) {
    return a.result.has_value() == b.result.has_value() &&
           (a.result ? *a.result == *b.result
                     : a.result.error().message == b.result.error().message) &&
           a.calls == b.calls && a.took == b.took && a.breaker == b.breaker &&
           a.refused_by_breaker == b.refused_by_breaker && a.permits == b.permits;
  }
};

enum class Tool : std::uint8_t { kBreaker, kLimiter, kRetry };

Trace blocking(const std::vector<Tool>& outermost_first, int failures) {
  MovingTime time;
  const Instant start = time.now();
  Tools tools{time.source()};
  Trace trace;
  std::function<Result<int>()> call = [&]() -> Result<int> {
    return ++trace.calls > failures ? Result<int>{7} : fail(Errc::kCallFailed, "no");
  };
  for (auto tool = outermost_first.rbegin(); tool != outermost_first.rend(); ++tool) {
    call = [&tools, tool = *tool, call]() -> Result<int> {
      switch (tool) {
        case Tool::kBreaker: return tools.breaker->run(call);
        case Tool::kLimiter: return tools.limiter.with_limit(call);
        case Tool::kRetry: return tools.retry->run(call);
      }
      return fail(Errc::kUnavailable);
    };
  }
  trace.result = time.run(call);
  trace.note(tools, start, time.now());
  return trace;
}

Trace async(const std::vector<Tool>& outermost_first, int failures) {
  Loop loop;
  const Instant start = loop.time.now();
  Tools tools{loop.time.source()};
  Trace trace;
  std::function<asio::awaitable<Result<int>>()> call = [&]() -> asio::awaitable<Result<int>> {
    co_return ++trace.calls > failures ? Result<int>{7} : fail(Errc::kCallFailed, "no");
  };
  for (auto tool = outermost_first.rbegin(); tool != outermost_first.rend(); ++tool) {
    call = [&tools, tool = *tool, call] {
      switch (tool) {
        case Tool::kBreaker: return async_run(*tools.breaker, call);
        case Tool::kLimiter: return async_with_limit(tools.limiter, call);
        case Tool::kRetry: break;
      }
      return async_run(*tools.retry, call);
    };
  }
  trace.result = loop.get(call());
  trace.note(tools, start, loop.time.now());
  return trace;
}

TEST(ControlNesting, EveryOrderDoesWhatItDoesBlocking) {
  std::vector<Tool> order{Tool::kBreaker, Tool::kLimiter, Tool::kRetry};
  do {
    const bool breaker_inside =
        std::ranges::find(order, Tool::kBreaker) > std::ranges::find(order, Tool::kRetry);
    const int tries = breaker_inside ? 3 : 5;
    for (int failures = 0; failures <= 6; ++failures) {
      const Trace without_a_thread = async(order, failures);
      EXPECT_EQ(without_a_thread, blocking(order, failures))
          << testing::PrintToString(order) << " with " << failures << " failures";
      EXPECT_EQ(without_a_thread.calls, std::min(failures + 1, tries));
      EXPECT_EQ(without_a_thread.result.has_value(), failures < tries);
    }
  } while (std::ranges::next_permutation(order).found);
}

TEST_F(ControlTest, TheRetryWaitsWithoutBlockingTheThread) {
  const auto patient = [&] { return async_run(*tools.retry, [this] { return fails(); }); };
  auto one = spawn(patient());
  auto two = asio::co_spawn(loop.io, patient(), asio::use_future);
  loop.settle();
  EXPECT_EQ(calls, 2) << "the second has begun while the first waits";
  loop.run();
  EXPECT_EQ(calls, 10);
  EXPECT_EQ(one.get().error(), Errc::kCallFailed);
  EXPECT_EQ(two.get().error(), Errc::kCallFailed);
  EXPECT_LT(loop.time.now() - start, 100ms + 200ms + 400ms + 800ms);
}

TEST_F(ControlTest, AWeightedCallTakesItsPermits) {
  const auto use = [&](Amount tokens) {
    return async_with_limit_n(tools.limiter, tokens, [this]() -> asio::awaitable<Nanos> {
      co_return loop.time.now() - start;
    });
  };
  EXPECT_EQ(loop.get(use(5)), 0ns);
  EXPECT_EQ(loop.get(use(1)), 500ms);
  EXPECT_EQ(loop.get(use(-1)).error(), Errc::kInvalidCost);
}

TEST_F(ControlTest, AnExceptionGoesThrough) {
  const auto throws = [this]() -> asio::awaitable<int> {
    ++calls;
    throw std::runtime_error("no");
    co_return 0;
  };
  const auto retried = [&] { return async_run(*tools.retry, throws); };
  EXPECT_THROW((void)loop.get(async_run(*tools.breaker, retried)), std::runtime_error);
  EXPECT_EQ(calls, 5);
  // The breaker has counted one failure: two more open it, and the retry ends with its refusal.
  const auto broken = [&] { return async_run(*tools.breaker, throws); };
  EXPECT_EQ(loop.get(async_run(*tools.retry, broken)).error(), Errc::kBreakerOpen);
  EXPECT_EQ(calls, 7);
}

TEST_F(ControlTest, AnAbortedOperationIsNotTheServicesFailure) {
  const auto aborted = []() -> asio::awaitable<int> {
    throw boost::system::system_error(asio::error::operation_aborted);
    co_return 0;
  };
  const auto reset = []() -> asio::awaitable<int> {
    throw boost::system::system_error(asio::error::connection_reset);
    co_return 0;
  };
  const auto run = [&](auto f) {
    EXPECT_THROW((void)loop.get(async_run(*tools.breaker, f)), boost::system::system_error);
  };
  for (int i = 0; i < 5; ++i) run(aborted);
  EXPECT_EQ(tools.breaker->state(loop.time.now()), State::kClosed);
  for (int i = 0; i < 3; ++i) run(reset);
  EXPECT_EQ(tools.breaker->state(loop.time.now()), State::kOpen);
}

TEST_F(ControlTest, ACancelledRetrySaysWhatItWasAbout) {
  auto result = spawn(async_run(*tools.retry, [this] { return fails(); }));
  loop.settle();
  cancel();
  EXPECT_EQ(calls, 1);
  const Error error = result.get().error();
  EXPECT_EQ(error, Errc::kCancelled);
  EXPECT_EQ(error.message, "stopped while waiting to retry after call_failed: no");
  EXPECT_EQ(loop.time.now(), start);
}

TEST_F(ControlTest, ACancelledWaitForTheLimitCallsNothing) {
  ASSERT_TRUE(tools.limiter.try_acquire());
  auto result = spawn(async_with_limit(tools.limiter, [this] { return fails(); }));
  loop.settle();
  cancel();
  EXPECT_EQ(result.get().error(), Errc::kCancelled);
  EXPECT_EQ(calls, 0);
}

TEST_F(ControlTest, CancelledAfterThePermitButBeforeTheCallNothingIsCalledNorThrown) {
  ASSERT_TRUE(tools.limiter.try_acquire());
  auto result = spawn(async_with_limit(tools.limiter, [this] { return fails(); }));
  loop.settle();
  signal.emit(asio::cancellation_type::terminal);  // reaches the coroutine by way of its executor
  loop.time.advance(100ms);
  loop.run();
  EXPECT_EQ(tools.limiter.metrics().total_acquired, 2U);
  EXPECT_EQ(result.get().error(), Errc::kCancelled);
  EXPECT_EQ(calls, 0);
}

TEST_F(ControlTest, ACoroutineCancelledBeforeCallsNothing) {
  const auto all = [&]() -> asio::awaitable<std::vector<Errc>> {
    co_await asio::this_coro::throw_if_cancelled(false);
    signal.emit(asio::cancellation_type::terminal);
    const auto f = [this] { return fails(); };
    std::vector<Errc> codes;
    codes.push_back((co_await async_run(*tools.breaker, f)).error().code);
    codes.push_back((co_await async_run(*tools.retry, f)).error().code);
    codes.push_back((co_await async_with_limit(tools.limiter, f)).error().code);
    co_return codes;
  };
  auto codes = spawn(all());
  loop.run();
  EXPECT_EQ(codes.get(), std::vector<Errc>(3, Errc::kCancelled));
  EXPECT_EQ(calls, 0);
}

TEST_F(ControlTest, AHalfOpenPlaceIsGivenBackWhenItsCallIsCancelled) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(loop.get(async_run(*tools.breaker, [this] { return fails(); })));
  }
  loop.advance(30s);
  ASSERT_EQ(tools.breaker->state(loop.time.now()), State::kHalfOpen);
  auto hanging = spawn(async_run(*tools.breaker, [this]() -> asio::awaitable<Result<void>> {
    co_return co_await async_sleep_until(loop.time.source(), kEndOfTime);
  }));
  loop.settle();
  const auto succeeds = []() -> asio::awaitable<void> { co_return; };
  const auto meanwhile =
      asio::co_spawn(loop.io, async_run(*tools.breaker, succeeds), asio::use_future).share();
  loop.settle();
  EXPECT_EQ(meanwhile.get().error(), Errc::kBreakerOpen);
  signal.emit(asio::cancellation_type::terminal);
  loop.settle();
  EXPECT_EQ(hanging.get().error(), Errc::kCancelled);
  EXPECT_TRUE(loop.get(async_run(*tools.breaker, succeeds)));
  EXPECT_EQ(tools.breaker->state(loop.time.now()), State::kClosed);
}

}  // namespace
}  // namespace weir
