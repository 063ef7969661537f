// Sources in a PostgreSQL database.
//
// What others sent (bodies, types, messages) is kept as bytes: it need not be UTF-8.
#include <fmt/format.h>

#include <array>
#include <map>

#include "store/columns.h"
#include "store/postgres.h"
#include "store/source_store.h"

namespace weir::store {
namespace {

// The results of a source are numbered from 1, in the order in which they came. To compress bodies
// would take longer than to write them.
constexpr std::array kMigrations{
    "CREATE TABLE weir_sources ("
    "  name TEXT COLLATE \"C\" PRIMARY KEY, definition TEXT NOT NULL,"
    "  due_ns BIGINT NOT NULL, failures BIGINT NOT NULL) WITH (fillfactor = 75);"
    "CREATE TABLE weir_source_bodies ("
    "  name TEXT COLLATE \"C\" PRIMARY KEY, at_ns BIGINT NOT NULL, status BIGINT NOT NULL,"
    "  content_type BYTEA NOT NULL, cut BIGINT NOT NULL, bytes BYTEA NOT NULL);"
    "ALTER TABLE weir_source_bodies ALTER COLUMN bytes SET STORAGE EXTERNAL;"
    "CREATE TABLE weir_source_results ("
    "  name TEXT COLLATE \"C\" NOT NULL, number BIGINT NOT NULL,"
    "  at_ns BIGINT NOT NULL, status BIGINT NOT NULL, took_ms BIGINT NOT NULL,"
    "  bytes BIGINT NOT NULL, message BYTEA NOT NULL, PRIMARY KEY (name, number))",
};

constexpr std::array kRemove{"DELETE FROM weir_sources WHERE name = ANY ($1)",
                             "DELETE FROM weir_source_bodies WHERE name = ANY ($1)",
                             "DELETE FROM weir_source_results WHERE name = ANY ($1)"};
constexpr const char* kPut =
    "INSERT INTO weir_sources SELECT * FROM unnest($1, $2, $3, $4) ON CONFLICT (name) DO UPDATE"
    " SET (definition, due_ns, failures) = (excluded.definition, excluded.due_ns,"
    " excluded.failures)";
constexpr const char* kAddResults =
    "INSERT INTO weir_source_results (name, number, at_ns, status, took_ms, bytes, message)"
    " SELECT name, coalesce((SELECT max(number) FROM weir_source_results AS old"
    " WHERE old.name = new.name), 0) + row_number() OVER (PARTITION BY name ORDER BY place),"
    " at_ns, status, took_ms, bytes, message FROM unnest($1, $2, $3, $4, $5, $6)"
    " WITH ORDINALITY AS new (name, at_ns, status, took_ms, bytes, message, place)"
    " WHERE EXISTS (SELECT 1 FROM weir_sources WHERE weir_sources.name = new.name)";
// Looks for the last number once for each name (OFFSET 0), and not for each result.
constexpr const char* kRemoveOld =
    "DELETE FROM weir_source_results AS result USING (SELECT name, (SELECT max(number)"
    " FROM weir_source_results AS each WHERE each.name = new.name) - $2 AS number"
    " FROM unnest($1) AS new (name) OFFSET 0) AS old"
    " WHERE result.name = old.name AND result.number <= old.number";
constexpr const char* kPutBodies =
    "INSERT INTO weir_source_bodies (name, at_ns, status, content_type, cut, bytes)"
    " SELECT * FROM unnest($1, $2, $3, $4, $5, $6) AS new (name)"
    " WHERE EXISTS (SELECT 1 FROM weir_sources WHERE weir_sources.name = new.name)"
    " ON CONFLICT (name) DO UPDATE SET (at_ns, status, content_type, cut, bytes) ="
    " (excluded.at_ns, excluded.status, excluded.content_type, excluded.cut, excluded.bytes)";

// Of 100,000 sources, or of megabytes of bodies over a slow line.
constexpr Nanos kLongest = std::chrono::seconds{60};

template <class Items, class Value>
Parameter bytes(const Items& items, Value value) {
  return column(Parameter::kBytes, items, value);
}

// From five columns.
SourceResult read_result(const Postgres::Answer& answer, int row, int first) {
  return {.at = from_unix_ns(answer.binary_number(row, first)),
          .status = static_cast<int>(answer.binary_number(row, first + 1)),
          .took_ms = answer.binary_number(row, first + 2),
          .bytes = answer.binary_number(row, first + 3),
          .message = std::string{answer.text(row, first + 4)}};
}

class PostgresqlSourceStore final : public SourceStore {
 public:
  // The connection holds the lock. A server sees within half a minute that our machine is gone.
  explicit PostgresqlSourceStore(const Options& options) : db_(options) {
    const auto locked = db_.run(
        "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5;"
        "SET tcp_keepalives_count = 3;"
        "SELECT pg_try_advisory_lock(hashtext('weir_sources'))::int");
    if (locked.rows() > 0 && locked.number(0, 0) == 0) {
      db_.fail({Fault::kInUse,
                fmt::format("the sources of {} are in use by another process", db_.where())});
    }
    db_.run("BEGIN");
    db_.migrate("weir_source_schema", kMigrations);
    // One that may only be read is refused now.
    db_.run("UPDATE weir_source_schema SET version = version; COMMIT");
  }

