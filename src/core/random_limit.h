// Random limits, costs and instants for property tests: small and awkward numbers, primes, and the
// ends of the accepted ranges, each far more often than chance would bring them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <random>

#include "weir/core/limit.h"

namespace weir::reference {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}

  // From `low` to `high`, both included; `low` if there is nothing between them.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>{low, std::max(low, high)}(engine_);
  }
  bool one_in(int n) { return between(1, n) == 1; }

  // Of any magnitude from 1 to `max`: a factor of ten is as likely as the next.
  std::int64_t magnitude(std::int64_t max) {
    std::int64_t top = max;
    for (auto steps = between(0, 18); steps > 0 && top > 10; --steps) top /= 10;
    return between(1, top);
  }
  template <class T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[between(0, static_cast<std::int64_t>(values.size()) - 1)];
  }

  Amount amount(Amount max = kAmountMax) {
    const Amount any = magnitude(max);
    return std::min(max, pick<Amount>({any, any, any, 1, 2, 3, 7, 11, 4096, 4097, 99'991,
                                       999'999'937, 1'000'000'000, max - 1, max}));
  }
  Nanos period() {
    using std::chrono::days, std::chrono::minutes, std::chrono::seconds;
    const Nanos any{magnitude(kPeriodMax.count())};
    return pick<Nanos>({any, any, any, Nanos{1}, Nanos{3}, Nanos{999'999'937}, seconds{1},
                        seconds{3}, minutes{1}, minutes{11}, days{1}, kPeriodMax - Nanos{1},
                        kPeriodMax});
  }
  Instant instant() {
    return Instant{} + pick<Nanos>({Nanos{0}, Nanos{1}, Nanos{magnitude(kTenYears.count())},
                                    std::chrono::days{3}, kTenYears - Nanos{1}, kTenYears});
  }

 private:
  std::mt19937_64 engine_;
};

inline constexpr LimitSpec::Algorithm kAlgorithms[] = {
    LimitSpec::Algorithm::kTokenBucket, LimitSpec::Algorithm::kStepped,
    LimitSpec::Algorithm::kFixedWindow, LimitSpec::Algorithm::kSlidingWindow,
    LimitSpec::Algorithm::kSlidingLog,  LimitSpec::Algorithm::kConcurrency,
    LimitSpec::Algorithm::kWarmUp,
};

inline const char* name(LimitSpec::Algorithm algorithm) {
  switch (algorithm) {
    case LimitSpec::Algorithm::kTokenBucket: return "TokenBucket";
    case LimitSpec::Algorithm::kStepped: return "Stepped";
    case LimitSpec::Algorithm::kFixedWindow: return "FixedWindow";
    case LimitSpec::Algorithm::kSlidingWindow: return "SlidingWindow";
    case LimitSpec::Algorithm::kSlidingLog: return "SlidingLog";
    case LimitSpec::Algorithm::kConcurrency: return "Concurrency";
    case LimitSpec::Algorithm::kWarmUp: return "WarmUp";
  }
  return "unknown";
}

inline LimitSpec random_spec(LimitSpec::Algorithm algorithm, Dice& dice) {
  const Rate rate{dice.amount(), dice.period()};
  switch (algorithm) {
    case LimitSpec::Algorithm::kTokenBucket:
      return LimitSpec::token_bucket(Unit::kTokens, rate, dice.amount());
    case LimitSpec::Algorithm::kStepped:
      return LimitSpec::stepped(Unit::kTokens, {dice.amount(), rate.amount, rate.period});
    case LimitSpec::Algorithm::kFixedWindow: return LimitSpec::fixed_window(Unit::kTokens, rate);
    case LimitSpec::Algorithm::kSlidingWindow:
      return LimitSpec::sliding_window(Unit::kTokens, rate);
    case LimitSpec::Algorithm::kSlidingLog: return LimitSpec::sliding_log(Unit::kTokens, rate);
    case LimitSpec::Algorithm::kConcurrency: return LimitSpec::concurrency(rate.amount);
    case LimitSpec::Algorithm::kWarmUp:
      return LimitSpec::warm_up_rate(Unit::kTokens, {rate, dice.period()});
  }
  return {};
}

// Windows on a calendar whose days differ: of a period and a third, then of two thirds, in turn.
class UnevenEnds final : public WindowEnds {
 public:
  explicit UnevenEnds(Nanos period, Nanos first = Nanos{0}) : period_(period), first_(first) {}

  Instant after(Instant now) const override {
    const std::int64_t pair = (now.time_since_epoch() + 2 * period_ - first_) / (2 * period_) - 1;
    const Instant start = Instant{first_} + pair * 2 * period_;
    const Instant middle = start + period_ + period_ / 3;
    return now < middle ? middle : start + 2 * period_;
  }

 private:
  Nanos period_;
  Nanos first_;  // in [0, 2 × period)
};

inline LimitSpec on_calendar(LimitSpec spec, Nanos first = Nanos{0}) {
  spec.ends = std::make_shared<UnevenEnds>(spec.period, first);
  return spec;
}

// A random limit that creation accepts.
inline Limit random_limit(LimitSpec::Algorithm algorithm, Dice& dice, Instant start) {
  for (;;) {
    if (auto limit = Limit::create(random_spec(algorithm, dice), start)) return *std::move(limit);
  }
}

}  // namespace weir::reference
