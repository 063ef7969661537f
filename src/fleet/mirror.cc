#include "fleet/mirror.h"

#include <algorithm>

#include "weir/core/int128.h"

namespace weir::fleet {
namespace {

using Algorithm = LimitSpec::Algorithm;
using std::chrono::microseconds;

// A grant lasts so long, where nothing demands less.
constexpr Nanos kTtl = std::chrono::seconds{10};
// A bucket's grants live for this part of the time it takes to fill, and cost it as much burst.
constexpr std::int64_t kFillParts = 20;
// A log's grants, and its slices in the script, for this part of its period.
constexpr std::int64_t kLogParts = 400;
constexpr Amount kReserveParts = 100;
// A mirror of a log cannot know when its oldest part goes: it looks again this soon.
constexpr Nanos kLogAgain = std::chrono::milliseconds{100};

Micros micros(Nanos time) { return time.count() / 1000; }
Micros micros_up(Nanos time) { return (time.count() + 999) / 1000; }

Amount earned(const LimitSpec& spec, Nanos time) {
  const Int128 units =
      (Int128{spec.amount} * time.count() + spec.period.count() - 1) / spec.period.count();
  return static_cast<Amount>(std::min<Int128>(units, kAmountMax));
}

void bucket_terms(LeaseTerms& terms, Nanos patience, bool reserves) {
  LimitSpec& spec = terms.spec;
  const Int128 fill = Int128{spec.burst} * spec.period.count() / spec.amount;
  const Nanos fills{static_cast<std::int64_t>(std::min<Int128>(fill, kPeriodMax.count()))};
  terms.ttl = std::clamp(fills / kFillParts, std::min(4 * patience, fills / 4), kTtl);
  const Amount reserve = reserves ? spec.burst / kReserveParts : 0;
  const Amount burst = spec.burst - earned(spec, terms.ttl) - reserve;
  terms.single = terms.ttl < 2 * patience || burst < 1;
  if (terms.single) {
    terms.ttl = patience;
  } else {
    spec.burst = burst;
    terms.reserve = reserve;
  }
}

Instant here(Micros book, Micros then, Instant at) { return at + microseconds{book - then}; }

Limit fresh(const LimitSpec& spec, Instant now) { return Limit::create(spec, now).value(); }

}  // namespace

std::optional<LeaseTerms> terms_of(const LimitSpec& spec, Nanos patience, bool reserves) {
  LeaseTerms terms{.ttl = kTtl, .spec = spec};
  const Amount reserve = reserves ? spec.amount / kReserveParts : 0;
  switch (spec.algorithm) {
    case Algorithm::kTokenBucket:
      terms.kind = LeaseKind::kBucket;
      bucket_terms(terms, patience, reserves);
      return terms;
    case Algorithm::kFixedWindow:
      terms.kind = LeaseKind::kWindow;
      terms.reserve = reserve;
      return terms;
    case Algorithm::kSlidingWindow:
      terms.kind = LeaseKind::kCounter;
      terms.reserve = reserve;
      return terms;
    case Algorithm::kStepped: terms.kind = LeaseKind::kStepped; return terms;
    case Algorithm::kSlidingLog:
      terms.kind = LeaseKind::kLog;
      terms.ttl = std::min(kTtl, spec.period / kLogParts);
      terms.single = terms.ttl < 2 * patience;
      if (terms.single) terms.ttl = patience;
      return terms;
    case Algorithm::kConcurrency: terms.kind = LeaseKind::kSlots; return terms;
    case Algorithm::kWarmUp: return {};
  }
  return {};
}

LeaseAsk ask_of(const LeaseTerms& terms, const Calendar& calendar, Instant now) {
  const LimitSpec& spec = terms.spec;
  LeaseAsk ask{.limit = spec.name,
               .kind = terms.kind,
               .amount = spec.amount,
               .period = micros(spec.period),
               .burst = spec.burst,
               .ttl = micros(terms.ttl)};
  if (spec.ends != nullptr) {
    // Redis's clock may be a little ahead or behind.
    Instant end = spec.ends->after(std::max(clamp_instant(now) - spec.period, Instant{}));
    for (int i = 0; i < 4; ++i, end = spec.ends->after(end)) {
      ask.ends.push_back(micros_up(calendar.at(end).time_since_epoch()));
    }
  }
  return ask;
}

Limit mirrored(const LeaseTerms& terms, const LeaseGrant& page, Amount unspent, Micros then,
               Instant at, Instant now) {
  const LimitSpec& spec = terms.spec;
  const auto& [first, second, third] = page.state;
  const Amount left = page.free + unspent;
  Limit limit = fresh(spec, at);
  const auto used = [&](Amount counted) { return std::max<Amount>(counted - unspent, 0); };
  switch (terms.kind) {
    case LeaseKind::kBucket:
      limit.take(std::clamp<Amount>(limit.capacity() - left, 0, kAmountMax), at);
      break;
    case LeaseKind::kWindow:
      if (first > then) limit.resume({.at = here(first, then, at), .used = used(second)}, at);
      break;
    case LeaseKind::kCounter:
      limit.resume({.at = here(first, then, at), .used = used(second), .previous = third}, at);
      break;
    case LeaseKind::kStepped:
      limit.resume({.at = here(first, then, at), .used = used(second)}, at);
      break;
    case LeaseKind::kLog: {
      const Instant long_ago = std::max(now - spec.period + kLogAgain, Instant{});
      limit = fresh(spec, long_ago);
      limit.take(std::clamp<Amount>(spec.amount - left, 0, kAmountMax), long_ago);
      break;
    }
    case LeaseKind::kSlots: break;
  }
  return limit;
}

Instant refundable_since(const LeaseTerms& terms, const LeaseGrant& page, Micros then, Instant at) {
  const LimitSpec& spec = terms.spec;
  switch (terms.kind) {
    case LeaseKind::kBucket: return Instant::min();
    case LeaseKind::kWindow:
      return spec.ends == nullptr ? here(page.state[0], then, at) - spec.period : at;
    case LeaseKind::kCounter:
    case LeaseKind::kStepped: return here(page.state[0], then, at);
    case LeaseKind::kLog:
    case LeaseKind::kSlots: return at;
  }
  return at;
}

}  // namespace weir::fleet
