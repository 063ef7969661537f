// Account: what the journal keeps of one gate.
//
// For each limit it has the mark that is durable, the one that is being written and the one that is
// wanted next. A draw is granted if the first two cover it: whichever of them a crash leaves stands
// for all that was admitted.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "store/journal.h"
#include "weir/core/limit.h"

namespace weir::store {

class Account final : public Backing, public std::enable_shared_from_this<Account> {
 public:
  Account(Journal& journal, std::string gate, std::string domain);
  ~Account() override;

  void look(std::span<Limit> limits, Instant now) override;
  Answer draw(std::span<const Limit> limits, std::span<const Draw> draws, Instant now) override;
  void give_back(std::span<const Draw> /*draws*/, Instant /*drawn_at*/) override {}
  void overdraw(std::span<const Limit> limits, std::span<const Draw> draws, Instant now) override;
  bool prompt() const override { return true; }
  void bind(std::weak_ptr<Gate> gate) override;

  // For the journal.
  enum class Wish : std::uint8_t { kNothing, kDomain, kAll };
  // Has the gate show its limits, and wants them written as they are, or the domain's state alone.
  void write(Wish wish);
  // Moves what is wanted to `batch`.
  void collect(Batch& batch);
  // What was collected is durable, or nobody knows. Looks after those who wait for it.
  void committed(Instant now);
  void failed();
  // Whether it has been drawn from since the last write().
  bool touched() const;
  bool has_domain() const { return !domain_.empty(); }
  // What a gate of the same name has to go on from; it writes no more itself.
  std::vector<Row> retire();
  std::vector<Amount> blocks() const;

 private:
  struct Written {
    Mark mark;
    Instant void_at{};
    Amount block = 0;
  };
  struct Cell {
    LimitSpec spec;
    bool markable = false;
    std::optional<Written> durable = {};
    std::optional<Written> writing = {};
    std::optional<Written> next = {};
    Amount drawn = 0;  // since the last commit
    Instant since{};   // the last commit
  };

  // These want the lock.
  void adopt(std::span<const Limit> limits, Instant now);
  // Whether there was anything to go on from.
  bool restore(std::span<Limit> limits, Instant now);
  void want(Cell& cell, const Limit& limit, Amount cost, Amount block, Instant now);
  Amount block_for(const Cell& cell, const Limit& limit, Amount cost, Instant now) const;
  Row row(const Cell& cell, const Written& written) const;
  // Calls back those who wait for a commit, if any.
  void reconsider();
  void enqueue_if(bool wanted);

  Journal& journal_;
  const std::string gate_name_;
  const std::string domain_;

  mutable std::mutex mutex_;
  std::weak_ptr<Gate> gate_;
  std::vector<Cell> cells_;
  std::optional<DomainState> state_;  // wanted next
  Wish wish_ = Wish::kNothing;        // of the next look()
  bool restored_ = false;
  bool retired_ = false;
  bool queued_ = false;
  bool awaited_ = false;  // a draw was put off
  bool touched_ = false;
};

}  // namespace weir::store
