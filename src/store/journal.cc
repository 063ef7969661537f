#include "store/journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "store/account.h"
#include "weir/gate/gate.h"

namespace weir::store {
namespace {

// A wall that is further ahead than this has been set.
constexpr Nanos kJump = std::chrono::seconds{1};
// A commit of more would take longer than a store may.
constexpr std::size_t kCommitMax = 5'000;
// How many gates that are not there are looked at each second.
constexpr std::size_t kSwept = 10'000;

bool hopeless(Fault fault) {
  return fault == Fault::kInUse || fault == Fault::kInvalid || fault == Fault::kTooNew;
}

std::string random_name() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}", random(), random(), random());
}

}  // namespace

std::string_view name(JournalStatus::State state) {
  switch (state) {
    case JournalStatus::State::kOpen: return "ok";
    case JournalStatus::State::kFailed: return "failed";
    case JournalStatus::State::kFenced: return "fenced";
  }
  return "unknown";
}

Journal::Journal(Config config, TimeSource time, std::shared_ptr<const Calendar> calendar)
    : config_(std::move(config)),
      time_(time),
      calendar_(std::move(calendar)),
      owner_(random_name()) {}

Outcome<std::unique_ptr<Journal>> Journal::start(Config config, TimeSource time,
                                                 std::shared_ptr<const Calendar> calendar) {
  std::unique_ptr<Journal> journal{new Journal(std::move(config), time, std::move(calendar))};
  if (auto connected = journal->connect(); connected) {
    journal->become(JournalStatus::State::kOpen);
  } else if (hopeless(connected.error().fault)) {
    return std::unexpected(std::move(connected.error()));
  } else {
    journal->fail(std::move(connected.error()));
  }
  const Instant now = time.clock.now();
  journal->next_snapshot_ = now + kSnapshotEvery;
  journal->arm(now);
  journal->thread_ =
      std::jthread{[self = journal.get()](const std::stop_token& stop) { self->run(stop); }};
  return journal;
}

Journal::~Journal() { close(); }

void Journal::close() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
  policy_ = Policy::kDeny;
  if (store_ != nullptr) {
    for (const auto& account : accounts()) account->write(Account::Wish::kAll);
    if (auto done = commit_all(take_dirty()); !done) fail(std::move(done.error()));
    store_.reset();
  }
  time_.timer.disarm(*this);
}

std::shared_ptr<Backing> Journal::open(const GateConfig& config, const std::string& domain) {
  const std::string& gate = config.name;
  std::shared_ptr<Account> before;
  {
    const std::lock_guard lock{mutex_};
    if (const auto found = live_.find(gate); found != live_.end()) before = found->second.lock();
  }
  if (before != nullptr) rest(gate, before->retire());
  auto account = std::make_shared<Account>(*this, gate, domain);
  const std::lock_guard lock{mutex_};
  live_[gate] = account;
  return account;
}

void Journal::ring(Instant now) {
  {
    const std::lock_guard lock{mutex_};
    ++ticks_;
  }
  wake_.notify_one();
  arm(now);
}

void Journal::arm(Instant now) {
  time_.timer.arm(*this, now + (watching_ ? kRetryEvery : kSnapshotEvery));
}

void Journal::enqueue(std::shared_ptr<Account> account) {
  {
    const std::lock_guard lock{mutex_};
    dirty_.push_back(std::move(account));
    ++wanted_;
  }
  wake_.notify_one();
}

void Journal::flush() {
  std::unique_lock lock{mutex_};
  flushed_.wait(lock, [this, wanted = wanted_, ticks = ticks_] {
    return done_ >= wanted && ticked_ >= ticks;
  });
}

Journal::Accounts Journal::take_dirty() {
  const std::lock_guard lock{mutex_};
  return std::exchange(dirty_, {});
}

void Journal::run(const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  while (wake_.wait(lock, stop, [this] { return ticked_ < ticks_ || !dirty_.empty(); })) {
    const std::uint64_t ticks = ticks_;
    const bool ticked = ticked_ < ticks;
    Accounts dirty = std::exchange(dirty_, {});
    lock.unlock();
    write(std::move(dirty));
    if (ticked) tick();
    lock.lock();
    ticked_ = ticks;
    done_ = wanted_ - dirty_.size();
    flushed_.notify_all();
  }
}

