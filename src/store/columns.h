// How values stand in the columns of both databases, and back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/store.h"

namespace weir::store {

// "token_bucket"
std::string_view name(LimitSpec::Algorithm algorithm);

// "3 0 5"
std::string slots_text(const std::vector<Amount>& slots);

// "2026-11-16T02:00:00.123456Z": what SQLite has for a TIMESTAMPTZ. Whole microseconds, as
// PostgreSQL has them; the rest is cut off.
std::string time_text(CalendarTime at);
// Also with a space for the T, without a fraction, and with an offset or nothing for the Z. A time
// out of range is the nearer end.
std::optional<CalendarTime> parse_time(std::string_view text);

inline std::int64_t unix_ns(CalendarTime at) { return at.time_since_epoch().count(); }
inline CalendarTime from_unix_ns(std::int64_t ns) { return CalendarTime{Nanos{ns}}; }

// A row of weir_limits, before anybody has looked whether it can be one.
struct StoredRow {
  std::string_view gate;
  std::string_view limit;
  std::string_view unit;
  std::string_view algorithm;
  std::int64_t amount = 0;
  std::int64_t period_ns = 0;
  std::int64_t burst = 0;
  std::int64_t at_ns = 0;
  std::int64_t used = 0;
  std::int64_t previous = 0;
  std::string_view slots;
  std::int64_t expires_ns = 0;
};

// Fails with kCorrupt and a message that names the gate and the limit.
Outcome<Row> to_row(const StoredRow& stored, const std::string& where);

// What both stores say of a database that is not as we left it.
Failure damaged_row(std::string_view gate, std::string_view limit, const std::string& where);
Failure damaged_domain(std::string_view domain, const std::string& where);
Failure no_writer(const std::string& where);
Failure too_new(std::size_t version, const std::string& where);

}  // namespace weir::store
