// Sliding log: remembers each charge until it is a period old; at most `limit` in every period.
//
// Never over, in the strictest sense of all algorithms. Its memory is bounded: up to kEntriesMax
// charges are remembered one by one; a limit above that gathers charges less than a kEntriesMax-th
// of the period apart, each of which then counts that little longer. The log is allocated by
// start(); the steps allocate nothing (see algorithm.h).
#pragma once

#include <cstddef>
#include <vector>

#include "weir/core/algorithm.h"
#include "weir/core/error.h"
#include "weir/core/mark.h"
#include "weir/core/tick_rate.h"

namespace weir {

class SlidingLog {
 public:
  static constexpr std::size_t kEntriesMax = 4096;
  static constexpr std::int64_t kSlots = 32;

  struct Entry {
    Instant at;  // of the latest charge in it
    Amount amount;
    Instant opened;  // at the first charge in it
  };
  // A ring, oldest entry first.
  struct State {
    std::vector<Entry> ring;
    std::size_t first = 0;
    std::size_t size = 0;
    Amount used = 0;  // sum of all entries

    Entry& operator[](std::size_t i) { return ring[(first + i) % ring.size()]; }
    const Entry& operator[](std::size_t i) const { return ring[(first + i) % ring.size()]; }
  };

  // `rate.amount` in every `rate.period`. Fails with kInvalidLimit (check_rate).
  static Result<SlidingLog> create(Rate rate);

  State start(Instant now) const;
  Decision check(const State& state, Amount cost, Instant now) const;
  void take(State& state, Amount cost, Instant now) const;
  void refund(State& state, Amount amount, Instant charged_at, Instant now) const;
  Amount available(const State& state, Instant now) const;
  Amount capacity() const { return rate_.amount; }

  // A state that counts the charges of `old`, the state of a log with the same period.
  State carried(const State& old, Instant now) const;

  // Charges are marked by slots, and counted from their slot's end on.
  // `at`: the end of the newest slot, each a kSlots-th of the period. See mark.h.
  Mark mark(const State& state, Amount ahead, Instant now, Nanos slack) const;
  bool covers(const Mark& mark, const State& state, Amount cost, Instant now) const;
  void resume(State& state, const Mark& mark, Instant now) const;
  Instant void_at(const Mark& mark) const;

 private:
  explicit SlidingLog(Rate rate);

  // How many of the oldest entries are a period old.
  std::size_t expired(const State& state, Instant now) const;
  void forget_expired(State& state, Instant now) const;
  static void forget_refunded(State& state);
  void add(State& state, Amount cost, Instant at) const;
  Nanos slot_width() const { return rate_.period / kSlots + Nanos{1}; }
  // The end of the slot that contains `at`, which is later.
  Instant slot_end(Instant at) const;

  Rate rate_;
  std::size_t entries_;
  Nanos gather_;  // charges less than this apart share an entry; 0: only those of one instant
};

static_assert(Algorithm<SlidingLog> && Markable<SlidingLog>);

}  // namespace weir