// The last to hold an account must not hold the lock: its end takes it.
void Journal::write(Accounts dirty) {
  if (store_ == nullptr) {
    for (const auto& account : dirty) account->failed();
  } else if (!dirty.empty()) {
    if (auto done = commit_all(std::move(dirty)); !done) fail(std::move(done.error()));
  }
}

Outcome<void> Journal::commit_all(Accounts accounts) {
  while (accounts.size() > kCommitMax) {
    const auto rest = accounts.end() - kCommitMax;
    if (auto done = commit({rest, accounts.end()}); !done) return done;
    accounts.erase(rest, accounts.end());
  }
  return commit(std::move(accounts));
}

void Journal::tick() {
  if (store_ == nullptr) {
    if (status().state == JournalStatus::State::kFenced) return;
    auto connected = connect();
    if (!connected) return fail(std::move(connected.error()));
    return become(JournalStatus::State::kOpen);
  }
  Batch batch;
  sweep(batch);
  const Instant now = time_.clock.now();
  const bool due = now >= next_snapshot_;
  if (due) {
    next_snapshot_ = now + kSnapshotEvery;
    const auto wish =
        config_.mode == Mode::kSnapshot ? Account::Wish::kAll : Account::Wish::kDomain;
    for (const auto& account : accounts()) {
      if (account->touched()) account->write(wish);
    }
  }
  // With nothing to write this finds out whether the store is still there, and still ours.
  if (!due && !store_->shared() && batch.removed.empty()) return;
  if (auto done = commit(take_dirty(), std::move(batch)); !done) fail(std::move(done.error()));
}

Outcome<void> Journal::connect() {
  Options options = config_.store;
  options.epoch = epoch_;
  options.commits = commits_;
  options.owner = owner_;
  auto opened = config_.open(options);
  if (!opened) return std::unexpected(std::move(opened.error()));
  Rows rows_of_others;
  if (!loaded_at_) {
    std::unordered_map<std::string, Rows> rows;
    auto contents = (*opened)->load(calendar_->now(), [&](Row row) {
      Rows& of_gate = rows[std::exchange(row.key.gate, {})];
      of_gate.push_back(std::move(row));
    });
    if (!contents) return std::unexpected(std::move(contents.error()));
    calendar_->never_before(contents->last_seen);
    const std::lock_guard lock{mutex_};
    loaded_at_ = time_.clock.now();
    resting_ = std::move(rows);
    for (DomainState& state : contents->domains) domains_.emplace(state.domain, state);
    status_.older_copy = contents->older_copy;
  } else {
    const std::lock_guard lock{mutex_};
    for (const auto& [gate, rows] : resting_) {
      for (const Row& row : rows) rows_of_others.emplace_back(row).key.gate = gate;
    }
  }
  if (epoch_ == 0) ahead_ = calendar_->ahead();
  store_ = std::move(*opened);
  watching_ = store_->shared();
  epoch_ = store_->epoch();
  while (!rows_of_others.empty()) {
    Batch batch;
    for (std::size_t i = 0; i < kCommitMax && !rows_of_others.empty(); ++i) {
      batch.rows.push_back(std::move(rows_of_others.back()));
      rows_of_others.pop_back();
    }
    if (auto done = commit({}, std::move(batch)); !done) return done;
  }
  for (const auto& account : accounts()) account->write(Account::Wish::kAll);
  return commit_all(take_dirty());
}

void Journal::rewrite_all(Accounts& accounts, Batch& batch, Nanos jump) {
  for (const auto& account : this->accounts()) account->write(Account::Wish::kAll);
  const Accounts more = take_dirty();
  accounts.insert(accounts.end(), more.begin(), more.end());
  const std::lock_guard lock{mutex_};
  for (auto& [gate, rows] : resting_) {
    for (Row& row : rows) {
      row.at += jump;
      row.expires += jump;
      batch.rows.emplace_back(row).key.gate = gate;
    }
  }
}

