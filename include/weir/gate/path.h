// Path: the gates one request passes, admitted by all of them or by none.
//
// A small value; its gates must outlive it and whatever waits on it, and share one TimeSource.
// Threads may take overlapping paths in any order: their locks are taken in one global order.
//
// A request that must wait queues at the topmost gate that refuses it. When its turn has come
// there and a lower gate refuses it, it moves on to that one's queue; it has then had its turn
// above and is served first should it have to come back. So no waiter is overtaken for ever as
// long as paths form a tree: narrow gates on top (an agent's), shared ones below (a provider's).
#pragma once

#include <array>
#include <memory>
#include <span>

#include "weir/gate/permit.h"
#include "weir/gate/request.h"

namespace weir {

struct Waiter;
struct Effects;

// A wait that can be given up.
class Ticket {
 public:
  Ticket() = default;
  // Ends the wait with kCancelled, unless it has ended already. Safe from any thread, any time.
  void cancel();

 private:
  friend class Path;
  explicit Ticket(std::shared_ptr<Waiter> waiter) : waiter_(std::move(waiter)) {}
  std::shared_ptr<Waiter> waiter_;
};

class Path {
 public:
  static constexpr std::size_t kGatesMax = 8;

  // Of one gate: how a gate by itself does all that does not fit its fast path.
  explicit Path(Gate& gate) : top_(&gate) {}

  // Topmost gate first. Fails with kInvalidConfig for none, more than kGatesMax, or one twice.
  static Result<Path> create(std::span<Gate* const> gates);

  // Decides at once. Refused while a waiter of equal or higher priority is queued.
  std::expected<Permit, Refusal> try_acquire(const Request& request) const;
  std::expected<Permit, Refusal> try_acquire(const Request& request, Instant now) const;

  // Blocks the thread until admitted. Ends with kNeverFits at once, with kDeadlineExceeded or
  // kCancelled by `patience`, with kClosed (or the reason given) when a gate closes, with
  // kCapacityExhausted when the queue is full, with kUnavailable when a backing cannot say.
  Result<Permit> acquire(const Request& request, const Patience& patience = {}) const;

  // The same without a thread: `done` gets the outcome, perhaps before this returns.
  Ticket acquire_async(const Request& request, Instant deadline, Callback done) const;

  std::span<Gate* const> gates() const {
    if (chain_ == nullptr) return {&top_, 1};
    return {chain_->gates.data(), chain_->count};
  }

 private:
  friend class Gate;
  friend class Ticket;
  class Holds;
  struct Attempt;
  enum class Forecast : std::uint8_t { kNo, kYes };

  // As try_acquire(), without a gate's fast path.
  std::expected<Permit, Refusal> try_locked(const Request& request, Instant now) const;

  // The steps below want the locks of all gates (Holds).
  Attempt attempt(const Request& request, std::uint8_t passed, Instant now, Forecast forecast,
                  Effects& effects) const;
  Permit take(const Request& request, Instant now) const;
  void note_admitted(const Request& request, Nanos waited, Effects& effects) const;
  static void leave_all(Waiter& waiter);
  // The waiter leaves its queue without a permit.
  static void abandon(Waiter& waiter, Errc reason, Instant now, Effects& effects);

  // These take the locks themselves.
  // The gate whose queue the waiter has left; null if its wait had ended already.
  static Gate* leave(Waiter& waiter, Errc reason, Instant now, Effects& effects);
  static void end(Waiter& waiter, Errc reason, Instant now, Effects& effects);

  // The gates of a path of several, shared by its copies: every waiter keeps one.
  struct Chain {
    std::array<Gate*, kGatesMax> gates{};
    std::array<std::uint8_t, kGatesMax> lock_order{};
    std::size_t count = 0;
  };

  explicit Path(std::shared_ptr<const Chain> chain)
      : top_(chain->gates[0]), chain_(std::move(chain)) {}

  Gate* top_;
  std::shared_ptr<const Chain> chain_;
};

}  // namespace weir
