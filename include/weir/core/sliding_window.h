// Sliding window counter: the previous window's count fades out as the current one goes on.
//
// Never over: previous × overlap + current <= limit at each admission. With 7 in the previous
// window, a quarter of it still overlapping, and 3 in the current one the count is 4.75. An
// approximation of the sliding log in O(1) state. Pure arithmetic (see algorithm.h).
#pragma once

#include "weir/core/algorithm.h"
#include "weir/core/error.h"
#include "weir/core/mark.h"
#include "weir/core/tick_rate.h"

namespace weir {

class SlidingWindow {
 public:
  struct State {
    Instant start{};  // of the current window; the windows stand on a grid from start()
    Amount previous = 0;
    Amount current = 0;
  };

  // `rate.amount` in each sliding `rate.period`. Fails with kInvalidLimit (check_rate).
  static Result<SlidingWindow> create(Rate rate);

  State start(Instant now) const { return {.start = clamp_instant(now)}; }
  Decision check(const State& state, Amount cost, Instant now) const;
  void take(State& state, Amount cost, Instant now) const;
  void refund(State& state, Amount amount, Instant charged_at, Instant now) const;
  Amount available(const State& state, Instant now) const;
  Amount capacity() const { return rate_.amount; }
  // Of the current window.
  Instant began(const State& state, Instant now) const { return rolled(state, now).start; }

  // `at`: the current window's start. See mark.h.
  Mark mark(const State& state, Amount ahead, Instant now, Nanos slack) const;
  bool covers(const Mark& mark, const State& state, Amount cost, Instant now) const;
  void resume(State& state, const Mark& mark, Instant now) const;
  Instant void_at(const Mark& mark) const;

 private:
  explicit SlidingWindow(Rate rate) : rate_(rate) {}

  // The state with the windows up to `now` rolled.
  State rolled(State state, Instant now) const;
  Mark rolled(Mark mark, Instant now) const;
  // How much of the previous window still overlaps the sliding one.
  Nanos overlap(const State& rolled, Instant now) const;

  Rate rate_;
};

static_assert(Algorithm<SlidingWindow> && Markable<SlidingWindow>);

}  // namespace weir
