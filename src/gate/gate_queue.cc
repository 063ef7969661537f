// The part of a gate that deals with those who wait.
#include <algorithm>

#include "gate/gate_state.h"
#include "gate/path_state.h"

namespace weir {

std::int64_t Gate::share(const Cost& cost) const {
  // A slot is not used up: what it takes of the slots depends on how long it is held. It counts
  // where nothing else does.
  std::int64_t dominant = 0;
  std::int64_t borrowed = 1;
  for (const Limit& limit : limits_) {
    std::int64_t& largest = limit.borrowed() ? borrowed : dominant;
    largest = std::max(largest, limit.share(cost[limit.unit()]));
  }
  return dominant > 0 ? dominant : borrowed;
}

void Gate::enqueue(Waiter& waiter) {
  waiter.gate.store(this, std::memory_order_relaxed);
  waiter.share = share(waiter.cost);
  waiter.hit = 0;
  if (waiter.has_passed(*this)) {
    queue_->push_first(waiter);
  } else {
    queue_->push(waiter);
  }
}

void Gate::arm(Instant now) {
  Instant due = queue_->next_deadline();
  if (now < held_until_) due = std::min(due, held_until_);
  if (const Waiter* head = queue_->head()) {
    Nanos exact{0};
    bool slots_full = false;
    for (const Limit& limit : limits_) {
      const Decision decision = limit.check(head->cost[limit.unit()], now);
      if (decision.exact) {
        exact = std::max(exact, decision.retry_after);
      } else {
        slots_full = true;
      }
    }
    if (exact > Nanos{0}) due = std::min(due, now + exact);
    if (slots_full && stale_after_ > Nanos{0} && oldest_holder_ != Holder::kNobody) {
      due = std::min(due, holders_[oldest_holder_].since + stale_after_ + Nanos{1});
    }
  }
  // An alarm that rings too early looks and arms again; too late would be a lost wake-up.
  if (due < armed_for_) {
    armed_for_ = due;
    timer_.arm(*this, due);
  }
}

void Gate::grant(Waiter& waiter, Permit permit, Instant now, Effects& effects) {
  queue_->serve(waiter);
  permit.turn_ = waiter.turn;
  permit.priority_ = waiter.priority;
  permit.turns_ = waiter.passed | waiter.bit(*this);
  if (waiter.hit != 0 || !waiter.for_backing) {
    ++totals_.waited;
    totals_.total_wait += now - waiter.arrived;
  }
  waiter.path.note_admitted(waiter.request(), now - waiter.arrived, effects);
  waiter.complete(std::move(permit), effects);
}

Waiter* Gate::serve_here(Instant now, Effects& effects) {
  if (closed_) return nullptr;  // close() ends them all
  while (Waiter* head = queue_->head()) {
    const Verdict verdict = decide(head->cost, now, effects);
    if (!verdict.decision.admitted()) {
      count_hits(verdict.refused, head->hit);
      if (head->waits_for_limits) break;
      Path::abandon(*head, Errc::kDeadlineExceeded, now, effects);
      continue;
    }
    if (head->path.gates().size() > 1) return head;
    const Backing::Answer answer = draw(head->cost, now);
    if (answer == Backing::Answer::kLater) break;
    if (answer == Backing::Answer::kUnavailable) {
      Path::abandon(*head, Errc::kUnavailable, now, effects);
    } else {
      grant(*head, head->path.take(head->request(), now), now, effects);
    }
  }
  arm(now);
  return nullptr;
}

bool Gate::serve_path(Waiter& waiter, Instant now, std::vector<Gate*>& moved_to, Effects& effects) {
  const Path::Holds holds{waiter.path};
  if (waiter.gate.load(std::memory_order_relaxed) != this || queue_->head() != &waiter) return true;
  const std::uint8_t passed = waiter.passed | waiter.bit(*this);
  Path::Attempt attempt =
      waiter.path.attempt(waiter.request(), passed, now, Path::Forecast::kNo, effects);
  switch (attempt.kind) {
    case Path::Attempt::Kind::kAdmitted:
      Path::leave_all(waiter);
      grant(waiter, std::move(attempt.permit), now, effects);
      return true;
    case Path::Attempt::Kind::kEnded:
      Path::abandon(waiter, attempt.refusal.code, now, effects);
      return true;
    case Path::Attempt::Kind::kWait: break;
  }
  if (!waiter.waits_for_limits && !attempt.refusal.for_backing) {
    Path::abandon(waiter, Errc::kDeadlineExceeded, now, effects);
    return true;
  }
  Gate& refusing = *attempt.queue_at;
  if (&refusing == this) {
    arm(now);
    return !attempt.refusal.for_backing;
  }
  queue_->serve(waiter);
  waiter.passed = passed;
  refusing.enqueue(waiter);
  refusing.arm(now);
  if (std::ranges::find(moved_to, &refusing) == moved_to.end()) moved_to.push_back(&refusing);
  return true;
}

void Gate::drain(Instant now, Effects& effects) {
  std::vector<Gate*> moved_to;
  drain_here(now, moved_to, effects);
  // Who has moved to another queue may be the first there, and fit.
  while (!moved_to.empty()) {
    Gate& gate = *moved_to.back();
    moved_to.pop_back();
    gate.drain_here(now, moved_to, effects);
  }
}

void Gate::drain_here(Instant now, std::vector<Gate*>& moved_to, Effects& effects) {
  while (true) {
    Waiter* next = nullptr;
    {
      const Hold hold{*this};
      if (queue_->empty()) return;
      const Waiter* head = serve_here(now, effects);
      if (head == nullptr) return;
      next = &effects.visit(*head);
    }
    if (!serve_path(*next, now, moved_to, effects)) return;
  }
}

void Gate::ring(Instant now) {
  Effects effects;
  {
    const Hold hold{*this};
    armed_for_ = kEndOfTime;
    if (now >= held_until_) {
      held_until_ = kNoHold;
    } else {
      arm(now);
    }
  }
  // Who is due at its deadline is served.
  drain(now, effects);
  while (true) {
    Waiter* late = nullptr;
    {
      const Hold hold{*this};
      const Waiter* expired = queue_->expired(now);
      if (expired == nullptr) break;
      late = &effects.visit(*expired);
    }
    Path::end(*late, Errc::kDeadlineExceeded, now, effects);
  }
  effects.run();
}

void Gate::reconsider() {
  Effects effects;
  drain(clock_.now(), effects);
  effects.run();
}

void Gate::show_backing() {
  if (backing_ == nullptr) return;
  const Hold hold{*this};
  backing_->look(limits_, clock_.now());
}

void Gate::hold_until(Instant at) {
  const Instant now = clock_.now();
  const Hold hold{*this};
  if (at <= now || at <= held_until_) return;
  held_until_ = at;
  arm(now);
}

void Gate::resume() {
  {
    const Hold hold{*this};
    held_until_ = kNoHold;
  }
  reconsider();
}

void Gate::all_waiters(std::vector<std::shared_ptr<Waiter>>& waiters) const {
  queue_->for_each([&](const Waiter& waiter) {
    if (waiter.path.gates().size() == 1) waiters.push_back(waiter.self);
    return true;
  });
  for (const Waiter* waiter : passing_) waiters.push_back(waiter->self);
}

void Gate::give_up_fast_path() {
  stock_in_use_ = false;
  if (!word_in_use_) return;
  word_in_use_ = false;
  hits_[0] += counters_.total(kRefusedFast);
}

Amount Gate::slots_held() const {
  Amount held = 0;
  for (std::uint32_t i = oldest_holder_; i != Holder::kNobody; i = holders_[i].next) {
    held += holders_[i].slots;
  }
  return held;
}

void Gate::close(Errc reason) {
  const Instant now = clock_.now();
  Effects effects;
  std::vector<std::shared_ptr<Waiter>> waiters;
  {
    const Hold hold{*this};
    if (closed_) return;
    closed_ = reason;
    give_up_fast_path();
    all_waiters(waiters);
    for (const auto& waiter : waiters) effects.visit(*waiter);
  }
  end_all(waiters, reason, now, effects);
  effects.run();
}

void Gate::end_waiters(Errc reason) {
  Effects effects;
  std::vector<std::shared_ptr<Waiter>> waiters;
  {
    const Hold hold{*this};
    all_waiters(waiters);
    for (const auto& waiter : waiters) effects.visit(*waiter);
  }
  end_all(waiters, reason, clock_.now(), effects);
  effects.run();
}

void Gate::end_all(const std::vector<std::shared_ptr<Waiter>>& waiters, Errc reason, Instant now,
                   Effects& effects) {
  // Nobody is served in the place of one before until all are gone.
  std::vector<Gate*> left;
  for (const auto& waiter : waiters) {
    Gate* gate = Path::leave(*waiter, reason, now, effects);
    if (gate != nullptr && std::ranges::find(left, gate) == left.end()) left.push_back(gate);
  }
  for (Gate* gate : left) gate->drain(now, effects);
}

Result<void> Gate::set_limits(std::vector<LimitSpec> specs) {
  const Instant now = clock_.now();
  auto limits = make_limits(std::move(specs), now);
  if (!limits) return std::unexpected(limits.error());
  Effects effects;
  std::vector<std::shared_ptr<Waiter>> hopeless;
  {
    const Hold hold{*this};
    give_up_fast_path();
    std::vector<std::uint64_t> hits(limits->size());
    std::vector<Instant> added_at(limits->size(), now);
    for (std::size_t i = 0; i < limits->size(); ++i) {
      Limit& limit = (*limits)[i];
      const auto old = std::ranges::find(limits_, limit.spec().name,
                                         [](const Limit& l) { return l.spec().name; });
      if (old != limits_.end()) {
        const auto index = static_cast<std::size_t>(old - limits_.begin());
        hits[i] = hits_[index];
        added_at[i] = added_at_[index];
      }
      if (limit.borrowed()) {
        limit.take(slots_held(), now);
      } else if (old != limits_.end()) {
        limit.carry_over(*old, now);
      }
    }
    limits_ = std::move(*limits);
    hits_ = std::move(hits);
    added_at_ = std::move(added_at);
    if (backing_ != nullptr) backing_->look(limits_, now);
    all_waiters(hopeless);
    std::erase_if(hopeless, [&](const auto& waiter) {
      return check_all(limits_, waiter->cost, now).decision.kind != Decision::Kind::kNever;
    });
    for (const auto& waiter : hopeless) effects.visit(*waiter);
  }
  end_all(hopeless, Errc::kNeverFits, now, effects);
  drain(now, effects);
  effects.run();
  return {};
}

}  // namespace weir
