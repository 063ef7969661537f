// Naive models of the algorithms, for tests: each keeps the list of all charges and applies its
// limit's promise to it, word by word. Slow, exact in 128 bits, and never clever.
//
// Their debts do not saturate: a test keeps them below what the algorithms can hold.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "weir/core/int128.h"
#include "weir/core/limit.h"

namespace weir::reference {

class Model {
 public:
  virtual ~Model() = default;

  // The largest cost that the promise allows at `now`; negative while in debt.
  virtual Amount available(Instant now) const = 0;
  virtual void charge(Amount cost, Instant now) = 0;
  virtual void refund(Amount amount, Instant charged_at, Instant now) = 0;
};

// Buckets. Every interval from a past event to now has at most `burst` plus what it earned,
// counting charges less refunds. A refund leaves no more than the burst behind: it begins an
// interval of its own, which does not count it.
class BucketModel : public Model {
 public:
  // Full at `start`; earns `earned` units in each `each` of time.
  BucketModel(Amount burst, Int128 earned, Int128 each, Int128 start)
      : burst_(burst), earned_(earned), each_(each), events_{{start, 0}} {}

  Amount available(Instant now) const override {
    const Int128 units = burst_ + floor_div(shortfall(time(now)), each_);
    return static_cast<Amount>(std::max<Int128>(units, -kAmountMax));
  }
  void charge(Amount cost, Instant now) override {
    events_.push_back({time(now), cost});
    pass(now);
  }
  void refund(Amount amount, Instant /*charged_at*/, Instant now) override {
    if (shortfall(time(now)) < 0) events_.push_back({time(now), -amount});
    pass(now);
  }

 protected:
  virtual Int128 time(Instant now) const { return clamp_instant(now).time_since_epoch().count(); }
  virtual void pass(Instant /*now*/) {}

 private:
  struct Event {
    Int128 at;
    Amount amount;  // negative: a refund
  };

  // What is missing from a full bucket at `time`, in 1/each_ of a unit; zero or negative.
  Int128 shortfall(Int128 time) const {
    Int128 least = 0;
    Int128 spent = 0;
    for (auto event = events_.rbegin(); event != events_.rend(); ++event) {
      if (event->amount > 0) spent += event->amount;
      least = std::min(least, earned_ * (time - event->at) - spent * each_);
      if (event->amount < 0) spent += event->amount;
    }
    return least;
  }

  Amount burst_;
  Int128 earned_;
  Int128 each_;
  std::vector<Event> events_;
};

// A bucket whose time is the number of steps it has seen.
class SteppedModel : public BucketModel {
 public:
  SteppedModel(SteppedSpec spec, Instant start)
      : BucketModel(spec.max, spec.refill, 1, 0),
        every_(spec.every),
        start_(clamp_instant(start)) {}

 protected:
  Int128 time(Instant now) const override {
    return std::max<Int128>(steps_seen_, (clamp_instant(now) - start_) / every_);
  }
  void pass(Instant now) override { steps_seen_ = time(now); }

 private:
  Nanos every_;
  Instant start_;
  Int128 steps_seen_ = 0;
};

// At most the limit in each window; the first charge after a window's end begins the next, which
// lasts for a period or, on a calendar, to its end.
class FixedWindowModel : public Model {
 public:
  FixedWindowModel(Rate rate, std::shared_ptr<const WindowEnds> ends)
      : rate_(rate), ends_(std::move(ends)) {}

  Amount available(Instant now) const override {
    if (!running(now)) return rate_.amount;
    Amount used = 0;
    for (Amount charge : windows_.back().charges) used = std::max<Amount>(used + charge, 0);
    return rate_.amount - used;
  }
  void charge(Amount cost, Instant now) override {
    if (!running(now)) windows_.push_back({clamp_instant(now), {}});
    windows_.back().charges.push_back(cost);
  }
  void refund(Amount amount, Instant charged_at, Instant now) override {
    if (!running(now) || clamp_instant(charged_at) < windows_.back().start) return;
    windows_.back().charges.push_back(-amount);
  }

 private:
  struct Window {
    Instant start;
    std::vector<Amount> charges;  // negative: a refund
  };

  bool running(Instant now) const {
    if (windows_.empty()) return false;
    const Instant start = windows_.back().start;
    return clamp_instant(now) < (ends_ == nullptr ? start + rate_.period : ends_->after(start));
  }

