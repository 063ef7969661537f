#include "store/postgres.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "store/columns.h"

namespace weir::store {
namespace {

using namespace std::chrono;

constexpr std::string_view kDivisionByZero = "22012";

// What PostgreSQL calls a condition (SQLSTATE).
Fault fault_of(std::string_view state) {
  if (state == "25006" || state == "42501") return Fault::kReadOnly;
  if (state == "53100") return Fault::kFull;
  if (state == "XX001" || state == "XX002") return Fault::kCorrupt;
  if (state == "42P01") return Fault::kOlder;  // a table of ours was removed
  return Fault::kAway;
}

std::string_view state_of(const PGresult* result) {
  const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  return state == nullptr ? "" : state;
}

std::string one_line(std::string_view text) {
  std::string line;
  for (const char c : text) line += c >= 0 && c < ' ' ? ' ' : c;
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

// The URL without its user, password and parameters; empty if it cannot be told where they end.
// libpq would take a part of such a password for the host and quote it in its messages.
std::string public_part(std::string_view url) {
  const std::size_t begin = url.find("://") + 3;
  std::string_view place = url.substr(begin);
  const std::size_t at = place.find('@');
  if (at < place.find('/')) place.remove_prefix(at + 1);  // a '?' before it is of the password
  place = place.substr(0, place.find('?'));
  if (place.find('@') != std::string_view::npos) return {};
  return fmt::format("{}{}", url.substr(0, begin), place);
}

bool can_be_parsed(const std::string& url) {
  char* message = nullptr;
  PQconninfoOption* parsed = PQconninfoParse(url.c_str(), &message);
  PQfreemem(message);  // may quote the URL
  PQconninfoFree(parsed);
  return parsed != nullptr;
}

}  // namespace

Parameter Parameter::number(std::int64_t value) {
  Parameter parameter{kInt8, {}};
  append_number(parameter.bytes, value);
  return parameter;
}

Parameter Parameter::text(std::string_view value) { return {kText, std::string{value}}; }

ArrayParameter::ArrayParameter(Oid element, std::size_t size)
    : array_type_(element == Parameter::kInt8    ? 1016
                  : element == Parameter::kText  ? 1009
                  : element == Parameter::kBytes ? 1001
                                                 : 1185) {
  append_number(bytes_, std::int32_t{size == 0 ? 0 : 1});  // dimensions
  append_number(bytes_, std::int32_t{0});                  // nulls
  append_number(bytes_, element);
  if (size == 0) return;
  append_number(bytes_, static_cast<std::int32_t>(size));
  append_number(bytes_, std::int32_t{1});  // the first index
}

void ArrayParameter::add(std::int64_t value) {
  append_number(bytes_, static_cast<std::int32_t>(sizeof value));
  append_number(bytes_, value);
}

void ArrayParameter::add(std::string_view value) {
  append_number(bytes_, static_cast<std::int32_t>(value.size()));
  bytes_ += value;
}

std::int64_t Postgres::Answer::number(int row, int column) const {
  const std::string_view digits = text(row, column);
  std::int64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

std::string_view Postgres::Answer::text(int row, int column) const {
  return {PQgetvalue(get(), row, column),
          static_cast<std::size_t>(PQgetlength(get(), row, column))};
}

std::int64_t Postgres::Answer::binary_number(int row, int column) const {
  std::string_view bytes = text(row, column);
  return bytes.size() == sizeof(std::int64_t) ? take_number<std::int64_t>(bytes) : 0;
}

Postgres::Postgres(const Options& options)
    : timeout_(options.timeout), where_(public_part(options.where)) {
  renew();
  if (where_.empty() || !can_be_parsed(options.where)) {
    fail({Fault::kInvalid,
          "the URL of the store cannot be read; it has the form "
          "postgresql://user:password@host:port/database, where special characters of the user "
          "and the password are written as %40"});
    return;
  }
  connect(options);
}

Postgres::~Postgres() { PQfinish(connection_); }

void Postgres::renew(Nanos timeout) { deadline_ = clock_.now() + std::max(timeout, timeout_); }

void Postgres::connect(const Options& options) {
  const char* const keywords[] = {"dbname", "client_encoding", "fallback_application_name",
                                  nullptr};
  const char* const values[] = {options.where.c_str(), "UTF8", "weir", nullptr};
  connection_ = PQconnectStartParams(keywords, values, 1);
  PostgresPollingStatusType step = PGRES_POLLING_WRITING;
  while (step != PGRES_POLLING_OK) {
    if (step == PGRES_POLLING_FAILED || PQstatus(connection_) == CONNECTION_BAD) return lost();
    if (!wait(step == PGRES_POLLING_READING ? POLLIN : POLLOUT)) return;
    step = PQconnectPoll(connection_);
  }
  if (PQsetnonblocking(connection_, 1) != 0) return lost();
  // Names are in any script; one that cannot be stored would fail every commit.
  const char* encoding = PQparameterStatus(connection_, "server_encoding");
  if (encoding == nullptr || std::string_view{encoding} != "UTF8") {
    return fail({Fault::kInvalid, fmt::format("{} must be encoded in UTF8", where_)});
  }
  run(
      fmt::format("SET lock_timeout = {0}; SET idle_in_transaction_session_timeout = {0};"
                  "SELECT set_config('synchronous_commit', 'on', false)"
                  " WHERE current_setting('synchronous_commit') = 'off'",
                  ceil<milliseconds>(timeout_ * 3 / 4).count()));
}

// Until the socket can do one of `events`.
bool Postgres::wait(short events) {
  for (;;) {
    const auto left = ceil<milliseconds>(deadline_ - clock_.now());
    pollfd socket{PQsocket(connection_), events, 0};
    const int count = left.count() <= 0 ? 0 : poll(&socket, 1, static_cast<int>(left.count()));
    if (count > 0) return true;
    if (count < 0 && errno == EINTR) continue;
    fail({Fault::kAway, fmt::format("{} does not answer", where_)});
    return false;
  }
}

bool Postgres::flush() {
  for (;;) {
    const int state = PQflush(connection_);
    if (state == 0) return true;
    if (state < 0 || (wait(POLLIN | POLLOUT) && PQconsumeInput(connection_) == 0)) lost();
    if (!good()) return false;
  }
}

// Waits for bytes of the server and takes them in.
bool Postgres::arrived() {
  if (wait(POLLIN) && PQconsumeInput(connection_) == 0) lost();
  return good();
}

Postgres::Answer Postgres::next() {
  while (good() && PQisBusy(connection_) != 0) arrived();
  return Answer{good() ? PQgetResult(connection_) : nullptr};
}

// Of what was sent.
Postgres::Answer Postgres::last() {
  Answer last;
  if (!good() || !flush()) return last;
  while (Answer answer = next()) {
    check(answer.get());
    last = std::move(answer);
  }
  return good() ? std::move(last) : nullptr;
}

void Postgres::lost() {
  fail({Fault::kAway, fmt::format("{}: {}", where_, one_line(PQerrorMessage(connection_)))});
}

void Postgres::check(const PGresult* result) {
  const auto status = PQresultStatus(result);
  if (status != PGRES_FATAL_ERROR && status != PGRES_BAD_RESPONSE) return;
  const char* words = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  if (words == nullptr) words = PQresultErrorMessage(result);
  fail({fault_of(state_of(result)), fmt::format("{}: {}", where_, one_line(words))});
}

void Postgres::fail(Failure failure) {
  if (good()) failure_ = std::move(failure);
}

Outcome<void> Postgres::outcome() const {
  if (failure_) return std::unexpected(*failure_);
  return {};
}

Postgres::Answer Postgres::run(const std::string& script) {
  if (!good()) return nullptr;
  if (PQsendQuery(connection_, script.c_str()) == 0) lost();
  return last();
}

Postgres::Answer Postgres::ask(const Step& step) {
  if (!good()) return nullptr;
  if (!send(step, Form::kBinary)) lost();
  return last();
}

bool Postgres::has_table(const std::string& table) {
  const auto answer = run(fmt::format("SELECT to_regclass('{}')", table));
  return answer && !answer.is_null(0, 0);
}

void Postgres::migrate(const std::string& schema, std::span<const char* const> migrations,
                       std::size_t before) {
  std::size_t version = before;
  if (has_table(schema)) {
    const auto answer = run("SELECT version FROM " + schema);
    version = answer.rows() > 0 ? static_cast<std::size_t>(answer.number(0, 0)) : 0;
  } else {
    run(fmt::format("CREATE TABLE {0} (version INTEGER NOT NULL); INSERT INTO {0} VALUES (0)",
                    schema));
  }
  if (version > migrations.size()) fail(too_new(version, where_));
  if (version == migrations.size()) return;
  while (good() && version < migrations.size()) run(migrations[version++]);
  run(fmt::format("UPDATE {} SET version = {}", schema, version));
}

void Postgres::copy(const std::string& sql, const std::function<void(std::string_view)>& each) {
  if (!good()) return;
  if (PQsendQuery(connection_, sql.c_str()) == 0) lost();
  if (!good() || !flush()) return;
  const Answer begin = next();
  check(begin.get());
  while (good()) {
    char* row = nullptr;
    const int size = PQgetCopyData(connection_, &row, 1);
    if (size > 0) {
      each({row, static_cast<std::size_t>(size)});
      PQfreemem(row);
    } else if (size == 0) {
      renew();
      arrived();
    } else {
      break;
    }
  }
  while (const Answer end = next()) check(end.get());
}

bool Postgres::send(const Step& step, Form form) {
  std::vector<Oid> types;
  std::vector<const char*> values;
  std::vector<int> lengths;
  for (const Parameter& parameter : step.parameters) {
    types.push_back(parameter.type);
    values.push_back(parameter.bytes.data());
    lengths.push_back(static_cast<int>(parameter.bytes.size()));
  }
  const std::vector<int> binary(types.size(), 1);
  return PQsendQueryParams(connection_, step.sql, static_cast<int>(types.size()), types.data(),
                           values.data(), lengths.data(), binary.data(),
                           static_cast<int>(form)) != 0;
}

bool Postgres::together(const std::vector<Step>& steps) {
  if (!good()) return false;
  bool sent = PQenterPipelineMode(connection_) != 0;
  for (const Step& step : steps) sent = sent && send(step, Form::kText);
  if (!sent || PQpipelineSync(connection_) == 0) lost();
  if (!good() || !flush()) return false;

  bool undone = false;
  for (;;) {
    const Answer answer = next();
    if (!good()) return false;
    const auto status = PQresultStatus(answer.get());
    if (status == PGRES_PIPELINE_SYNC) break;
    if (answer && state_of(answer.get()) == kDivisionByZero) {
      undone = true;
    } else if (answer) {
      check(answer.get());
    } else if (PQstatus(connection_) == CONNECTION_BAD) {
      lost();
    }
  }
  if (PQexitPipelineMode(connection_) == 0) lost();
  return good() && !undone;
}

}  // namespace weir::store
