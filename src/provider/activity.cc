#include "provider/activity.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

namespace weir {
namespace {

// After a look at all agents that found none to forget, new ones are counted together for so long.
constexpr Nanos kSweepPause = std::chrono::seconds{1};
constexpr Nanos kLimitedPause = std::chrono::seconds{1};
// Who waited for less than this has not queued in any way that people would call so.
constexpr Nanos kNoWait = std::chrono::milliseconds{1};

std::int64_t index_of(Instant now, Nanos slice) {
  return clamp_instant(now).time_since_epoch() / slice;
}

void add(Amount& sum, Amount amount) {
  using Range = std::numeric_limits<Amount>;
  if (__builtin_add_overflow(sum, amount, &sum)) sum = amount < 0 ? Range::min() : Range::max();
}

Activity::Total total(Nanos span) { return std::chrono::floor<Activity::Total>(span); }

std::uint64_t microseconds(Instant at) {
  return static_cast<std::uint64_t>(total(at.time_since_epoch()).count());
}

Activity::Use use_of(const Cost& cost) {
  return {Activity::tokens_of(cost), cost[Unit::kMicroUsd]};
}

}  // namespace

Amount Activity::tokens_of(const Cost& cost) {
  return std::max(cost[Unit::kTokens], cost[Unit::kInputTokens] + cost[Unit::kOutputTokens]);
}

Activity::Counts& Activity::Counts::operator+=(const Counts& other) {
  arrived += other.arrived;
  admitted += other.admitted;
  refused += other.refused;
  abandoned += other.abandoned;
  limited += other.limited;
  failed += other.failed;
  expired += other.expired;
  add(tokens, other.tokens);
  add(micro_usd, other.micro_usd);
  add(estimated, other.estimated);
  add(settled, other.settled);
  waits += other.waits;
  waited += other.waited;
  answers += other.answers;
  upstream += other.upstream;
  return *this;
}

void Activity::Guest::turn_to(Instant now) {
  const std::int64_t index = index_of(now, kAgentSlice);
  if (index <= newest) return;
  constexpr auto kCount = static_cast<std::int64_t>(kAgentSlices);
  for (std::int64_t i = std::max(newest + 1, index - kCount + 1); i <= index; ++i) {
    tokens[static_cast<std::size_t>(i % kCount)] = 0;
    requests[static_cast<std::size_t>(i % kCount)] = 0;
  }
  newest = index;
}

Amount Activity::Guest::tokens_used() const {
  Amount used = 0;
  for (const Amount each : tokens) add(used, each);
  return std::max<Amount>(used, 0);  // a refund may be of what is long ago
}

std::uint64_t Activity::Guest::requests_made() const {
  return std::accumulate(requests.begin(), requests.end(), std::uint64_t{0});
}

bool Activity::Guest::idle() const {
  return visits == 0 && requests_made() == 0 && tokens_used() == 0;
}

Activity::Book& Activity::book() {
  if (book_ == nullptr) book_ = std::make_unique<Book>();
  return *book_;
}

Activity::Slice& Activity::slice(Instant now) {
  const std::int64_t index = index_of(now, kSlice);
  Slice& slice = book().slices[static_cast<std::size_t>(index) % kSlices];
  if (slice.index < index) {
    book_->past += slice.counts;
    slice = Slice{};
    slice.index = index;
  }
  return slice;
}

bool Activity::recent(const Slice& slice, Instant now) {
  return slice.index + static_cast<std::int64_t>(kSlices) > index_of(now, kSlice);
}

Activity::Guest& Activity::guest(std::string_view name, Instant now) {
  Book& all = book();
  const auto known = all.guests.find(name);
  if (known != all.guests.end()) return known->second;
  if (all.guests.size() >= kAgentsMax && now >= all.next_sweep) {
    for (auto& [other, guest] : all.guests) guest.turn_to(now);
    std::erase_if(all.guests, [](const auto& entry) { return entry.second.idle(); });
    all.next_sweep = now + kSweepPause;
  }
  if (all.guests.size() >= kAgentsMax) return all.others;
  return all.guests[std::string{name}];
}

Activity::Visit Activity::arrive(const Arrival& arrival, Instant now) {
  return {*this, arrival, now};
}

bool Activity::limited(Instant now) {
  const std::lock_guard lock{mutex_};
  ++slice(now).counts.limited;
  if (book_->limited_at && now < *book_->limited_at + kLimitedPause) return false;
  book_->limited_at = now;
  return true;
}

void Activity::failed(Instant now) {
  const std::lock_guard lock{mutex_};
  ++slice(now).counts.failed;
}

bool Activity::note_slow(const Queued& wait, Nanos waited, Instant now) {
  if (waited < kNoWait) return false;
  const std::int64_t index = index_of(now, kSlowSlice);
  SlowSlice& slow = book_->slowest[static_cast<std::size_t>(index) % kSlowSlices];
  if (slow.index < index) {
    slow.index = index;
    slow.waits.clear();
  }
  const auto place = std::ranges::upper_bound(slow.waits, waited, std::greater<>{}, &Slow::waited);
  if (place == slow.waits.end() && slow.waits.size() >= kSlowestShown) return false;
  slow.waits.insert(
      place,
      Slow{.agent = wait.agent, .model = wait.model, .limit = {}, .waited = waited, .at = now});
  if (slow.waits.size() > kSlowestShown) slow.waits.pop_back();
  return true;
}

void Activity::leave_queue(Visit& visit, Nanos waited) {
  // The most that wait at a time are seen when one of them goes.
  if (waited >= kNoWait) book_->waiting_max = std::max(book_->waiting_max, book_->queue.size());
  --visit.guest_->waiting;
  book_->queue.erase(visit.place_);
}

void Activity::begin_flight(Visit& visit) {
  ++book_->in_flight;
  ++visit.guest_->in_flight;
  book_->in_flight_since += microseconds(visit.since_);
}

void Activity::end_flight(Visit& visit) {
  --book_->in_flight;
  --visit.guest_->in_flight;
  book_->in_flight_since -= microseconds(visit.since_);
}

void Activity::finish(Visit& visit, Instant now) {
  book_->in_flight_max = std::max(book_->in_flight_max, book_->in_flight);
  end_flight(visit);
  --visit.guest_->visits;
  const Use reserved = use_of(visit.arrival_.cost);
  const Use used = visit.settled_.value_or(reserved);
  Counts& counts = slice(now).counts;
  add(counts.tokens, used.tokens);
  add(counts.micro_usd, used.micro_usd);
  if (visit.settled_ && used.tokens > 0) {
    add(counts.estimated, reserved.tokens);
    add(counts.settled, used.tokens);
  }
  if (visit.settled_) {
    visit.guest_->turn_to(now);
    add(visit.guest_->tokens[static_cast<std::size_t>(visit.guest_->newest) % kAgentSlices],
        used.tokens - reserved.tokens);
  }
  visit.state_ = Visit::State::kOver;
}

void Activity::Visit::queued(Instant now) {
  const std::lock_guard lock{activity_->mutex_};
  Book& book = activity_->book();
  if (state_ == State::kArrived) {
    ++activity_->slice(now).counts.arrived;
    guest_ = &activity_->guest(arrival_.agent, now);
    ++guest_->visits;
  } else {
    activity_->end_flight(*this);
    since_ = now;
  }
  ++guest_->waiting;
  place_ = book.queue.insert(book.queue.end(), Queued{.agent = std::string{arrival_.agent},
                                                      .model = std::string{arrival_.model},
                                                      .cost = arrival_.cost,
                                                      .priority = arrival_.priority,
                                                      .since = since_});
  state_ = State::kQueued;
}

bool Activity::Visit::admitted(Instant now, Holds holds) {
  const std::lock_guard lock{activity_->mutex_};
  Slice& slice = activity_->slice(now);
  const bool waited = state_ == State::kQueued;
  const Nanos wait = waited ? std::max(now - since_, Nanos{0}) : Nanos{0};
  bool slow = false;
  if (waited) {
    slow = activity_->note_slow(*place_, wait, now);
    activity_->leave_queue(*this, wait);
  } else {
    ++slice.counts.arrived;
    guest_ = &activity_->guest(arrival_.agent, now);
    ++guest_->visits;
  }
  slice.wait.add(wait);
  ++slice.counts.waits;
  slice.counts.waited += total(wait);
  const Use use = use_of(arrival_.cost);
  if (!std::exchange(counted_, true)) {
    ++slice.counts.admitted;
    guest_->turn_to(now);
    const std::size_t minute = static_cast<std::size_t>(guest_->newest) % kAgentSlices;
    ++guest_->requests[minute];
    add(guest_->tokens[minute], use.tokens);
  }
  since_ = now;
  waited_ = wait;
  if (holds == Holds::kNothing) {
    add(slice.counts.tokens, use.tokens);
    add(slice.counts.micro_usd, use.micro_usd);
    --guest_->visits;
    state_ = State::kOver;
  } else {
    activity_->begin_flight(*this);
    state_ = State::kUnderWay;
  }
  return slow;
}

void Activity::Visit::waited_for(std::string limit) {
  const std::lock_guard lock{activity_->mutex_};
  for (SlowSlice& slow : activity_->book().slowest) {
    const auto wait = std::ranges::find_if(slow.waits, [&](const Slow& one) {
      return one.at == since_ && one.waited == waited_ && one.limit.empty();
    });
    if (wait == slow.waits.end()) continue;
    wait->limit = std::move(limit);
    return;
  }
}

void Activity::Visit::refused(Instant now) {
  if (state_ != State::kArrived && state_ != State::kQueued) return;
  const std::lock_guard lock{activity_->mutex_};
  Counts& counts = activity_->slice(now).counts;
  if (state_ == State::kQueued) {
    activity_->leave_queue(*this, now - since_);
    --guest_->visits;
  } else {
    ++counts.arrived;
  }
  ++counts.refused;
  state_ = State::kOver;
}

void Activity::Visit::settled(const Cost& actual) {
  Cost cost = arrival_.cost;
  for (std::size_t i = 0; i < kUnitCount; ++i) {
    const auto unit = static_cast<Unit>(i);
    if (actual.names(unit)) cost = cost.with(unit, actual[unit]);
  }
  settled_ = use_of(cost);
}

void Activity::Visit::ended(Instant now) {
  if (state_ != State::kUnderWay) return;
  const std::lock_guard lock{activity_->mutex_};
  Slice& slice = activity_->slice(now);
  const Nanos span = std::max(now - since_, Nanos{0});
  slice.upstream.add(span);
  ++slice.counts.answers;
  slice.counts.upstream += total(span);
  activity_->finish(*this, now);
}

void Activity::Visit::expired(Instant now) {
  if (state_ != State::kUnderWay) return;
  const std::lock_guard lock{activity_->mutex_};
  ++activity_->slice(now).counts.expired;
  activity_->book_->expired_at = now;
  activity_->finish(*this, now);
}

void Activity::Visit::leave() {
  if (state_ == State::kOver) return;
  const std::lock_guard lock{activity_->mutex_};
  if (state_ == State::kUnderWay) return activity_->finish(*this, since_);
  Counts& counts = activity_->slice(since_).counts;
  if (state_ == State::kQueued) {
    activity_->leave_queue(*this, kNoWait);
    --guest_->visits;
  } else {
    ++counts.arrived;
  }
  if (!counted_) ++counts.abandoned;
  state_ = State::kOver;
}

Activity::Visit::Visit(Visit&& other) noexcept
    : activity_(other.activity_),
      arrival_(other.arrival_),
      since_(other.since_),
      guest_(other.guest_),
      place_(other.place_),
      settled_(other.settled_),
      waited_(other.waited_),
      state_(std::exchange(other.state_, State::kOver)),
      counted_(other.counted_) {}

Activity::Visit& Activity::Visit::operator=(Visit&& other) noexcept {
  if (this != &other) {
    std::destroy_at(this);
    std::construct_at(this, std::move(other));
  }
  return *this;
}

bool Activity::used() const {
  const std::lock_guard lock{mutex_};
  return book_ != nullptr;
}

Activity::Busy Activity::busy(Instant now) const {
  const std::lock_guard lock{mutex_};
  if (book_ == nullptr) return {};
  Busy busy{.waiting = book_->queue.size(), .in_flight = book_->in_flight};
  for (const Slice& slice : book_->slices) {
    if (recent(slice, now)) busy.admitted += slice.counts.admitted;
  }
  return busy;
}

Activity::Sample Activity::sample() {
  const std::lock_guard lock{mutex_};
  if (book_ == nullptr) return {};
  Sample sample{.totals = book_->past,
                .waiting_max = std::max(book_->waiting_max, book_->queue.size()),
                .in_flight_max = std::max(book_->in_flight_max, book_->in_flight)};
  for (const Slice& slice : book_->slices) sample.totals += slice.counts;
  book_->waiting_max = book_->queue.size();
  book_->in_flight_max = book_->in_flight;
  return sample;
}

Activity::View Activity::view(Instant now) const {
  const std::lock_guard lock{mutex_};
  if (book_ == nullptr) return {};
  View view;
  view.totals = book_->past;
  WaitHistogram wait;
  WaitHistogram upstream;
  for (const Slice& slice : book_->slices) {
    view.totals += slice.counts;
    if (!recent(slice, now)) continue;
    view.minute += slice.counts;
    wait += slice.wait;
    upstream += slice.upstream;
  }
  view.wait = wait.spread();
  view.upstream = upstream.spread();
  view.waiting = book_->queue.size();
  view.in_flight = book_->in_flight;
  if (view.in_flight > 0) {
    const auto calls = static_cast<std::int64_t>(view.in_flight);
    const auto ages =
        static_cast<std::int64_t>(view.in_flight * microseconds(now) - book_->in_flight_since);
    view.in_flight_age = Total{std::max<std::int64_t>(ages, 0) / calls};  // `now` may be older
  }
  view.expired_at = book_->expired_at;
  show_agents(view, now);
  for (const Queued& queued : book_->queue) {
    if (view.queue.size() == kQueueShown) break;
    view.queue.push_back(queued);
  }
  const std::int64_t newest_slow = index_of(now, kSlowSlice);
  for (const SlowSlice& slow : book_->slowest) {
    if (slow.index + static_cast<std::int64_t>(kSlowSlices) <= newest_slow) continue;
    view.slowest.insert(view.slowest.end(), slow.waits.begin(), slow.waits.end());
  }
  std::ranges::stable_sort(view.slowest, std::greater<>{}, &Slow::waited);
  if (view.slowest.size() > kSlowestShown) view.slowest.resize(kSlowestShown);
  return view;
}

void Activity::show_agents(View& view, Instant now) const {
  struct Row {
    std::string_view name;  // empty: of several
    const Guest* guest;
    Amount tokens;
    std::uint64_t requests;
  };
  std::vector<Row> rows;
  rows.reserve(book_->guests.size() + 1);
  Amount tokens = 0;
  std::uint64_t requests = 0;
  const auto add_row = [&](std::string_view name, Guest& guest) {
    guest.turn_to(now);
    const Row row{name, &guest, guest.tokens_used(), guest.requests_made()};
    if (guest.idle()) return;
    rows.push_back(row);
    add(tokens, row.tokens);
    requests += row.requests;
  };
  for (auto& [name, guest] : book_->guests) add_row(name, guest);
  add_row({}, book_->others);
  const auto share = [&](const Row& row) {
    if (tokens > 0) return static_cast<double>(row.tokens) / static_cast<double>(tokens);
    return requests == 0 ? 0.0 : static_cast<double>(row.requests) / static_cast<double>(requests);
  };
  const auto shown =
      rows.begin() + static_cast<std::ptrdiff_t>(std::min(rows.size(), kAgentsShown));
  std::ranges::partial_sort(rows, shown, [](const Row& a, const Row& b) {
    return std::tuple{!a.name.empty(), a.tokens, a.requests, a.guest->waiting, b.name} >
           std::tuple{!b.name.empty(), b.tokens, b.requests, b.guest->waiting, a.name};
  });
  view.agents_total = rows.size();
  for (const Row& row : rows) {
    const bool alone = !row.name.empty() && view.agents.size() < kAgentsShown;
    Agent& agent = alone ? view.agents.emplace_back() : view.others;
    agent.name = alone ? row.name : "";
    agent.share += share(row);
    agent.admitted += row.requests;
    agent.waiting += row.guest->waiting;
    agent.in_flight += row.guest->in_flight;
  }
}

}  // namespace weir
