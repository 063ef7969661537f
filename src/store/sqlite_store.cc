// The store in an SQLite file.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "store/columns.h"
#include "store/lock_file.h"
#include "store/sqlite.h"

namespace weir::store {
namespace {

// Number 1 is the table of the seed, which may be there without us.
constexpr std::array kMigrations{
    "CREATE TABLE rate_limiter_state ("
    "  domain TEXT PRIMARY KEY,"
    "  request_count BIGINT NOT NULL,"
    "  window_start TIMESTAMPTZ NOT NULL,"
    "  updated_at TIMESTAMPTZ NOT NULL)",

    "CREATE TABLE weir_limits ("
    "  gate TEXT NOT NULL, name TEXT NOT NULL,"
    "  unit TEXT NOT NULL, algorithm TEXT NOT NULL,"
    "  amount BIGINT NOT NULL, period_ns BIGINT NOT NULL, burst BIGINT NOT NULL,"
    "  at_ns BIGINT NOT NULL, used BIGINT NOT NULL, previous BIGINT NOT NULL,"
    "  slots TEXT NOT NULL, expires_ns BIGINT NOT NULL,"
    "  PRIMARY KEY (gate, name)) WITHOUT ROWID;"
    "CREATE TABLE weir_writer ("
    "  epoch BIGINT NOT NULL, commits BIGINT NOT NULL, last_seen_ns BIGINT NOT NULL,"
    "  owner TEXT NOT NULL);"
    "INSERT INTO weir_writer VALUES (0, 0, 0, '')",
};

class SqliteStore final : public Store {
 public:
  SqliteStore(LockFile lock, std::string path, const Options& options)
      : lock_(std::move(lock)), path_(std::move(path)), db_(path_, options) {
    // Perhaps a sync has failed: what the log holds is written once more, into the database.
    if (options.epoch != 0) db_.checkpoint(Sqlite::Checkpoint::kAll);
    db_.run("BEGIN IMMEDIATE");
    db_.migrate("weir_schema", kMigrations, db_.has_table("rate_limiter_state") ? 1 : 0);
    take_over_as_in(options);
    db_.run("COMMIT");
    if (db_.good()) statements_.emplace(db_);
  }

  Outcome<void> outcome() const { return db_.outcome(); }

  Outcome<Contents> load(CalendarTime now, const std::function<void(Row)>& each) override {
    db_.run("BEGIN IMMEDIATE");
    const auto stored = read_writer();
    if (db_.good() && (!stored || stored->writer != writer_)) refuse_writer(stored);
    if (!db_.good()) return std::unexpected(db_.outcome().error());

    Contents contents{.last_seen = stored->last_seen, .older_copy = older_copy_};
    Statement{db_, "DELETE FROM weir_limits WHERE expires_ns <= ?"}
        .with(unix_ns(std::max(now, contents.last_seen)))
        .run();
    load_rows(each);
    load_domains(contents.domains);
    db_.run("COMMIT");
    if (!db_.good()) return std::unexpected(db_.outcome().error());
    return contents;
  }

  Outcome<void> commit(const Batch& batch) override {
    db_.run("BEGIN IMMEDIATE");
    if (db_.good()) write(batch);
    db_.run("COMMIT");
    const bool gone = db_.good() && db_.moved();
    // A database that was moved away is complete in its new place.
    const bool copied =
        (gone || db_.log_is_long()) && db_.checkpoint(Sqlite::Checkpoint::kWhatIsFree);
    if (gone) refuse_writer(std::nullopt);
    if (db_.good()) {
      ++writer_.commits;
      const std::uint64_t copied_before = older_copy_ ? 0 : lock_.witness().copied;
      lock_.record({writer_, copied ? writer_.commits : copied_before});
      older_copy_ = false;
    }
    return db_.outcome();
  }

  bool shared() const override { return false; }  // the lock
  std::uint64_t epoch() const override { return writer_.epoch; }
  std::uint64_t commits() const override { return writer_.commits; }

 private:
  struct Statements {
    explicit Statements(Sqlite& db)
        : advance(db,
                  "UPDATE weir_writer SET commits = commits + 1, last_seen_ns = ?"
                  " WHERE epoch = ? AND commits = ?"),
          remove(db, "DELETE FROM weir_limits WHERE gate = ? AND name = ?"),
          put(db, "REPLACE INTO weir_limits VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"),
          put_domain(db,
                     "INSERT INTO rate_limiter_state"
                     " (domain, request_count, window_start, updated_at) VALUES (?, ?, ?, ?)"
                     " ON CONFLICT (domain) DO UPDATE SET request_count = excluded.request_count,"
                     " window_start = excluded.window_start, updated_at = excluded.updated_at") {}

    Statement advance;
    Statement remove;
    Statement put;
    Statement put_domain;
  };

  void take_over_as_in(const Options& options) {
    const auto stored = read_writer();
    if (!db_.good()) return;
    if (!stored) return db_.fail(no_writer(path_));
    const auto next = take_over(*stored, options, path_);
    if (!next) return db_.fail(next.error());
    const Writer witness = lock_.witness().writer;
    writer_ = {std::max(next->epoch, witness.epoch + 1), next->commits};
    older_copy_ =
        behind(stored->writer, witness) || behind(stored->writer, {options.epoch, options.commits});
    Statement{db_, "UPDATE weir_writer SET epoch = ?, owner = ?"}
        .with(writer_.epoch, std::string_view{options.owner})
        .run();
  }

