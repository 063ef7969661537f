// The store in a PostgreSQL database.
//
// A commit is one exchange: its statements travel together, as one transaction. It is durable
// under either Sync: a server that was killed must not forget what it has acknowledged.
#include <fmt/format.h>

#include <array>

#include "store/columns.h"
#include "store/postgres.h"
#include "store/writer.h"

namespace weir::store {
namespace {

using namespace std::chrono;

// Number 1 is the table of the seed, which may be there without us, and count in an INT.
constexpr std::array kMigrations{
    "CREATE TABLE rate_limiter_state ("
    "  domain TEXT PRIMARY KEY,"
    "  request_count BIGINT NOT NULL,"
    "  window_start TIMESTAMPTZ NOT NULL,"
    "  updated_at TIMESTAMPTZ NOT NULL)",

    "ALTER TABLE rate_limiter_state ALTER COLUMN request_count TYPE BIGINT;"
    "CREATE TABLE weir_limits ("
    "  gate TEXT NOT NULL, name TEXT NOT NULL,"
    "  unit TEXT NOT NULL, algorithm TEXT NOT NULL,"
    "  amount BIGINT NOT NULL, period_ns BIGINT NOT NULL, burst BIGINT NOT NULL,"
    "  at_ns BIGINT NOT NULL, used BIGINT NOT NULL, previous BIGINT NOT NULL,"
    "  slots TEXT NOT NULL, expires_ns BIGINT NOT NULL,"
    "  PRIMARY KEY (gate, name)) WITH (fillfactor = 75);"
    "CREATE TABLE weir_writer ("
    "  epoch BIGINT NOT NULL, commits BIGINT NOT NULL, last_seen_ns BIGINT NOT NULL,"
    "  owner TEXT NOT NULL);"
    "INSERT INTO weir_writer VALUES (0, 0, 0, '')",
};

// Divides by zero if we are not the writer any more.
constexpr const char* kAdvance =
    "WITH moved AS (UPDATE weir_writer SET commits = commits + 1, last_seen_ns = $3"
    " WHERE epoch = $1 AND commits = $2 RETURNING 1) SELECT 1 / count(*) FROM moved";
constexpr const char* kRemove =
    "DELETE FROM weir_limits USING unnest($1, $2) AS gone (gate, name)"
    " WHERE weir_limits.gate = gone.gate AND weir_limits.name = gone.name";
constexpr const char* kPut =
    "INSERT INTO weir_limits (gate, name, unit, algorithm, amount, period_ns, burst, at_ns, used,"
    " previous, slots, expires_ns)"
    " SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
    " ON CONFLICT (gate, name) DO UPDATE SET (unit, algorithm, amount, period_ns, burst, at_ns,"
    " used, previous, slots, expires_ns) = (excluded.unit, excluded.algorithm, excluded.amount,"
    " excluded.period_ns, excluded.burst, excluded.at_ns, excluded.used, excluded.previous,"
    " excluded.slots, excluded.expires_ns)";
constexpr const char* kPutDomains =
    "INSERT INTO rate_limiter_state (domain, request_count, window_start, updated_at)"
    " SELECT * FROM unnest($1, $2, $3, $4)"
    " ON CONFLICT (domain) DO UPDATE SET (request_count, window_start, updated_at) ="
    " (excluded.request_count, excluded.window_start, excluded.updated_at)";

// On the wire a time is the microseconds since the year 2000.
template <class Value>
Parameter times(const std::vector<DomainState>& states, Value value) {
  return column(Parameter::kTimestampTz, states, [&](const DomainState& state) {
    const auto since = floor<microseconds>(value(state)) - sys_days{year{2000} / 1 / 1};
    return std::int64_t{since.count()};
  });
}

CalendarTime from_unix_us(std::int64_t us) {
  constexpr auto kMax = duration_cast<microseconds>(CalendarTime::max().time_since_epoch());
  return CalendarTime{std::clamp(microseconds{us}, -kMax, kMax)};
}

// Reads a row of a binary COPY of weir_limits.
class CopiedRow {
 public:
  explicit CopiedRow(std::string_view bytes) : bytes_(bytes) {}

