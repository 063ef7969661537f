// LeaseAccount: what one gate has of the fleet's quota, and its correspondence with the book.
//
// One call at a time is under way. A call that was not answered is repeated as it was, so that
// what it did is done once; if the server is another one by then, it no longer returns anything and
// bears witness instead.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "fleet/leases.h"
#include "fleet/mirror.h"
#include "weir/core/limit.h"
#include "weir/gate/stock.h"

namespace weir::fleet {

class LeaseAccount final : public Backing, public std::enable_shared_from_this<LeaseAccount> {
 public:
  LeaseAccount(Leases& leases, std::string gate, Nanos slots_kept);
  ~LeaseAccount() override;

  void look(std::span<Limit> limits, Instant now) override;
  Answer draw(std::span<const Limit> limits, std::span<const Draw> draws, Instant now) override;
  void give_back(std::span<const Draw> draws, Instant drawn_at) override;
  void overdraw(std::span<const Limit> limits, std::span<const Draw> draws, Instant now) override;
  // Others spend from the same limits: nobody knows when there will be some.
  bool prompt() const override { return false; }
  Stock* stock() override;
  void bind(std::weak_ptr<Gate> gate) override;

  // For Leases.
  // Has the gate look, and those who wait tried again.
  void tend();
  Instant due() const { return due_.load(); }
  // Gives everything back, and draws nothing from now on.
  void retire();
  QuotaShare share() const;

 private:
  friend class Leases;
  using State = SharedQuotaStatus::State;

  // Units granted together.
  struct Block {
    Amount units = 0;
    Instant deadline{};  // ours; before the book's
    Micros expires = 0;  // the book's
  };
  struct Cell {
    LimitSpec spec = {};                   // as configured
    LimitSpec shown = {};                  // as the gate has it
    std::optional<LeaseTerms> terms = {};  // none: it is this node's own
    std::deque<Block> blocks = {};         // the first is spent first
    Block reserve = {};                    // for slots: those this node has
    Amount last = 0;                       // granted last
    Amount wanted = 0;                     // by a draw that was put off
    Instant dry_at{};                      // since then, if anything is wanted
    Amount asked = 0;                      // of the book last
    Amount owed = 0;
    Amount spent = 0;        // since the last ask
    Instant asked_at{};      // last
    Instant drawn_at{};      // last
    Instant short_until{};   // the book has no more before
    Instant paced{};         // how far ahead of its pace it has asked
    Amount others = 0;       // slots: charged to the gate's limit for the other nodes
    Amount in_use = 0;       // slots, here
    Amount peak = 0;         // of in_use, since the last ask
    Instant yields_until{};  // slots above its fair part, to those who have less
    Amount fallback_used = 0;
    Instant fallback_window_end{};
    LeaseGrant page = {};  // what the book said last
    bool known = false;    // it has
  };
  struct Call {
    LeaseCall call;
    Instant first_sent{};
    bool repeated = false;
    std::vector<std::size_t> cells;  // of the asks
    std::vector<bool> reserves;      // whether the ask is for the reserve
  };

  // All below want the lock.
  void adopt(std::span<const Limit> limits, Instant now);
  void take_from_stock();
  void fill_stock();
  void drop_expired(Cell& cell, Instant now);
  static Amount at_hand(const Cell& cell);
  static Amount in_use(const Cell& cell, const Limit& limit, Instant now);
  Amount fair_part(const Cell& cell) const;  // of slots
  Amount slots_at_hand(const Cell& cell, Instant now) const;
  bool covers(const Cell& cell, Amount amount, bool with_reserve, Instant now) const;
  static void want(Cell& cell, Amount amount, Instant now);
  static void take(Cell& cell, Amount amount);
  State state_at(Instant now) const;
  bool by_fallback(State state) const;
  void draw_by_fallback(Cell& cell, Amount amount, Instant now);
  // Makes the gate's limits what the book, or the fallback, says.
  void show(std::span<Limit> limits, State state, Instant now);
  void show_slots(Cell& cell, Limit& limit);
  void show_fallback(Cell& cell, Limit& limit, Instant now);
  void count_slots(std::span<const Limit> limits, Instant now);
  // Takes everything that can go back out of the cells, into asks.
  void add_returns(Call& call, std::size_t index, const LeaseAsk& blank);
  // Spends the reserve of a window that ends before it can be of use.
  void release_reserve(Cell& cell, Instant now);
  static bool idle(const Cell& cell, Instant now);
  static Amount demand(const Cell& cell, Instant now);
  // Asks the book if there is anything to ask, and it can be asked.
  void ask(Instant now);
  bool wants(const Cell& cell, Instant now) const;
  bool has_to_say(Instant now) const;
  Call make_call(Instant now);
  void address(LeaseCall& call, Instant now);
  void add_asks(Call& call, std::size_t index, Instant now);
  void send(Instant now);
  void plan(Instant now);
  void accept(const Call& call, const LeaseAnswer& answer, Instant now);
  void accept_grant(Cell& cell, const LeaseGrant& grant, bool reserve, const Call& call,
                    const LeaseAnswer& answer);

  void answered(Result<LeaseAnswer> result);

  Leases& leases_;
  const std::string gate_name_;
  const Nanos slots_kept_;
  const Nanos timeout_;

  mutable std::mutex mutex_;
  std::weak_ptr<Gate> gate_;
  std::vector<Cell> cells_;
  Stock stock_;
  Amount filled_ = 0;  // units of the first block that are in the stock
  bool fast_ = false;  // somebody takes from the stock
  bool retired_ = false;
  bool awaited_ = false;      // a draw was put off
  bool moved_ = false;        // the book is kept by another server than the last time
  bool wanted_ = false;       // by somebody whom the limits refuse
  bool changed_ = false;      // the gate's limits are to be shown anew
  bool failed_ = false;       // the last call
  bool sending_ = false;      // a call is under way
  std::optional<Call> call_;  // under way, or to be repeated
  std::optional<CircuitBreaker::Pass> pass_;
  std::string run_;  // of the server that answered last
  std::int64_t members_ = 1;
  Instant quarantined_until_{};
  Micros book_then_ = 0;  // the time of the last answer, by the book ...
  Instant book_at_{};     // ... and here
  Instant spoke_at_{};    // last answered
  std::atomic<Instant> due_ = kEndOfTime;
  State shown_ = State::kStarting;  // what the gate's limits go by
  std::uint64_t rejected_ = 0;      // by the gate, when it was looked at last
  // Leases': when it is to be tended at the latest; kEndOfTime if it is not in its list.
  std::atomic<Instant> registered_ = kEndOfTime;
};

}  // namespace weir::fleet
