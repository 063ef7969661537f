// A connection to an SQLite database, and statements on it.
//
// After the first failure every call does nothing, and outcome() tells it: callers write down what
// is to be done and look once, at the end. Not thread-safe.
#pragma once

#include <sqlite3.h>

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/store.h"

namespace weir::store {

class Sqlite {
 public:
  // The file must exist.
  Sqlite(std::string path, const Options& options);
  // A transaction that is open is rolled back.
  ~Sqlite();
  Sqlite(const Sqlite&) = delete;
  Sqlite& operator=(const Sqlite&) = delete;

  void run(const char* sql);
  std::int64_t changes() const { return sqlite3_changes64(db_); }

  // Copies the log into the database.
  enum class Checkpoint : std::uint8_t {
    kWhatIsFree,  // leaves what somebody still reads
    kAll,
  };
  // Whether all of it was copied.
  bool checkpoint(Checkpoint how);
  // How many pages the log had after the last commit.
  int log_pages() const { return log_pages_; }

  bool good() const { return !failure_; }
  Outcome<void> outcome() const;
  void fail(Failure failure);

 private:
  friend class Statement;
  void check(int code);

  const std::string path_;
  sqlite3* db_ = nullptr;
  int log_pages_ = 0;
  std::optional<Failure> failure_;
};

class Statement {
 public:
  Statement(Sqlite& db, std::string_view sql);
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Texts must live until the statement has run.
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

 private:
  void bind(int column, std::integral auto value) {
    if (db_.good()) sqlite3_bind_int64(statement_, column, static_cast<std::int64_t>(value));
  }
  void bind(int column, std::string_view value);

  Sqlite& db_;
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace weir::store
