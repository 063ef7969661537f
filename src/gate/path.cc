#include "weir/gate/path.h"

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <numeric>

#include "gate/path_state.h"

namespace weir {
namespace {

std::atomic<std::uint64_t> arrivals{0};

Error as_error(const Refusal& refusal) {
  const std::string limit =
      refusal.gate == nullptr ? std::string{} : refusal.gate->limit_name(refusal.limit);
  switch (refusal.code) {
    case Errc::kNeverFits:
      return {refusal.code, "more than " + refusal.gate->name() + " can ever admit: " + limit};
    case Errc::kInvalidCost: return {refusal.code, "an amount is negative or too large"};
    default: return {refusal.code, std::string{name(refusal.code)}};
  }
}

}  // namespace

Result<Path> Path::create(std::span<Gate* const> gates) {
  if (gates.empty() || gates.size() > kGatesMax) {
    return fail(Errc::kInvalidConfig, "a path has from 1 to " + std::to_string(kGatesMax) +
                                          " gates: " + std::to_string(gates.size()));
  }
  if (gates.size() == 1) return Path{*gates[0]};
  auto chain = std::make_shared<Chain>();
  chain->count = gates.size();
  std::ranges::copy(gates, chain->gates.begin());
  const auto order = std::span{chain->lock_order}.first(chain->count);
  std::iota(order.begin(), order.end(), std::uint8_t{0});
  const auto address = [&](std::uint8_t i) { return chain->gates[i]; };
  std::ranges::sort(order, std::less<Gate*>{}, address);
  if (const auto twice = std::ranges::adjacent_find(order, std::equal_to<Gate*>{}, address);
      twice != order.end()) {
    return fail(Errc::kInvalidConfig, "a path passes a gate twice: " + address(*twice)->name());
  }
  return Path{std::move(chain)};
}

Path::Attempt Path::attempt(const Request& request, std::uint8_t passed, Instant now,
                            Forecast forecast, Effects& effects) const {
  Attempt attempt;
  const auto end = [&](Gate& gate, Refusal::Kind kind, Errc code) {
    attempt.kind = Attempt::Kind::kEnded;
    attempt.queue_at = &gate;
    attempt.refusal.kind = kind;
    attempt.refusal.code = code;
    attempt.refusal.gate = &gate;
  };
  const auto wait = [&](Gate& gate, const Gate::Verdict& verdict, bool for_backing) {
    if (attempt.kind == Attempt::Kind::kAdmitted) {
      attempt.kind = Attempt::Kind::kWait;
      attempt.queue_at = &gate;
      attempt.refused = verdict.refused;
      attempt.refusal.exact = true;
      attempt.refusal.for_backing = true;
    }
    attempt.refusal.for_backing = attempt.refusal.for_backing && for_backing;
    attempt.refusal.exact = attempt.refusal.exact && verdict.decision.exact && gate.limits_tell_;
    if (verdict.decision.retry_after > attempt.refusal.retry_after) {
      attempt.refusal.retry_after = verdict.decision.retry_after;
      attempt.refusal.gate = &gate;
      attempt.refusal.limit = verdict.limit;
    }
  };
  const auto passes = gates();
  for (std::size_t i = 0; i < passes.size(); ++i) {
    Gate& gate = *passes[i];
    if (gate.closed_) {
      end(gate, Refusal::Kind::kEnded, *gate.closed_);
      return attempt;
    }
    Gate::Verdict verdict = gate.decide(request.cost, now, effects);
    if (verdict.decision.kind == Decision::Kind::kNever) {
      end(gate, Refusal::Kind::kNever, Errc::kNeverFits);
      attempt.refusal.limit = verdict.limit;
      return attempt;
    }
    const bool behind = (passed >> i & 1U) == 0 && gate.waits_behind(request.priority);
    if (verdict.decision.admitted() && !behind) continue;
    // Who waits comes to the gates below later, one by one.
    if (passed == 0 && (forecast == Forecast::kYes || attempt.kind == Attempt::Kind::kAdmitted)) {
      std::uint32_t seen = 0;
      gate.count_hits(verdict.refused, seen);
    }
    const bool for_backing = verdict.decision.admitted() && gate.waits_for_backing(now);
    if (forecast == Forecast::kYes && !gate.queue_->empty()) {
      const std::uint32_t refused = verdict.refused;
      verdict = gate.forecast_behind(gate.limits_, request.cost, request.priority, now);
      verdict.refused = refused;
      // Where one gate lets it wait, those who wait at another may come first.
      verdict.decision.exact = verdict.decision.exact && passes.size() == 1;
    }
    wait(gate, verdict, for_backing);
  }
  if (attempt.kind != Attempt::Kind::kAdmitted) return attempt;

  for (std::size_t i = 0; i < passes.size(); ++i) {
    const Backing::Answer answer = passes[i]->draw(request.cost, now);
    if (answer == Backing::Answer::kGranted) continue;
    for (std::size_t drawn = 0; drawn < i; ++drawn) passes[drawn]->undraw(request.cost, now);
    if (answer == Backing::Answer::kUnavailable) {
      end(*passes[i], Refusal::Kind::kEnded, Errc::kUnavailable);
    } else {
      wait(*passes[i], {.decision = Decision::wait_for_release()}, true);
    }
    return attempt;
  }
  attempt.permit = take(request, now);
  return attempt;
}

Permit Path::take(const Request& request, Instant now) const {
  Permit permit{*top_, request.cost, now};
  permit.slot_ = top_->take(request.cost, request.agent, now);
  permit.held_ = permit.slot_.generation != 0;
  if (chain_ == nullptr) return permit;

  permit.rest_ = std::make_unique<Permit::Rest>();
  for (Gate* gate : gates().subspan(1)) {
    const Permit::Slot slot = gate->take(request.cost, request.agent, now);
    permit.rest_->shares[permit.rest_->count++] = {gate, slot};
    permit.held_ = permit.held_ || slot.generation != 0;
  }
  return permit;
}

void Path::note_admitted(const Request& request, Nanos waited, Effects& effects) const {
  for (const Gate* gate : gates()) {
    effects.note(
        gate->observer_,
        {.kind = Event::Kind::kAdmitted, .gate = gate->name_, .cost = request.cost, .span = waited},
        request.agent);
  }
}

std::expected<Permit, Refusal> Path::try_acquire(const Request& request) const {
  return try_acquire(request, top_->clock().now());
}

std::expected<Permit, Refusal> Path::try_acquire(const Request& request, Instant now) const {
  return chain_ == nullptr ? top_->try_acquire(request, now) : try_locked(request, now);
}

std::expected<Permit, Refusal> Path::try_locked(const Request& request, Instant now) const {
  if (!request.cost.valid()) {
    return std::unexpected(
        Refusal{.kind = Refusal::Kind::kEnded, .code = Errc::kInvalidCost, .gate = top_});
  }
  Effects effects;
  Attempt attempt;
  {
    const Holds holds{*this};
    attempt = this->attempt(request, 0, now, Forecast::kYes, effects);
    if (attempt.kind == Attempt::Kind::kAdmitted) {
      note_admitted(request, Nanos{0}, effects);
    } else if (!attempt.refusal.for_backing) {
      attempt.queue_at->reject(request, attempt.refusal, effects);
    }
  }
  effects.run();
  if (attempt.kind == Attempt::Kind::kAdmitted) return std::move(attempt.permit);
  return std::unexpected(attempt.refusal);
}

Ticket Path::acquire_async(const Request& request, Instant deadline, Callback done) const {
  const Instant now = top_->clock().now();
  if (!request.cost.valid()) {
    done(std::unexpected(as_error({.code = Errc::kInvalidCost})));
    return {};
  }
  Effects effects;
  Attempt attempt;
  std::shared_ptr<Waiter> waiter;
  {
    const Holds holds{*this};
    attempt = this->attempt(request, 0, now, Forecast::kNo, effects);
    if (attempt.kind == Attempt::Kind::kWait) {
      Gate& gate = *attempt.queue_at;
      const bool late =
          deadline <= now || (!request.waits_for_limits && !attempt.refusal.for_backing);
      if (late || gate.queue_->size() >= gate.waiters_max_) {
        attempt.kind = Attempt::Kind::kEnded;
        attempt.refusal.code = late ? Errc::kDeadlineExceeded : Errc::kCapacityExhausted;
      } else {
        waiter = std::make_shared<Waiter>(*this, request, now, deadline, std::move(done),
                                          arrivals.fetch_add(1, std::memory_order_relaxed));
        waiter->self = waiter;
        waiter->for_backing = attempt.refusal.for_backing;
        if (chain_ != nullptr) {
          for (Gate* each : gates()) each->passing_.insert(waiter.get());
        }
        gate.enqueue(*waiter);
        gate.arm(now);  // who is seen to wait is sure to be woken
        waiter->hit = attempt.refused;
        effects.note(gate.observer_,
                     {.kind = Event::Kind::kQueued, .gate = gate.name_, .cost = request.cost},
                     request.agent);
      }
    }
    if (attempt.kind == Attempt::Kind::kAdmitted) note_admitted(request, Nanos{0}, effects);
    if (attempt.kind == Attempt::Kind::kEnded) {
      attempt.queue_at->reject(request, attempt.refusal, effects);
    }
  }
  if (waiter != nullptr) {
    // It may be the head, or the head may fit: an attempt behind waiters is not tried for itself.
    attempt.queue_at->drain(now, effects);
    effects.run();
    return Ticket{std::move(waiter)};
  }
  effects.run();
  if (attempt.kind == Attempt::Kind::kAdmitted) {
    done(std::move(attempt.permit));
  } else {
    done(std::unexpected(as_error(attempt.refusal)));
  }
  return {};
}

Result<Permit> Path::acquire(const Request& request, const Patience& patience) const {
  struct Parked {
    std::mutex mutex;
    std::condition_variable done;
    std::optional<Result<Permit>> outcome;
  } parked;
  Ticket ticket = acquire_async(request, patience.deadline, [&parked](Result<Permit> outcome) {
    // Notifies under the lock: the waiter may destroy `parked` as soon as it can take it.
    const std::lock_guard lock{parked.mutex};
    parked.outcome.emplace(std::move(outcome));
    parked.done.notify_one();
  });
  const std::stop_callback on_stop{patience.stop, [&ticket] { ticket.cancel(); }};
  std::unique_lock lock{parked.mutex};
  parked.done.wait(lock, [&] { return parked.outcome.has_value(); });
  return std::move(*parked.outcome);
}

void Path::leave_all(Waiter& waiter) {
  if (waiter.path.chain_ == nullptr) return;
  for (Gate* gate : waiter.path.gates()) gate->passing_.erase(&waiter);
}

void Path::abandon(Waiter& waiter, Errc reason, Instant now, Effects& effects) {
  const Gate& gate = *waiter.gate.load(std::memory_order_relaxed);
  gate.queue_->remove(waiter);
  leave_all(waiter);
  effects.note(gate.observer_,
               {.kind = Event::Kind::kAbandoned,
                .gate = gate.name_,
                .cost = waiter.cost,
                .span = now - waiter.arrived},
               waiter.agent);
  waiter.complete(fail(reason, std::string{name(reason)}), effects);
}

Gate* Path::leave(Waiter& waiter, Errc reason, Instant now, Effects& effects) {
  const Holds holds{waiter.path};
  Gate* gate = waiter.gate.load(std::memory_order_relaxed);
  if (gate != nullptr) abandon(waiter, reason, now, effects);
  return gate;
}

void Path::end(Waiter& waiter, Errc reason, Instant now, Effects& effects) {
  if (Gate* gate = leave(waiter, reason, now, effects)) gate->drain(now, effects);
}

void Ticket::cancel() {
  if (waiter_ == nullptr || waiter_->gate.load(std::memory_order_acquire) == nullptr) return;
  Effects effects;
  Path::end(*waiter_, Errc::kCancelled, waiter_->path.gates()[0]->clock().now(), effects);
  effects.run();
}

}  // namespace weir