  // By itself a server gives a lock back some time after the connection has ended.
  ~PostgresqlSourceStore() override {
    db_.renew();
    db_.run("SELECT pg_advisory_unlock(hashtext('weir_sources'))");
  }

  Outcome<void> outcome() const { return db_.outcome(); }

  Outcome<void> load(const std::function<void(SourceRow)>& each) override {
    db_.renew(kLongest);
    const auto answer =
        db_.ask({"SELECT source.name, definition, due_ns, failures,"
                 " at_ns, status, took_ms, bytes, message"
                 " FROM weir_sources AS source LEFT JOIN weir_source_results AS result"
                 " ON result.name = source.name AND number ="
                 " (SELECT max(number) FROM weir_source_results AS each"
                 "  WHERE each.name = source.name)"
                 " ORDER BY source.name",
                 {}});
    for (int i = 0; i < answer.rows(); ++i) {
      SourceRow row{std::string{answer.text(i, 0)}, std::string{answer.text(i, 1)},
                    from_unix_ns(answer.binary_number(i, 2)), answer.binary_number(i, 3)};
      if (!answer.is_null(i, 4)) row.last = read_result(answer, i, 4);
      each(std::move(row));
    }
    return db_.outcome();
  }

  Outcome<void> commit(const SourceBatch& batch) override {
    db_.renew(kLongest);
    db_.together(steps(batch));
    return db_.outcome();
  }

  Outcome<std::vector<SourceResult>> results(std::string_view name) override {
    db_.renew();
    const auto answer =
        db_.ask({"SELECT at_ns, status, took_ms, bytes, message FROM weir_source_results"
                 " WHERE name = $1 ORDER BY number DESC",
                 {Parameter::text(name)}});
    if (!db_.good()) return std::unexpected(db_.outcome().error());
    std::vector<SourceResult> results;
    for (int i = 0; i < answer.rows(); ++i) results.push_back(read_result(answer, i, 0));
    return results;
  }

  Outcome<std::optional<SourceBody>> body(std::string_view name) override {
    db_.renew();
    const auto answer =
        db_.ask({"SELECT at_ns, status, content_type, bytes, cut FROM weir_source_bodies"
                 " WHERE name = $1",
                 {Parameter::text(name)}});
    if (!db_.good()) return std::unexpected(db_.outcome().error());
    if (answer.rows() == 0) return std::nullopt;
    return SourceBody{.at = from_unix_ns(answer.binary_number(0, 0)),
                      .status = static_cast<int>(answer.binary_number(0, 1)),
                      .content_type = std::string{answer.text(0, 2)},
                      .bytes = std::string{answer.text(0, 3)},
                      .cut = answer.binary_number(0, 4) != 0};
  }

 private:
  static std::vector<Postgres::Step> steps(const SourceBatch& batch) {
    std::vector<Postgres::Step> steps;
    if (!batch.removed.empty()) {
      const auto names = texts(batch.removed, [](const std::string& name) { return name; });
      for (const char* sql : kRemove) steps.push_back({sql, {names}});
    }
    if (const auto& rows = batch.rows; !rows.empty()) {
      steps.push_back(
          {kPut,
           {texts(rows, [](const SourceRow& row) { return std::string_view{row.name}; }),
            texts(rows, [](const SourceRow& row) { return std::string_view{row.definition}; }),
            numbers(rows, [](const SourceRow& row) { return unix_ns(row.due); }),
            numbers(rows, [](const SourceRow& row) { return row.failures; })}});
    }
    if (!batch.outcomes.empty()) add_outcomes(batch.outcomes, steps);
    return steps;
  }

  using One = SourceBatch::Outcome;

  static void add_outcomes(const std::vector<One>& all, std::vector<Postgres::Step>& steps) {
    const auto names = texts(all, [](const One& one) { return std::string_view{one.name}; });
    steps.push_back(
        {kAddResults,
         {names, numbers(all, [](const One& one) { return unix_ns(one.result.at); }),
          numbers(all, [](const One& one) { return std::int64_t{one.result.status}; }),
          numbers(all, [](const One& one) { return one.result.took_ms; }),
          numbers(all, [](const One& one) { return one.result.bytes; }),
          bytes(all, [](const One& one) { return std::string_view{one.result.message}; })}});
    steps.push_back({kRemoveOld, {names, Parameter::number(kResultsMax)}});

    std::map<std::string_view, const SourceBody*> last;
    for (const One& one : all) {
      if (one.body) last[one.name] = &*one.body;
    }
    if (last.empty()) return;
    steps.push_back(
        {kPutBodies,
         {texts(last, [](const auto& entry) { return entry.first; }),
          numbers(last, [](const auto& entry) { return unix_ns(entry.second->at); }),
          numbers(last, [](const auto& entry) { return std::int64_t{entry.second->status}; }),
          bytes(last,
                [](const auto& entry) { return std::string_view{entry.second->content_type}; }),
          numbers(last, [](const auto& entry) { return std::int64_t{entry.second->cut}; }),
          bytes(last, [](const auto& entry) { return std::string_view{entry.second->bytes}; })}});
  }

  Postgres db_;
};

}  // namespace

Outcome<std::unique_ptr<SourceStore>> open_postgresql_sources(const Options& options) {
  auto store = std::make_unique<PostgresqlSourceStore>(options);
  if (const auto opened = store->outcome(); !opened) return std::unexpected(opened.error());
  return store;
}

}  // namespace weir::store
