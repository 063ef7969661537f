// The journal on a disk of the test's own, which a crash leaves as it is: stepped time, and a store
// that fails on demand. The real stores have the conformance suite; daemon_store_test.cc (app) puts
// the two together.
#pragma once

#include <gtest/gtest.h>

#include <map>

#include "store/journal.h"
#include "weir/gate/gate.h"
#include "weir/time/simulated_time.h"

namespace weir::store {
// What is left when the process is gone.
struct Disk {
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, Row> rows;
  std::map<std::string, DomainState> domains;
  CalendarTime last_seen{};
  std::uint64_t epoch = 0;
  std::uint64_t commits = 0;
  bool older_copy = false;
  std::optional<Fault> fault;    // of every call
  std::optional<Fault> opening;  // of open()
  bool lands = false;            // a commit that fails has been written all the same
  std::function<void(const Disk&)> written = [](const Disk&) {};
};

class DiskStore final : public Store {
 public:
  static Outcome<std::unique_ptr<Store>> open(const std::shared_ptr<Disk>& disk,
                                              const Options& options) {
    const std::lock_guard lock{disk->mutex};
    if (disk->opening) return failure(*disk->opening);
    if (disk->fault) return failure(*disk->fault);
    if (options.epoch != 0 && disk->epoch > options.epoch) return failure(Fault::kFenced);
    disk->epoch = std::max(disk->epoch, options.epoch) + 1;
    return std::unique_ptr<Store>{new DiskStore(disk)};
  }

  Outcome<Contents> load(CalendarTime now, const std::function<void(Row)>& each) override {
    const std::lock_guard lock{disk_->mutex};
    if (disk_->fault) return failure(*disk_->fault);
    now = std::max(now, disk_->last_seen);
    std::erase_if(disk_->rows, [&](const auto& row) { return row.second.expires <= now; });
    for (const auto& [key, row] : disk_->rows) each(row);
    Contents contents{
        .last_seen = disk_->last_seen, .domains = {}, .older_copy = disk_->older_copy};
    for (const auto& [domain, state] : disk_->domains) contents.domains.push_back(state);
    return contents;
  }

  Outcome<void> commit(const Batch& batch) override {
    const std::lock_guard lock{disk_->mutex};
    if (disk_->epoch != epoch_) return failure(Fault::kFenced);
    if (!disk_->fault || disk_->lands) write(batch);
    if (disk_->fault) return failure(*disk_->fault);
    return {};
  }

  bool shared() const override { return true; }
  std::uint64_t epoch() const override { return epoch_; }

 private:
  explicit DiskStore(std::shared_ptr<Disk> disk) : disk_(std::move(disk)), epoch_(disk_->epoch) {}
  static std::unexpected<Failure> failure(Fault fault) {
    return std::unexpected(Failure{fault, std::string{"the disk is "} + std::string{name(fault)}});
  }
  void write(const Batch& batch) {
    for (const Row& row : batch.rows) disk_->rows[{row.key.gate, row.key.limit}] = row;
    for (const Key& key : batch.removed) disk_->rows.erase({key.gate, key.limit});
    for (const DomainState& state : batch.domains) disk_->domains[state.domain] = state;
    disk_->last_seen = batch.now;
    ++disk_->commits;
    disk_->written(*disk_);
  }

  const std::shared_ptr<Disk> disk_;
  const std::uint64_t epoch_;
};

class JournalTest : public ::testing::Test {
 protected:
  ~JournalTest() override { stop(); }

  void start() {
    calendar = std::make_shared<Calendar>(time);
    Journal::Config config;
    config.mode = mode;
    config.on_failure = on_failure;
    config.open = [disk = disk](const Options& options) { return DiskStore::open(disk, options); };
    config.told = [this](const JournalStatus& status) { told.push_back(status); };
    auto started = Journal::start(std::move(config), time.source(), calendar);
    ASSERT_TRUE(started) << started.error().message;
    journal = std::move(*started);
  }
  void stop() {
    for (auto& [name, gate] : gates) gate->close();
    if (journal != nullptr) journal->close();
    gates.clear();
    journal.reset();
  }
  // What was written stays as it is, whatever the old process does while it ends.
  void crash() {
    auto left = std::make_shared<Disk>();
    {
      const std::lock_guard lock{disk->mutex};
      left->rows = disk->rows;
      left->domains = disk->domains;
      left->last_seen = disk->last_seen;
      left->epoch = disk->epoch;
      left->commits = disk->commits;
      left->older_copy = disk->older_copy;
      disk->fault = Fault::kAway;
      disk->lands = false;
    }
    stop();
    disk = left;
  }

  Gate& open(const std::string& name, std::vector<LimitSpec> limits,
             const std::string& domain = {}) {
    auto gate = create_gate({.name = name, .limits = std::move(limits)}, time.source(),
                            journal.get(), domain);
    gates[name] = std::move(*gate);
    return *gates[name];
  }

  // As the daemon does: whoever meets the end of a block is held until the store has spoken.
  std::optional<Refusal> acquire(Gate& gate, Cost cost = Cost::of(Unit::kRequests, 1)) {
    for (;;) {
      const auto permit = gate.try_acquire({.cost = cost});
      if (permit) return {};
      if (!permit.error().for_backing) return permit.error();
      journal->flush();
    }
  }
  int acquire_all(Gate& gate) {
    int admitted = 0;
    while (!acquire(gate)) ++admitted;
    return admitted;
  }
  void set_fault(std::optional<Fault> fault, bool lands = false) {
    const std::lock_guard lock{disk->mutex};
    disk->fault = fault;
    disk->lands = lands;
  }
  // Lets the journal notice, or try again.
  void tick(Nanos by = Journal::kRetryEvery) {
    time.advance(by);
    journal->flush();
  }
  static LimitSpec window(Amount amount, Nanos period = std::chrono::hours{1}) {
    return LimitSpec::fixed_window(Unit::kRequests, {amount, period});
  }
  Amount left(Gate& gate, std::size_t limit = 0) {
    return gate.metrics().limits.at(limit).available;
  }

  SimulatedTime time;
  std::shared_ptr<Disk> disk = std::make_shared<Disk>();
  std::shared_ptr<const Calendar> calendar;
  Mode mode = Mode::kExact;
  OnFailure on_failure = OnFailure::kDeny;
  std::vector<JournalStatus> told;
  std::unique_ptr<Journal> journal;
  std::map<std::string, std::shared_ptr<Gate>> gates;
};

}  // namespace weir::store
