#include "provider/account.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "weir/core/int128.h"

namespace weir {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Nanos kLimitedPause = seconds{1};
constexpr Nanos kOverloadedPause = milliseconds{500};
constexpr Nanos kPauseMax = seconds{30};
constexpr Nanos kProbeFirst = minutes{5};
constexpr Nanos kProbeMax = minutes{60};

constexpr Nanos kRecoveryInterval = seconds{30};
// Whoever is new starts slowly: the pace doubles after so long without a refusal.
constexpr Nanos kSlowStart = seconds{2};
// Cuts within this time are of one event: answers to what was sent before the first of them.
constexpr Nanos kCutWindow = seconds{10};
// A pace counts thousandths of a request a minute, so that a tenth of it is never lost.
constexpr Nanos kPacePeriod = minutes{1'000};
// Nobody starts with less than a request a second: whoever has been served little is new, not slow,
// and a provider that wants it slower says so again.
constexpr Amount kPaceMin = 60'000;
constexpr Amount kPaceMax = 1'000'000'000'000;
constexpr Amount kPacePerSecond = 60'000;

// A window whose stated end is this much off is still the same: headers count in whole seconds.
constexpr Nanos kEndSlack = seconds{2};
// What remains of a window that is about to end may be read when the next has begun.
constexpr Nanos kTooLateToLower = seconds{1};

// Windows of a provider: one is said to end at `end`, the others a period before and after.
class StatedEnds final : public WindowEnds {
 public:
  StatedEnds(Instant end, Nanos period) : end_(end), period_(period) {}

  Instant after(Instant now) const override {
    const Nanos beyond = now - end_;
    const auto whole = beyond / period_ - (beyond % period_ < Nanos{0} ? 1 : 0);
    return end_ + (whole + 1) * period_;
  }

 private:
  Instant end_;
  Nanos period_;
};

bool ends_at(const LimitSpec& spec, Instant end, Instant now) {
  if (spec.ends == nullptr) return false;
  const Nanos off = (spec.ends->after(clamp_instant(now)) - end) % spec.period;
  const Nanos distance = off < Nanos{0} ? -off : off;
  return std::min(distance, spec.period - distance) <= kEndSlack;
}

AdaptiveCapacity make_pace(Amount per_minute_milli) {
  return AdaptiveCapacity::create({.original = std::clamp(per_minute_milli, kPaceMin, kPaceMax),
                                   .recovery_interval = kRecoveryInterval,
                                   .window = kCutWindow})
      .value();
}

Amount per_minute_milli(Rate rate) {
  const Int128 milli = Int128{rate.amount} * kPacePeriod.count() / rate.period.count();
  return static_cast<Amount>(std::min(milli, Int128{kPaceMax}));
}

LimitSpec pace_limit(const AdaptiveCapacity& pace) {
  const Amount burst = std::max<Amount>(pace.capacity() / kPacePerSecond, 1);
  LimitSpec spec = LimitSpec::token_bucket(Unit::kRequests, {pace.capacity(), kPacePeriod}, burst);
  spec.oversize = LimitSpec::Oversize::kOnDebt;
  spec.name = "pace";
  return spec;
}

}  // namespace

Account::Pauses::Pauses(Nanos first, std::uint64_t seed)
    : first_(Backoff::create({.initial = first, .max_delay = kPauseMax}, seed).value()),
      backoff_(first_),
      seed_(seed) {}

Nanos Account::Pauses::next() {
  const Nanos half = backoff_.ceiling() / 2;
  return half + backoff_.next() / 2;
}

void Account::Pauses::reset() {
  if (backoff_.ceiling() != first_.ceiling()) backoff_ = first_.with_seed(++seed_);
}

std::shared_ptr<Account> Account::create(std::string name, TimeSource time, std::uint64_t seed,
                                         std::shared_ptr<PaceChanges> changes) {
  return std::shared_ptr<Account>{new Account(std::move(name), time, seed, std::move(changes))};
}

Account::Account(std::string name, TimeSource time, std::uint64_t seed,
                 std::shared_ptr<PaceChanges> changes)
    : time_(time),
      gate_(Gate::create({.name = std::move(name), .limits = {}}, time).value()),
      changes_(std::move(changes)),
      limited_(kLimitedPause, seed),
      overloaded_(kOverloadedPause, ~seed),
      probe_after_(kProbeFirst) {}

Account::~Account() { time_.timer.disarm(*this); }

void Account::answered(const Signals& signals, const Cost& charged, Instant now) {
  bool limits_changed = false;
  {
    const std::lock_guard lock{mutex_};
    switch (signals.kind) {
      case Signals::Kind::kServed:
        served_.count(charged[Unit::kRequests], now);
        if (now < held_until_) break;  // sent before the hold
        limited_.reset();
        overloaded_.reset();
        probe_after_ = kProbeFirst;
        break;
      case Signals::Kind::kLimited:
      case Signals::Kind::kOverloaded: refused(signals, now); break;
      case Signals::Kind::kExhausted: close(signals, now); break;
      case Signals::Kind::kFailed: break;
    }
    for (const Quota& quota : signals.quotas()) learn(quota, now);
    limits_changed = limits_changed_;
  }
  if (signals.kind == Signals::Kind::kExhausted) gate_->end_waiters(Errc::kCapacityExhausted);
  if (limits_changed) apply();
  if (!signals.quotas().empty()) lower(signals, now);
}

void Account::refused(const Signals& signals, Instant now) {
  if (signals.retry_after) {
    begin_pace(now);
    hold(now + *signals.retry_after);
  } else if (now >= held_until_) {
    begin_pace(now);
    const bool limited = signals.kind == Signals::Kind::kLimited;
    const Amount before = pace_->capacity();
    if (limited && pace_->reduce(now)) {
      limits_changed_ = true;
      note_pace(before);
    }
    hold(now + (limited ? limited_ : overloaded_).next());
  }
  arm();
}

void Account::close(const Signals& signals, Instant now) {
  const bool already = exhaustion_ && now < exhaustion_->until;
  if (already && !signals.resets_in) return;
  const Nanos wait = signals.resets_in
                         ? *signals.resets_in
                         : std::exchange(probe_after_, std::min(2 * probe_after_, kProbeMax));
  const Instant until = already ? std::max(exhaustion_->until, now + wait) : now + wait;
  exhaustion_ = {signals.reason, until};
  hold(until);
}

void Account::hold(Instant until) {
  held_until_ = std::max(held_until_, until);
  pace_until_ = std::max(pace_until_, until + growth_interval_);
  gate_->hold_until(until);
}

std::optional<Rate> Account::known_rate() const {
  std::optional<Rate> known = known_rate_;
  for (const auto& [spec, stated_at] : learned_) {
    if (spec.unit != Unit::kRequests || (known && known->period <= spec.period)) continue;
    known = Rate{spec.amount, spec.period};
  }
  return known;
}

void Account::begin_pace(Instant now) {
  if (pace_) return;
  const auto known = known_rate();
  const Amount rate = known ? per_minute_milli(*known) : served_.per_minute_milli(now);
  const bool settled = known || served_.history(now) >= kRecoveryInterval;
  growth_interval_ = settled ? kRecoveryInterval : kSlowStart;
  pace_ = make_pace(rate);
  limits_changed_ = true;
}

void Account::end_pace(Instant now) {
  limits_changed_ = true;
  // Where nobody knows the rate, those who still wait must not go all at once either.
  if (!known_rate() && gate_->metrics().waiting > 0) {
    pace_ = make_pace(2 * pace_->capacity());
    pace_until_ = now + growth_interval_;
  } else {
    pace_.reset();
  }
}

void Account::arm() {
  if (!pace_) return;
  const bool cut = pace_->capacity() < pace_->original();
  time_.timer.arm(*this, cut ? pace_->next_recovery() : pace_until_);
}

void Account::note_pace(Amount from) {
  if (changes_ != nullptr) changes_->note({.from = from, .to = pace_->capacity()});
}

void Account::ring(Instant now) {
  const std::shared_ptr<Account> self = weak_from_this().lock();
  if (self == nullptr) return;  // its last owner waits for this to return
  {
    const std::lock_guard lock{mutex_};
    if (!pace_) return;
    const Amount before = pace_->capacity();
    if (pace_->recover(now)) {
      limits_changed_ = true;
      note_pace(before);
      pace_until_ = std::max(pace_until_, now + kRecoveryInterval);
    }
    if (pace_->capacity() == pace_->original() && now >= pace_until_) end_pace(now);
    arm();
  }
  apply();
}

Account::Learned* Account::find(const Quota& quota) {
  const auto found = std::ranges::find_if(learned_, [&](const Learned& learned) {
    return learned.spec.unit == quota.unit && learned.spec.period == quota.period;
  });
  return found == learned_.end() ? nullptr : &*found;
}

void Account::learn(const Quota& quota, Instant now) {
  if (quota.period == Nanos{0}) {
    if (quota.remaining != 0 || !quota.reset_in) return;
    begin_pace(now);
    hold(now + std::min(*quota.reset_in, Signals::kRetryAfterMax));
    arm();
    return;
  }
  if (!quota.limit || *quota.limit < 1) return;
  const bool window = quota.fixed_window && quota.reset_in;
  const Rate rate{*quota.limit, quota.period};
  Learned* known = find(quota);
  if (known != nullptr) {
    known->stated_at = now;
    const bool agrees = !window || ends_at(known->spec, now + *quota.reset_in, now);
    if (known->spec.amount == rate.amount && agrees) return;
  }
  LimitSpec spec = window ? LimitSpec::fixed_window(quota.unit, rate)
                          : LimitSpec::token_bucket(quota.unit, rate);
  if (window) spec.ends = std::make_shared<StatedEnds>(now + *quota.reset_in, quota.period);
  spec.oversize = LimitSpec::Oversize::kOnDebt;
  auto limit = Limit::create(std::move(spec), now);
  if (!limit) return;
  if (known == nullptr) {
    if (learned_.size() == Signals::kQuotasMax) {
      learned_.erase(std::ranges::min_element(learned_, {}, &Learned::stated_at));
    }
    known = &learned_.emplace_back();
  }
  *known = {limit->spec(), now};  // with its name
  limits_changed_ = true;
}

void Account::lower(const Signals& signals, Instant now) {
  const std::lock_guard lock{mutex_};
  for (const Quota& quota : signals.quotas()) {
    const Learned* learned = quota.remaining ? find(quota) : nullptr;
    const bool too_late = quota.fixed_window && quota.reset_in && *quota.reset_in < kTooLateToLower;
    if (learned == nullptr || too_late) continue;
    gate_->lower(learned->spec.name, *quota.remaining, now);
  }
}

void Account::apply() {
  const std::shared_ptr<Account> self = shared_from_this();  // whoever is called back may let go
  std::unique_lock lock{mutex_};
  if (applying_) return;  // that thread looks again
  while (std::exchange(limits_changed_, false)) {
    std::vector<LimitSpec> limits;
    for (const Learned& learned : learned_) limits.push_back(learned.spec);
    if (pace_) limits.push_back(pace_limit(*pace_));
    applying_ = true;
    lock.unlock();
    [[maybe_unused]] const auto changed = gate_->set_limits(std::move(limits));
    assert(changed);
    lock.lock();
    applying_ = false;
  }
}

void Account::set_known_rate(std::optional<Rate> rate) {
  const std::lock_guard lock{mutex_};
  known_rate_ = rate && check_rate(*rate) ? rate : std::nullopt;
}

std::optional<Exhaustion> Account::exhausted(Instant now) const {
  const std::lock_guard lock{mutex_};
  if (!exhaustion_ || now >= exhaustion_->until) return std::nullopt;
  return exhaustion_;
}

std::optional<Account::Pace> Account::pace() const {
  const std::lock_guard lock{mutex_};
  if (!pace_) return std::nullopt;
  return Pace{.now = pace_->capacity(), .original = pace_->original()};
}

void Account::resume() {
  {
    const std::lock_guard lock{mutex_};
    exhaustion_.reset();
    probe_after_ = kProbeFirst;
    held_until_ = {};
  }
  gate_->resume();
}

bool Account::at_rest() const {
  const Instant now = time_.clock.now();
  const std::lock_guard lock{mutex_};
  return !pace_ && now >= held_until_ && gate_->at_rest();
}

}  // namespace weir
