// The part of an account that writes to the book.
#include <algorithm>

#include "fleet/lease_account.h"
#include "weir/core/int128.h"

namespace weir::fleet {
namespace {

using std::chrono::microseconds;

// A block is what is spent in this time, or in half its life.
constexpr Nanos kHorizon = std::chrono::seconds{1};
// Demand is not extrapolated from less, and grows by no more than this from block to block.
constexpr Nanos kShortest = std::chrono::milliseconds{10};
constexpr Amount kGrowth = 8;
// Who was granted less than it wanted asks again after about this.
constexpr Nanos kPause = std::chrono::milliseconds{100};
// But some may come at once: a few large requests take a few blocks.
constexpr std::int64_t kAsksAtOnce = 10;
constexpr Nanos kHeartbeat = std::chrono::seconds{1};
constexpr Nanos kMemberTtl = 5 * kHeartbeat;
// Time for everyone to notice a new server and to bear witness.
constexpr Nanos kQuarantine = std::chrono::seconds{3};
// Clocks differ by less than one part in this; and an admission takes less than kGuard.
constexpr std::int64_t kDrift = 1000;
constexpr Nanos kGuard = std::chrono::milliseconds{2};
constexpr Nanos kReserveTtl = std::chrono::hours{1};
constexpr Nanos kForgotten = std::chrono::hours{1};

Micros micros(Nanos time) { return time.count() / 1000; }

}  // namespace

bool LeaseAccount::idle(const Cell& cell, Instant now) {
  const bool slots = cell.terms->kind == LeaseKind::kSlots;
  return now - cell.drawn_at >= (slots ? kPause : std::min(kHorizon, cell.terms->ttl / 2));
}

Amount LeaseAccount::demand(const Cell& cell, Instant now) {
  if (cell.terms->single) return cell.wanted;
  const Nanos horizon = std::min(kHorizon, cell.terms->ttl / 2);
  // Nothing is spent, but no less demanded, while there is nothing.
  const Nanos elapsed = (cell.wanted > 0 ? cell.dry_at : now) - cell.asked_at;
  const Int128 spent = Int128{cell.spent} * horizon.count() / std::max(elapsed, kShortest).count();
  const Amount least = elapsed < kShortest ? std::max(cell.asked, cell.wanted) : cell.wanted;
  const Amount most = kGrowth * std::max({cell.last, least, Amount{1}});
  return static_cast<Amount>(std::clamp<Int128>(spent, std::max<Amount>(least, 1), most));
}

bool LeaseAccount::wants(const Cell& cell, Instant now) const {
  if (now < cell.short_until || cell.paced - now > kAsksAtOnce * kPause) return false;
  if (cell.terms->kind == LeaseKind::kSlots && now < cell.yields_until) {
    return cell.reserve.units > std::max(slots_at_hand(cell, now), cell.in_use);
  }
  if (cell.terms->kind == LeaseKind::kSlots || cell.terms->single) return cell.wanted > 0;
  return cell.wanted > 0 || (!idle(cell, now) && at_hand(cell) <= cell.last / 2 && cell.spent > 0);
}

void LeaseAccount::ask(Instant now) {
  if (sending_ || (!call_ && !has_to_say(now))) return;
  const std::string run = leases_.book_.server(gate_name_).run;
  if (run.empty() || (now < quarantined_until_ && run == run_)) return;
  if (!call_) call_ = make_call(now);
  send(now);
}

bool LeaseAccount::has_to_say(Instant now) const {
  bool wanted = moved_;
  bool something = false;
  for (const Cell& cell : cells_) {
    if (!cell.terms) continue;
    const bool slots = cell.terms->kind == LeaseKind::kSlots;
    const Amount unspent = slots ? cell.reserve.units : at_hand(cell);
    something = something || unspent > 0;
    wanted = wanted || wants(cell, now) || cell.owed > 0 || cell.fallback_used > 0;
    wanted = wanted || (unspent > (slots ? cell.in_use : 0) && idle(cell, now));
  }
  return wanted || (something && now - spoke_at_ >= kHeartbeat);
}

LeaseAccount::Call LeaseAccount::make_call(Instant now) {
  Call call;
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    if (cells_[i].terms) add_asks(call, i, now);
  }
  Nanos longest{0};
  for (const Cell& cell : cells_) longest = std::max(longest, cell.spec.period);
  const Nanos kept = slots_kept_ + 2 * kMemberTtl;
  call.call.gate = gate_name_;
  call.call.node = leases_.config_.node;
  call.call.sequence = leases_.next_sequence();
  call.call.member_ttl = micros(kMemberTtl);
  call.call.keep = micros(kept);
  call.call.quarantine = micros(kQuarantine);
  call.call.expire = micros(kept + 2 * longest + kForgotten);
  return call;
}

