// Journal: keeps the limits of gates in a store, so that not even kill -9 lets one be overrun.
//
// Exact: a gate admits only what the store has been told before. Units are written ahead in blocks
// (Account), sized to the demand and smaller towards the limit; a thread of its own commits
// what all gates want in one go, in the background while a block lasts. A crash wastes the
// rest of a block and a clean stop nothing.
// Snapshot: the use is written every ten seconds, and a crash forgets what came after (S4.5).
//
// A store that fails is a state, not an end: it is said to `told`, admission goes by `on_failure`,
// and the store is tried again each second; once it is back it is told everything anew. Only a
// journal that another one has fenced stays down. Safe to use from any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "store/store.h"
#include "weir/gate/backing.h"
#include "weir/time/calendar.h"
#include "weir/time/timer.h"

namespace weir::store {

class Account;

enum class Mode : std::uint8_t { kExact, kSnapshot };
enum class OnFailure : std::uint8_t {
  kDeny,    // admit nothing
  kMemory,  // go on in memory, which a crash forgets
};

struct JournalStatus {
  enum class State : std::uint8_t { kOpen, kFailed, kFenced };

  State state = State::kOpen;
  std::optional<Failure> failure = {};  // unless open
  CalendarTime since{};                 // of the state
  bool older_copy = false;              // it began with a copy older than what had been written
  std::uint64_t commits = 0;
  std::uint64_t rows = 0;      // written
  std::uint64_t failures = 0;  // times it ceased to be open
  Nanos commit_time{0};        // of late
};
std::string_view name(JournalStatus::State state);

class Journal final : public Backer, private Alarm {
 public:
  struct Config {
    Options store;
    Mode mode = Mode::kExact;
    OnFailure on_failure = OnFailure::kDeny;
    // Called on the journal's thread when the state changes.
    std::function<void(const JournalStatus&)> told = [](const JournalStatus&) {};
    std::function<Outcome<std::unique_ptr<Store>>(const Options&)> open = store::open;
  };
  static constexpr Nanos kSnapshotEvery = std::chrono::seconds{10};
  static constexpr Nanos kRetryEvery = std::chrono::seconds{1};

  // Opens the store and reads it. Fails for what no waiting mends: kInUse, kInvalid, kTooNew; with
  // any other failure it starts in that state. `calendar` is never before what the store has seen.
  static Outcome<std::unique_ptr<Journal>> start(Config config, TimeSource time,
                                                 std::shared_ptr<const Calendar> calendar);
  ~Journal() override;

  // Writes what is used and not a block more, and admits nothing from now on. The gates have been
  // closed by then, and are still there.
  void close();

  std::shared_ptr<Backing> open(const GateConfig& config, const std::string& domain) override;

  JournalStatus status() const;
  // Whether gates admit anything.
  bool admits() const { return policy() != Policy::kDeny; }
  // The units written ahead at the last commit, by the gate's limits; none if it is unknown.
  std::vector<Amount> blocks(const std::string& gate) const;

  // Returns when all that gates wanted by now has been committed, or has failed.
  void flush();

 private:
  friend class Account;
  enum class Policy : std::uint8_t { kJournal, kDeny, kMemory };
  using Rows = std::vector<Row>;
  using Accounts = std::vector<std::shared_ptr<Account>>;

  Journal(Config config, TimeSource time, std::shared_ptr<const Calendar> calendar);

  void ring(Instant now) override;
  void run(const std::stop_token& stop);
  // Opens the store, reads it if nobody has, and tells it everything it should know.
  Outcome<void> connect();
  Outcome<void> commit(Accounts accounts, Batch batch = {});
  Outcome<void> commit_all(Accounts accounts);  // in parts
  // After a wall that jumped ahead: what is written shall end when it would have ended without.
  void rewrite_all(Accounts& accounts, Batch& batch, Nanos jump);
  void write(Accounts dirty);
  void tick();
  void arm(Instant now);  // for the next tick
  void sweep(Batch& batch);
  void fail(Failure failure);
  void become(JournalStatus::State state, std::optional<Failure> failure = {});
  Accounts accounts() const;
  Accounts take_dirty();

  // For accounts.
  Policy policy() const { return policy_.load(std::memory_order_acquire); }
  void enqueue(std::shared_ptr<Account> account);
  // What a gate has to go on from; nothing while the store has not been read.
  struct Beginning {
    Rows rows;
    std::optional<DomainState> domain;
    std::optional<Instant> used_up_at;  // what the store says is too old to be trusted
  };
  std::optional<Beginning> begin(const std::string& gate, const std::string& domain);
  void rest(const std::string& gate, Rows rows);

  const Config config_;
  const TimeSource time_;
  const std::shared_ptr<const Calendar> calendar_;
  const std::string owner_;
  std::atomic<Policy> policy_ = Policy::kDeny;
  std::atomic<Nanos> commit_time_ = Nanos{0};
  std::atomic<bool> watching_ = true;  // there is something to find out each second

  // The thread's own.
  std::unique_ptr<Store> store_;
  std::uint64_t epoch_ = 0;    // of the store, the last that was open
  std::uint64_t commits_ = 0;  // likewise
  Nanos ahead_{0};             // of the calendar, at the last commit
  Instant next_snapshot_{};
  std::size_t hand_ = 0;  // the bucket of resting_ at which the next sweep begins

  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  std::condition_variable flushed_;
  Accounts dirty_;
  std::uint64_t ticks_ = 0;   // counts ring()
  std::uint64_t ticked_ = 0;  // of those
  std::uint64_t wanted_ = 0;  // counts enqueue()
  std::uint64_t done_ = 0;    // of those
  std::unordered_map<std::string, std::weak_ptr<Account>> live_;
  // Of gates that are not there; the rows without the gate's name.
  std::unordered_map<std::string, Rows> resting_;
  std::unordered_map<std::string, DomainState> domains_;
  std::optional<Instant> loaded_at_;
  JournalStatus status_;

  std::jthread thread_;
};

}  // namespace weir::store
