// Fixed window: at most `limit` in each window; a window starts at the first request after the
// last one ended (S4.4).
//
// Never over: at most the limit in each of its own windows; an interval across a boundary can see
// twice that. O(1) state. Pure arithmetic (see algorithm.h).
#pragma once

#include "weir/core/algorithm.h"
#include "weir/core/error.h"
#include "weir/core/tick_rate.h"

namespace weir {

class FixedWindow {
 public:
  struct State {
    Instant end{};  // of the window that counts `used`; a window that has ended counts nothing
    Amount used = 0;
  };

  // `rate.amount` in each window of `rate.period`. Fails with kInvalidLimit (check_rate).
  static Result<FixedWindow> create(Rate rate);

  State start(Instant /*now*/) const { return {}; }
  Decision check(const State& state, Amount cost, Instant now) const;
  void take(State& state, Amount cost, Instant now) const;
  void refund(State& state, Amount amount, Instant charged_at, Instant now) const;
  Amount available(const State& state, Instant now) const {
    return rate_.amount - used(state, clamp_instant(now));
  }
  Amount capacity() const { return rate_.amount; }

 private:
  explicit FixedWindow(Rate rate) : rate_(rate) {}

  static Amount used(const State& state, Instant now) { return now < state.end ? state.used : 0; }

  Rate rate_;
};

static_assert(Algorithm<FixedWindow>);

}  // namespace weir
