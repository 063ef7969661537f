// How a wait of Weir becomes an Asio operation: for those who write an initiating function over a
// callback interface.
//
// The handler runs on its associated executor, as if by post(): never inside the initiating
// function, nor on the thread that ended the wait. That executor counts the wait as outstanding
// work until then; its context must outlive the wait. Any type of cancellation ends the wait.
//
// As with every Asio operation, a handler's cancellation slot belongs to its execution context:
// emit the signal there (on its strand, if several threads run the context), and not while the
// initiating function is running elsewhere. The wait itself may end on any thread at any moment.
#pragma once

#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <concepts>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

#include "weir/core/error.h"
#include "weir/core/time.h"

namespace weir {

// Tells a token from a deadline. (Asio's own concept cannot say no to a deferred function.)
template <class T>
concept TokenNotDeadline = !std::convertible_to<T, Instant>;

namespace detail {

// Brings the outcome of a wait to its handler.
template <class T, class Handler>
class Completion {
 public:
  explicit Completion(Handler handler)
      : work_(boost::asio::make_work_guard(handler)), handler_(std::move(handler)) {}

  // Once.
  void operator()(Result<T> outcome) {
    const auto allocator = boost::asio::get_associated_allocator(handler_);
    auto complete = [handler = std::move(handler_), outcome = std::move(outcome)]() mutable {
      if (auto slot = boost::asio::get_associated_cancellation_slot(handler); slot.is_connected()) {
        slot.clear();
      }
      std::move(handler)(std::move(outcome));
    };
    boost::asio::post(work_.get_executor(),
                      boost::asio::bind_allocator(allocator, std::move(complete)));
    work_.reset();
  }

 private:
  decltype(boost::asio::make_work_guard(std::declval<const Handler&>())) work_;
  Handler handler_;
};

// Brings a cancellation and the ticket of a wait together, whichever comes first. Safe to use from
// any thread.
template <class Ticket>
class Cancellation {
 public:
  void cancel() {
    Ticket ticket;
    {
      const std::lock_guard lock{mutex_};
      cancelled_ = true;
      ticket = ticket_;
    }
    ticket.cancel();
  }

  void begin(Ticket ticket) {
    {
      const std::lock_guard lock{mutex_};
      if (ended_) return;
      ticket_ = ticket;
      if (!cancelled_) return;
    }
    ticket.cancel();
  }

  // Drops the ticket, which owns the callback that owns this.
  void end() {
    Ticket ticket;
    const std::lock_guard lock{mutex_};
    ended_ = true;
    std::swap(ticket, ticket_);
  }

 private:
  std::mutex mutex_;
  Ticket ticket_;
  bool cancelled_ = false;
  bool ended_ = false;
};

template <class T, class Handler, class Start>
void launch(Handler handler, Start& start) {
  auto slot = boost::asio::get_associated_cancellation_slot(handler);
  Completion<T, Handler> completion{std::move(handler)};
  if (!slot.is_connected()) {
    start(std::move(completion));
    return;
  }
  using Ticket = std::invoke_result_t<Start&, Completion<T, Handler>>;
  const auto cancellation = std::make_shared<Cancellation<Ticket>>();
  // Before the wait begins: from then on the slot belongs to the handler's context.
  slot.assign([cancellation](boost::asio::cancellation_type type) {
    if (type != boost::asio::cancellation_type::none) cancellation->cancel();
  });
  cancellation->begin(
      start([cancellation, completion = std::move(completion)](Result<T> outcome) mutable {
        cancellation->end();
        completion(std::move(outcome));
      }));
}

}  // namespace detail

// An operation of signature void(Result<T>), since a refusal is a value, over `start(callback)`: it
// begins a wait, calls `callback` with its outcome, perhaps at once, and returns a ticket whose
// cancel() ends the wait and may come at any time. With tokens like deferred and use_awaitable
// `start` is called later than this: it owns its arguments.
template <class T, TokenNotDeadline Token, class Start>
auto initiate(Start start, Token&& token) {
  return boost::asio::async_initiate<Token, void(Result<T>)>(
      [start = std::move(start)](auto&& handler) mutable {
        detail::launch<T>(std::forward<decltype(handler)>(handler), start);
      },
      token);
}

}  // namespace weir
