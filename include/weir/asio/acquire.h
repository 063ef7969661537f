// async_acquire: a permit without a blocked thread, by any Asio completion token (S1.5).
//
//   Result<Permit> permit = co_await weir::async_acquire(gate, {.cost = Cost::call(1'200)});
//   weir::async_acquire(limiter, 1, [](Result<Nanos> waited) { … });
//   std::future<Result<Permit>> permit = weir::async_acquire(path, request, asio::use_future);
//
// Outcomes are those of the blocking acquire: nothing is thrown, and a cancelled wait completes
// with kCancelled. The token defaults to boost::asio::deferred, which a coroutine awaits. Without
// a deadline the wait is as long as it takes. Safe to call from any thread; initiate.h says where
// the handler runs and where to cancel from. The gates and limiters must outlive the wait.
#pragma once

#include <boost/asio/deferred.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "weir/asio/initiate.h"
#include "weir/gate/gate.h"
#include "weir/gate/path.h"
#include "weir/limiter/provider_limiter.h"
#include "weir/limiter/rate_limiter.h"
#include "weir/limiter/resource_limiter.h"

namespace weir {

// void(Result<Permit>)
template <TokenNotDeadline Token = boost::asio::deferred_t>
auto async_acquire(const Path& path, const Request& request, Instant deadline, Token&& token = {}) {
  return initiate<Permit>(
      [path, request, deadline, agent = std::string{request.agent}](Callback done) {
        Request own = request;
        own.agent = agent;
        return path.acquire_async(own, deadline, std::move(done));
      },
      std::forward<Token>(token));
}
template <TokenNotDeadline Token = boost::asio::deferred_t>
auto async_acquire(const Path& path, const Request& request, Token&& token = {}) {
  return async_acquire(path, request, kEndOfTime, std::forward<Token>(token));
}

template <TokenNotDeadline Token = boost::asio::deferred_t>
auto async_acquire(Gate& gate, const Request& request, Instant deadline, Token&& token = {}) {
  return async_acquire(Path{gate}, request, deadline, std::forward<Token>(token));
}
template <TokenNotDeadline Token = boost::asio::deferred_t>
auto async_acquire(Gate& gate, const Request& request, Token&& token = {}) {
  return async_acquire(Path{gate}, request, kEndOfTime, std::forward<Token>(token));
}

// void(Result<Permit>)
template <TokenNotDeadline Token = boost::asio::deferred_t>
auto async_acquire(ProviderLimiter& limiter, Amount tokens, std::string_view agent_id,
                   Instant deadline, Token&& token = {}) {
  return initiate<Permit>(
      [&limiter, tokens, deadline, agent = std::string{agent_id}](Callback done) {
        return limiter.acquire_async(tokens, agent, deadline, std::move(done));
      },
      std::forward<Token>(token));
}
template <TokenNotDeadline Token = boost::asio::deferred_t>
auto async_acquire(ProviderLimiter& limiter, Amount tokens, std::string_view agent_id,
                   Token&& token = {}) {
  return async_acquire(limiter, tokens, agent_id, kEndOfTime, std::forward<Token>(token));
}

// void(Result<Nanos>): how long it waited.
template <TokenNotDeadline Token = boost::asio::deferred_t>
auto async_acquire(RateLimiter& limiter, Amount permits, Instant deadline, Token&& token = {}) {
  return initiate<Nanos>(
      [&limiter, permits, deadline](RateLimiter::Done done) {
        return limiter.acquire_async(permits, deadline, std::move(done));
      },
      std::forward<Token>(token));
}
template <TokenNotDeadline Token = boost::asio::deferred_t>
auto async_acquire(RateLimiter& limiter, Amount permits, Token&& token = {}) {
  return async_acquire(limiter, permits, kEndOfTime, std::forward<Token>(token));
}

// void(Result<void>)
template <TokenNotDeadline Token = boost::asio::deferred_t>
auto async_acquire(ResourceLimiter& limiter, std::string_view resource, Instant deadline,
                   Token&& token = {}) {
  return initiate<void>(
      [&limiter, deadline, own = std::string{resource}](ResourceLimiter::Done done) {
        return limiter.acquire_async(own, deadline, std::move(done));
      },
      std::forward<Token>(token));
}
template <TokenNotDeadline Token = boost::asio::deferred_t>
auto async_acquire(ResourceLimiter& limiter, std::string_view resource, Token&& token = {}) {
  return async_acquire(limiter, resource, kEndOfTime, std::forward<Token>(token));
}

}  // namespace weir
