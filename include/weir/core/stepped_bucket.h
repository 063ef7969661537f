// Stepped bucket: a fixed amount arrives at fixed instants, `refill` each `every` (S3.1).
//
// Never over: in any interval at most its maximum plus the refills crossed. Pure arithmetic (see
// algorithm.h). The steps stand on a grid that begins with start().
#pragma once

#include "weir/core/algorithm.h"
#include "weir/core/error.h"
#include "weir/core/mark.h"

namespace weir {

struct SteppedSpec {
  Amount max;
  Amount refill;
  Nanos every;
};

class SteppedBucket {
 public:
  struct State {
    Amount tokens;
    Instant last_step;
  };

  // Fails with kInvalidLimit unless max, refill and every are positive and in range.
  static Result<SteppedBucket> create(SteppedSpec spec);

  State start(Instant now) const { return {spec_.max, clamp_instant(now)}; }
  Decision check(const State& state, Amount cost, Instant now) const;
  void take(State& state, Amount cost, Instant now) const;
  void refund(State& state, Amount amount, Instant charged_at, Instant now) const;
  Amount available(const State& state, Instant now) const { return stepped(state, now).tokens; }
  Amount capacity() const { return spec_.max; }

  // `at`: the last step. See mark.h.
  Mark mark(const State& state, Amount ahead, Instant now, Nanos slack) const;
  bool covers(const Mark& mark, const State& state, Amount cost, Instant now) const;
  void resume(State& state, const Mark& mark, Instant now) const;
  Instant void_at(const Mark& mark) const;

 private:
  explicit SteppedBucket(SteppedSpec spec) : spec_(spec) {}

  // The state with the refills up to `now` in it.
  State stepped(State state, Instant now) const;
  // What `mark` says is missing at `now`, and the step before.
  Mark stepped(const Mark& mark, Instant now) const;

  SteppedSpec spec_;
};

static_assert(Algorithm<SteppedBucket> && Markable<SteppedBucket>);

}  // namespace weir
