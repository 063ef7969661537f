#include "weir/gate/gate.h"

#include <algorithm>
#include <array>

#include "gate/gate_state.h"

namespace weir {
namespace {

// A forecast walks through this many waiters; beyond them it extrapolates.
constexpr std::size_t kForecastMax = 256;

// The draws of one cost, on the stack.
class Draws {
 public:
  void add(std::size_t limit, Amount amount) {
    if (amount > 0) draws_[count_++] = {limit, amount};
  }
  operator std::span<const Backing::Draw>() const { return {draws_.data(), count_}; }
  bool empty() const { return count_ == 0; }

 private:
  std::array<Backing::Draw, Gate::kLimitsMax> draws_{};
  std::size_t count_ = 0;
};

Draws draws_of(const std::vector<Limit>& limits, const Cost& cost) {
  Draws draws;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    draws.add(i, cost[limits[i].unit()]);
  }
  return draws;
}

// An observer hears of every decision, and a backing is asked, for which the word has no room.
std::optional<TokenBucket> fast_bucket(const std::vector<Limit>& limits, const GateConfig& config) {
  const bool undisturbed = config.backing == nullptr && config.observer == nullptr;
  if (!undisturbed || limits.size() != 1 || limits[0].bucket() == nullptr) return {};
  return *limits[0].bucket();
}

Stock* stock_of(const std::vector<Limit>& limits, const GateConfig& config) {
  const bool alone = config.backing != nullptr && config.observer == nullptr;
  return alone && limits.size() == 1 && !limits[0].borrowed() ? config.backing->stock() : nullptr;
}

}  // namespace

Result<std::vector<Limit>> Gate::make_limits(std::vector<LimitSpec> specs, Instant now) {
  if (specs.size() > kLimitsMax) {
    return fail(Errc::kInvalidLimit, "a gate has at most " + std::to_string(kLimitsMax) +
                                         " limits: " + std::to_string(specs.size()));
  }
  std::vector<Limit> limits;
  for (LimitSpec& spec : specs) {
    auto limit = Limit::create(std::move(spec), now);
    if (!limit) return std::unexpected(limit.error());
    const auto same_name = [&](const Limit& l) { return l.spec().name == limit->spec().name; };
    if (std::ranges::any_of(limits, same_name)) {
      return fail(Errc::kInvalidLimit, "two limits are called \"" + limit->spec().name + "\"");
    }
    limits.push_back(std::move(*limit));
  }
  return limits;
}

Result<std::unique_ptr<Gate>> Gate::create(GateConfig config, TimeSource time) {
  if (config.stale_after < Nanos{0} || config.stale_after > kPeriodMax) {
    return fail(Errc::kInvalidConfig, "slots may be stale after 0 to 400 days: " +
                                          std::to_string(config.stale_after.count()) + " ns");
  }
  auto limits = make_limits(std::move(config.limits), time.clock.now());
  if (!limits) return std::unexpected(limits.error());
  return std::unique_ptr<Gate>{new Gate(std::move(config), std::move(*limits), time)};
}

Gate::Gate(GateConfig config, std::vector<Limit> limits, TimeSource time)
    : clock_(time.clock),
      timer_(time.timer),
      fast_(fast_bucket(limits, config)),
      unit_(limits.empty() ? Unit::kRequests : limits[0].unit()),
      observer_(config.observer),
      backing_(config.backing),
      stock_(stock_of(limits, config)),
      limits_tell_(backing_ == nullptr || backing_->prompt()),
      name_(std::move(config.name)),
      waiters_max_(config.waiters_max),
      word_in_use_(fast_.has_value()),
      stock_in_use_(stock_ != nullptr),
      limits_(std::move(limits)),
      hits_(limits_.size()),
      added_at_(limits_.size(), Instant::min()),
      queue_(std::make_unique<WaitQueue>()),
      stale_after_(config.stale_after),
      free_holder_(Holder::kNobody),
      oldest_holder_(Holder::kNobody),
      newest_holder_(Holder::kNobody) {
  if (word_in_use_) word_.let_go(limits_[0].bucket_state());
  if (backing_ != nullptr) backing_->look(limits_, clock_.now());
}

