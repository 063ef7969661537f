// A Backing that hands out each limit's quota in blocks, for tests.
//
// A block comes when the test grants it. Counts what was drawn, given back and overdrawn; that no
// more is in use than was granted, debts aside, is its own promise, and that a gate admits exactly
// what it drew is the test's.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <mutex>

#include "weir/gate/backing.h"
#include "weir/gate/gate.h"

namespace weir {

class BlockBacking final : public Backing {
 public:
  struct Ledger {
    Amount granted = 0;
    Amount drawn = 0;  // less what was given back
    Amount overdrawn = 0;
    Instant last_given_back{};  // its drawn_at
    friend bool operator==(const Ledger&, const Ledger&) = default;
  };

  void grant(std::size_t limit, Amount amount) {
    const std::scoped_lock lock{mutex_};
    ledgers_.at(limit).granted += amount;
  }
  void set_reachable(bool reachable) {
    const std::scoped_lock lock{mutex_};
    reachable_ = reachable;
  }
  Ledger ledger(std::size_t limit = 0) const {
    const std::scoped_lock lock{mutex_};
    return ledgers_.at(limit);
  }
  // Granted, and neither drawn nor owed.
  Amount left(std::size_t limit = 0) const {
    const Ledger l = ledger(limit);
    return l.granted - l.drawn - l.overdrawn;
  }
  int asked() const {
    const std::scoped_lock lock{mutex_};
    return asked_;
  }

  void look(std::span<Limit> /*limits*/, Instant /*now*/) override {}
  bool prompt() const override { return false; }
  void bind(std::weak_ptr<Gate> /*gate*/) override {}

  Answer draw(std::span<const Limit> /*limits*/, std::span<const Draw> draws,
              Instant /*now*/) override {
    const std::scoped_lock lock{mutex_};
    ++asked_;
    if (!reachable_) return Answer::kUnavailable;
    for (const Draw& draw : draws) {
      const Ledger& l = ledgers_.at(draw.limit);
      if (l.drawn + l.overdrawn + draw.amount > l.granted) return Answer::kLater;
    }
    for (const Draw& draw : draws) {
      EXPECT_GT(draw.amount, 0);
      ledgers_.at(draw.limit).drawn += draw.amount;
    }
    return Answer::kGranted;
  }
  void give_back(std::span<const Draw> draws, Instant drawn_at) override {
    const std::scoped_lock lock{mutex_};
    for (const Draw& draw : draws) {
      Ledger& l = ledgers_.at(draw.limit);
      l.drawn -= draw.amount;
      l.last_given_back = drawn_at;
      EXPECT_GE(l.drawn, 0) << "gave back more than it drew";
    }
  }
  void overdraw(std::span<const Limit> /*limits*/, std::span<const Draw> draws,
                Instant /*now*/) override {
    const std::scoped_lock lock{mutex_};
    for (const Draw& draw : draws) ledgers_.at(draw.limit).overdrawn += draw.amount;
  }

 private:
  mutable std::mutex mutex_;
  std::array<Ledger, Gate::kLimitsMax> ledgers_{};
  bool reachable_ = true;
  int asked_ = 0;
};

}  // namespace weir
