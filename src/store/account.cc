#include "store/account.h"

#include <algorithm>

#include "weir/core/int128.h"
#include "weir/gate/gate.h"

namespace weir::store {
namespace {

// A block is what the gate asks for in a second, so that many gates commit rarely; but of a busy
// one, beyond so many calls, in this time or in a few commits, so that a crash loses little.
constexpr Nanos kHorizon = std::chrono::milliseconds{30};
constexpr int kCommitsInBlock = 8;
constexpr int kCallsInBlock = 256;
// Demand is not extrapolated from less.
constexpr Nanos kShortest = std::chrono::milliseconds{10};
// A block is at most this part of what the limit has left, so that little is stranded at its end.
constexpr Amount kTaper = 8;
// Refilled tokens come back anyway: a bucket may be this far ahead even when it is empty.
constexpr Nanos kBucketAhead = std::chrono::milliseconds{100};
// The next block is wanted when less than this part of the last one is left.
constexpr Amount kLow = 8;
// A window may open this much later than its mark says; longer if commits take longer.
constexpr Nanos kSlack = std::chrono::milliseconds{100};

bool same(const LimitSpec& a, const LimitSpec& b) {
  return a.unit == b.unit && a.algorithm == b.algorithm && a.amount == b.amount &&
         a.period == b.period && a.burst == b.burst && a.name == b.name;
}

LimitSpec spec_of(const Row& row) {
  return {.unit = row.unit,
          .algorithm = row.algorithm,
          .amount = row.amount,
          .period = row.period,
          .burst = row.burst,
          .name = row.key.limit};
}

Mark mark_of(const Row& row, const Calendar& calendar) {
  // Whatever the store says, sums with it stay in range.
  constexpr CalendarTime kLatest{std::chrono::years{130}};
  return {.at = calendar.instant(std::clamp(row.at, CalendarTime{}, kLatest)),
          .used = std::clamp<Amount>(row.used, 0, 2 * kAmountMax),
          .previous = std::clamp<Amount>(row.previous, 0, 2 * kAmountMax),
          .slots = row.slots};
}

// The limit that the seed's table shows: its fixed window of requests, or what comes next to it.
template <class Limits>
auto* shown(Limits& limits) {
  auto found = std::ranges::find_if(limits, [](const Limit& limit) {
    return limit.unit() == Unit::kRequests &&
           limit.spec().algorithm == LimitSpec::Algorithm::kFixedWindow;
  });
  if (found == limits.end()) found = std::ranges::find(limits, Unit::kRequests, &Limit::unit);
  return found == limits.end() ? nullptr : &*found;
}

void use_up(Limit& limit, Instant now) {
  limit.take(std::max<Amount>(limit.available(now), 0), now);
}

}  // namespace

Account::Account(Journal& journal, std::string gate, std::string domain)
    : journal_(journal), gate_name_(std::move(gate)), domain_(std::move(domain)) {}

Account::~Account() { journal_.rest(gate_name_, retire()); }

void Account::bind(std::weak_ptr<Gate> gate) {
  const std::lock_guard lock{mutex_};
  gate_ = std::move(gate);
}

void Account::look(std::span<Limit> limits, Instant now) {
  bool wanted = false;
  {
    const std::lock_guard lock{mutex_};
    if (retired_) return;
    adopt(limits, now);
    // What is restored counts as this account's from here on, and not as what the store said.
    const bool began = !restored_ && restore(limits, now);
    if (began || wish_ == Wish::kAll) {
      for (std::size_t i = 0; i < limits.size(); ++i) {
        want(cells_[i], limits[i], 0, 0, now);
      }
      wanted = true;
    }
    const Limit* limit = domain_.empty() ? nullptr : shown(limits);
    if ((began || wish_ != Wish::kNothing) && limit != nullptr) {
      const Calendar& calendar = *journal_.calendar_;
      state_ = DomainState{.domain = domain_,
                           .request_count = limit->capacity() - limit->available(now),
                           .window_start = calendar.at(limit->window_start(now)),
                           .updated_at = calendar.at(now)};
      wanted = true;
    }
    wish_ = Wish::kNothing;
  }
  enqueue_if(wanted);
}

void Account::enqueue_if(bool wanted) {
  if (!wanted) return;
  {
    const std::lock_guard lock{mutex_};
    if (std::exchange(queued_, true)) return;
  }
  journal_.enqueue(shared_from_this());
}

void Account::adopt(std::span<const Limit> limits, Instant now) {
  if (std::ranges::equal(cells_, limits, same, &Cell::spec, &Limit::spec)) return;
  std::vector<Cell> cells;
  for (const Limit& limit : limits) {
    const auto old = std::ranges::find_if(
        cells_, [&](const Cell& cell) { return same(cell.spec, limit.spec()); });
    cells.push_back(old != cells_.end()
                        ? std::move(*old)
                        : Cell{.spec = limit.spec(), .markable = limit.markable(), .since = now});
  }
  cells_ = std::move(cells);
}

bool Account::restore(std::span<Limit> limits, Instant now) {
  const auto beginning = journal_.begin(gate_name_, domain_);
  if (!beginning) return false;
  restored_ = true;
  if (beginning->rows.empty() && !beginning->domain && !beginning->used_up_at) return false;
  for (Limit& limit : limits) {
    if (!limit.markable()) continue;
    if (beginning->used_up_at) {
      Limit full = Limit::create(limit.spec(), *beginning->used_up_at).value();
      use_up(full, *beginning->used_up_at);
      limit.resume(full.mark(0, *beginning->used_up_at, Nanos{0}), now);
      continue;
    }
    const auto row = std::ranges::find_if(
        beginning->rows, [&](const Row& r) { return r.key.limit == limit.spec().name; });
    if (row == beginning->rows.end()) continue;
    const Mark mark = mark_of(*row, *journal_.calendar_);
    if (same(spec_of(*row), limit.spec())) {
      limit.resume(mark, now);
    } else if (auto was = Limit::create(spec_of(*row), now); was && was->markable()) {
      // The limit has changed since: what was left is left, and no more.
      was->resume(mark, now);
      const Amount left = std::min(was->available(now), limit.capacity());
      limit.take(std::max<Amount>(limit.capacity() - left, 0), now);
    } else {
      use_up(limit, now);
    }
  }
  if (Limit* limit = shown(limits); beginning->domain && limit != nullptr) {
    // Another program may have counted in the table since.
    const Instant end =
        journal_.calendar_->instant(beginning->domain->window_start) + limit->spec().period;
    const Amount used = limit->capacity() - limit->available(now);
    const Amount more = std::min(beginning->domain->request_count, kAmountMax) - used;
    if (end > now && more > 0 && limit->spec().algorithm == LimitSpec::Algorithm::kFixedWindow) {
      limit->resume({.at = std::min(end, now + limit->spec().period), .used = more}, now);
    }
  }
  return true;
}

Backing::Answer Account::draw(std::span<const Limit> limits, std::span<const Draw> draws,
                              Instant now) {
  const Journal::Policy policy = journal_.policy();
  if (policy == Journal::Policy::kDeny) return Answer::kUnavailable;
  bool granted = true;
  bool wanted = false;
  {
    const std::lock_guard lock{mutex_};
    touched_ = true;
    if (retired_) return Answer::kUnavailable;
    if (policy == Journal::Policy::kMemory || journal_.config_.mode == Mode::kSnapshot) {
      return Answer::kGranted;
    }
    const auto covered = [&](const Draw& draw, Amount more) {
      const Cell& cell = cells_[draw.limit];
      const Limit& limit = limits[draw.limit];
      const Amount cost = draw.amount + more;
      return !cell.markable || (cell.durable && limit.covers(cell.durable->mark, cost, now) &&
                                (!cell.writing || limit.covers(cell.writing->mark, cost, now)));
    };
    for (const Draw& draw : draws) granted = granted && covered(draw, 0);
    for (const Draw& draw : draws) {
      Cell& cell = cells_[draw.limit];
      if (granted) cell.drawn += draw.amount;
      const Amount last = cell.durable ? cell.durable->block : 0;
      const Limit& limit = limits[draw.limit];
      // What is wanted next will be written over what is durable: it must cover this as well.
      const bool next_covers = !cell.next || limit.covers(cell.next->mark, draw.amount, now);
      if (next_covers && covered(draw, std::max(last / kLow, draw.amount))) continue;
      want(cell, limit, draw.amount, block_for(cell, limit, draw.amount, now), now);
      if (!cell.writing && cell.durable && cell.durable->mark == cell.next->mark) {
        cell.next.reset();  // all that the limit has is written
      } else {
        wanted = true;
      }
    }
    if (!granted) awaited_ = true;
  }
  enqueue_if(wanted);
  return granted ? Answer::kGranted : Answer::kLater;
}

Amount Account::block_for(const Cell& cell, const Limit& limit, Amount cost, Instant now) const {
  const Nanos commit_time = journal_.commit_time_.load(std::memory_order_relaxed);
  const Nanos horizon = std::max(kHorizon, kCommitsInBlock * commit_time);
  const Nanos elapsed = std::max(now - cell.since, kShortest);
  const auto asked_in = [&](Nanos time) {
    return Int128{cell.drawn} * time.count() / elapsed.count();
  };
  const Int128 demand = std::max(
      std::min(asked_in(std::chrono::seconds{1}), Int128{kCallsInBlock} * cost), asked_in(horizon));
  const Amount last = cell.durable ? cell.durable->block : 0;
  // From nothing it grows by steps: one burst is no demand yet.
  const auto block =
      static_cast<Amount>(std::clamp<Int128>(demand, cost, Int128{kTaper} * std::max(last, cost)));
  const Amount spare = std::max<Amount>(limit.available(now) - cost, 0);
  Amount most = std::min(spare, std::max<Amount>(spare / kTaper, 1));
  if (limit.spec().algorithm == LimitSpec::Algorithm::kTokenBucket) {
    const Int128 refill =
        Int128{limit.spec().amount} * kBucketAhead.count() / limit.spec().period.count();
    most = std::max(most, static_cast<Amount>(refill));
  }
  return std::min(block, most);
}

void Account::want(Cell& cell, const Limit& limit, Amount cost, Amount block, Instant now) {
  if (!cell.markable) return;
  const Nanos slack = std::max(kSlack, 4 * journal_.commit_time_.load(std::memory_order_relaxed));
  Mark mark = limit.mark(cost + block, now, slack);
  const Instant void_at = limit.void_at(mark);
  cell.next = Written{std::move(mark), void_at, block};
}

void Account::overdraw(std::span<const Limit> limits, std::span<const Draw> draws, Instant now) {
  {
    const std::lock_guard lock{mutex_};
    touched_ = true;
    if (retired_ || journal_.config_.mode == Mode::kSnapshot) return;
    for (const Draw& draw : draws) {
      want(cells_[draw.limit], limits[draw.limit], 0, 0, now);
    }
  }
  enqueue_if(true);
}

void Account::write(Wish wish) {
  std::shared_ptr<Gate> gate;
  {
    const std::lock_guard lock{mutex_};
    wish_ = wish;
    touched_ = false;
    gate = gate_.lock();
  }
  if (gate != nullptr) gate->show_backing();
}

Row Account::row(const Cell& cell, const Written& written) const {
  const Calendar& calendar = *journal_.calendar_;
  return {.key = {gate_name_, cell.spec.name},
          .unit = cell.spec.unit,
          .algorithm = cell.spec.algorithm,
          .amount = cell.spec.amount,
          .period = cell.spec.period,
          .burst = cell.spec.burst,
          .at = calendar.at(written.mark.at),
          .used = written.mark.used,
          .previous = written.mark.previous,
          .slots = written.mark.slots,
          .expires = calendar.at(written.void_at)};
}

void Account::collect(Batch& batch) {
  const std::lock_guard lock{mutex_};
  queued_ = false;
  for (Cell& cell : cells_) {
    if (!cell.next) continue;
    cell.writing = std::exchange(cell.next, std::nullopt);
    batch.rows.push_back(row(cell, *cell.writing));
  }
  if (state_) batch.domains.push_back(*std::exchange(state_, std::nullopt));
}

void Account::committed(Instant now) {
  {
    const std::lock_guard lock{mutex_};
    for (Cell& cell : cells_) {
      if (!cell.writing) continue;
      cell.durable = std::exchange(cell.writing, std::nullopt);
      cell.drawn = 0;
      cell.since = now;
    }
  }
  reconsider();
}

void Account::failed() {
  {
    const std::lock_guard lock{mutex_};
    queued_ = false;
    state_.reset();
    for (Cell& cell : cells_) {
      cell.writing.reset();
      cell.next.reset();
    }
  }
  reconsider();
}

void Account::reconsider() {
  std::shared_ptr<Gate> gate;
  {
    const std::lock_guard lock{mutex_};
    if (std::exchange(awaited_, false)) gate = gate_.lock();
  }
  if (gate != nullptr) gate->reconsider();
}

bool Account::touched() const {
  const std::lock_guard lock{mutex_};
  return touched_;
}

std::vector<Row> Account::retire() {
  const std::lock_guard lock{mutex_};
  retired_ = true;
  std::vector<Row> rows;
  for (Cell& cell : cells_) {
    const auto& latest = cell.next ? cell.next : cell.writing ? cell.writing : cell.durable;
    if (latest) rows.push_back(row(cell, *latest));
    cell = {.spec = cell.spec};
  }
  return rows;
}

std::vector<Amount> Account::blocks() const {
  const std::lock_guard lock{mutex_};
  std::vector<Amount> blocks;
  for (const Cell& cell : cells_) blocks.push_back(cell.durable ? cell.durable->block : 0);
  return blocks;
}

}  // namespace weir::store
