// Keeper: what sources are and what was fetched of them, written by a thread of its own.
//
// Safe to use from any thread; nobody waits for the store but who asks. What comes while a commit
// is under way goes with the next one. A store that fails is opened again each second; meanwhile
// sources go on, and of what cannot be written the oldest results are given up beyond kPendingMax.
// Whatever was found in the place of the store then, it is made to hold the sources that there are.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "store/source_store.h"
#include "weir/time/timer.h"

namespace weir::source {

class Keeper {
 public:
  static constexpr std::size_t kPendingMax = 64 * 1024 * 1024;  // bytes
  static constexpr std::size_t kBatchBytes = 4 * 1024 * 1024;   // unless one result has more
  static constexpr std::size_t kBatchOutcomes = 1'000;
  static constexpr Nanos kRetryAfter = std::chrono::seconds{1};

  struct Status {
    bool open = false;
    std::string message = {};  // why not; holds no password
    std::uint64_t commits = 0;
    std::uint64_t given_up = 0;  // results that were never written
  };
  struct Parts {
    store::Options store;
    TimeSource time;
    // Once, with what was kept; from the thread that could open the store first.
    std::function<void(std::vector<store::SourceRow>)> loaded;
    // All sources as they are now, for a store that is opened again; from the keeper's thread.
    std::function<std::vector<store::SourceRow>()> all;
    // Each time `open` or `message` changes.
    std::function<void(const Status&)> told;
  };
  // Whether it is in the store. May be empty.
  using Done = std::move_only_function<void(bool)>;

  explicit Keeper(Parts parts) : parts_(std::move(parts)) {}
  ~Keeper() { close(); }

  // Opens the store and begins. A store that is away or in use is awaited; any other failure is the
  // outcome, and nothing has begun.
  store::Outcome<void> start();
  // Writes what there is, if it can be, and ends. Of how many sources something could not be.
  std::size_t close();

  // True if `done` will be called; false while the store is away: then nobody waits, it follows.
  bool put(store::SourceRow row, Done done);
  bool remove(const std::string& name, Done done);
  void add(store::SourceRow row, store::SourceBatch::Outcome outcome);
  // Whether results may come faster than they are written.
  bool has_room() const;

  // On the thread of the store, after what came before is written; with null while the store is
  // not open. False if the store has failed.
  using Question = std::move_only_function<bool(store::SourceStore*)>;
  void ask(Question question);

  bool loaded() const;
  Status status() const;

 private:
  // A batch to be: it removes first, and adds results last.
  struct Pending {
    std::map<std::string, store::SourceRow> rows = {};
    std::set<std::string> removed = {};
    std::vector<store::SourceBatch::Outcome> outcomes = {};
    std::vector<Done> done = {};
    std::size_t bytes = 0;
  };

  store::Outcome<void> open();
  store::Outcome<void> load(store::SourceStore& store);
  store::Outcome<void> write_again(store::SourceStore& store);
  void run(const std::stop_token& stop);
  bool write_all();
  store::Outcome<void> commit(Pending& pending);
  void fail(const store::Failure& failure);

  // These want the lock.
  Pending& back(std::size_t bytes = 0);
  bool wake(Pending& pending, Done done);
  void give_up();

  const Parts parts_;
  std::unique_ptr<store::SourceStore> store_;  // of the thread

  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<Pending> pending_;
  std::size_t bytes_ = 0;  // of all
  std::vector<Question> questions_;
  Status status_;
  bool loaded_ = false;
  bool closing_ = false;
  std::jthread thread_;
};

}  // namespace weir::source