  Rate rate_;
  std::shared_ptr<const WindowEnds> ends_;
  std::vector<Window> windows_;
};

// previous × overlap + current <= limit, in windows numbered from start().
class SlidingWindowModel : public Model {
 public:
  SlidingWindowModel(Rate rate, Instant start) : rate_(rate), start_(clamp_instant(start)) {}

  Amount available(Instant now) const override {
    const std::int64_t window = number(now);
    const Nanos into = std::max(clamp_instant(now) - begin(window), Nanos{0});
    const Int128 weighted = used(window - 1) * (rate_.period - into).count();
    return static_cast<Amount>(floor_div(
        (rate_.amount - used(window)) * rate_.period.count() - weighted, rate_.period.count()));
  }
  void charge(Amount cost, Instant now) override {
    seen_ = number(now);
    windows_[seen_] += cost;
  }
  void refund(Amount amount, Instant charged_at, Instant now) override {
    seen_ = number(now);
    if (clamp_instant(charged_at) < begin(seen_)) return;
    windows_[seen_] = std::max<Int128>(used(seen_) - amount, 0);
  }

 private:
  std::int64_t number(Instant now) const {
    return std::max<std::int64_t>(seen_, (clamp_instant(now) - start_) / rate_.period);
  }
  Instant begin(std::int64_t window) const { return start_ + window * rate_.period; }
  Int128 used(std::int64_t window) const {
    const auto found = windows_.find(window);
    return found == windows_.end() ? 0 : found->second;
  }

  Rate rate_;
  Instant start_;
  std::int64_t seen_ = 0;  // a clock that runs backwards does not reopen a window
  std::map<std::int64_t, Int128> windows_;
};

// At most the limit in every period. A charge by a clock that runs backwards counts from the
// latest charge on.
class SlidingLogModel : public Model {
 public:
  explicit SlidingLogModel(Rate rate) : rate_(rate) {}

  Amount available(Instant now) const override {
    Amount used = 0;
    for (const Charge& charge : charges_) used += counts(charge, now) ? charge.amount : 0;
    return rate_.amount - used;
  }
  void charge(Amount cost, Instant now) override {
    std::erase_if(charges_, [&](const Charge& charge) { return !counts(charge, now); });
    latest_ = std::max(latest_, clamp_instant(now));
    charges_.push_back({latest_, cost});
  }
  void refund(Amount amount, Instant charged_at, Instant now) override {
    for (Charge& charge : charges_) {
      if (charge.at != clamp_instant(charged_at) || !counts(charge, now)) continue;
      const Amount back = std::min(amount, charge.amount);
      charge.amount -= back;
      amount -= back;
    }
  }

 private:
  struct Charge {
    Instant at;
    Amount amount;
  };

  bool counts(const Charge& charge, Instant now) const {
    return clamp_instant(now) < charge.at + rate_.period;
  }

  Rate rate_;
  Instant latest_{};
  std::vector<Charge> charges_;
};

// The model of any limit but warm-up, which has no such promise, and concurrency, which is one
// subtraction.
inline std::unique_ptr<Model> model_of(const Limit& limit, Instant start) {
  const LimitSpec& spec = limit.spec();
  const Rate rate{spec.amount, spec.period};
  const std::int64_t start_ns = clamp_instant(start).time_since_epoch().count();
  switch (spec.algorithm) {
    case LimitSpec::Algorithm::kTokenBucket:
      if (const TokenBucket* bucket = limit.bucket()) {  // whose rate may be rounded down
        return std::make_unique<BucketModel>(spec.burst, bucket->ticks().per_nano,
                                             bucket->ticks().per_unit, start_ns);
      }
      return std::make_unique<BucketModel>(spec.burst, spec.amount, spec.period.count(), start_ns);
    case LimitSpec::Algorithm::kStepped:
      return std::make_unique<SteppedModel>(SteppedSpec{spec.burst, spec.amount, spec.period},
                                            start);
    case LimitSpec::Algorithm::kFixedWindow:
      return std::make_unique<FixedWindowModel>(rate, spec.ends);
    case LimitSpec::Algorithm::kSlidingWindow:
      return std::make_unique<SlidingWindowModel>(rate, start);
    case LimitSpec::Algorithm::kSlidingLog: return std::make_unique<SlidingLogModel>(rate);
    case LimitSpec::Algorithm::kConcurrency:
    case LimitSpec::Algorithm::kWarmUp: break;
  }
  return nullptr;
}

}  // namespace weir::reference
