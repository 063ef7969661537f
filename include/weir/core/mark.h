// Mark: the use of a limit as it is written down, so that the limit can go on from there when its
// own state is lost.
//
// A mark that is ahead of the use stands for units that may be spent without writing again: as long
// as the mark covers the state, a limit resumed from the mark admits nothing that the lost one
// would have refused. Whoever stores a mark turns its instant into calendar time.
#pragma once

#include <concepts>
#include <vector>

#include "weir/core/cost.h"
#include "weir/core/time.h"

namespace weir {

struct Mark {
  Instant at{};         // of what, each algorithm says; may lie before the time line begins
  Amount used = 0;      // in a window; of a stepped bucket: what is missing
  Amount previous = 0;  // sliding window: in the window before
  std::vector<Amount> slots = {};  // sliding log: the newest part of the period first

  friend bool operator==(const Mark&, const Mark&) = default;
};

// What an algorithm offers whose use can be written down.
//   mark     the use with `ahead` more taken at `now`; a window that opens with it may open up to
//            `slack` later, since writing takes time.
//   covers   whether `mark` stands for at least the use that `state` has with `cost` more.
//   resume   counts what `mark` says on top of what `state` counts.
//   void_at  from when on `mark` says nothing.
template <class A>
concept Markable = requires(const A& algorithm, typename A::State& state, const Mark& mark,
                            Amount amount, Instant now, Nanos slack) {
  { algorithm.mark(state, amount, now, slack) } -> std::same_as<Mark>;
  { algorithm.covers(mark, state, amount, now) } -> std::same_as<bool>;
  { algorithm.resume(state, mark, now) } -> std::same_as<void>;
  { algorithm.void_at(mark) } -> std::same_as<Instant>;
};

}  // namespace weir
