// Limit: how much of one unit, by which algorithm; and the state that it counts in.
//
// The one place that knows all algorithms. A Limit is a plain value without a lock: whoever owns
// it supplies atomicity, and `now`.
#pragma once

#include <string>
#include <variant>

#include "weir/core/concurrency.h"
#include "weir/core/fixed_window.h"
#include "weir/core/sliding_log.h"
#include "weir/core/sliding_window.h"
#include "weir/core/stepped_bucket.h"
#include "weir/core/token_bucket.h"
#include "weir/core/warm_up.h"

namespace weir {

struct LimitSpec {
  enum class Algorithm : std::uint8_t {
    kTokenBucket,
    kStepped,
    kFixedWindow,
    kSlidingWindow,
    kSlidingLog,
    kConcurrency,
    kWarmUp,
  };
  // What happens to a cost above the capacity: refused for good, or admitted as soon as the limit
  // is full and paid for by those who come next (S1.1).
  enum class Oversize : std::uint8_t { kNever, kOnDebt };

  Unit unit = Unit::kRequests;
  Algorithm algorithm = Algorithm::kTokenBucket;
  Amount amount = 0;
  Nanos period{0};
  Amount burst = 0;  // token bucket: what it holds; stepped: its maximum
  Nanos warm_up{0};  // warm-up only
  Oversize oversize = Oversize::kNever;
  std::string name = {};  // in refusals and metrics; default: "tokens per 1m", "slots"
  // Fixed window only: puts it on a calendar. Null: a window starts at its first request.
  std::shared_ptr<const WindowEnds> ends = {};

  // A burst of 0 means `amount`.
  static LimitSpec token_bucket(Unit unit, Rate rate, Amount burst = 0);
  static LimitSpec stepped(Unit unit, SteppedSpec spec);
  static LimitSpec fixed_window(Unit unit, Rate rate);
  static LimitSpec sliding_window(Unit unit, Rate rate);
  static LimitSpec sliding_log(Unit unit, Rate rate);
  static LimitSpec concurrency(Amount max);
  static LimitSpec warm_up_rate(Unit unit, WarmUpSpec spec);

  friend bool operator==(const LimitSpec&, const LimitSpec&) = default;
};

class Limit {
 public:
  // Nobody has used it yet. Fails with kInvalidLimit and a message that names the limit.
  static Result<Limit> create(LimitSpec spec, Instant now);

  const LimitSpec& spec() const { return spec_; }
  Unit unit() const { return spec_.unit; }
  bool borrowed() const { return spec_.unit == Unit::kSlots; }

  // As in algorithm.h, for a cost in [0, kAmountMax]; a cost of 0 is admitted whatever the state.
  Decision check(Amount cost, Instant now) const;
  void take(Amount cost, Instant now);
  void refund(Amount amount, Instant charged_at, Instant now);
  Amount available(Instant now) const;
  Amount capacity() const;

  // Returns borrowed slots; for a consumed unit it does nothing.
  void give_back(Amount amount);

  // Takes over what `old` has left: its tokens, at most the new capacity (S0.3), its slots, its
  // running window. Changing a limit mints nothing.
  void carry_over(const Limit& old, Instant now);

  // cost ÷ limit as a 32.32 fixed-point number: what fairness counts in. The limit of a rate is its
  // amount, not its burst: who uses much of a small burst does not thereby use much of the quota.
  // At least 1 for a cost of at least 1; at most 2^20 limits, so that sums stay inside 64 bits.
  std::int64_t share(Amount cost) const;

  // The one-word token bucket inside, if this is one; for gates that keep its state in an atomic.
  const TokenBucket* bucket() const;
  TokenBucket::State& bucket_state();

  // Its use written down (mark.h): for all but slots and warm-ups, whose use is not.
  bool markable() const;
  Mark mark(Amount ahead, Instant now, Nanos slack) const;
  bool covers(const Mark& mark, Amount cost, Instant now) const;
  void resume(const Mark& mark, Instant now);
  Instant void_at(const Mark& mark) const;
  // The start of the window that counts at `now`; of a limit without windows, or one whose window
  // has not opened, `now`.
  Instant window_start(Instant now) const;

  // What it holds in units, fractions included: for showing, not for deciding.
  double level(Instant now) const;

 private:
  template <class A>
  struct Counted {
    A algorithm;
    typename A::State state;
  };
  using Any = std::variant<Counted<TokenBucket>, Counted<WideTokenBucket>, Counted<SteppedBucket>,
                           Counted<FixedWindow>, Counted<SlidingWindow>, Counted<SlidingLog>,
                           Counted<Concurrency>, Counted<WarmUp>>;

  Limit(LimitSpec spec, Any any) : spec_(std::move(spec)), any_(std::move(any)) {}
  static Result<Any> count(const LimitSpec& spec, Instant now);

  // The two algorithms of nearly every gate are asked first, in line.
  template <class Self, class F>
  static auto visit_any(Self& any, F f) {
    if (auto* bucket = std::get_if<Counted<TokenBucket>>(&any)) return f(*bucket);
    if (auto* slots = std::get_if<Counted<Concurrency>>(&any)) return f(*slots);
    return std::visit(f, any);
  }
  template <class F>
  auto visit(F f) const {
    return visit_any(any_, f);
  }
  template <class F>
  auto visit(F f) {
    return visit_any(any_, f);
  }

  LimitSpec spec_;
  Any any_;
};

inline Decision Limit::check(Amount cost, Instant now) const {
  if (cost == 0) return Decision::admit();
  if (spec_.oversize == LimitSpec::Oversize::kOnDebt) cost = std::min(cost, capacity());
  return visit(
      [=](const auto& counted) { return counted.algorithm.check(counted.state, cost, now); });
}

inline void Limit::take(Amount cost, Instant now) {
  if (cost == 0) return;
  visit([=](auto& counted) { counted.algorithm.take(counted.state, cost, now); });
}

}  // namespace weir