Gate::~Gate() {
  close();
  timer_.disarm(*this);
}

std::optional<std::expected<Permit, Refusal>> Gate::try_fast(const Request& request, Instant now) {
  if (!fast_ && stock_ == nullptr) return std::nullopt;
  const Amount amount = request.cost[unit_];
  if (stock_ != nullptr) {
    if (amount <= 0 || !request.cost.valid() || !stock_->try_take(amount, now)) return std::nullopt;
    counters_.add_one(kAcquired);
    return Permit{*this, request.cost, now};
  }
  if (amount <= 0 || amount > fast_->capacity() || !request.cost.valid()) return std::nullopt;
  const AtomicBucket::Lateness late = word_.try_spend(*fast_, amount, now);
  if (late == AtomicBucket::kWordHeld) return std::nullopt;
  if (late == 0) {
    counters_.add_one(kAcquired);
    return Permit{*this, request.cost, now};
  }
  return std::unexpected(Refusal{.gate = this, .retry_after = fast_->ticks().nanos(late)});
}

std::expected<Permit, Refusal> Gate::try_acquire(const Request& request, Instant now) {
  if (auto decided = try_fast(request, now)) {
    if (!*decided) counters_.add_one(kRefusedFast);
    return std::move(*decided);
  }
  if (Permit permit = try_undisturbed(request, now)) return permit;
  return Path{*this}.try_locked(request, now);
}

Permit Gate::try_undisturbed(const Request& request, Instant now) {
  if (observer_ != nullptr || backing_ != nullptr || !request.cost.valid()) return {};
  const Hold hold{*this};
  if (closed_ || now < held_until_ || !queue_->empty()) return {};
  for (const Limit& limit : limits_) {
    if (!limit.check(request.cost[limit.unit()], now).admitted()) return {};
  }
  Permit permit{*this, request.cost, now};
  permit.slot_ = take(request.cost, request.agent, now);
  permit.held_ = permit.slot_.generation != 0;
  return permit;
}

Result<Permit> Gate::acquire(const Request& request, const Patience& patience) {
  const Instant now = clock_.now();
  auto decided = try_fast(request, now);
  if (decided && decided->has_value()) return std::move(**decided);
  if (Permit permit = try_undisturbed(request, now)) return permit;
  return Path{*this}.acquire(request, patience);
}

bool Gate::try_spend_locked(Amount amount, Instant now) {
  Unit unit = unit_;
  {
    const std::lock_guard lock{mutex_};
    if (!limits_.empty()) unit = limits_[0].unit();
  }
  const Request request{.cost = Cost::of(unit, amount)};
  return Path{*this}.try_locked(request, now).has_value();
}

Gate::Verdict Gate::decide(const Cost& cost, Instant now, Effects& effects) {
  Verdict verdict;
  for (std::size_t i = 0; i < limits_.size(); ++i) {
    const Limit& limit = limits_[i];
    Decision decision = limit.check(cost[limit.unit()], now);
    if (limit.borrowed() && decision.kind == Decision::Kind::kWait && reclaim_stale(now, effects)) {
      decision = limit.check(cost[limit.unit()], now);
    }
    verdict.add(i, decision);
  }
  add_hold(verdict, now);
  return verdict;
}

void Gate::add_hold(Verdict& verdict, Instant now) const {
  Decision& decision = verdict.decision;
  if (now >= held_until_ || decision.kind == Decision::Kind::kNever) return;
  const bool pause = held_until_ == kEndOfTime;
  const Decision held =
      pause ? Decision::wait_for_release() : Decision::wait(held_until_ - clamp_instant(now));
  const bool exact = decision.exact && held.exact;
  const Nanos limits = decision.retry_after;
  if (pause || held.retry_after >= limits) {
    decision = held;
    decision.retry_after = std::max(held.retry_after, limits);
    verdict.limit = kHeld;
  }
  decision.exact = exact;
}

Gate::Verdict Gate::check_all(const std::vector<Limit>& limits, const Cost& cost, Instant now) {
  Verdict verdict;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    verdict.add(i, limits[i].check(cost[limits[i].unit()], now));
  }
  return verdict;
}

