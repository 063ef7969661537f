// Databases for tests: an empty one of either kind, and a way to look into it past the store.
#pragma once

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/temporary_directory_for_test.h"
#include "store/postgresql_for_test.h"
#include "store/store.h"

namespace weir::store {

// A connection such as that of the program sqlite3.
class SqliteShell {
 public:
  explicit SqliteShell(const std::string& path) {
    if (sqlite3_open(path.c_str(), &db_) != SQLITE_OK) throw std::runtime_error{"no database"};
  }
  ~SqliteShell() { sqlite3_close(db_); }
  SqliteShell(const SqliteShell&) = delete;
  SqliteShell& operator=(const SqliteShell&) = delete;

  // Returns the first value of the last row.
  std::string run(const std::string& sql) {
    std::string value;
    const auto first = [](void* into, int count, char** values, char**) {
      if (count > 0 && values[0] != nullptr) *static_cast<std::string*>(into) = values[0];
      return 0;
    };
    if (sqlite3_exec(db_, sql.c_str(), first, &value, nullptr) != SQLITE_OK) {
      throw std::runtime_error{sql + ": " + sqlite3_errmsg(db_)};
    }
    return value;
  }

 private:
  sqlite3* db_ = nullptr;
};

struct Database {
  virtual ~Database() = default;
  virtual std::string where() const = 0;
  virtual std::string sql(const std::string& statements) const = 0;
};

struct SqliteDatabase : Database {
  std::string where() const override { return directory.path("weir.db"); }
  std::string sql(const std::string& statements) const override {
    return SqliteShell{where()}.run(statements);
  }

  TemporaryDirectory directory;
};

struct PostgresqlDatabase : Database {
  std::string where() const override { return url; }
  std::string sql(const std::string& statements) const override {
    return PostgresqlForTest::run(url, statements);
  }

  const std::string url = PostgresqlForTest::shared().make_database();
};

inline CalendarTime at_second(std::int64_t second) {
  return CalendarTime{std::chrono::seconds{second}};
}

// 2027-01-15T08:00:00Z
inline constexpr CalendarTime kNow{std::chrono::seconds{1'800'000'000}};

inline Row row_of(std::string gate, Amount used = 1) {
  return {.key = {std::move(gate), "requests per 1m"},
          .amount = 100,
          .period = std::chrono::minutes{1},
          .burst = 100,
          .at = kNow,
          .used = used,
          .expires = kNow + std::chrono::hours{1}};
}

inline Batch batch_of(std::vector<Row> rows) { return {.rows = std::move(rows), .now = kNow}; }

// Everything in it, in the order of the keys.
struct Loaded {
  Contents contents;
  std::vector<Row> rows;

  Amount used(const std::string& gate) const {
    const auto row = std::ranges::find(rows, gate, [](const Row& each) { return each.key.gate; });
    return row == rows.end() ? 0 : row->used;
  }
};

inline Outcome<Loaded> load(Store& store, CalendarTime now = kNow) {
  Loaded loaded;
  auto contents = store.load(now, [&](Row row) { loaded.rows.push_back(std::move(row)); });
  if (!contents) return std::unexpected(contents.error());
  loaded.contents = std::move(*contents);
  std::ranges::sort(loaded.rows, {},
                    [](const Row& row) { return std::pair{row.key.gate, row.key.limit}; });
  return loaded;
}

// The store, or a failed test.
inline std::unique_ptr<Store> must_open(const Options& options) {
  auto store = open(options);
  if (!store) throw std::runtime_error{store.error().message};
  return std::move(*store);
}

template <class T>
std::string fault_of(const Outcome<T>& outcome) {
  return outcome ? "none" : std::string{name(outcome.error().fault)};
}

}  // namespace weir::store