  std::optional<StoredWriter> read_writer() {
    Statement query{db_, "SELECT epoch, commits, last_seen_ns, owner FROM weir_writer"};
    if (!query.next()) return std::nullopt;
    return StoredWriter{
        {static_cast<std::uint64_t>(query.number(0)), static_cast<std::uint64_t>(query.number(1))},
        from_unix_ns(query.number(2)),
        std::string{query.text(3)}};
  }

  void refuse_writer(const std::optional<StoredWriter>& found) {
    db_.fail(not_ours(found, writer_, path_));
  }

  void write(const Batch& batch) {
    statements_->advance.with(unix_ns(batch.now), writer_.epoch, writer_.commits).run();
    if (db_.good() && db_.changes() == 0) refuse_writer(read_writer());
    for (const Key& key : batch.removed) {
      statements_->remove.with(std::string_view{key.gate}, std::string_view{key.limit}).run();
    }
    for (const Row& row : batch.rows) {
      const std::string slots = slots_text(row.slots);
      statements_->put
          .with(std::string_view{row.key.gate}, std::string_view{row.key.limit}, name(row.unit),
                name(row.algorithm), row.amount, row.period.count(), row.burst, unix_ns(row.at),
                row.used, row.previous, std::string_view{slots}, unix_ns(row.expires))
          .run();
    }
    for (const DomainState& state : batch.domains) {
      const std::string start = time_text(state.window_start);
      const std::string updated = time_text(state.updated_at);
      statements_->put_domain
          .with(std::string_view{state.domain}, state.request_count, std::string_view{start},
                std::string_view{updated})
          .run();
    }
  }

  void load_rows(const std::function<void(Row)>& each) {
    Statement query{db_, "SELECT * FROM weir_limits"};
    while (query.next()) {
      auto row = read_row(query);
      if (!row) return db_.fail(std::move(row.error()));
      each(std::move(*row));
    }
  }

  Outcome<Row> read_row(const Statement& query) const {
    for (const int column : {4, 5, 6, 7, 8, 9, 11}) {
      if (!query.is_number(column)) {
        return std::unexpected(damaged_row(query.text(0), query.text(1), path_));
      }
    }
    return to_row({.gate = query.text(0),
                   .limit = query.text(1),
                   .unit = query.text(2),
                   .algorithm = query.text(3),
                   .amount = query.number(4),
                   .period_ns = query.number(5),
                   .burst = query.number(6),
                   .at_ns = query.number(7),
                   .used = query.number(8),
                   .previous = query.number(9),
                   .slots = query.text(10),
                   .expires_ns = query.number(11)},
                  path_);
  }

  void load_domains(std::vector<DomainState>& domains) {
    Statement query{db_,
                    "SELECT domain, request_count, window_start, updated_at"
                    " FROM rate_limiter_state"};
    while (query.next()) {
      const auto start = parse_time(query.text(2));
      const auto updated = parse_time(query.text(3));
      if (!query.is_number(1) || !start || !updated) {
        return db_.fail(damaged_domain(query.text(0), path_));
      }
      domains.push_back({std::string{query.text(0)}, query.number(1), *start, *updated});
    }
  }

  LockFile lock_;  // given back after the database is closed
  const std::string path_;
  Sqlite db_;
  std::optional<Statements> statements_;
  Writer writer_;
  bool older_copy_ = false;
};

// How many commits the database itself holds; nothing if it cannot be read.
std::optional<std::uint64_t> commits_without_log(const std::string& path) {
  std::string uri = "file:";
  for (const char c : path) {
    const bool special = c == '?' || c == '#' || c == '%';
    uri += special ? fmt::format("%{:02x}", static_cast<unsigned>(c)) : std::string{c};
  }
  sqlite3* db = nullptr;
  std::uint64_t commits = 0;
  const auto read = [](void* into, int, char** values, char**) {
    if (values[0] != nullptr) {
      *static_cast<std::uint64_t*>(into) = std::strtoull(values[0], nullptr, 10);
    }
    return values[0] == nullptr ? 1 : 0;
  };
  const bool good =
      sqlite3_open_v2((uri + "?immutable=1").c_str(), &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI,
                      nullptr) == SQLITE_OK &&
      sqlite3_exec(db, "SELECT commits FROM weir_writer", read, &commits, nullptr) == SQLITE_OK;
  sqlite3_close(db);
  return good ? std::optional{commits} : std::nullopt;
}

}  // namespace

Outcome<std::unique_ptr<Store>> open_sqlite(const Options& options) {
  const auto path = make_file(options.where);
  if (!path) return std::unexpected(path.error());
  auto lock = LockFile::take(*path);
  if (!lock) return std::unexpected(lock.error());
  if (const auto copied = lock->witness().copied; copied > 0) {
    // The writer before was killed, and an older copy was put below its log: SQLite would mix them.
    const auto held = commits_without_log(*path);
    if (held && *held < copied) unlink((*path + "-wal").c_str());
  }
  auto store = std::make_unique<SqliteStore>(std::move(*lock), *path, options);
  if (const auto opened = store->outcome(); !opened) return std::unexpected(opened.error());
  return store;
}

}  // namespace weir::store
