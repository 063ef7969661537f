#include "fleet/lease_account.h"

#include <algorithm>
#include <cmath>

#include "weir/gate/gate.h"

namespace weir::fleet {
namespace {

// The last part of a window, in which its reserve is spent.
constexpr std::int64_t kWindowEnd = 20;

bool same(const LimitSpec& a, const LimitSpec& b) {
  return a.unit == b.unit && a.algorithm == b.algorithm && a.amount == b.amount &&
         a.period == b.period && a.burst == b.burst && a.name == b.name;
}

// Its part of a limit for one of `members`; what is larger than that comes on debt.
LimitSpec shared_out(LimitSpec spec, std::int64_t members) {
  spec.amount = std::max<Amount>(spec.amount / members, 1);
  spec.burst = spec.burst == 0 ? 0 : std::max<Amount>(spec.burst / members, 1);
  spec.oversize = LimitSpec::Oversize::kOnDebt;
  return spec;
}

LimitSpec wide_open(const LimitSpec& spec) {
  LimitSpec open = spec.unit == Unit::kSlots
                       ? LimitSpec::concurrency(kAmountMax)
                       : LimitSpec::fixed_window(spec.unit, {kAmountMax, std::chrono::seconds{1}});
  open.name = spec.name;
  return open;
}

}  // namespace

LeaseAccount::LeaseAccount(Leases& leases, std::string gate, Nanos slots_kept)
    : leases_(leases),
      gate_name_(std::move(gate)),
      slots_kept_(slots_kept),
      timeout_(leases.config_.timeout) {}

LeaseAccount::~LeaseAccount() { retire(); }

void LeaseAccount::bind(std::weak_ptr<Gate> gate) {
  const std::lock_guard lock{mutex_};
  gate_ = std::move(gate);
}

Stock* LeaseAccount::stock() {
  const std::lock_guard lock{mutex_};
  fast_ = true;
  return &stock_;
}

void LeaseAccount::tend() {
  std::shared_ptr<Gate> gate;
  {
    const std::lock_guard lock{mutex_};
    gate = gate_.lock();
  }
  if (gate == nullptr) return;
  const GateMetrics metrics = gate->metrics();
  {
    const std::lock_guard lock{mutex_};
    // Somebody whom the limits refuse does not come to draw(): what others return may serve it.
    wanted_ = metrics.waiting > 0 || std::exchange(rejected_, metrics.rejected) < metrics.rejected;
    awaited_ = false;
    moved_ = !run_.empty() && leases_.book_.server(gate_name_).run != run_;
    due_ = kEndOfTime;
  }
  gate->show_backing();
  State state{};
  {
    const std::lock_guard lock{mutex_};
    state = shown_;
  }
  leases_.become(state);
  if (metrics.waiting > 0) gate->reconsider();
}

void LeaseAccount::look(std::span<Limit> limits, Instant now) {
  const std::lock_guard lock{mutex_};
  if (retired_) return;
  take_from_stock();
  adopt(limits, now);
  count_slots(limits, now);
  for (Cell& cell : cells_) {
    if (!cell.terms) continue;
    drop_expired(cell, now);
    release_reserve(cell, now);
    const bool slots = cell.terms->kind == LeaseKind::kSlots;
    const Amount spare = slots ? slots_at_hand(cell, now) - cell.in_use : at_hand(cell);
    if (wanted_ && cell.known && cell.page.free <= 0 && spare <= 0) {
      want(cell, 1, now);
    }
  }
  wanted_ = false;
  show(limits, state_at(now), now);
  ask(now);
  fill_stock();
  plan(now);
}

void LeaseAccount::adopt(std::span<const Limit> limits, Instant now) {
  if (std::ranges::equal(cells_, limits, {}, &Cell::shown, &Limit::spec)) return;
  std::vector<Cell> cells;
  for (const Limit& limit : limits) {
    const auto old = std::ranges::find_if(
        cells_, [&](const Cell& cell) { return cell.spec.name == limit.spec().name; });
    Cell cell;
    cell.asked_at = now;
    if (old != cells_.end() && (limit.borrowed() || same(old->spec, limit.spec()))) {
      cell = std::move(*old);
    }
    cell.spec = cell.shown = limit.spec();
    cell.terms = terms_of(limit.spec(), timeout_, leases_.config_.fallback == Fallback::kReserve);
    cell.others = 0;  // the gate has counted its own slots alone
    cells.push_back(std::move(cell));
  }
  cells_ = std::move(cells);
  changed_ = true;
}

Amount LeaseAccount::in_use(const Cell& cell, const Limit& limit, Instant now) {
  return limit.capacity() - limit.available(now) - cell.others;
}

void LeaseAccount::count_slots(std::span<const Limit> limits, Instant now) {
  for (std::size_t i = 0; i < limits.size(); ++i) {
    if (limits[i].borrowed()) cells_[i].in_use = in_use(cells_[i], limits[i], now);
  }
}

void LeaseAccount::take_from_stock() {
  if (filled_ == 0) return;
  const Amount left = stock_.empty();
  Cell& cell = cells_[0];
  cell.blocks.front().units += left;
  cell.spent += filled_ - left;
  if (left < filled_) cell.drawn_at = leases_.time_.clock.now();
  filled_ = 0;
}

void LeaseAccount::fill_stock() {
  // The gate's limit counts what is drawn, and in an outage it may have to decide.
  if (!fast_ || cells_.size() != 1 || awaited_ || shown_ != State::kShared) return;
  if (cells_[0].blocks.empty()) return;
  Cell& cell = cells_[0];
  Block& block = cell.blocks.front();
  // In halves, so that the next block is asked for in time.
  filled_ = std::min(block.units, (cell.last + 1) / 2);
  block.units -= filled_;
  stock_.fill(filled_, block.deadline);
}

void LeaseAccount::drop_expired(Cell& cell, Instant now) {
  if (cell.terms->kind == LeaseKind::kSlots) return;
  std::erase_if(cell.blocks, [&](const Block& block) {
    if (block.deadline > now && block.units > 0) return false;
    leases_.burnt_ += static_cast<std::uint64_t>(block.units);
    return true;
  });
  if (cell.reserve.deadline <= now) {
    leases_.burnt_ += static_cast<std::uint64_t>(cell.reserve.units);
    cell.reserve = {};
  }
}

void LeaseAccount::release_reserve(Cell& cell, Instant now) {
  const bool windowed =
      cell.terms->kind == LeaseKind::kWindow || cell.terms->kind == LeaseKind::kCounter;
  if (!windowed || cell.reserve.units == 0 || !cell.known || cell.page.free > 0) return;
  if (cell.reserve.deadline - now > cell.spec.period / kWindowEnd) return;
  cell.blocks.push_back(std::exchange(cell.reserve, {}));
}

Amount LeaseAccount::at_hand(const Cell& cell) {
  Amount units = 0;
  for (const Block& block : cell.blocks) units += block.units;
  return units;
}

Amount LeaseAccount::fair_part(const Cell& cell) const {
  return (cell.spec.amount + members_ - 1) / members_;
}

Amount LeaseAccount::slots_at_hand(const Cell& cell, Instant now) const {
  if (now >= cell.reserve.deadline) return 0;
  if (now >= cell.yields_until) return cell.reserve.units;
  return std::min(cell.reserve.units, fair_part(cell));
}

bool LeaseAccount::covers(const Cell& cell, Amount amount, bool with_reserve, Instant now) const {
  if (!cell.terms) return true;
  if (cell.terms->kind == LeaseKind::kSlots) {
    return cell.in_use + amount <= slots_at_hand(cell, now);
  }
  return at_hand(cell) + (with_reserve ? cell.reserve.units : 0) >= amount;
}

void LeaseAccount::want(Cell& cell, Amount amount, Instant now) {
  if (cell.wanted == 0) cell.dry_at = now;
  cell.wanted = std::max(cell.wanted, amount);
}

void LeaseAccount::take(Cell& cell, Amount amount) {
  if (!cell.terms) return;
  if (cell.terms->kind == LeaseKind::kSlots) {
    cell.in_use += amount;
    cell.peak = std::max(cell.peak, cell.in_use);
    return;
  }
  cell.spent += amount;
  for (Block& block : cell.blocks) {
    const Amount taken = std::min(block.units, amount);
    block.units -= taken;
    amount -= taken;
  }
  cell.reserve.units -= amount;
}

LeaseAccount::State LeaseAccount::state_at(Instant now) const {
  if (failed_ || leases_.book_.server(gate_name_).run.empty()) {
    return leases_.starting(now) ? State::kStarting : State::kAway;
  }
  return now < quarantined_until_ ? State::kQuarantine : State::kShared;
}

bool LeaseAccount::by_fallback(State state) const {
  const Fallback fallback = leases_.config_.fallback;
  return (state == State::kAway || state == State::kQuarantine) && fallback != Fallback::kDeny &&
         fallback != Fallback::kReserve;
}

void LeaseAccount::draw_by_fallback(Cell& cell, Amount amount, Instant now) {
  if (cell.terms->kind == LeaseKind::kSlots) return take(cell, amount);
  const Amount granted = std::min(amount, at_hand(cell));
  take(cell, granted);
  if (now >= cell.fallback_window_end) {
    cell.fallback_used = 0;
    cell.fallback_window_end =
        cell.spec.ends == nullptr ? now + cell.spec.period : cell.spec.ends->after(now);
  }
  cell.fallback_used = std::min(cell.fallback_used + amount - granted, cell.spec.amount);
}

Backing::Answer LeaseAccount::draw(std::span<const Limit> limits, std::span<const Draw> draws,
                                   Instant now) {
  const std::lock_guard lock{mutex_};
  if (retired_) return Answer::kUnavailable;
  take_from_stock();
  count_slots(limits, now);
  const auto covered = [&](bool with_reserve) {
    return std::ranges::all_of(draws, [&](const Draw& draw) {
      return covers(cells_[draw.limit], draw.amount, with_reserve, now);
    });
  };
  for (const Draw& draw : draws) {
    Cell& cell = cells_[draw.limit];
    if (!cell.terms) continue;
    cell.drawn_at = now;
    drop_expired(cell, now);
  }
  Answer answer = Answer::kGranted;
  if (covered(false)) {
    for (const Draw& draw : draws) take(cells_[draw.limit], draw.amount);
  } else {
    const State state = state_at(now);
    const bool away = state == State::kAway;
    for (const Draw& draw : draws) {
      Cell& cell = cells_[draw.limit];
      if (!covers(cell, draw.amount, false, now)) want(cell, draw.amount, now);
    }
    if (away && covered(true)) {
      for (const Draw& draw : draws) take(cells_[draw.limit], draw.amount);
    } else if (by_fallback(state)) {
      ++leases_.fallback_draws_;
      for (const Draw& draw : draws) {
        Cell& cell = cells_[draw.limit];
        if (cell.terms) draw_by_fallback(cell, draw.amount, now);
      }
    } else {
      answer = away ? Answer::kUnavailable : Answer::kLater;
      awaited_ = !away;
    }
  }
  ask(now);
  fill_stock();
  plan(now);
  return answer;
}

void LeaseAccount::give_back(std::span<const Draw> draws, Instant drawn_at) {
  const std::lock_guard lock{mutex_};
  for (const Draw& draw : draws) {
    if (draw.limit >= cells_.size()) continue;
    Cell& cell = cells_[draw.limit];
    if (!cell.terms || cell.blocks.empty() || cell.terms->kind == LeaseKind::kSlots) continue;
    if (drawn_at < refundable_since(*cell.terms, cell.page, book_then_, book_at_)) continue;
    cell.blocks.front().units += draw.amount;
    cell.spent = std::max<Amount>(cell.spent - draw.amount, 0);
  }
}

void LeaseAccount::overdraw(std::span<const Limit> limits, std::span<const Draw> draws,
                            Instant now) {
  const std::lock_guard lock{mutex_};
  if (retired_) return;
  take_from_stock();
  count_slots(limits, now);
  for (const Draw& draw : draws) {
    Cell& cell = cells_[draw.limit];
    if (cell.terms) cell.owed = std::min(cell.owed + draw.amount, kAmountMax);
  }
  ask(now);
  fill_stock();
  plan(now);
}

void LeaseAccount::show(std::span<Limit> limits, State state, Instant now) {
  if (!changed_ && state == shown_) return;
  changed_ = false;
  shown_ = state;
  const bool fallback = by_fallback(state) && leases_.config_.fallback != Fallback::kLocal;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    Cell& cell = cells_[i];
    Limit& limit = limits[i];
    if (!cell.terms) continue;
    if (fallback) {
      show_fallback(cell, limit, now);
    } else if (limit.borrowed()) {
      if (cell.shown != cell.spec) {
        limit = Limit::create(cell.spec, now).value();
        limit.take(cell.in_use, now);
      }
      show_slots(cell, limit);
    } else if (cell.known) {
      const Amount reserve = state == State::kAway ? cell.reserve.units : 0;
      limit = mirrored(*cell.terms, cell.page, at_hand(cell) + reserve, book_then_, book_at_, now);
    }
    cell.shown = limit.spec();
  }
}

void LeaseAccount::show_fallback(Cell& cell, Limit& limit, Instant now) {
  const bool open = leases_.config_.fallback == Fallback::kOpen;
  const LimitSpec spec = open ? wide_open(cell.spec) : shared_out(cell.spec, members_);
  if (spec == cell.shown) return;
  const double left = static_cast<double>(std::max<Amount>(limit.available(now), 0)) /
                      static_cast<double>(limit.capacity());
  limit = Limit::create(spec, now).value();
  cell.others = 0;
  if (limit.borrowed()) {
    limit.take(cell.in_use, now);
  } else if (!open) {
    const double used = std::ceil((1 - left) * static_cast<double>(limit.capacity()));
    limit.take(static_cast<Amount>(used), now);
  }
}

void LeaseAccount::show_slots(Cell& cell, Limit& limit) {
  if (!cell.known) return;
  const Amount others = std::clamp<Amount>(cell.spec.amount - cell.reserve.units - cell.page.free,
                                           0, cell.spec.amount);
  if (others > cell.others) limit.take(others - cell.others, Instant{});
  if (others < cell.others) limit.give_back(cell.others - others);
  cell.others = others;
}

}  // namespace weir::fleet
