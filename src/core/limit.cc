#include "weir/core/limit.h"

#include <algorithm>
#include <utility>

namespace weir {
namespace {

constexpr Int128 kShareMax = Int128{1} << 52;

std::string spell(Nanos period) {
  const auto ns = period.count();
  for (const auto& [unit_ns, suffix] : {std::pair{86'400'000'000'000, "d"},
                                        {3'600'000'000'000, "h"},
                                        {60'000'000'000, "m"},
                                        {1'000'000'000, "s"},
                                        {1'000'000, "ms"}}) {
    if (ns % unit_ns == 0) return std::to_string(ns / unit_ns) + suffix;
  }
  return std::to_string(ns) + "ns";
}

std::string default_name(const LimitSpec& spec) {
  const std::string unit{name(spec.unit)};
  return spec.algorithm == LimitSpec::Algorithm::kConcurrency ? unit
                                                              : unit + " per " + spell(spec.period);
}

}  // namespace

LimitSpec LimitSpec::token_bucket(Unit unit, Rate rate, Amount burst) {
  return {.unit = unit,
          .algorithm = Algorithm::kTokenBucket,
          .amount = rate.amount,
          .period = rate.period,
          .burst = burst == 0 ? rate.amount : burst};
}

LimitSpec LimitSpec::stepped(Unit unit, SteppedSpec spec) {
  return {.unit = unit,
          .algorithm = Algorithm::kStepped,
          .amount = spec.refill,
          .period = spec.every,
          .burst = spec.max};
}

LimitSpec LimitSpec::fixed_window(Unit unit, Rate rate) {
  return {.unit = unit,
          .algorithm = Algorithm::kFixedWindow,
          .amount = rate.amount,
          .period = rate.period};
}

LimitSpec LimitSpec::sliding_window(Unit unit, Rate rate) {
  return {.unit = unit,
          .algorithm = Algorithm::kSlidingWindow,
          .amount = rate.amount,
          .period = rate.period};
}

LimitSpec LimitSpec::sliding_log(Unit unit, Rate rate) {
  return {.unit = unit,
          .algorithm = Algorithm::kSlidingLog,
          .amount = rate.amount,
          .period = rate.period};
}

LimitSpec LimitSpec::concurrency(Amount max) {
  return {.unit = Unit::kSlots, .algorithm = Algorithm::kConcurrency, .amount = max};
}

LimitSpec LimitSpec::warm_up_rate(Unit unit, WarmUpSpec spec) {
  return {.unit = unit,
          .algorithm = Algorithm::kWarmUp,
          .amount = spec.rate.amount,
          .period = spec.rate.period,
          .warm_up = spec.warm_up};
}

Result<Limit::Any> Limit::count(const LimitSpec& spec, Instant now) {
  const auto counted = [now](const auto& algorithm) -> Result<Any> {
    if (!algorithm) return std::unexpected(algorithm.error());
    return Counted<std::decay_t<decltype(*algorithm)>>{*algorithm, algorithm->start(now)};
  };
  const Rate rate{spec.amount, spec.period};
  switch (spec.algorithm) {
    case LimitSpec::Algorithm::kTokenBucket: {
      const auto bucket = TokenBucket::create({rate, spec.burst});
      return bucket ? counted(bucket) : counted(WideTokenBucket::create({rate, spec.burst}));
    }
    case LimitSpec::Algorithm::kStepped:
      return counted(SteppedBucket::create({spec.burst, spec.amount, spec.period}));
    case LimitSpec::Algorithm::kFixedWindow: return counted(FixedWindow::create(rate, spec.ends));
    case LimitSpec::Algorithm::kSlidingWindow: return counted(SlidingWindow::create(rate));
    case LimitSpec::Algorithm::kSlidingLog: return counted(SlidingLog::create(rate));
    case LimitSpec::Algorithm::kConcurrency: return counted(Concurrency::create(spec.amount));
    case LimitSpec::Algorithm::kWarmUp: return counted(WarmUp::create({rate, spec.warm_up}));
  }
  return fail(Errc::kInvalidLimit, "unknown algorithm");
}

Result<Limit> Limit::create(LimitSpec spec, Instant now) {
  if (spec.name.empty()) spec.name = default_name(spec);
  const bool counts_slots = spec.unit == Unit::kSlots;
  if (counts_slots != (spec.algorithm == LimitSpec::Algorithm::kConcurrency)) {
    return fail(Errc::kInvalidLimit,
                spec.name + ": slots, and nothing else, are limited by concurrency");
  }
  if (spec.ends != nullptr && spec.algorithm != LimitSpec::Algorithm::kFixedWindow) {
    return fail(Errc::kInvalidLimit, spec.name + ": only fixed windows stand on a calendar");
  }
  auto any = count(spec, now);
  if (!any) return fail(any.error().code, spec.name + ": " + any.error().message);
  return Limit{std::move(spec), std::move(*any)};
}

void Limit::refund(Amount amount, Instant charged_at, Instant now) {
  if (amount == 0) return;
  visit([=](auto& counted) { counted.algorithm.refund(counted.state, amount, charged_at, now); });
}

Amount Limit::available(Instant now) const {
  return visit(
      [=](const auto& counted) { return counted.algorithm.available(counted.state, now); });
}

Amount Limit::capacity() const {
  return visit([](const auto& counted) { return counted.algorithm.capacity(); });
}

void Limit::give_back(Amount amount) {
  if (auto* slots = std::get_if<Counted<Concurrency>>(&any_)) {
    slots->algorithm.give_back(slots->state, amount);
  }
}

void Limit::carry_over(const Limit& old, Instant now) {
  // Buckets of either width hand over fractions of a token too, so that a limit that is changed
  // often does not lose them.
  const auto level_of = [now]<class Ticks>(const Counted<BasicTokenBucket<Ticks>>& from) {
    return std::pair<Int128, Int128>{from.algorithm.level(from.state, now),
                                     from.algorithm.ticks().per_unit};
  };
  const auto from_bucket = [&](auto& into) {
    const auto [level, per_unit] = std::holds_alternative<Counted<TokenBucket>>(old.any_)
                                       ? level_of(std::get<Counted<TokenBucket>>(old.any_))
                                       : level_of(std::get<Counted<WideTokenBucket>>(old.any_));
    into.state = into.algorithm.holding(level, per_unit, now);
  };
  const bool old_is_bucket = old.spec_.algorithm == LimitSpec::Algorithm::kTokenBucket;
  std::visit(
      [&]<class A>(Counted<A>& into) {
        constexpr bool kIsBucket =
            std::is_same_v<A, TokenBucket> || std::is_same_v<A, WideTokenBucket>;
        const auto* same = std::get_if<Counted<A>>(&old.any_);
        // Windows and steps of the same length go on; what was counted in them stays counted.
        const bool goes_on = same != nullptr && old.spec_.period == spec_.period;
        if constexpr (kIsBucket) {
          if (old_is_bucket) return from_bucket(into);
        } else if constexpr (std::is_same_v<A, Concurrency>) {
          if (same != nullptr) into.state = same->state;
          return;
        } else if constexpr (std::is_same_v<A, WarmUp>) {
          if (same != nullptr) {
            into.state = into.algorithm.carried(same->algorithm, same->state, now);
            return;
          }
          // After another algorithm it is cold, and not free before that one would have admitted.
          const Instant due = clamp_instant(now) + old.check(1, now).retry_after;
          into.state.free_at = into.algorithm.ticks().of_nanos(
              std::min(due.time_since_epoch(), TickRate<std::int64_t>::kLatest));
          return;
        } else if constexpr (std::is_same_v<A, SteppedBucket>) {
          if (goes_on) into.state.last_step = same->state.last_step;
        } else if constexpr (std::is_same_v<A, SlidingLog> || std::is_same_v<A, FixedWindow>) {
          if (goes_on) {
            into.state = into.algorithm.carried(same->state, now);
            return;
          }
        } else if (goes_on) {
          into.state = same->state;
          return;
        }
        // Anything else starts full and is charged down to what the old one had left.
        const Amount left = std::min(old.available(now), into.algorithm.capacity());
        const Amount missing = into.algorithm.capacity() - left;
        if (missing > 0) into.algorithm.take(into.state, missing, now);
      },
      any_);
}

std::int64_t Limit::share(Amount cost) const {
  if (cost == 0) return 0;
  const bool by_rate = spec_.algorithm == LimitSpec::Algorithm::kTokenBucket ||
                       spec_.algorithm == LimitSpec::Algorithm::kWarmUp;
  const Int128 share = (static_cast<Int128>(cost) << 32) / (by_rate ? spec_.amount : capacity());
  return static_cast<std::int64_t>(std::clamp<Int128>(share, 1, kShareMax));
}

const TokenBucket* Limit::bucket() const {
  const auto* counted = std::get_if<Counted<TokenBucket>>(&any_);
  return counted == nullptr ? nullptr : &counted->algorithm;
}

TokenBucket::State& Limit::bucket_state() { return std::get<Counted<TokenBucket>>(any_).state; }

bool Limit::markable() const {
  return std::visit([]<class A>(const Counted<A>&) { return Markable<A>; }, any_);
}

Mark Limit::mark(Amount ahead, Instant now, Nanos slack) const {
  return visit([&]<class A>(const Counted<A>& counted) -> Mark {
    if constexpr (Markable<A>) return counted.algorithm.mark(counted.state, ahead, now, slack);
    return {};
  });
}

bool Limit::covers(const Mark& mark, Amount cost, Instant now) const {
  return visit([&]<class A>(const Counted<A>& counted) {
    if constexpr (Markable<A>) return counted.algorithm.covers(mark, counted.state, cost, now);
    return true;
  });
}

void Limit::resume(const Mark& mark, Instant now) {
  visit([&]<class A>(Counted<A>& counted) {
    if constexpr (Markable<A>) counted.algorithm.resume(counted.state, mark, now);
  });
}

Instant Limit::void_at(const Mark& mark) const {
  return visit([&]<class A>(const Counted<A>& counted) -> Instant {
    if constexpr (Markable<A>) return counted.algorithm.void_at(mark);
    return {};
  });
}

Instant Limit::window_start(Instant now) const {
  if (const auto* window = std::get_if<Counted<FixedWindow>>(&any_)) {
    return now < window->state.end ? window->state.start : now;
  }
  if (const auto* window = std::get_if<Counted<SlidingWindow>>(&any_)) {
    return window->algorithm.began(window->state, now);
  }
  return now;
}

double Limit::level(Instant now) const {
  return std::visit(
      [&]<class A>(const Counted<A>& counted) {
        if constexpr (std::is_same_v<A, TokenBucket> || std::is_same_v<A, WideTokenBucket>) {
          return static_cast<double>(counted.algorithm.level(counted.state, now)) /
                 static_cast<double>(counted.algorithm.ticks().per_unit);
        } else {
          return static_cast<double>(counted.algorithm.available(counted.state, now));
        }
      },
      any_);
}

}  // namespace weir