  StoredRow read() {
    StoredRow row;
    row.gate = field();
    row.limit = field();
    row.unit = field();
    row.algorithm = field();
    row.amount = number();
    row.period_ns = number();
    row.burst = number();
    row.at_ns = number();
    row.used = number();
    row.previous = number();
    row.slots = field();
    row.expires_ns = number();
    return row;
  }
  bool good() const { return good_; }

 private:
  std::string_view field() {
    if (bytes_.size() < sizeof(std::int32_t)) return fail();
    const auto size = static_cast<std::size_t>(take_number<std::int32_t>(bytes_));
    if (size > bytes_.size()) return fail();  // also a NULL, whose size is -1
    const auto value = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return value;
  }
  std::int64_t number() {
    std::string_view value = field();
    if (value.size() != sizeof(std::int64_t)) value = fail();
    return value.empty() ? 0 : take_number<std::int64_t>(value);
  }
  std::string_view fail() {
    good_ = false;
    return {};
  }

  std::string_view bytes_;
  bool good_ = true;
};

class PostgresqlStore final : public Store {
 public:
  explicit PostgresqlStore(const Options& options) : db_(options) {
    // One at a time migrates and takes over; the transaction ends in take_over_as_in().
    db_.run("BEGIN; SELECT pg_advisory_xact_lock(hashtext('weir_schema'))");
    db_.migrate("weir_schema", kMigrations, db_.has_table("rate_limiter_state") ? 1 : 0);
    take_over_as_in(options);
  }

  Outcome<void> outcome() const { return db_.outcome(); }

  Outcome<Contents> load(CalendarTime now, const std::function<void(Row)>& each) override {
    db_.renew();
    const auto stored = read_writer("");
    if (db_.good() && (!stored || stored->writer != writer_)) refuse_writer(stored);
    if (!db_.good()) return std::unexpected(db_.outcome().error());

    Contents contents{.last_seen = stored->last_seen, .older_copy = older_copy_};
    remove_expired(std::max(now, contents.last_seen));
    load_rows(each);
    load_domains(contents.domains);
    if (!db_.good()) return std::unexpected(db_.outcome().error());
    return contents;
  }

  Outcome<void> commit(const Batch& batch) override {
    db_.renew();
    if (db_.together(steps(batch))) {
      ++writer_.commits;
      older_copy_ = false;
    } else if (db_.good()) {
      refuse_writer(read_writer(""));
    }
    return db_.outcome();
  }

  bool shared() const override { return true; }
  std::uint64_t epoch() const override { return writer_.epoch; }
  std::uint64_t commits() const override { return writer_.commits; }

 private:
  void take_over_as_in(const Options& options) {
    const auto stored = read_writer("FOR UPDATE");
    if (!db_.good()) return;
    if (!stored) return db_.fail(no_writer(db_.where()));
    const auto next = take_over(*stored, options, db_.where());
    if (!next) return db_.fail(next.error());
    writer_ = *next;
    older_copy_ = behind(stored->writer, {options.epoch, options.commits});
    db_.together({{"UPDATE weir_writer SET epoch = $1, owner = $2",
                   {Parameter::number(static_cast<std::int64_t>(writer_.epoch)),
                    Parameter::text(options.owner)}},
                  {"COMMIT", {}}});
  }

  std::optional<StoredWriter> read_writer(std::string_view lock) {
    const auto answer = db_.run(
        fmt::format("SELECT epoch, commits, last_seen_ns, owner FROM weir_writer {}", lock));
    if (answer.rows() == 0) return std::nullopt;
    return StoredWriter{{static_cast<std::uint64_t>(answer.number(0, 0)),
                         static_cast<std::uint64_t>(answer.number(0, 1))},
                        from_unix_ns(answer.number(0, 2)),
                        std::string{answer.text(0, 3)}};
  }

  void refuse_writer(const std::optional<StoredWriter>& found) {
    db_.fail(not_ours(found, writer_, db_.where()));
  }