bool Gate::waits_behind(int priority) const {
  const std::optional<int> top = queue_->top_priority();
  return top.has_value() && *top >= priority;
}

bool Gate::waits_for_backing(Instant now) const {
  const Waiter* head = backing_ == nullptr ? nullptr : queue_->head();
  return head != nullptr && check_all(limits_, head->cost, now).decision.admitted();
}

Gate::Verdict Gate::forecast_behind(std::vector<Limit> limits, const Cost& cost, int priority,
                                    Instant now) const {
  // Serves those who wait on the copy, each at the first instant at which it fits, until the cost
  // would be admitted before the next of them.
  Verdict verdict;
  add_hold(verdict, now);
  if (held_until_ == kEndOfTime) return verdict;
  Instant at = std::max(now, held_until_);
  bool exact = limits_tell_;
  const auto fits_at = [&](const Cost& wanted) {
    const Verdict next = check_all(limits, wanted, at);
    if (!next.decision.admitted()) verdict.limit = next.limit;
    exact = exact && next.decision.exact;
    return next.decision.exact ? at + next.decision.retry_after : at;
  };
  Instant due = kEndOfTime;
  std::size_t served = 0;
  queue_->for_each([&](const Waiter& waiter) {
    const Instant turn = fits_at(waiter.cost);
    const Instant leaves = std::max(at, std::min(turn, waiter.deadline));
    if (waiter.priority < priority) {
      due = fits_at(cost);
      if (due < leaves) {
        exact = exact && due < queue_->next_deadline();
        return false;
      }
    }
    // Whoever leaves the queue, or has other gates to pass, changes what comes after in ways that
    // are not worth following.
    exact = exact && turn <= waiter.deadline && waiter.path.gates().size() == 1;
    at = leaves;
    if (turn <= waiter.deadline) {
      for (Limit& limit : limits) limit.take(waiter.cost[limit.unit()], at);
    }
    due = kEndOfTime;
    return ++served < kForecastMax;
  });
  if (due == kEndOfTime && queue_->size() > served) {
    exact = false;
    at = now +
         (at - now) / static_cast<std::int64_t>(served) * static_cast<std::int64_t>(queue_->size());
  }
  if (due == kEndOfTime) due = fits_at(cost);
  const Nanos ahead = std::max(due - now, Nanos{1});
  verdict.decision = exact ? Decision::wait(ahead) : Decision::wait_for_release();
  verdict.decision.retry_after = std::max(verdict.decision.retry_after, ahead);
  return verdict;
}

Decision Gate::forecast(const Cost& cost, Instant now) const {
  const std::lock_guard lock{mutex_};
  std::vector<Limit> limits = snapshot();
  for (Limit& limit : limits) {
    if (limit.borrowed() && !limit.check(cost[limit.unit()], now).admitted()) {
      limit.give_back(stale_slots(now));
    }
  }
  Verdict verdict = check_all(limits, cost, now);
  add_hold(verdict, now);
  if (verdict.decision.kind == Decision::Kind::kNever) return verdict.decision;
  if (verdict.decision.admitted() && !waits_behind(0)) return verdict.decision;
  if (!queue_->empty()) verdict = forecast_behind(std::move(limits), cost, 0, now);
  verdict.decision.exact = verdict.decision.exact && limits_tell_;
  return verdict.decision;
}

std::vector<Limit> Gate::snapshot() const {
  std::vector<Limit> limits = limits_;
  if (word_in_use_) limits[0].bucket_state() = word_.peek();
  return limits;
}

void Gate::count_hits(std::uint32_t refused, std::uint32_t& seen) {
  for (std::size_t i = 0; i < limits_.size(); ++i) hits_[i] += (refused & ~seen) >> i & 1U;
  seen |= refused;
}

void Gate::reject(const Request& request, const Refusal& refusal, Effects& effects) {
  ++totals_.rejected;
  effects.note(observer_,
               {.kind = Event::Kind::kRefused,
                .gate = name_,
                .cost = request.cost,
                .span = refusal.retry_after},
               request.agent, refusal.gate == this ? label(refusal.limit) : std::string_view{});
}