void LeaseAccount::add_asks(Call& call, std::size_t index, Instant now) {
  Cell& cell = cells_[index];
  const LeaseTerms& terms = *cell.terms;
  const auto add = [&](LeaseAsk ask, bool reserve) {
    call.call.asks.push_back(std::move(ask));
    call.cells.push_back(index);
    call.reserves.push_back(reserve);
  };
  LeaseAsk ask = ask_of(terms, leases_.calendar_, now);
  // A new server is told of debts when it has heard all witnesses: they know of the past alone.
  if (!moved_) ask.owed = std::exchange(cell.owed, 0) + std::exchange(cell.fallback_used, 0);
  if (terms.kind == LeaseKind::kSlots) {
    // What has not been used since the last word goes back, and what others have a right to.
    const Amount kept = std::min(cell.peak, slots_at_hand(cell, now));
    cell.reserve.units = std::min(cell.reserve.units, std::max(kept, cell.in_use));
    cell.peak = cell.in_use;
    ask.held = cell.reserve.units;
    if (cell.wanted > 0 && now >= cell.yields_until) {
      ask.want = ask.least = std::max<Amount>(cell.in_use + cell.wanted - ask.held, 0);
    }
    cell.wanted = 0;
    add(std::move(ask), false);
    return;
  }
  if (wants(cell, now)) {
    ask.least = std::max<Amount>(cell.wanted - at_hand(cell), 1);
    ask.want = cell.asked = std::max(demand(cell, now), ask.least);
  }
  cell.wanted = 0;
  cell.asked_at = now;
  cell.spent = 0;
  LeaseAsk reserve = ask_of(terms, leases_.calendar_, now);
  if (idle(cell, now)) add_returns(call, index, reserve);
  add(std::move(ask), false);
  const Amount part = terms.reserve / members_;
  if (cell.reserve.units > part) {  // there are more members than there were
    Block rest = cell.reserve;
    rest.units -= part;
    cell.reserve.units = part;
    cell.blocks.push_back(rest);
  }
  // Who has not heard how many members there are does not know its part.
  if (part == 0 || cell.reserve.units > 0 || !cell.known || cell.page.free <= part) return;
  reserve.want = part;
  reserve.least = 1;
  reserve.ttl = micros(terms.kind == LeaseKind::kBucket ? kReserveTtl : kPeriodMax);
  add(std::move(reserve), true);
}

void LeaseAccount::add_returns(Call& call, std::size_t index, const LeaseAsk& blank) {
  for (const Block& block : cells_[index].blocks) {
    LeaseAsk back = blank;
    back.back = block.units;
    back.back_until = block.expires;
    leases_.returned_ += static_cast<std::uint64_t>(block.units);
    call.call.asks.push_back(std::move(back));
    call.cells.push_back(index);
    call.reserves.push_back(false);
  }
  cells_[index].blocks.clear();
}

