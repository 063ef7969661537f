// A connection to a PostgreSQL server that never waits longer than it was told.
//
// After the first failure every call does nothing, and outcome() tells it: callers write down what
// is to be done and look once, at the end. Not thread-safe. Only the resolution of the host's name
// is left to the system, and to its patience.
#pragma once

#include <libpq-fe.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/store.h"
#include "weir/time/system_clock.h"

namespace weir::store {

inline bool is_postgresql(std::string_view where) {
  return where.starts_with("postgresql://") || where.starts_with("postgres://");
}

// Numbers in the byte order of the wire.
void append_number(std::string& bytes, std::integral auto value) {
  for (int shift = 8 * (static_cast<int>(sizeof value) - 1); shift >= 0; shift -= 8) {
    bytes += static_cast<char>(value >> shift & 0xff);
  }
}
template <std::integral Number>
Number take_number(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  }
  bytes.remove_prefix(sizeof(Number));
  return static_cast<Number>(value);
}

// A parameter in PostgreSQL's binary form.
struct Parameter {
  static constexpr Oid kBytes = 17;
  static constexpr Oid kInt8 = 20;
  static constexpr Oid kText = 25;
  static constexpr Oid kTimestampTz = 1184;

  Oid type;
  std::string bytes;

  static Parameter number(std::int64_t value);
  static Parameter text(std::string_view value);
};

// An array of numbers (kInt8, kTimestampTz), texts or bytes, filled one by one.
class ArrayParameter {
 public:
  ArrayParameter(Oid element, std::size_t size);

  void add(std::int64_t value);
  void add(std::string_view value);
  Parameter take() { return {array_type_, std::move(bytes_)}; }

 private:
  Oid array_type_;
  std::string bytes_;
};

// One column of a list, as an array.
template <class Items, class Value>
Parameter column(Oid element, const Items& items, Value value) {
  ArrayParameter array{element, items.size()};
  for (const auto& item : items) array.add(value(item));
  return array.take();
}
template <class Items, class Value>
Parameter texts(const Items& items, Value value) {
  return column(Parameter::kText, items, value);
}
template <class Items, class Value>
Parameter numbers(const Items& items, Value value) {
  return column(Parameter::kInt8, items, value);
}

class Postgres {
 public:
  // Connects. What the server acknowledges it will not forget, and it gives up on a lock before we
  // give up on the server.
  explicit Postgres(const Options& options);
  ~Postgres();
  Postgres(const Postgres&) = delete;
  Postgres& operator=(const Postgres&) = delete;

  // What follows ends within the time-out, or `timeout` if that is longer, counted from here.
  void renew(Nanos timeout = Nanos{0});

  struct Clear {
    void operator()(PGresult* result) const { PQclear(result); }
  };
  // Null after a failure. Numbers of rows and columns count from 0.
  class Answer : public std::unique_ptr<PGresult, Clear> {
   public:
    using unique_ptr::unique_ptr;
    int rows() const { return *this ? PQntuples(get()) : 0; }
    bool is_null(int row, int column) const { return PQgetisnull(get(), row, column) != 0; }
    std::int64_t number(int row, int column) const;
    std::string_view text(int row, int column) const;
    // A BIGINT of an answer to ask(); 0 if it is none.
    std::int64_t binary_number(int row, int column) const;
  };

  // Statements without parameters, separated by semicolons; the answer is that of the last.
  Answer run(const std::string& script);
  // Gives `each` the rows of a COPY … TO STDOUT. The time-out is that of silence.
  void copy(const std::string& sql, const std::function<void(std::string_view)>& each);

  // Several statements in one transaction and one exchange.
  struct Step {
    const char* sql;
    std::vector<Parameter> parameters;
  };
  // A division by zero, which a statement can make on purpose, is no failure: it undoes all, and
  // the result is false.
  bool together(const std::vector<Step>& steps);
  // One statement, whose answer is binary.
  Answer ask(const Step& step);

  bool has_table(const std::string& table);
  // Runs those of `migrations` that it has not had yet, within the caller's transaction; kTooNew if
  // it has had more. Their number stands in the table `schema`; `before` is that of a database
  // without such a table.
  void migrate(const std::string& schema, std::span<const char* const> migrations,
               std::size_t before = 0);

  const std::string& where() const { return where_; }  // without user and password
  bool good() const { return !failure_; }
  Outcome<void> outcome() const;
  void fail(Failure failure);

 private:
  void connect(const Options& options);
  bool wait(short events);
  enum class Form : int { kText = 0, kBinary = 1 };  // of the answer
  bool send(const Step& step, Form form);
  bool flush();
  bool arrived();
  Answer next();
  Answer last();
  void lost();
  void check(const PGresult* result);

  const Nanos timeout_;
  const MonotonicClock clock_;
  Instant deadline_{};
  std::string where_;
  PGconn* connection_ = nullptr;
  std::optional<Failure> failure_;
};

}  // namespace weir::store