Backing::Answer Gate::draw(const Cost& cost, Instant now) {
  if (backing_ == nullptr) return Backing::Answer::kGranted;
  return backing_->draw(limits_, draws_of(limits_, cost), now);
}

void Gate::undraw(const Cost& cost, Instant now) {
  if (backing_ != nullptr) backing_->give_back(draws_of(limits_, cost), now);
}

Permit::Slot Gate::take(const Cost& cost, std::string_view agent, Instant now) {
  counters_.add_one(kAcquired);
  bool lends = false;
  for (Limit& limit : limits_) {
    limit.take(cost[limit.unit()], now);
    lends = lends || limit.borrowed();
  }
  if (!lends || cost[Unit::kSlots] == 0) return {};

  if (free_holder_ == Holder::kNobody) {
    free_holder_ = static_cast<std::uint32_t>(holders_.size());
    holders_.emplace_back().next = Holder::kNobody;
  }
  const std::uint32_t index = free_holder_;
  Holder& holder = holders_[index];
  free_holder_ = holder.next;
  holder.slots = cost[Unit::kSlots];
  holder.since = now;
  if (holder.agent != agent) holder.agent.assign(agent);
  holder.previous = newest_holder_;
  holder.next = Holder::kNobody;
  (newest_holder_ == Holder::kNobody ? oldest_holder_ : holders_[newest_holder_].next) = index;
  newest_holder_ = index;
  return {index, holder.generation};
}

void Gate::give_back_slot(std::uint32_t index) {
  Holder& holder = holders_[index];
  for (Limit& limit : limits_) limit.give_back(holder.slots);
  (holder.previous == Holder::kNobody ? oldest_holder_ : holders_[holder.previous].next) =
      holder.next;
  (holder.next == Holder::kNobody ? newest_holder_ : holders_[holder.next].previous) =
      holder.previous;
  if (++holder.generation == 0) holder.generation = 1;
  holder.next = free_holder_;
  free_holder_ = index;
}

bool Gate::is_stale(std::uint32_t index, Instant now) const {
  return index != Holder::kNobody && stale_after_ > Nanos{0} &&
         now - holders_[index].since > stale_after_;
}

Amount Gate::stale_slots(Instant now) const {
  Amount slots = 0;
  for (std::uint32_t i = oldest_holder_; is_stale(i, now); i = holders_[i].next) {
    slots += holders_[i].slots;
  }
  return slots;
}

bool Gate::reclaim_stale(Instant now, Effects& effects) {
  bool any = false;
  while (is_stale(oldest_holder_, now)) {
    const Holder& holder = holders_[oldest_holder_];
    effects.note(observer_,
                 {.kind = Event::Kind::kReclaimed,
                  .gate = name_,
                  .cost = Cost::of(Unit::kSlots, holder.slots),
                  .span = now - holder.since},
                 holder.agent);
    ++totals_.reclaimed;
    give_back_slot(oldest_holder_);
    any = true;
  }
  return any;
}

void Gate::refund(const Cost& cost) {
  const Instant now = clock_.now();
  Effects effects;
  {
    const Hold hold{*this};
    for (Limit& limit : limits_) {
      if (!limit.borrowed()) limit.refund(cost[limit.unit()], now, now);
    }
    undraw(cost, now);
  }
  drain(now, effects);
  effects.run();
}

void Gate::lower(std::string_view limit, Amount available, Instant now) {
  const Hold hold{*this};
  const auto found = std::ranges::find(limits_, limit,
                                       [](const Limit& l) -> const auto& { return l.spec().name; });
  if (found == limits_.end() || found->borrowed()) return;
  // The alarm of who waits may now ring too early; it looks and is armed again.
  found->take(std::max<Amount>(found->available(now) - std::max<Amount>(available, 0), 0), now);
}