void LeaseAccount::address(LeaseCall& call, Instant now) {
  const Book::Server server = leases_.book_.server(gate_name_);
  call.distrust = std::max<Micros>(micros(kQuarantine - (now - server.up_since)), 0);
  if (call.run == server.run) return;
  call.run = server.run;
  if (run_ == server.run || run_.empty()) return;
  // There was a book before this one, whether or not the new server has heard of it.
  call.distrust = micros(kQuarantine);
  // Whether the last server's book has had this call the new one cannot know: what was to be
  // returned is lost.
  for (LeaseAsk& ask : call.asks) {
    const auto cell =
        std::ranges::find(cells_, ask.limit, [](const Cell& c) { return c.spec.name; });
    if (cell == cells_.end() || !cell->known) continue;
    ask.back = 0;
    cell->owed += std::exchange(ask.owed, 0);
    ask.has_witness = true;
    ask.witness = cell->page.state;
  }
}

void LeaseAccount::send(Instant now) {
  auto pass = leases_.enter();
  if (!pass) return;
  address(call_->call, now);
  call_->repeated = call_->first_sent != Instant{};
  if (!call_->repeated) call_->first_sent = now;
  sending_ = true;
  pass_.emplace(std::move(*pass));
  leases_.book_.ask(
      call_->call, now + timeout_,
      [self = weak_from_this(), under_way = leases_.begin()](Result<LeaseAnswer> result) {
        if (const auto account = self.lock()) account->answered(std::move(result));
      });
}

void LeaseAccount::answered(Result<LeaseAnswer> result) {
  leases_.count_call(result);
  {
    const std::lock_guard lock{mutex_};
    const Instant now = leases_.time_.clock.now();
    sending_ = false;
    failed_ = !result;
    changed_ = true;
    if (result) {
      pass_->success();
      accept(*call_, *result, now);
      call_.reset();
      spoke_at_ = now;
    } else if (result.error() != Errc::kUnavailable) {
      pass_->failure();
    }
    pass_.reset();
  }
  tend();
}

void LeaseAccount::accept(const Call& call, const LeaseAnswer& answer, Instant now) {
  run_ = call.call.run;
  members_ = std::max<std::int64_t>(answer.members, 1);
  book_then_ = answer.now;
  book_at_ = call.repeated ? call.first_sent : now;
  quarantined_until_ = answer.quarantine > 0 ? now + microseconds{answer.quarantine} : Instant{};
  for (std::size_t i = 0; i < answer.grants.size() && i < call.cells.size(); ++i) {
    if (call.cells[i] >= cells_.size()) continue;
    Cell& cell = cells_[call.cells[i]];
    const LeaseAsk& ask = call.call.asks[i];
    if (!cell.terms || cell.spec.name != ask.limit) continue;
    accept_grant(cell, answer.grants[i], call.reserves[i], call, answer);
    if (call.reserves[i] || ask.want <= answer.grants[i].units) continue;
    if (answer.grants[i].units > 0) {
      cell.paced = std::max(cell.paced, now) + kPause;
      continue;
    }
    cell.short_until = now + kPause;
    const Nanos to_end = microseconds{answer.grants[i].state[0] - answer.now};
    if (cell.terms->kind == LeaseKind::kWindow && to_end > Nanos{0}) {
      cell.short_until = std::min(cell.short_until, now + to_end);
    }
  }
}

