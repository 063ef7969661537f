// A connection to an SQLite database, and statements on it.
//
// After the first failure every call does nothing, and outcome() tells it: callers write down what
// is to be done and look once, at the end. Not thread-safe.
#pragma once

#include <sqlite3.h>
#include <sys/types.h>

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "store/store.h"

namespace weir::store {

// The file itself, whatever symbolic links lead to it; made with rights for its owner alone.
Outcome<std::string> make_file(const std::string& where);

class Sqlite {
 public:
  static constexpr const char* kInMemory = ":memory:";

  // The file must exist, or be kInMemory. It gets a log (WAL), which is synced as the options say.
  Sqlite(std::string path, const Options& options);
  // A transaction that is open is rolled back. The log of a file that was moved goes: it must not
  // be read as that of the one in its place.
  ~Sqlite();
  Sqlite(const Sqlite&) = delete;
  Sqlite& operator=(const Sqlite&) = delete;

  void run(const char* sql);
  bool has_table(std::string_view table);
  // Runs those of `migrations` that it has not had yet, within the caller's transaction; kTooNew if
  // it has had more. Their number stands in the table `schema`; `before` is that of a database
  // without such a table.
  void migrate(const std::string& schema, std::span<const char* const> migrations,
               std::size_t before = 0);
  std::int64_t changes() const { return sqlite3_changes64(db_); }

  // Copies the log into the database.
  enum class Checkpoint : std::uint8_t {
    kWhatIsFree,  // leaves what somebody still reads
    kAll,
  };
  // Whether all of it was copied.
  bool checkpoint(Checkpoint how);
  // Whether the log has come, by the last commit, to where SQLite itself would copy it.
  bool log_is_long() const { return log_pages_ >= 1000; }
  // Whether another file, or none, has its name now.
  bool moved() const { return Identity::of(path_) != file_; }

  bool good() const { return !failure_; }
  Outcome<void> outcome() const;
  void fail(Failure failure);

 private:
  friend class Statement;

  // One file under one name, and not another that was put there.
  struct Identity {
    dev_t device = 0;
    ino_t inode = 0;

    static Identity of(const std::string& path);
    friend bool operator==(const Identity&, const Identity&) = default;
  };

  void use_log();
  std::string log_path() const { return path_ + "-wal"; }
  void check(int code);

  const std::string path_;
  const Identity file_;
  Identity log_;  // since the first commit
  sqlite3* db_ = nullptr;
  int log_pages_ = 0;
  std::optional<Failure> failure_;
};

// Bytes that are no text.
struct Blob {
  std::string_view bytes;
};

class Statement {
 public:
  Statement(Sqlite& db, std::string_view sql);
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Texts and blobs must live until the statement has run.
  template <class... Values>
  Statement& with(const Values&... values) {
    int column = 0;
    (bind(++column, values), ...);
    return *this;
  }
  void run() {
    while (next()) {
    }
  }

  // Goes to the next row; after the last the statement is as new.
  bool next();

  // Columns count from 0.
  bool is_number(int column) const;
  std::int64_t number(int column) const { return sqlite3_column_int64(statement_, column); }
  std::string_view text(int column) const;
  std::string_view blob(int column) const;

 private:
  void bind(int column, std::integral auto value) {
    if (db_.good()) sqlite3_bind_int64(statement_, column, static_cast<std::int64_t>(value));
  }
  void bind(int column, std::string_view value);
  void bind(int column, Blob value);

  Sqlite& db_;
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace weir::store
