#include "store/sqlite.h"

#include <fmt/format.h>

#include "store/system_fault.h"

namespace weir::store {
namespace {

Fault fault_of(sqlite3* db, const std::string& path, int code) {
  if (code == SQLITE_READONLY_DBMOVED) return Fault::kOlder;
  switch (code & 0xff) {
    case SQLITE_FULL: return Fault::kFull;
    case SQLITE_READONLY:
    case SQLITE_PERM: return Fault::kReadOnly;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return Fault::kCorrupt;
    case SQLITE_CANTOPEN: return system_failure(path, sqlite3_system_errno(db)).fault;
    default: return Fault::kAway;
  }
}

}  // namespace

Sqlite::Sqlite(std::string path, const Options& options) : path_(std::move(path)) {
  check(sqlite3_open_v2(path_.c_str(), &db_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                        options.vfs.empty() ? nullptr : options.vfs.c_str()));
  if (!good()) return;
  sqlite3_extended_result_codes(db_, 1);
  const auto timeout = std::chrono::ceil<std::chrono::milliseconds>(options.timeout);
  sqlite3_busy_timeout(db_, static_cast<int>(timeout.count()));
  // SQLite would checkpoint by itself, and keep to itself that a sync has failed.
  sqlite3_wal_hook(
      db_,
      [](void* self, sqlite3*, const char*, int pages) {
        static_cast<Sqlite*>(self)->log_pages_ = pages;
        return SQLITE_OK;
      },
      this);
}

Sqlite::~Sqlite() {
  // What could not be written or synced must not be tried again behind our back: the next to open
  // reads the log with its check sums.
  if (!good() && db_ != nullptr) {
    sqlite3_db_config(db_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  }
  sqlite3_close(db_);
}

void Sqlite::check(int code) {
  if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE || !good()) return;
  const int extended = db_ == nullptr ? code : sqlite3_extended_errcode(db_);
  fail({fault_of(db_, path_, extended), fmt::format("{}: {}", path_, sqlite3_errmsg(db_))});
}

void Sqlite::fail(Failure failure) {
  if (good()) failure_ = std::move(failure);
}

Outcome<void> Sqlite::outcome() const {
  if (failure_) return std::unexpected(*failure_);
  return {};
}

void Sqlite::run(const char* sql) {
  if (good()) check(sqlite3_exec(db_, sql, nullptr, nullptr, nullptr));
}

bool Sqlite::checkpoint(Checkpoint how) {
  if (!good()) return false;
  const bool all = how == Checkpoint::kAll;
  int pages = 0;
  int copied = 0;
  const int code = sqlite3_wal_checkpoint_v2(
      db_, "main", all ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE, &pages, &copied);
  if (all || (code & 0xff) != SQLITE_BUSY) check(code);
  return code == SQLITE_OK && copied == pages;
}

Statement::Statement(Sqlite& db, std::string_view sql) : db_(db) {
  if (!db.good()) return;
  db.check(sqlite3_prepare_v3(db.db_, sql.data(), static_cast<int>(sql.size()),
                              SQLITE_PREPARE_PERSISTENT, &statement_, nullptr));
}

bool Statement::next() {
  if (!db_.good()) return false;
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  db_.check(code);
  sqlite3_reset(statement_);
  return false;
}

bool Statement::is_number(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_INTEGER;
}

std::string_view Statement::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return {text, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

void Statement::bind(int column, std::string_view value) {
  // SQLite takes a null pointer for NULL.
  const char* text = value.data() == nullptr ? "" : value.data();
  if (db_.good()) {
    db_.check(
        sqlite3_bind_text64(statement_, column, text, value.size(), SQLITE_STATIC, SQLITE_UTF8));
  }
}

}  // namespace weir::store
