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
#include <string>
#include <string_view>
#include <vector>

#include "store/store.h"
#include "weir/time/system_clock.h"

namespace weir::store {

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
  static constexpr Oid kInt8 = 20;
  static constexpr Oid kText = 25;
  static constexpr Oid kTimestampTz = 1184;

  Oid type;
  std::string bytes;

  static Parameter number(std::int64_t value);
  static Parameter text(std::string_view value);
};

// An array of numbers (kInt8, kTimestampTz) or texts, filled one by one.
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

class Postgres {
 public:
  explicit Postgres(const Options& options);  // connects
  ~Postgres();
  Postgres(const Postgres&) = delete;
  Postgres& operator=(const Postgres&) = delete;

  // What follows ends within the time-out, counted from here.
  void renew();

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

  const std::string& where() const { return where_; }  // without user and password
  bool good() const { return !failure_; }
  Outcome<void> outcome() const;
  void fail(Failure failure);

 private:
  void connect(const Options& options);
  bool wait(short events);
  bool flush();
  bool arrived();
  Answer next();
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
