// Backing: who says how far a gate may admit. In memory nobody; the journal of an exact store or
// the leases of a fleet hand out the quota in blocks and implement this.
//
// The gate calls with its lock held, so an implementation answers from memory at once, never
// blocks, and never calls the gate from inside. From outside, whenever an answer of kLater may
// have become kGranted (a block was committed, a lease came in), it calls Gate::reconsider().
#pragma once

#include <span>

#include "weir/core/cost.h"
#include "weir/core/time.h"

namespace weir {

class Backing {
 public:
  enum class Answer : std::uint8_t {
    kGranted,
    kLater,        // the block is used up and the next one is on its way
    kUnavailable,  // it cannot say, and the setting is to deny
  };
  // An amount of the gate's limit with this index.
  struct Draw {
    std::size_t limit;
    Amount amount;
  };

  Backing() = default;
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;
  virtual ~Backing() = default;

  // May all of this be admitted on top of what was drawn before? All or nothing.
  virtual Answer draw(std::span<const Draw> draws, Instant now) = 0;

  // Drawn but not used after all: refused by another gate of the path, or refunded at settlement.
  // Draws of a window that has ended since `drawn_at` are void.
  virtual void give_back(std::span<const Draw> draws, Instant drawn_at) = 0;

  // A debt: used beyond what was drawn, and not to be refused any more.
  virtual void overdraw(std::span<const Draw> draws, Instant now) = 0;
};

}  // namespace weir
