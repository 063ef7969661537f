// Gate: the limits of one resource, taken as one. Admits a whole cost or none of it, says when to
// come back, and keeps those who wait in a fair order.
//
// Safe to use from any thread. A gate whose only limit is a token bucket, or whose backing keeps a
// stock for it, admits by one compare-and-set while nobody waits; every other decision takes a
// short lock, checks all limits and then charges all. Nobody polls: release, settlement, changes
// and one timer wake who is due.
//
// Decisions use one `now`, read from the gate's clock or given by the caller. The gate must
// outlive its permits; destroying it ends every wait with kClosed.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "weir/core/limit.h"
#include "weir/gate/atomic_bucket.h"
#include "weir/gate/backing.h"
#include "weir/gate/counters.h"
#include "weir/gate/observer.h"
#include "weir/gate/path.h"
#include "weir/gate/stock.h"
#include "weir/time/timer.h"

namespace weir {

class WaitQueue;

struct GateConfig {
  std::string name;
  std::vector<LimitSpec> limits;  // at most Gate::kLimitsMax; none at all admits everything
  // Slots held longer than this are taken back when slots look full (S3.5). 0: never.
  Nanos stale_after{0};
  std::size_t waiters_max = 1'000'000;
  Backing* backing = nullptr;    // outlives the gate
  Observer* observer = nullptr;  // outlives the gate
};

struct LimitStatus {
  std::string name;
  Unit unit;
  Amount available;  // negative while in debt
  Amount capacity;
  Amount amount;  // what it is set to: `amount` in each `period`, or `amount` slots
  Nanos period;
  std::uint64_t hits;  // how often a request was refused by it or had to wait for it
  std::optional<Nanos> resets_in = {};  // of a fixed window: when it ends; nothing if none is open
};

struct GateMetrics {
  std::uint64_t acquired = 0;
  std::uint64_t rejected = 0;
  std::uint64_t waited = 0;  // of those acquired
  Nanos total_wait{0};
  std::uint64_t reclaimed = 0;  // stale slots taken back
  std::size_t waiting = 0;      // now
  bool held = false;            // now, by hold_until()
  Nanos held_for{0};            // from now on; Nanos::max() for a pause
  std::vector<LimitStatus> limits;

  Nanos average_wait() const {
    return acquired == 0 ? Nanos{0} : total_wait / static_cast<std::int64_t>(acquired);
  }
};

class Gate final : private Alarm {
 public:
  static constexpr std::size_t kLimitsMax = 16;
  // In the place of a limit's index: what refuses is hold_until().
  static constexpr std::uint8_t kHeld = 255;

  // Fails with kInvalidLimit for a limit out of range and for two limits of one name, with
  // kInvalidConfig for a stale_after that is negative or longer than kPeriodMax.
  static Result<std::unique_ptr<Gate>> create(GateConfig config,
                                              TimeSource time = TimeSource::system());
  ~Gate();

  // See Path for the outcomes; these are a path of this gate alone.
  std::expected<Permit, Refusal> try_acquire(const Request& request) {
    return try_acquire(request, clock_.now());
  }
  std::expected<Permit, Refusal> try_acquire(const Request& request, Instant now);
  Result<Permit> acquire(const Request& request, const Patience& patience = {});
  Ticket acquire_async(const Request& request, Instant deadline, Callback done) {
    return Path{*this}.acquire_async(request, deadline, std::move(done));
  }

  // Consumes `amount` of the first limit's unit if it is admitted now: an attempt without a
  // permit, for limits that lend nothing. The amount must be in [1, kAmountMax].
  bool try_spend(Amount amount) { return try_spend(amount, clock_.now()); }
  bool try_spend(Amount amount, Instant now) {
    if (fast_ && amount <= fast_->capacity()) [[likely]] {
      const AtomicBucket::Lateness late = word_.try_spend(*fast_, amount, now);
      // Two branches and not one index: the counter's address must not wait for the clock.
      if (late == 0) {
        counters_.add_one(kAcquired);
        return true;
      }
      if (late > 0) {
        counters_.add_one(kRefusedFast);
        return false;
      }
    }
    if (stock_ != nullptr && stock_->try_take(amount, now)) {
      counters_.add_one(kAcquired);
      return true;
    }
    return try_spend_locked(amount, now);
  }

  // What an attempt at `cost` would be told, without making it.
  Decision forecast(const Cost& cost, Instant now) const;

  // Gives units back that no permit stands for, never past the capacity (S0.4).
  void refund(const Cost& cost);

  // Replaces the limits while waiters wait. A limit keeps what it has left if one of its name was
  // there before; a new one starts full, except that slots held stay held. Waiters that can never
  // fit any more end with kNeverFits.
  // Fails as create() does, and then changes nothing.
  Result<void> set_limits(std::vector<LimitSpec> limits);

  // The limit of this name has at most `available` left: somebody else has counted it, too. One
  // that has less keeps it; slots, and a name that no limit has, change nothing. Wakes nobody. A
  // backing does not hear of it: what it counts is what was drawn here.
  void lower(std::string_view limit, Amount available, Instant now);

  // Ends every wait with `reason` and refuses everything from now on. Permits stay valid.
  void close(Errc reason = Errc::kClosed);

  // Ends every wait with `reason`, also of those who queue at another gate of their path. The gate
  // stays open.
  void end_waiters(Errc reason);

  // Admits nothing before `at`, whatever the limits say: a provider's Retry-After, or with
  // kEndOfTime a pause. Those who wait stay and are served from then on as the limits allow. Of two
  // holds the later wins; resume() ends them all.
  void hold_until(Instant at);
  void resume();

