#include "source/keeper.h"

#include <algorithm>
#include <utility>

#include "weir/time/sleep.h"

namespace weir::source {
namespace {

std::size_t bytes_of(const store::SourceRow& row, const store::SourceBatch::Outcome& outcome) {
  constexpr std::size_t kAround = 512;
  return kAround + row.definition.size() + (outcome.body ? outcome.body->bytes.size() : 0);
}

}  // namespace

store::Outcome<void> Keeper::start() {
  if (auto opened = open(); !opened) {
    const store::Fault fault = opened.error().fault;
    if (fault != store::Fault::kInUse && fault != store::Fault::kAway) return opened;
    fail(opened.error());
  }
  thread_ = std::jthread{[this](const std::stop_token& stop) { run(stop); }};
  return {};
}

std::size_t Keeper::close() {
  if (!thread_.joinable()) return 0;
  {
    const std::lock_guard lock{mutex_};
    closing_ = true;
  }
  thread_.request_stop();
  thread_.join();
  store_.reset();
  std::set<std::string> lost;
  for (const Pending& pending : pending_) {
    lost.insert(pending.removed.begin(), pending.removed.end());
    for (const auto& [name, row] : pending.rows) lost.insert(name);
  }
  return lost.size();
}

store::Outcome<void> Keeper::open() {
  auto opened = store::open_sources(parts_.store);
  if (!opened) return std::unexpected(std::move(opened.error()));
  if (auto ready = loaded() ? write_again(**opened) : load(**opened); !ready) return ready;
  store_ = std::move(*opened);
  std::unique_lock lock{mutex_};
  loaded_ = true;
  status_.open = true;
  status_.message.clear();
  const Status now = status_;
  lock.unlock();
  parts_.told(now);
  return {};
}

store::Outcome<void> Keeper::load(store::SourceStore& store) {
  std::vector<store::SourceRow> rows;
  auto read = store.load([&](store::SourceRow row) { rows.push_back(std::move(row)); });
  if (read) parts_.loaded(std::move(rows));
  return read;
}

// Perhaps it is another one, or an older copy. What is still to be written comes after this.
store::Outcome<void> Keeper::write_again(store::SourceStore& store) {
  std::set<std::string> others;
  auto read = store.load([&](const store::SourceRow& row) { others.insert(row.name); });
  if (!read) return read;
  store::SourceBatch batch{.rows = parts_.all()};
  for (const store::SourceRow& row : batch.rows) others.erase(row.name);
  batch.removed.assign(others.begin(), others.end());
  return store.commit(batch);
}

void Keeper::fail(const store::Failure& failure) {
  store_.reset();
  std::unique_lock lock{mutex_};
  const bool news = status_.open || status_.message != failure.message;
  status_.open = false;
  status_.message = failure.message;
  std::vector<Done> done;
  for (Pending& pending : pending_) std::ranges::move(pending.done, std::back_inserter(done));
  for (Pending& pending : pending_) pending.done.clear();
  give_up();
  const Status now = status_;
  lock.unlock();
  for (Done& each : done) each(false);
  if (news) parts_.told(now);
}

void Keeper::run(const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  const auto nothing = [this] { return pending_.empty() && questions_.empty() && status_.open; };
  for (;;) {
    wake_.wait(lock, stop, [&] { return !nothing(); });
    const bool last = stop.stop_requested();
    std::vector<Question> questions = std::exchange(questions_, {});
    lock.unlock();
    if (store_ == nullptr) {
      if (auto opened = open(); !opened) fail(opened.error());
    }
    const bool good = store_ != nullptr && write_all();
    bool fine = true;
    for (Question& question : questions) fine &= question(good ? store_.get() : nullptr);
    if (!fine) fail({store::Fault::kAway, "reading failed"});
    if (last) return;
    if (store_ == nullptr) {
      sleep_until(parts_.time, parts_.time.clock.now() + kRetryAfter, stop);
    }
    lock.lock();
  }
}

bool Keeper::write_all() {
  for (;;) {
    std::unique_lock lock{mutex_};
    if (pending_.empty()) return true;
    Pending pending = std::move(pending_.front());
    pending_.pop_front();
    lock.unlock();
    const auto committed = commit(pending);
    lock.lock();
    if (!committed) {
      pending_.push_front(std::move(pending));
      lock.unlock();
      fail(committed.error());
      return false;
    }
    bytes_ -= pending.bytes;
    ++status_.commits;
    lock.unlock();
    for (Done& done : pending.done) done(true);
  }
}

store::Outcome<void> Keeper::commit(Pending& pending) {
  store::SourceBatch batch{.removed = {pending.removed.begin(), pending.removed.end()},
                           .outcomes = std::move(pending.outcomes)};
  for (const auto& [name, row] : pending.rows) batch.rows.push_back(row);
  auto committed = store_->commit(batch);
  pending.outcomes = std::move(batch.outcomes);
  return committed;
}

// The batch to which `bytes` are to be added.
Keeper::Pending& Keeper::back(std::size_t bytes) {
  const auto full = [&](const Pending& last) {
    return (last.bytes > 0 && last.bytes + bytes > kBatchBytes) ||
           last.outcomes.size() >= kBatchOutcomes;
  };
  return pending_.empty() || full(pending_.back()) ? pending_.emplace_back() : pending_.back();
}

bool Keeper::wake(Pending& pending, Done done) {
  wake_.notify_one();
  if (!status_.open) return false;
  if (done) pending.done.push_back(std::move(done));
  return true;
}

bool Keeper::put(store::SourceRow row, Done done) {
  const std::lock_guard lock{mutex_};
  Pending& pending = back();
  pending.rows.insert_or_assign(row.name, std::move(row));
  return wake(pending, std::move(done));
}

bool Keeper::remove(const std::string& name, Done done) {
  const std::lock_guard lock{mutex_};
  Pending& pending = back();
  pending.rows.erase(name);
  std::erase_if(pending.outcomes, [&](const auto& outcome) { return outcome.name == name; });
  pending.removed.insert(name);
  return wake(pending, std::move(done));
}

void Keeper::add(store::SourceRow row, store::SourceBatch::Outcome outcome) {
  const std::lock_guard lock{mutex_};
  const std::size_t bytes = bytes_of(row, outcome);
  Pending& pending = back(bytes);
  pending.bytes += bytes;
  bytes_ += bytes;
  pending.rows.insert_or_assign(row.name, std::move(row));
  pending.outcomes.push_back(std::move(outcome));
  if (!status_.open) give_up();
  wake_.notify_one();
}

// The oldest results go; what became of the sources goes with the next batch.
void Keeper::give_up() {
  while (bytes_ > kPendingMax && pending_.size() > 1) {
    Pending old = std::move(pending_.front());
    pending_.pop_front();
    Pending& next = pending_.front();
    bytes_ -= old.bytes;
    status_.given_up += old.outcomes.size();
    std::erase_if(old.rows, [&](const auto& row) { return next.removed.contains(row.first); });
    next.rows.merge(old.rows);
    next.removed.merge(old.removed);
  }
}

bool Keeper::has_room() const {
  const std::lock_guard lock{mutex_};
  return !status_.open || bytes_ < kPendingMax;
}

void Keeper::ask(Question question) {
  {
    const std::lock_guard lock{mutex_};
    if (status_.open && !closing_) {
      questions_.push_back(std::move(question));
      wake_.notify_one();
      return;
    }
  }
  (void)question(nullptr);
}

bool Keeper::loaded() const {
  const std::lock_guard lock{mutex_};
  return loaded_;
}

Keeper::Status Keeper::status() const {
  const std::lock_guard lock{mutex_};
  return status_;
}

}  // namespace weir::source
