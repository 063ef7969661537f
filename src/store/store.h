// Store: where the use of limits outlives the process. SQLite and PostgreSQL behind one contract.
//
// A store keeps rows and knows nothing of what they mean; the journal (journal.h) does. It has one
// writer: opening it takes it over with a new epoch, and whoever had it before is told kFenced by
// its next commit. One thread at a time uses a store, and no call blocks longer than the time-out.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/core/limit.h"
#include "weir/core/time.h"

namespace weir::store {

struct Key {
  std::string gate;
  std::string limit;

  friend bool operator==(const Key&, const Key&) = default;
};

// How far one limit of a gate has been used (weir/core/mark.h), and what the limit was then.
struct Row {
  Key key;
  Unit unit = Unit::kRequests;
  LimitSpec::Algorithm algorithm = LimitSpec::Algorithm::kTokenBucket;
  Amount amount = 0;
  Nanos period{0};
  Amount burst = 0;

  CalendarTime at{};
  Amount used = 0;
  Amount previous = 0;
  std::vector<Amount> slots = {};
  CalendarTime expires{};  // from then on it says nothing

  friend bool operator==(const Row&, const Row&) = default;
};

// A row of the seed's table rate_limiter_state, for people and programs that read it (S4.5).
struct DomainState {
  std::string domain;
  Amount request_count = 0;
  CalendarTime window_start{};
  CalendarTime updated_at{};

  friend bool operator==(const DomainState&, const DomainState&) = default;
};

// What one commit changes. No key or domain stands twice in a list; who is in `removed` and in
// `rows` stays.
struct Batch {
  std::vector<Row> rows = {};
  std::vector<Key> removed = {};
  std::vector<DomainState> domains = {};
  CalendarTime now{};  // the latest calendar time seen
};

struct Contents {
  CalendarTime last_seen{};  // the `now` of the last commit; the epoch of the calendar if none
  std::vector<DomainState> domains = {};
  // The store holds less than was committed to it once: somebody put an older copy in its place.
  bool older_copy = false;
};

enum class Fault : std::uint8_t {
  kInUse,   // another process on this machine has it
  kFenced,  // another writer has taken it over
  kOlder,   // it was replaced by an older copy, or removed, while it was open
  kAway,    // not reachable, locked, or an input/output error
  kFull,
  kReadOnly,
  kCorrupt,  // not a database, or a damaged one
  kTooNew,   // written by a later version
  kInvalid,  // a path or URL that can never be opened
};
std::string_view name(Fault fault);  // "in_use", "fenced", …

struct Failure {
  Fault fault;
  std::string message;  // a sentence; holds no password
};

template <class T>
using Outcome = std::expected<T, Failure>;

class Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  // Calls `each` with every row that says something at `now`, or at the last time seen if that is
  // later; the others are removed. In no order. The time-out is that of silence: a load goes on as
  // long as rows come.
  virtual Outcome<Contents> load(CalendarTime now, const std::function<void(Row)>& each) = 0;

  // All of it or nothing, durable when this returns. After a failure the store is of no more use:
  // destroy it, and open() again with its epoch. Of a failed commit it is unknown whether it holds.
  virtual Outcome<void> commit(const Batch& batch) = 0;

  // Whether somebody else may take it over while it is open.
  virtual bool shared() const = 0;

  virtual std::uint64_t epoch() const = 0;
  // How many commits it has had, those of earlier writers included.
  virtual std::uint64_t commits() const { return 0; }
};

enum class Sync : std::uint8_t {
  kProcess,  // a commit survives kill -9
  kPower,    // and a power cut
};

struct Options {
  std::string where;  // a path, or postgresql://…
  Sync sync = Sync::kProcess;
  // Of the store that this process had before; 0 for none. Opening fails with kFenced if somebody
  // else has taken it over since.
  std::uint64_t epoch = 0;
  // Of that store, too: if it has fewer now, load() tells of an older copy.
  std::uint64_t commits = 0;
  // Names this process to itself, so that an opening that succeeded without its knowing it (the
  // answer was lost) is not taken for somebody else's. Unique; empty: everybody is somebody else.
  std::string owner = {};
  Nanos timeout = std::chrono::seconds{5};
  std::string vfs = {};  // SQLite's; default: the system's
};

// Opens it, creating what is missing and migrating what is old, and takes it over.
Outcome<std::unique_ptr<Store>> open(const Options& options);
Outcome<std::unique_ptr<Store>> open_sqlite(const Options& options);
Outcome<std::unique_ptr<Store>> open_postgresql(const Options& options);

}  // namespace weir::store
