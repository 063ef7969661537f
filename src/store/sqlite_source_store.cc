// Sources in an SQLite file, or in memory.
#include <array>
#include <filesystem>
#include <optional>
#include <utility>

#include "store/columns.h"
#include "store/lock_file.h"
#include "store/source_store.h"
#include "store/sqlite.h"
#include "store/system_fault.h"

namespace weir::store {
namespace {

// The results of a source are numbered from 1, in the order in which they came.
constexpr std::array kMigrations{
    "CREATE TABLE weir_sources ("
    "  name TEXT PRIMARY KEY, definition TEXT NOT NULL,"
    "  due_ns INTEGER NOT NULL, failures INTEGER NOT NULL) STRICT;"
    "CREATE TABLE weir_source_bodies ("
    "  name TEXT PRIMARY KEY, at_ns INTEGER NOT NULL, status INTEGER NOT NULL,"
    "  content_type TEXT NOT NULL, cut INTEGER NOT NULL, bytes BLOB NOT NULL) STRICT;"
    "CREATE TABLE weir_source_results ("
    "  name TEXT NOT NULL, number INTEGER NOT NULL,"
    "  at_ns INTEGER NOT NULL, status INTEGER NOT NULL, took_ms INTEGER NOT NULL,"
    "  bytes INTEGER NOT NULL, message TEXT NOT NULL,"
    "  PRIMARY KEY (name, number)) STRICT, WITHOUT ROWID",
};

// From five columns.
SourceResult read_result(const Statement& query, int first) {
  return {.at = from_unix_ns(query.number(first)),
          .status = static_cast<int>(query.number(first + 1)),
          .took_ms = query.number(first + 2),
          .bytes = query.number(first + 3),
          .message = std::string{query.text(first + 4)}};
}

class SqliteSourceStore final : public SourceStore {
 public:
  SqliteSourceStore(std::optional<LockFile> lock, std::string path, const Options& options)
      : lock_(std::move(lock)), path_(std::move(path)), db_(path_, options) {
    // Perhaps a sync has failed: what the log holds is written once more, into the database.
    db_.checkpoint(Sqlite::Checkpoint::kWhatIsFree);
    db_.run("BEGIN IMMEDIATE");
    db_.migrate("weir_source_schema", kMigrations);
    db_.run("COMMIT");
    if (db_.good()) statements_.emplace(db_);
  }

  Outcome<void> outcome() const { return db_.outcome(); }

  Outcome<void> load(const std::function<void(SourceRow)>& each) override {
    Statement query{db_,
                    "SELECT source.name, definition, due_ns, failures,"
                    " at_ns, status, took_ms, bytes, message"
                    " FROM weir_sources AS source LEFT JOIN weir_source_results AS result"
                    " ON result.name = source.name AND number ="
                    " (SELECT max(number) FROM weir_source_results WHERE name = source.name)"
                    " ORDER BY source.name"};
    while (query.next()) {
      SourceRow row{std::string{query.text(0)}, std::string{query.text(1)},
                    from_unix_ns(query.number(2)), query.number(3)};
      if (query.is_number(4)) row.last = read_result(query, 4);
      each(std::move(row));
    }
    return db_.outcome();
  }

  Outcome<void> commit(const SourceBatch& batch) override {
    db_.run("BEGIN IMMEDIATE");
    if (db_.good()) write(batch);
    db_.run("COMMIT");
    const bool gone = db_.good() && db_.moved();
    // A database that was moved away is complete in its new place.
    if (gone || db_.log_is_long()) db_.checkpoint(Sqlite::Checkpoint::kWhatIsFree);
    if (gone) db_.fail(not_ours(std::nullopt, {}, path_));
    return db_.outcome();
  }

  Outcome<std::vector<SourceResult>> results(std::string_view name) override {
    Statement query{db_,
                    "SELECT at_ns, status, took_ms, bytes, message FROM weir_source_results"
                    " WHERE name = ? ORDER BY number DESC"};
    query.with(name);
    std::vector<SourceResult> results;
    while (query.next()) results.push_back(read_result(query, 0));
    if (!db_.good()) return std::unexpected(db_.outcome().error());
    return results;
  }