Outcome<void> Journal::commit(Accounts accounts, Batch batch) {
  const Instant before = time_.clock.now();
  const Nanos ahead = calendar_->ahead();
  batch.now = CalendarTime{before.time_since_epoch() + ahead};
  if (ahead - ahead_ > kJump) rewrite_all(accounts, batch, ahead - ahead_);
  ahead_ = ahead;
  for (const auto& account : accounts) account->collect(batch);
  auto done = store_->commit(batch);
  if (!done) return done;
  commits_ = store_->commits();
  const Instant now = time_.clock.now();
  {
    const std::lock_guard lock{mutex_};
    ++status_.commits;
    status_.rows += batch.rows.size();
    // The slowest of late.
    status_.commit_time = std::max(now - before, status_.commit_time * 7 / 8);
    commit_time_ = status_.commit_time;
  }
  for (const auto& account : accounts) account->committed(now);
  return {};
}

void Journal::sweep(Batch& batch) {
  const CalendarTime now = calendar_->now();
  const std::lock_guard lock{mutex_};
  std::vector<std::string> gone;
  for (std::size_t seen = 0; seen < std::min(kSwept, resting_.bucket_count()); ++seen) {
    hand_ = (hand_ + 1) % resting_.bucket_count();
    for (auto at = resting_.begin(hand_); at != resting_.end(hand_); ++at) {
      auto& [gate, rows] = *at;
      std::erase_if(rows, [&](Row& row) {
        if (row.expires > now) return false;
        batch.removed.push_back({gate, std::move(row.key.limit)});
        return true;
      });
      if (rows.empty()) gone.push_back(gate);
    }
  }
  for (const std::string& gate : gone) resting_.erase(gate);
}

void Journal::fail(Failure failure) {
  store_.reset();
  const bool fenced = failure.fault == Fault::kFenced;
  become(fenced ? JournalStatus::State::kFenced : JournalStatus::State::kFailed,
         std::move(failure));
  for (const auto& account : accounts()) account->failed();
  watching_ = true;
  arm(time_.clock.now());
}

void Journal::become(JournalStatus::State state, std::optional<Failure> failure) {
  const bool memory =
      state == JournalStatus::State::kFailed && config_.on_failure == OnFailure::kMemory;
  policy_ = state == JournalStatus::State::kOpen ? Policy::kJournal
            : memory                             ? Policy::kMemory
                                                 : Policy::kDeny;
  {
    const std::lock_guard lock{mutex_};
    const bool same = status_.state == state && status_.since != CalendarTime{} &&
                      status_.failure.has_value() == failure.has_value() &&
                      (!failure || failure->message == status_.failure->message);
    if (state != JournalStatus::State::kOpen && status_.state != state) ++status_.failures;
    if (same) return;
    if (status_.state != state || status_.since == CalendarTime{}) {
      status_.since = calendar_->now();
    }
    status_.state = state;
    status_.failure = std::move(failure);
  }
  config_.told(status());
}

JournalStatus Journal::status() const {
  const std::lock_guard lock{mutex_};
  return status_;
}

std::vector<Amount> Journal::blocks(const std::string& gate) const {
  std::shared_ptr<Account> account;
  {
    const std::lock_guard lock{mutex_};
    if (const auto found = live_.find(gate); found != live_.end()) account = found->second.lock();
  }
  return account == nullptr ? std::vector<Amount>{} : account->blocks();
}

Journal::Accounts Journal::accounts() const {
  const std::lock_guard lock{mutex_};
  Accounts accounts;
  for (const auto& [gate, account] : live_) {
    if (auto alive = account.lock()) accounts.push_back(std::move(alive));
  }
  return accounts;
}

std::optional<Journal::Beginning> Journal::begin(const std::string& gate,
                                                 const std::string& domain) {
  const std::lock_guard lock{mutex_};
  if (!loaded_at_) return {};
  Beginning beginning;
  if (status_.older_copy && config_.on_failure == OnFailure::kDeny) {
    beginning.used_up_at = loaded_at_;
  }
  if (const auto rows = resting_.extract(gate)) beginning.rows = std::move(rows.mapped());
  if (const auto state = domains_.extract(domain)) beginning.domain = std::move(state.mapped());
  return beginning;
}

void Journal::rest(const std::string& gate, Rows rows) {
  const std::lock_guard lock{mutex_};
  if (const auto live = live_.find(gate); live != live_.end() && live->second.expired()) {
    live_.erase(live);
  }
  if (!rows.empty()) resting_[gate] = std::move(rows);
}

}  // namespace weir::store
