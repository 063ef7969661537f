// Fixed window: at most `limit` in each window; a window starts at the first request after the
// last one ended (S4.4), or stands on a calendar (WindowEnds).
//
// Never over: at most the limit in each of its own windows; an interval across a boundary can see
// twice that. O(1) state. Pure arithmetic (see algorithm.h).
#pragma once

#include <memory>
#include <utility>

#include "weir/core/algorithm.h"
#include "weir/core/error.h"
#include "weir/core/mark.h"
#include "weir/core/tick_rate.h"
#include "weir/core/window_ends.h"

namespace weir {

class FixedWindow {
 public:
  struct State {
    Instant end{};  // of the window that counts `used`; a window that has ended counts nothing
    Amount used = 0;
    Instant start{};  // when its first charge came
  };

  // `rate.amount` in each window: of `rate.period`, or where `ends` are given up to those. Fails
  // with kInvalidLimit (check_rate).
  static Result<FixedWindow> create(Rate rate, std::shared_ptr<const WindowEnds> ends = nullptr);

  State start(Instant /*now*/) const { return {}; }
  Decision check(const State& state, Amount cost, Instant now) const;
  void take(State& state, Amount cost, Instant now) const;
  void refund(State& state, Amount amount, Instant charged_at, Instant now) const;
  Amount available(const State& state, Instant now) const {
    return rate_.amount - used(state, clamp_instant(now));
  }
  Amount capacity() const { return rate_.amount; }

  // A state that counts on in the running window of `old`, the state of windows of the same period
  // that may end elsewhere. It ends no earlier than either kind of window would have.
  State carried(const State& old, Instant now) const;

  // `at`: the window's end. See mark.h.
  Mark mark(const State& state, Amount ahead, Instant now, Nanos slack) const;
  bool covers(const Mark& mark, const State& state, Amount cost, Instant now) const;
  void resume(State& state, const Mark& mark, Instant now) const;
  Instant void_at(const Mark& mark) const;

 private:
  FixedWindow(Rate rate, std::shared_ptr<const WindowEnds> ends)
      : rate_(rate), ends_(std::move(ends)) {}

  Instant end_after(Instant now) const {
    return ends_ == nullptr ? now + rate_.period : ends_->after(now);
  }
  static Amount used(const State& state, Instant now) { return now < state.end ? state.used : 0; }

  Rate rate_;
  std::shared_ptr<const WindowEnds> ends_;  // null: a period after the first charge
};

static_assert(Algorithm<FixedWindow> && Markable<FixedWindow>);

}  // namespace weir
