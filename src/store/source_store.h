// SourceStore: sources and what was fetched of them, kept over a restart. SQLite and PostgreSQL
// behind one contract.
//
// Apart from the journal's store, so that writing a large body never delays a decision: with SQLite
// it is a file of its own beside it ("<store>-sources"), with PostgreSQL a connection of its own
// and the tables weir_sources, weir_source_bodies and weir_source_results of the same database. One
// thread at a time uses it, and no call blocks longer than the time-out, or, over a network and
// with as much as there is of it, than a minute. It knows nothing of what a definition means.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/store.h"

namespace weir::store {

// One attempt that ended. `status` is HTTP's, 0 without an answer, whose reason is then `message`.
struct SourceResult {
  CalendarTime at{};
  int status = 0;
  std::int64_t took_ms = 0;
  std::int64_t bytes = 0;  // of the body, before it was cut
  std::string message = {};

  friend bool operator==(const SourceResult&, const SourceResult&) = default;
};

// The body that was fetched last. A failure leaves the one before.
struct SourceBody {
  CalendarTime at{};
  int status = 0;
  std::string content_type = {};
  std::string bytes = {};
  bool cut = false;  // it was longer

  friend bool operator==(const SourceBody&, const SourceBody&) = default;
};

// A source as it is kept: its definition as text that whoever wrote it reads again, and the state
// of its schedule.
struct SourceRow {
  std::string name;
  std::string definition;
  CalendarTime due{};
  std::int64_t failures = 0;  // in a row
  std::optional<SourceResult> last = {};

  friend bool operator==(const SourceRow&, const SourceRow&) = default;
};

// What one commit changes: all of it or nothing. No name stands twice in a list.
struct SourceBatch {
  struct Outcome {
    std::string name;
    SourceResult result;
    std::optional<SourceBody> body = {};  // replaces the one before
  };
  std::vector<SourceRow> rows = {};       // added or replaced; `last` is not written from here
  std::vector<std::string> removed = {};  // with their bodies and results
  std::vector<Outcome> outcomes = {};     // several of one name: in this order
};

class SourceStore {
 public:
  // Results kept of each source; older ones are removed with the commit that adds one.
  static constexpr std::size_t kResultsMax = 50;

  SourceStore() = default;
  SourceStore(const SourceStore&) = delete;
  SourceStore& operator=(const SourceStore&) = delete;
  virtual ~SourceStore() = default;

  // Calls `each` with every source, by name.
  virtual Outcome<void> load(const std::function<void(SourceRow)>& each) = 0;
  // After a failure the store is of no more use: destroy it and open it again.
  virtual Outcome<void> commit(const SourceBatch& batch) = 0;
  // The newest first; none for a name that is not known.
  virtual Outcome<std::vector<SourceResult>> results(std::string_view name) = 0;
  // Nothing if none was fetched yet.
  virtual Outcome<std::optional<SourceBody>> body(std::string_view name) = 0;
};

// `where` as the journal's: a path (to which "-sources" is added) or postgresql://…; empty: in
// memory alone. One process at a time has it: kInUse.
Outcome<std::unique_ptr<SourceStore>> open_sources(const Options& options);
Outcome<std::unique_ptr<SourceStore>> open_sqlite_sources(const Options& options);
Outcome<std::unique_ptr<SourceStore>> open_postgresql_sources(const Options& options);

}  // namespace weir::store
