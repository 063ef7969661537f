// What a 429 does to a capacity: cut at once, grown back step by step.
//
// Pure arithmetic: no clock, lock or I/O. The caller supplies `now`; whoever owns the object
// supplies atomicity. Enforces nothing: its owner gives capacity() to a gate. A `now` earlier
// than one seen before makes no recovery come sooner.
#pragma once

#include <algorithm>

#include "weir/control/factor.h"
#include "weir/core/cost.h"
#include "weir/core/error.h"
#include "weir/core/time.h"

namespace weir {

class AdaptiveCapacity {
 public:
  struct Config {
    Amount original = 0;
    double reduce_factor = 0.5;
    Nanos recovery_interval = std::chrono::seconds{30};
    double recovery_factor = 1.1;
    bool max_recovery = true;  // the original is the ceiling
    // Cuts within this time of the last one are the same event: ten answers of 429 in flight are
    // one. Usually the limit's own window; 0 counts each.
    Nanos window{0};
  };

  // Starts at the original. Fails with kInvalidCapacity unless that lies in [1, kAmountMax]; with
  // kInvalidConfig unless reduce_factor lies in [10^-6, 1), recovery_factor in [1 + 10^-6, 10^6],
  // recovery_interval in (0, kPeriodMax] and window in [0, kPeriodMax]. Factors count to six
  // decimals.
  static Result<AdaptiveCapacity> create(const Config& config);

  Amount capacity() const { return capacity_; }  // in [1, kAmountMax]
  Amount original() const { return original_; }

  // Multiplies by reduce_factor, rounded down but never below 1. True if the capacity changed;
  // where it was 1 already, the wait for recovery still begins anew.
  bool reduce(Instant now);

  // Somebody else's cut. Only ever lowers: a capacity that is not positive or not below the
  // current one changes nothing.
  bool reduce_to(Amount capacity, Instant now);

  // Grows once for each whole interval since the last cut or growth: by recovery_factor, rounded
  // down, but by 1 at least. True if the capacity changed.
  bool recover(Instant now);

  // When recover() has something to do; kEndOfTime if never.
  Instant next_recovery() const { return next_recovery_; }

 private:
  explicit AdaptiveCapacity(const Config& config);

  bool cut_to(Amount capacity, Instant now);
  void recover_after(Instant at) {
    next_recovery_ = capacity_ < ceiling_ ? at + recovery_interval_ : kEndOfTime;
  }

  Amount original_;
  Amount ceiling_;
  Factor reduce_factor_;
  Factor recovery_factor_;
  Nanos recovery_interval_;
  Nanos window_;

  Amount capacity_;
  Instant last_cut_ = Instant::min();
  Instant next_recovery_ = kEndOfTime;
};

}  // namespace weir
