// Backing: who says how far a gate may admit. In memory nobody; the journal of an exact store or
// the leases of a fleet hand out the quota in blocks and implement this.
//
// The gate calls with its lock held, so an implementation answers from memory at once, never
// blocks, and never calls the gate from inside. From outside, whenever an answer of kLater may
// have become kGranted (a block was committed, a lease came in), it calls Gate::reconsider().
#pragma once

#include <memory>
#include <span>
#include <string>

#include "weir/core/cost.h"
#include "weir/core/error.h"
#include "weir/core/time.h"
#include "weir/time/timer.h"

namespace weir {

class Gate;
class Limit;
class Stock;
struct GateConfig;

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

  // The limits that draws are of from now on: when the gate is created or its limits are replaced,
  // and whenever Gate::show_backing() is called. What it knows to be used it charges to them, and
  // where it is the authority it replaces their state by its own.
  virtual void look(std::span<Limit> limits, Instant now) = 0;

  // May all of this be admitted on top of what the limits count? All or nothing. Slots are drawn
  // as well, and come back with the limit that lent them.
  virtual Answer draw(std::span<const Limit> limits, std::span<const Draw> draws, Instant now) = 0;

  // Drawn but not used after all: refused by another gate of the path, or refunded at settlement.
  // Draws of a window that has ended since `drawn_at` are void.
  virtual void give_back(std::span<const Draw> draws, Instant drawn_at) = 0;

  // A debt, which the limits count already: used beyond what was drawn, and not to be refused any
  // more.
  virtual void overdraw(std::span<const Limit> limits, std::span<const Draw> draws,
                        Instant now) = 0;

  // Whether kLater is a matter of moments, so that the limits alone say when to come back.
  virtual bool prompt() const = 0;

  // What a gate with one limit and without an observer may admit without a draw; null: nothing.
  virtual Stock* stock() { return nullptr; }

  // The gate it backs, as soon as that exists.
  virtual void bind(std::weak_ptr<Gate> gate) = 0;
};

// Opens backings. Safe to use from any thread.
class Backer {
 public:
  Backer() = default;
  Backer(const Backer&) = delete;
  Backer& operator=(const Backer&) = delete;
  virtual ~Backer() = default;

  // For the gate that `config` makes, the only one of its name at a time. `domain` is what else the
  // resource is known by; empty for gates that are but a part of one.
  virtual std::shared_ptr<Backing> open(const GateConfig& config, const std::string& domain) = 0;
};

// A gate that a backing of `backer` backs and that keeps it alive; without a backer a plain one.
Result<std::shared_ptr<Gate>> create_gate(GateConfig config, TimeSource time, Backer* backer,
                                          const std::string& domain = {});

}  // namespace weir
