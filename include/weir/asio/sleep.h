// async_sleep_until: waits for an instant of any clock, simulated ones included, without a thread.
#pragma once

#include <atomic>
#include <boost/asio/deferred.hpp>
#include <functional>
#include <memory>
#include <utility>

#include "weir/asio/initiate.h"
#include "weir/core/time.h"
#include "weir/time/timer.h"

namespace weir {

namespace detail {

// One sleep; keeps itself alive until it ends.
class Sleeper final : public Alarm {
 public:
  using Done = std::move_only_function<void(Result<void>)>;

  class Ticket {
   public:
    Ticket() = default;
    explicit Ticket(std::shared_ptr<Sleeper> sleeper) : sleeper_(std::move(sleeper)) {}
    void cancel() {
      if (sleeper_ != nullptr) sleeper_->end(fail(Errc::kCancelled, "the sleep was cancelled"));
    }

   private:
    std::shared_ptr<Sleeper> sleeper_;
  };

  Sleeper(Timer& timer, Done done) : timer_(timer), done_(std::move(done)) {}
  ~Sleeper() { timer_.disarm(*this); }

  static Ticket start(TimeSource time, Instant at, Done done) {
    auto sleeper = std::make_shared<Sleeper>(time.timer, std::move(done));
    sleeper->self_ = sleeper;
    time.timer.arm(*sleeper, at);
    // Looks after arming: simulated time may have passed `at` before it knew of the alarm.
    if (time.clock.now() >= at) sleeper->end({});
    return Ticket{std::move(sleeper)};
  }

 private:
  void ring(Instant) override { end({}); }

  void end(Result<void> outcome) {
    if (ended_.exchange(true)) return;
    const std::shared_ptr<Sleeper> self = std::move(self_);
    done_(std::move(outcome));
  }

  Timer& timer_;
  Done done_;
  std::shared_ptr<Sleeper> self_;
  std::atomic<bool> ended_{false};
};

}  // namespace detail

// void(Result<void>): at or after `at`, or kCancelled. Nothing is thrown. Safe to call from any
// thread; see initiate.h.
template <TokenNotDeadline Token = boost::asio::deferred_t>
auto async_sleep_until(TimeSource time, Instant at, Token&& token = {}) {
  return initiate<void>(
      [time, at](detail::Sleeper::Done done) {
        return detail::Sleeper::start(time, at, std::move(done));
      },
      std::forward<Token>(token));
}

}  // namespace weir