void Gate::settle(const Permit& permit, std::uint64_t turn, const Cost& actual, Instant now,
                  Effects& effects) {
  {
    const Hold hold{*this};
    Draws refunded;
    Draws owed;
    Cost settled = permit.cost_;
    for (std::size_t i = 0; i < limits_.size(); ++i) {
      Limit& limit = limits_[i];
      if (limit.borrowed() || !actual.names(limit.unit())) continue;
      settled = settled.with(limit.unit(), actual[limit.unit()]);
      const Amount excess = actual[limit.unit()] - permit.cost_[limit.unit()];
      limit.take(std::max<Amount>(excess, 0), now);
      owed.add(i, excess);
      // A limit that came later has nothing to give back.
      if (permit.charged_at_ <= added_at_[i]) continue;
      limit.refund(std::max<Amount>(-excess, 0), permit.charged_at_, now);
      refunded.add(i, -excess);
    }
    if (backing_ != nullptr && !refunded.empty()) backing_->give_back(refunded, permit.charged_at_);
    if (backing_ != nullptr && !owed.empty()) backing_->overdraw(limits_, owed, now);
    if (turn != 0) {
      queue_->correct(permit.priority_, turn, share(settled) - share(permit.cost_));
    }
    effects.note(observer_, {.kind = Event::Kind::kSettled, .gate = name_, .cost = settled}, {});
    if (queue_->empty()) return;
  }
  drain(now, effects);
}

void Gate::release(Permit::Slot slot) {
  std::string agent;
  {
    const Hold hold{*this};
    const Holder& holder = holders_[slot.index];
    if (holder.generation != slot.generation) return;  // taken back as stale
    if (observer_ != nullptr) agent = holder.agent;
    give_back_slot(slot.index);
    if (observer_ == nullptr && queue_->empty()) return;
  }
  Effects effects;
  effects.note(observer_, {.kind = Event::Kind::kReleased, .gate = name_}, agent);
  drain(clock_.now(), effects);
  effects.run();
}

bool Gate::at_rest() const {
  const Instant now = clock_.now();
  const std::lock_guard lock{mutex_};
  const bool idle = queue_->empty() && passing_.empty() && oldest_holder_ == Holder::kNobody;
  return idle && now >= held_until_ && std::ranges::all_of(snapshot(), [&](const Limit& l) {
           return l.available(now) >= l.capacity();
         });
}

namespace {

std::optional<Nanos> resets_in(const Limit& limit, Instant now) {
  const LimitSpec& spec = limit.spec();
  if (spec.algorithm != LimitSpec::Algorithm::kFixedWindow) return std::nullopt;
  if (spec.ends != nullptr) return spec.ends->after(clamp_instant(now)) - now;
  if (limit.available(now) == limit.capacity()) return std::nullopt;
  return limit.window_start(now) + spec.period - now;
}

}  // namespace

GateMetrics Gate::metrics() const {
  const Instant now = clock_.now();
  const std::lock_guard lock{mutex_};
  const std::vector<Limit> limits = snapshot();
  GateMetrics metrics = totals_;
  const std::uint64_t refused_fast = counters_.total(kRefusedFast);
  metrics.acquired = counters_.total(kAcquired);
  metrics.rejected += refused_fast;
  metrics.waiting = queue_->size();
  metrics.held = now < held_until_;
  if (metrics.held) {
    metrics.held_for = held_until_ == kEndOfTime ? Nanos::max() : held_until_ - now;
  }
  for (std::size_t i = 0; i < limits.size(); ++i) {
    // The word refuses for the first limit alone: there is no other.
    metrics.limits.push_back({.name = limits[i].spec().name,
                              .unit = limits[i].unit(),
                              .available = limits[i].available(now),
                              .capacity = limits[i].capacity(),
                              .amount = limits[i].spec().amount,
                              .period = limits[i].spec().period,
                              .hits = hits_[i] + (word_in_use_ ? refused_fast : 0),
                              .resets_in = resets_in(limits[i], now)});
  }
  return metrics;
}

double Gate::level(std::size_t limit) const {
  const Instant now = clock_.now();
  const std::lock_guard lock{mutex_};
  return snapshot().at(limit).level(now);
}

std::string Gate::limit_name(std::size_t limit) const {
  const std::lock_guard lock{mutex_};
  return std::string{label(limit)};
}

std::string_view Gate::label(std::size_t limit) const {
  if (limit == kHeld) return "hold";
  return limit < limits_.size() ? std::string_view{limits_[limit].spec().name} : "";
}

}  // namespace weir