  std::vector<Postgres::Step> steps(const Batch& batch) const {
    std::vector<Postgres::Step> steps{
        {kAdvance,
         {Parameter::number(static_cast<std::int64_t>(writer_.epoch)),
          Parameter::number(static_cast<std::int64_t>(writer_.commits)),
          Parameter::number(unix_ns(batch.now))}}};
    if (const auto& keys = batch.removed; !keys.empty()) {
      steps.push_back({kRemove,
                       {texts(keys, [](const Key& key) { return std::string_view{key.gate}; }),
                        texts(keys, [](const Key& key) { return std::string_view{key.limit}; })}});
    }
    if (!batch.rows.empty()) steps.push_back({kPut, columns_of(batch.rows)});
    if (const auto& states = batch.domains; !states.empty()) {
      steps.push_back(
          {kPutDomains,
           {texts(states, [](const DomainState& state) { return std::string_view{state.domain}; }),
            numbers(states, [](const DomainState& state) { return state.request_count; }),
            times(states, [](const DomainState& state) { return state.window_start; }),
            times(states, [](const DomainState& state) { return state.updated_at; })}});
    }
    return steps;
  }

  static std::vector<Parameter> columns_of(const std::vector<Row>& rows) {
    return {texts(rows, [](const Row& row) { return std::string_view{row.key.gate}; }),
            texts(rows, [](const Row& row) { return std::string_view{row.key.limit}; }),
            texts(rows, [](const Row& row) { return name(row.unit); }),
            texts(rows, [](const Row& row) { return name(row.algorithm); }),
            numbers(rows, [](const Row& row) { return row.amount; }),
            numbers(rows, [](const Row& row) { return std::int64_t{row.period.count()}; }),
            numbers(rows, [](const Row& row) { return row.burst; }),
            numbers(rows, [](const Row& row) { return unix_ns(row.at); }),
            numbers(rows, [](const Row& row) { return row.used; }),
            numbers(rows, [](const Row& row) { return row.previous; }),
            texts(rows, [](const Row& row) { return slots_text(row.slots); }),
            numbers(rows, [](const Row& row) { return unix_ns(row.expires); })};
  }

  // In parts, each of which ends within the time-out.
  void remove_expired(CalendarTime now) {
    constexpr std::int64_t kPart = 100'000;
    for (std::int64_t removed = kPart; removed == kPart;) {
      db_.renew();
      const auto answer = db_.run(
          fmt::format("WITH gone AS (DELETE FROM weir_limits WHERE ctid = ANY (ARRAY("
                      "SELECT ctid FROM weir_limits WHERE expires_ns <= {} LIMIT {}))"
                      " AND EXISTS (SELECT 1 FROM weir_writer WHERE epoch = {}) RETURNING 1)"
                      " SELECT count(*) FROM gone",
                      unix_ns(now), kPart, writer_.epoch));
      removed = answer.rows() == 0 ? 0 : answer.number(0, 0);
    }
  }

  void load_rows(const std::function<void(Row)>& each) {
    constexpr std::size_t kHeader = 19;
    bool first = true;
    db_.copy(
        "COPY (SELECT gate, name, unit, algorithm, amount, period_ns, burst, at_ns, used, previous,"
        " slots, expires_ns FROM weir_limits) TO STDOUT (FORMAT binary)",
        [&](std::string_view bytes) {
          if (std::exchange(first, false)) bytes.remove_prefix(kHeader);
          if (take_number<std::int16_t>(bytes) < 0) return;  // the end
          CopiedRow copied{bytes};
          const StoredRow stored = copied.read();
          auto row = copied.good()
                         ? to_row(stored, db_.where())
                         : std::unexpected(damaged_row(stored.gate, stored.limit, db_.where()));
          if (!row) return db_.fail(std::move(row.error()));
          each(std::move(*row));
        });
  }

  void load_domains(std::vector<DomainState>& domains) {
    db_.renew();
    const auto answer = db_.run(
        "SELECT domain, request_count, (extract(epoch FROM window_start) * 1000000)::bigint,"
        " (extract(epoch FROM updated_at) * 1000000)::bigint FROM rate_limiter_state");
    for (int row = 0; row < answer.rows(); ++row) {
      domains.push_back({std::string{answer.text(row, 0)}, answer.number(row, 1),
                         from_unix_us(answer.number(row, 2)), from_unix_us(answer.number(row, 3))});
    }
  }

  Postgres db_;
  Writer writer_;
  bool older_copy_ = false;
};

}  // namespace

Outcome<std::unique_ptr<Store>> open_postgresql(const Options& options) {
  auto store = std::make_unique<PostgresqlStore>(options);
  if (const auto opened = store->outcome(); !opened) return std::unexpected(opened.error());
  return store;
}

}  // namespace weir::store
