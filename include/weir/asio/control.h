// Breaker, retry and limiter around a coroutine: they nest in any order, as the blocking ones do
// (S1.8).
//
//   co_await weir::async_run(retry, [&] {
//     return weir::async_run(breaker, [&] {
//       return weir::async_with_limit(limiter, [&] { return fetch(url); });
//     });
//   });
//
// The innermost callable returns awaitable<Result<T>>, awaitable<T> or awaitable<void>; all give
// awaitable<Result<T>>. No thread is blocked. The callable is kept until the coroutine ends; what
// it refers to, and the breaker, retry or limiter, must live as long. Cancelling the coroutine
// while it waits here gives kCancelled; while `f` runs it is for `f` to answer.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/system/system_error.hpp>
#include <concepts>
#include <exception>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include "weir/asio/acquire.h"
#include "weir/asio/sleep.h"
#include "weir/control/circuit_breaker.h"
#include "weir/control/retry.h"
#include "weir/core/call.h"
#include "weir/limiter/rate_limiter.h"

namespace weir {

namespace detail {

template <class T>
struct AwaitedResult {};
template <class T, class Executor>
struct AwaitedResult<boost::asio::awaitable<T, Executor>> {
  using Plain = T;
  using Outcome = AsResult<T>::type;
  using type = boost::asio::awaitable<Outcome, Executor>;
};

template <class F>
using Awaited = AwaitedResult<std::invoke_result_t<F&>>;

// Asked before each co_await, which throws once the coroutine has been cancelled.
inline bool cancelled(const boost::asio::cancellation_state& state) {
  return state.cancelled() != boost::asio::cancellation_type::none;
}

}  // namespace detail

// A callable that returns an awaitable.
template <class F>
concept AsyncCall = std::invocable<F&> && requires { typename detail::Awaited<F>::type; };

// The awaitable of its Result.
template <AsyncCall F>
using awaitable_result_of = detail::Awaited<F>::type;

// As weir::call. `f` must live until the awaitable has been awaited.
template <AsyncCall F>
awaitable_result_of<F> async_call(F& f) {
  if constexpr (std::is_void_v<typename detail::Awaited<F>::Plain>) {
    co_await std::invoke(f);
    co_return typename detail::Awaited<F>::Outcome{};
  } else {
    co_return co_await std::invoke(f);
  }
}

// As CircuitBreaker::run. An operation that was aborted counts neither way.
template <AsyncCall F>
awaitable_result_of<F> async_run(CircuitBreaker& breaker, F f) {
  if (detail::cancelled(co_await boost::asio::this_coro::cancellation_state)) {
    co_return fail(Errc::kCancelled, "cancelled before the call");
  }
  Result<CircuitBreaker::Pass> pass = breaker.try_enter();
  if (!pass) co_return std::unexpected(std::move(pass).error());
  try {
    auto result = co_await async_call(f);
    pass->judge(result);
    co_return result;
  } catch (const boost::system::system_error& error) {
    if (error.code() != boost::asio::error::operation_aborted) pass->failure();
    throw;
  } catch (...) {
    pass->failure();
    throw;
  }
}

// As Retry::run, with the cancellation of the coroutine for its stop token.
template <AsyncCall F>
awaitable_result_of<F> async_run(Retry& retry, F f) {
  if (detail::cancelled(co_await boost::asio::this_coro::cancellation_state)) {
    co_return fail(Errc::kCancelled, "cancelled before the first attempt");
  }
  Backoff delays = retry.backoff();
  for (int attempt = 1;; ++attempt) {
    std::optional<typename detail::Awaited<F>::Outcome> result;
    std::exception_ptr thrown;
    try {
      result.emplace(co_await async_call(f));
    } catch (...) {
      thrown = std::current_exception();
      result.emplace(std::unexpected(Retry::describe(thrown)));
    }
    if (*result) co_return std::move(*result);
    const std::optional<Nanos> delay = retry.delay_after(attempt, result->error(), delays);
    if (!delay) {
      if (thrown) std::rethrow_exception(thrown);
      co_return std::move(*result);
    }
    if (!detail::cancelled(co_await boost::asio::this_coro::cancellation_state)) {
      const TimeSource time = retry.time();
      (void)co_await async_sleep_until(time, clamp_instant(time.clock.now()) + *delay);
    }
    if (detail::cancelled(co_await boost::asio::this_coro::cancellation_state)) {
      co_return std::unexpected(Retry::stopped_after(result->error()));
    }
  }
}

// As RateLimiter::with_limit_n.
template <AsyncCall F>
awaitable_result_of<F> async_with_limit_n(RateLimiter& limiter, Amount permits, F f) {
  if (detail::cancelled(co_await boost::asio::this_coro::cancellation_state)) {
    co_return fail(Errc::kCancelled, "cancelled before the wait");
  }
  const Result<Nanos> waited = co_await async_acquire(limiter, permits);
  if (!waited) co_return std::unexpected(waited.error());
  if (detail::cancelled(co_await boost::asio::this_coro::cancellation_state)) {
    co_return fail(Errc::kCancelled, "cancelled before the call");
  }
  co_return co_await async_call(f);
}

// As RateLimiter::with_limit.
template <AsyncCall F>
awaitable_result_of<F> async_with_limit(RateLimiter& limiter, F f) {
  return async_with_limit_n(limiter, 1, std::move(f));
}

}  // namespace weir