  // Looks at the waiters again: for a backing whose answer may have changed.
  void reconsider();
  // Calls Backing::look(), for a backing that wants to know how far the limits are used.
  void show_backing();

  // Whether a new gate with the same limits would admit no more than this one: nobody waits or
  // holds slots, every limit is full, and it is not held.
  bool at_rest() const;

  GateMetrics metrics() const;
  double level(std::size_t limit) const;  // what it holds, fractions included: for showing
  std::string limit_name(std::size_t limit) const;  // "hold" for kHeld
  const std::string& name() const { return name_; }
  Clock& clock() const { return clock_; }

 private:
  friend class Path;
  friend class Permit;
  class Hold;
  struct Verdict;
  struct Holder;
  enum Counter : std::size_t { kAcquired, kRefusedFast };

  Gate(GateConfig config, std::vector<Limit> limits, TimeSource time);
  static Result<std::vector<Limit>> make_limits(std::vector<LimitSpec> specs, Instant now);

  void ring(Instant now) override;
  bool try_spend_locked(Amount amount, Instant now);
  // Decides on the word alone; nothing if that takes the lock.
  std::optional<std::expected<Permit, Refusal>> try_fast(const Request& request, Instant now);
  // Admits if nobody waits, watches or backs; an empty permit leaves all other cases to the path.
  Permit try_undisturbed(const Request& request, Instant now);

  // All below want the lock (Hold).
  Verdict decide(const Cost& cost, Instant now, Effects& effects);
  // Lets the hold, if there is one, speak beside the limits.
  void add_hold(Verdict& verdict, Instant now) const;
  static Verdict check_all(const std::vector<Limit>& limits, const Cost& cost, Instant now);
  // When an attempt that is refused would be admitted, with those who wait served meanwhile.
  Verdict forecast_behind(std::vector<Limit> limits, const Cost& cost, int priority,
                          Instant now) const;
  // The limits as they are, those in the word included.
  std::vector<Limit> snapshot() const;
  bool waits_behind(int priority) const;
  // Whether the limits would admit who is next in the queue.
  bool waits_for_backing(Instant now) const;
  void count_hits(std::uint32_t refused, std::uint32_t& seen);
  void reject(const Request& request, const Refusal& refusal, Effects& effects);
  Backing::Answer draw(const Cost& cost, Instant now);
  void undraw(const Cost& cost, Instant now);
  Permit::Slot take(const Cost& cost, std::string_view agent, Instant now);
  bool is_stale(std::uint32_t index, Instant now) const;
  Amount stale_slots(Instant now) const;
  bool reclaim_stale(Instant now, Effects& effects);
  void give_back_slot(std::uint32_t index);
  Amount slots_held() const;
  // limits_[0] has the state from now on, and the stock stays held.
  void give_up_fast_path();
  std::int64_t share(const Cost& cost) const;
  void enqueue(Waiter& waiter);
  void arm(Instant now);
  void grant(Waiter& waiter, Permit permit, Instant now, Effects& effects);
  void all_waiters(std::vector<std::shared_ptr<Waiter>>& waiters) const;
  std::string_view label(std::size_t limit) const;
  // Serves the head while it waits for this gate alone; returns one that this gate would admit
  // and that others must be asked about, or null when the head has to wait.
  Waiter* serve_here(Instant now, Effects& effects);

  // These take the lock themselves.
  static void end_all(const std::vector<std::shared_ptr<Waiter>>& waiters, Errc reason, Instant now,
                      Effects& effects);
  void drain(Instant now, Effects& effects);
  // Adds the gates to whose queues waiters have moved.
  void drain_here(Instant now, std::vector<Gate*>& moved_to, Effects& effects);
  // Asks the other gates of the path of `waiter`, the head here; false if it waits for a backing.
  bool serve_path(Waiter& waiter, Instant now, std::vector<Gate*>& moved_to, Effects& effects);
  // `turn`: whose turn in this gate's queue it was; 0 if nobody's.
  void settle(const Permit& permit, std::uint64_t turn, const Cost& actual, Instant now,
              Effects& effects);
  void release(Permit::Slot slot);

  // Read by every attempt, written never after create().
  Clock& clock_;
  Timer& timer_;
  const std::optional<TokenBucket> fast_;  // the only limit, if it fits the word below
  const Unit unit_;                        // of the first limit
  Observer* const observer_;
  Backing* const backing_;
  Stock* const stock_;
  const bool limits_tell_;  // when to come back; else a backing has a say in it
  const std::string name_;
  const std::size_t waiters_max_;

  alignas(64) AtomicBucket word_;

  alignas(64) mutable std::mutex mutex_;
  // With a fast gate the word holds the state of limits_[0], until the limits change or the gate
  // closes: from then on the word stays held and limits_[0] has the state.
  bool word_in_use_;
  bool stock_in_use_;  // likewise, until the limits change or the gate closes
  std::vector<Limit> limits_;
  std::vector<std::uint64_t> hits_;
  std::vector<Instant> added_at_;  // by set_limits()
  std::unique_ptr<WaitQueue> queue_;
  std::unordered_set<Waiter*> passing_;  // waiters on longer paths, wherever they queue
  const Nanos stale_after_;
  std::vector<Holder> holders_;
  std::uint32_t free_holder_;
  std::uint32_t oldest_holder_;
  std::uint32_t newest_holder_;
  Instant armed_for_ = kEndOfTime;
  // Nothing is admitted before. Back at kNoHold once the alarm has rung: the word may go free then.
  static constexpr Instant kNoHold = Instant::min();
  Instant held_until_ = kNoHold;
  std::optional<Errc> closed_;  // and why
  GateMetrics totals_;          // all but what counters_ has

  Counters<2> counters_;
};

}  // namespace weir
