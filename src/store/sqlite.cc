#include "store/sqlite.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "store/columns.h"
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

Outcome<std::string> make_file(const std::string& where) {
  const auto failure = [&](int error) { return std::unexpected(system_failure(where, error)); };
  std::error_code error;
  const auto path = std::filesystem::weakly_canonical(where, error);
  if (error) return failure(error.value());
  if (where.empty() || !path.has_filename()) return failure(ENOENT);
  if (std::filesystem::is_directory(path, error)) return failure(EISDIR);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor >= 0) close(descriptor);
  // An existing file is not opened here: closing it would drop the locks of SQLite in this process.
  if (descriptor < 0 && errno != EEXIST) return failure(errno);
  return path.string();
}

Sqlite::Identity Sqlite::Identity::of(const std::string& path) {
  struct stat found{};
  return stat(path.c_str(), &found) == 0 ? Identity{found.st_dev, found.st_ino} : Identity{};
}

Sqlite::Sqlite(std::string path, const Options& options)
    : path_(std::move(path)), file_(Identity::of(path_)) {
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
        auto& db = *static_cast<Sqlite*>(self);
        db.log_pages_ = pages;
        if (db.log_ == Identity{}) db.log_ = Identity::of(db.log_path());
        return SQLITE_OK;
      },
      this);
  run(options.sync == Sync::kPower ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
  run("PRAGMA cache_size = -16384");  // KiB: a large batch is not written twice
  if (path_ != kInMemory) use_log();
}

void Sqlite::use_log() {
  Statement mode{*this, "PRAGMA journal_mode = WAL"};
  if (mode.next() && mode.text(0) != "wal") {
    fail({Fault::kAway, fmt::format("{}: the file system cannot hold a log (WAL)", path_)});
  }
}

Sqlite::~Sqlite() {
  if (moved() && Identity::of(log_path()) == log_) unlink(log_path().c_str());
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

bool Sqlite::has_table(std::string_view table) {
  Statement query{*this, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"};
  return query.with(table).next();
}

void Sqlite::migrate(const std::string& schema, std::span<const char* const> migrations,
                     std::size_t before) {
  std::size_t version = before;
  if (has_table(schema)) {
    Statement query{*this, "SELECT version FROM " + schema};
    version = query.next() ? static_cast<std::size_t>(query.number(0)) : 0;
  } else {
    run(fmt::format("CREATE TABLE {0} (version INTEGER NOT NULL); INSERT INTO {0} VALUES (0)",
                    schema)
            .c_str());
  }
  if (version > migrations.size()) fail(too_new(version, path_));
  if (version == migrations.size()) return;
  while (good() && version < migrations.size()) run(migrations[version++]);
  Statement{*this, fmt::format("UPDATE {} SET version = ?", schema)}.with(version).run();
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

std::string_view Statement::blob(int column) const {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

void Statement::bind(int column, Blob value) {
  const void* bytes = value.bytes.empty() ? "" : value.bytes.data();
  if (db_.good()) {
    db_.check(sqlite3_bind_blob64(statement_, column, bytes, value.bytes.size(), SQLITE_STATIC));
  }
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
