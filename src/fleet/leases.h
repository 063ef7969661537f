// Leases: gates that spend a quota together with the gates of other processes.
//
// A gate's limits are kept in the fleet's book (lease.h). Each gate takes units from it in blocks,
// sized by its demand, and spends them as fast as memory; the next block is asked for while half of
// the last is left, and what is not needed goes back. Nobody is admitted on units that have not
// been granted before, so that all nodes together never overrun a limit, whoever crashes, pauses or
// loses an answer.
//
// While the book cannot be reached a gate spends what it has, and then goes by the fallback. The
// first call that fails says so for all that follow; the next one is made when there is a
// connection again and the breaker lets it.
//
// Safe to use from any thread. Needs no thread of its own: calls are made where units are drawn and
// by the timer, answers are taken where the book gives them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "fleet/lease.h"
#include "weir/control/circuit_breaker.h"
#include "weir/fleet/shared_quota.h"
#include "weir/gate/backing.h"
#include "weir/time/calendar.h"
#include "weir/time/timer.h"

namespace weir::fleet {

class LeaseAccount;

class Leases final : public Backer, private Alarm {
 public:
  struct Config {
    std::string node;  // no two processes at a time have the same
    Fallback fallback = Fallback::kReserve;
    Nanos timeout = std::chrono::milliseconds{50};  // of a call
    CircuitBreaker::Config breaker = {};
    // Called without locks when the state changes.
    std::function<void(const SharedQuotaStatus&)> told = [](const SharedQuotaStatus&) {};
  };

  // The book, the calendar and the time outlive it, and it outlives its gates.
  Leases(Config config, Book& book, const Calendar& calendar, TimeSource time);
  ~Leases() override;

  std::shared_ptr<Backing> open(const GateConfig& config, const std::string& domain) override;

  // A connection has come or gone: whoever waits for that looks at once.
  void look_again();

  // Gives everything back and admits nothing from now on. The answers come later.
  void give_all_back();
  // The same, and waits for the answers, which are due within the time-out.
  void close();

  SharedQuotaStatus status() const;
  std::optional<QuotaShare> share(const std::string& gate) const;

 private:
  friend class LeaseAccount;
  using Accounts = std::vector<std::shared_ptr<LeaseAccount>>;

  void ring(Instant now) override;

  // For accounts.
  // Counts the calls under way, which may outlast everything else.
  struct Tally {
    std::mutex mutex;
    std::condition_variable ended;
    std::size_t under_way = 0;
  };
  void wake_at(const std::shared_ptr<LeaseAccount>& account, Instant at);
  // The right to make a call.
  std::optional<CircuitBreaker::Pass> enter();
  // A call is under way for as long as what this returns lives.
  std::shared_ptr<void> begin();
  void count_call(const Result<LeaseAnswer>& result);
  void become(SharedQuotaStatus::State state);
  std::int64_t next_sequence() { return sequence_.fetch_add(1, std::memory_order_relaxed) + 1; }
  bool starting(Instant now) const;

  const Config config_;
  Book& book_;
  const Calendar& calendar_;
  const TimeSource time_;
  const std::unique_ptr<CircuitBreaker> breaker_;
  const Instant started_at_;
  std::atomic<std::int64_t> sequence_ = 0;
  std::atomic<std::uint64_t> granted_ = 0;
  std::atomic<std::uint64_t> returned_ = 0;
  std::atomic<std::uint64_t> burnt_ = 0;
  std::atomic<std::uint64_t> fallback_draws_ = 0;

  mutable std::mutex mutex_;
  std::map<std::string, std::weak_ptr<LeaseAccount>> live_;
  std::vector<std::weak_ptr<LeaseAccount>> awake_;
  Instant armed_for_ = kEndOfTime;
  bool closed_ = false;
  SharedQuotaStatus status_;
  const std::shared_ptr<Tally> tally_ = std::make_shared<Tally>();
};

}  // namespace weir::fleet
