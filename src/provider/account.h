// Account: what is known of one credential for one model, from the provider's own answers.
//
// A gate at the bottom of the path that carries holds and learned limits; it has no configured
// ones. Safe to use from any thread; calls nobody back with its lock held. A learned limit slows
// down but never says never: a cost above it is admitted once it is full, on debt.
//
//   retry after    holds the gate until then, for every waiter.
//   429 without    a short hold, and the pace is cut in half; it grows by a tenth each 30 s (S0.9).
//   overload       a short hold, longer each time until an answer is served; nothing is cut.
//   exhaustion     exhausted() says so at once, waits end with kCapacityExhausted.
//   quotas         what headers state becomes a limit; what they say remains lowers it.
//
// After a hold those who waited are let go at a pace: the known rate, else the one that was served
// before. Refusals that come while the gate is held are of one event, however many there are.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "provider/account_rate.h"
#include "provider/pace_changes.h"
#include "provider/signals.h"
#include "weir/control/adaptive_capacity.h"
#include "weir/control/backoff.h"
#include "weir/gate/gate.h"

namespace weir {

struct Exhaustion {
  std::string reason;
  // When to ask again: at the reset, or where nobody knows it after 5 min, then twice as long each
  // time, up to 1 h.
  Instant until;
};

class Account final : private Alarm, public std::enable_shared_from_this<Account> {
 public:
  // `name`: of the gate. `seed`: for the jitter.
  // `changes`: hears of the pace; may be null.
  static std::shared_ptr<Account> create(std::string name, TimeSource time, std::uint64_t seed,
                                         std::shared_ptr<PaceChanges> changes = nullptr);
  ~Account();

  Gate& gate() { return *gate_; }

  // An answer has come to a call that was charged `charged`. May call waiters back.
  void answered(const Signals& signals, const Cost& charged, Instant now);

  // Requests in a time, as configured; nothing if unknown.
  void set_known_rate(std::optional<Rate> rate);

  // Nothing unless it is exhausted at `now`.
  std::optional<Exhaustion> exhausted(Instant now) const;

  // How fast those who waited are let go, in thousandths of a request a minute; nothing if nothing
  // paces it. Below `original` after 429s, and grown by a tenth every 30 s.
  struct Pace {
    Amount now;
    Amount original;
  };
  std::optional<Pace> pace() const;

  // Ends holds and exhaustion by hand; a pace stays.
  void resume();

  // Whether a new account would do as well: nothing holds, paces or closes it, and its gate is at
  // rest.
  bool at_rest() const;

 private:
  struct Learned {
    LimitSpec spec;     // named
    Instant stated_at;  // last
  };

  // Pauses that grow while refusals keep coming.
  class Pauses {
   public:
    Pauses(Nanos first, std::uint64_t seed);
    Nanos next();  // from half of its ceiling to all of it
    void reset();

   private:
    Backoff first_;
    Backoff backoff_;
    std::uint64_t seed_;
  };

  Account(std::string name, TimeSource time, std::uint64_t seed,
          std::shared_ptr<PaceChanges> changes);
  void ring(Instant now) override;

  // These want the lock.
  void refused(const Signals& signals, Instant now);
  void close(const Signals& signals, Instant now);
  void hold(Instant until);
  // As configured, or as the provider states it.
  std::optional<Rate> known_rate() const;
  void begin_pace(Instant now);
  void end_pace(Instant now);
  void arm();
  // The pace was `from` before.
  void note_pace(Amount from);
  void learn(const Quota& quota, Instant now);
  Learned* find(const Quota& quota);

  // These take it themselves.
  void lower(const Signals& signals, Instant now);
  // Gives the gate its limits if they have changed. May call waiters back.
  void apply();

  const TimeSource time_;
  const std::unique_ptr<Gate> gate_;
  const std::shared_ptr<PaceChanges> changes_;

  mutable std::mutex mutex_;
  RecentRate served_;
  std::optional<Rate> known_rate_;
  std::vector<Learned> learned_;
  std::optional<AdaptiveCapacity> pace_;  // in thousandths of a request a minute
  Instant pace_until_{};                  // or longer, while it is cut
  Nanos growth_interval_{0};              // where nobody knows the rate
  Instant held_until_{};
  Pauses limited_;
  Pauses overloaded_;
  std::optional<Exhaustion> exhaustion_;  // the last one
  Nanos probe_after_;
  bool limits_changed_ = false;
  bool applying_ = false;  // on some thread
};

}  // namespace weir