  Outcome<std::optional<SourceBody>> body(std::string_view name) override {
    Statement query{db_,
                    "SELECT at_ns, status, content_type, bytes, cut FROM weir_source_bodies"
                    " WHERE name = ?"};
    std::optional<SourceBody> body;
    if (query.with(name).next()) {
      body = {.at = from_unix_ns(query.number(0)),
              .status = static_cast<int>(query.number(1)),
              .content_type = std::string{query.text(2)},
              .bytes = std::string{query.blob(3)},
              .cut = query.number(4) != 0};
    }
    if (!db_.good()) return std::unexpected(db_.outcome().error());
    return body;
  }

 private:
  struct Statements {
    explicit Statements(Sqlite& db)
        : remove(db, "DELETE FROM weir_sources WHERE name = ?"),
          remove_body(db, "DELETE FROM weir_source_bodies WHERE name = ?"),
          remove_results(db, "DELETE FROM weir_source_results WHERE name = ?"),
          put(db, "REPLACE INTO weir_sources VALUES (?, ?, ?, ?)"),
          add_result(db,
                     "INSERT INTO weir_source_results SELECT name,"
                     " (SELECT 1 + coalesce(max(number), 0) FROM weir_source_results"
                     "  WHERE name = ?1), ?2, ?3, ?4, ?5, ?6"
                     " FROM weir_sources WHERE name = ?1"),
          remove_old(db,
                     "DELETE FROM weir_source_results WHERE name = ?1 AND number <="
                     " (SELECT max(number) FROM weir_source_results WHERE name = ?1) - ?2"),
          put_body(db,
                   "REPLACE INTO weir_source_bodies SELECT name, ?2, ?3, ?4, ?5, ?6"
                   " FROM weir_sources WHERE name = ?1") {}

    Statement remove;
    Statement remove_body;
    Statement remove_results;
    Statement put;
    Statement add_result;
    Statement remove_old;
    Statement put_body;
  };

  void write(const SourceBatch& batch) {
    for (const std::string& name : batch.removed) {
      for (Statement* remove :
           {&statements_->remove, &statements_->remove_body, &statements_->remove_results}) {
        remove->with(std::string_view{name}).run();
      }
    }
    for (const SourceRow& row : batch.rows) {
      statements_->put
          .with(std::string_view{row.name}, std::string_view{row.definition}, unix_ns(row.due),
                row.failures)
          .run();
    }
    for (const SourceBatch::Outcome& outcome : batch.outcomes) write(outcome);
  }

  void write(const SourceBatch::Outcome& outcome) {
    const std::string_view name = outcome.name;
    const SourceResult& result = outcome.result;
    statements_->add_result
        .with(name, unix_ns(result.at), result.status, result.took_ms, result.bytes,
              std::string_view{result.message})
        .run();
    statements_->remove_old.with(name, kResultsMax).run();
    if (const auto& body = outcome.body) {
      statements_->put_body
          .with(name, unix_ns(body->at), body->status, std::string_view{body->content_type},
                body->cut, Blob{body->bytes})
          .run();
    }
  }

  const std::optional<LockFile> lock_;  // given back after the database is closed
  const std::string path_;
  Sqlite db_;
  std::optional<Statements> statements_;
};

}  // namespace

Outcome<std::unique_ptr<SourceStore>> open_sqlite_sources(const Options& options) {
  std::string path = Sqlite::kInMemory;
  std::optional<LockFile> lock;
  if (!options.where.empty()) {
    std::error_code error;
    const auto journal = std::filesystem::weakly_canonical(options.where, error);
    if (error) return std::unexpected(system_failure(options.where, error.value()));
    const auto file = make_file(journal.string() + "-sources");
    if (!file) return std::unexpected(file.error());
    auto taken = LockFile::take(*file);
    if (!taken) return std::unexpected(taken.error());
    path = *file;
    lock.emplace(std::move(*taken));
  }
  auto store = std::make_unique<SqliteSourceStore>(std::move(lock), std::move(path), options);
  if (const auto opened = store->outcome(); !opened) return std::unexpected(opened.error());
  return store;
}

}  // namespace weir::store
