// Permit: held while the request runs. Returns what was borrowed and settles what was estimated.
//
// Owned by one holder at a time and moved, never copied; not thread-safe by itself. Its gates must
// outlive it. Destroying it releases it.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "weir/core/cost.h"
#include "weir/core/error.h"
#include "weir/core/time.h"

namespace weir {

class Gate;
class Path;

class Permit {
 public:
  // Holds nothing; settling and releasing it do nothing.
  Permit() = default;
  Permit(Permit&& other) noexcept
      : gate_(std::exchange(other.gate_, nullptr)),
        slot_(other.slot_),
        charged_at_(other.charged_at_),
        cost_(other.cost_),
        turn_(other.turn_),
        priority_(other.priority_),
        turns_(other.turns_),
        held_(std::exchange(other.held_, false)),
        settled_(other.settled_),
        rest_(std::move(other.rest_)) {}
  Permit& operator=(Permit&& other) noexcept {
    if (this != &other) {
      std::destroy_at(this);
      std::construct_at(this, std::move(other));
    }
    return *this;
  }
  ~Permit() {
    if (held_) release();
  }

  // Replaces the estimate by what was really used: the rest is refunded, the excess becomes a
  // debt. A unit that `actual` does not name keeps its estimate; slots are not settled. Does not
  // release, and may come after release(). Fails with kInvalidCost for an amount out of range or
  // when settled before; then nothing is changed.
  Result<void> settle(const Cost& actual);

  // Gives the slots back, once: later calls, and those on a permit whose slots were taken back as
  // stale, change nothing. Does not settle.
  void release();

  // What was charged at admission, and when.
  const Cost& cost() const { return cost_; }
  Instant charged_at() const { return charged_at_; }
  // Whether slots are to be given back.
  bool borrows() const { return held_; }
  // Whether it had to queue first.
  bool waited() const { return turn_ != 0; }
  explicit operator bool() const { return gate_ != nullptr; }

 private:
  friend class Gate;
  friend class Path;

  // Where a gate keeps who holds its slots. Generation 0: no slot there.
  struct Slot {
    std::uint32_t index = 0;
    std::uint32_t generation = 0;
  };
  struct Share {
    Gate* gate = nullptr;
    Slot slot;
  };
  // The gates of a path after the first.
  struct Rest {
    std::size_t count = 0;
    Share shares[7];
  };

  Permit(Gate& gate, const Cost& cost, Instant charged_at)
      : gate_(&gate), charged_at_(charged_at), cost_(cost) {}

  template <class F>
  void for_each_share(F&& f) const;

  Gate* gate_ = nullptr;
  Slot slot_;
  Instant charged_at_{};
  Cost cost_;
  std::uint64_t turn_ = 0;  // whose turn in the queues it was
  int priority_ = 0;
  std::uint8_t turns_ = 0;  // the gates, by position, in whose queues it was
  bool held_ = false;       // some slot is to be given back
  bool settled_ = false;
  std::unique_ptr<Rest> rest_;
};

}  // namespace weir