void LeaseAccount::accept_grant(Cell& cell, const LeaseGrant& grant, bool reserve, const Call& call,
                                const LeaseAnswer& answer) {
  cell.page = grant;
  cell.known = true;
  // Counted from before the call was sent: the book's expiry comes later.
  const auto deadline = [&](Nanos lasts) {
    return call.first_sent + lasts - lasts / kDrift - kGuard;
  };
  if (cell.terms->kind == LeaseKind::kSlots) {
    cell.reserve.units += grant.units;
    cell.peak = std::max(cell.peak, cell.in_use + grant.units);
    cell.reserve.deadline = deadline(cell.terms->ttl);
    const Micros refused_at = grant.state[2];
    const bool refused = refused_at > 0 && microseconds{answer.now - refused_at} < kHeartbeat;
    const bool unfair = refused && cell.reserve.units > fair_part(cell);
    cell.yields_until = unfair ? book_at_ + kHeartbeat : Instant{};
    if (cell.in_use + cell.wanted <= cell.reserve.units) cell.wanted = 0;
    return;
  }
  if (grant.units == 0) return;
  leases_.granted_ += static_cast<std::uint64_t>(grant.units);
  const Block block{.units = grant.units,
                    .deadline = deadline(microseconds{grant.expires - answer.now}),
                    .expires = grant.expires};
  if (reserve) {
    cell.reserve = block;
    return;
  }
  cell.blocks.push_back(block);
  cell.last = grant.units;
  // What was put off meanwhile is served by this.
  if (at_hand(cell) >= cell.wanted) cell.wanted = 0;
}

void LeaseAccount::plan(Instant now) {
  Instant due = kEndOfTime;
  const auto by = [&](Instant at) { due = std::min(due, std::max(at, now + kShortest)); };
  if (!sending_ && call_) by(now + kPause);
  if (awaited_ && !sending_) by(now + kPause / 2);
  if (now < quarantined_until_) by(quarantined_until_);
  for (const Cell& cell : cells_) {
    if (!cell.terms) continue;
    if (cell.wanted > 0) by(std::max(cell.short_until, cell.paced - kAsksAtOnce * kPause));
    if (cell.owed > 0 || cell.fallback_used > 0) by(now + kPause);
    const bool slots = cell.terms->kind == LeaseKind::kSlots;
    const bool unspent = slots ? cell.reserve.units > 0
                               : !cell.blocks.empty() || filled_ > 0 || cell.reserve.units > 0;
    if (unspent) by(now + (slots ? 2 * kPause : std::min(kHeartbeat, cell.terms->ttl / 2)));
    // As long as nothing is left, what others return is worth asking for.
    const bool lasts = slots || now - spoke_at_ < cell.spec.period;
    if (cell.known && cell.page.free <= 0 && lasts) by(now + 2 * kPause);
  }
  due_ = due;
  if (due < registered_.load()) leases_.wake_at(shared_from_this(), due);
}

void LeaseAccount::retire() {
  const std::lock_guard lock{mutex_};
  if (std::exchange(retired_, true)) return;
  take_from_stock();
  const Instant now = leases_.time_.clock.now();
  if (run_.empty() || leases_.book_.server(gate_name_).run.empty()) return;
  for (Cell& cell : cells_) {
    if (!cell.terms) continue;
    cell.wanted = 0;
    cell.drawn_at = Instant{};  // idle, so that all goes back
    cell.peak = 0;
    cell.terms->reserve = 0;
    if (cell.terms->kind == LeaseKind::kSlots || cell.reserve.units == 0) continue;
    cell.blocks.push_back(std::exchange(cell.reserve, {}));
  }
  Call call = make_call(now);
  address(call.call, now);
  leases_.book_.ask(call.call, now + timeout_,
                    [under_way = leases_.begin()](const Result<LeaseAnswer>&) {});
}

QuotaShare LeaseAccount::share() const {
  const std::lock_guard lock{mutex_};
  QuotaShare share{.state = state_at(leases_.time_.clock.now()), .members = members_, .parts = {}};
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    const Cell& cell = cells_[i];
    if (!cell.terms) continue;
    const bool slots = cell.terms->kind == LeaseKind::kSlots;
    share.parts.push_back(
        {.limit = cell.spec.name,
         .unit = cell.spec.unit,
         .leased = slots ? cell.reserve.units : at_hand(cell) + (i == 0 ? filled_ : 0),
         .reserve = slots ? 0 : cell.reserve.units,
         .free = cell.page.free});
  }
  return share;
}

}  // namespace weir::fleet
