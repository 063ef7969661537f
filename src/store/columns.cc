#include "store/columns.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace weir::store {
namespace {

using namespace std::chrono;

constexpr std::array<std::string_view, 7> kAlgorithms{
    "token_bucket", "stepped",     "fixed_window", "sliding_window",
    "sliding_log",  "concurrency", "warm_up"};

template <class Enum>
std::optional<Enum> named(std::string_view text, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<Enum>(i);
    if (name(value) == text) return value;
  }
  return std::nullopt;
}

std::optional<std::vector<Amount>> parse_slots(std::string_view text) {
  std::vector<Amount> slots;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    if (!slots.empty() && *at++ != ' ') return std::nullopt;
    const auto [next, error] = std::from_chars(at, end, slots.emplace_back());
    if (error != std::errc{} || slots.back() < 0) return std::nullopt;
    at = next;
  }
  return slots;
}

// Takes digits off the front: at least `least`, at most `most`.
std::optional<int> take_number(std::string_view& text, std::size_t least, std::size_t most) {
  std::size_t count = 0;
  int value = 0;
  for (; count < most && count < text.size() && text[count] >= '0' && text[count] <= '9'; ++count) {
    value = value * 10 + (text[count] - '0');
  }
  if (count < least) return std::nullopt;
  text.remove_prefix(count);
  return value;
}

bool take(std::string_view& text, char expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(1);
  return true;
}

std::optional<Nanos> take_fraction(std::string_view& text) {
  if (!take(text, '.')) return Nanos{0};
  const std::size_t before = text.size();
  const auto digits = take_number(text, 1, 9);
  if (!digits) return std::nullopt;
  Nanos fraction{*digits};
  for (std::size_t count = before - text.size(); count < 9; ++count) fraction *= 10;
  return fraction;
}

std::optional<minutes> take_offset(std::string_view& text) {
  if (text.empty() || take(text, 'Z')) return minutes{0};
  const bool west = text.starts_with('-');
  if (!take(text, '+') && !take(text, '-')) return std::nullopt;
  const auto hour = take_number(text, 2, 2);
  if (!hour) return std::nullopt;
  minutes offset = hours{*hour};
  if (!text.empty()) {
    take(text, ':');
    const auto minute = take_number(text, 2, 2);
    if (!minute) return std::nullopt;
    offset += minutes{*minute};
  }
  return west ? -offset : offset;
}

}  // namespace

std::string_view name(LimitSpec::Algorithm algorithm) {
  return kAlgorithms[static_cast<std::size_t>(algorithm)];
}

std::string slots_text(const std::vector<Amount>& slots) {
  return fmt::format("{}", fmt::join(slots, " "));
}

std::string time_text(CalendarTime at) {
  const auto whole = floor<microseconds>(at);
  const auto day = floor<days>(whole);
  const year_month_day date{day};
  const hh_mm_ss time{whole - day};
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", int{date.year()},
                     unsigned{date.month()}, unsigned{date.day()}, time.hours().count(),
                     time.minutes().count(), time.seconds().count(), time.subseconds().count());
}

std::optional<CalendarTime> parse_time(std::string_view text) {
  const auto y = take_number(text, 4, 4);
  const bool dash = take(text, '-');
  const auto m = take_number(text, 2, 2);
  const bool second_dash = take(text, '-');
  const auto d = take_number(text, 2, 2);
  if (!y || !m || !d || !dash || !second_dash) return std::nullopt;
  const year_month_day date{year{*y}, month{static_cast<unsigned>(*m)},
                            day{static_cast<unsigned>(*d)}};
  if (!date.ok()) return std::nullopt;

  if (!take(text, 'T') && !take(text, ' ')) return std::nullopt;
  const auto hour = take_number(text, 2, 2);
  const bool colon = take(text, ':');
  const auto minute = take_number(text, 2, 2);
  const bool second_colon = take(text, ':');
  const auto second = take_number(text, 2, 2);
  if (!hour || !minute || !second || !colon || !second_colon) return std::nullopt;
  const auto fraction = take_fraction(text);
  if (!fraction || *hour > 23 || *minute > 59 || *second > 59) return std::nullopt;
  const auto offset = take_offset(text);
  if (!offset || !text.empty()) return std::nullopt;
  // Nanoseconds in 64 bits reach from 1677 to 2262.
  const sys_seconds whole =
      sys_days{date} + hours{*hour} + minutes{*minute} + seconds{*second} - *offset;
  if (whole < ceil<seconds>(CalendarTime::min())) return CalendarTime::min();
  if (whole >= floor<seconds>(CalendarTime::max())) return CalendarTime::max();
  return whole + *fraction;
}

Failure damaged_row(std::string_view gate, std::string_view limit, const std::string& where) {
  return {Fault::kCorrupt,
          fmt::format("{}: the row of limit '{}' of '{}' cannot be read", where, limit, gate)};
}

Failure damaged_domain(std::string_view domain, const std::string& where) {
  return {Fault::kCorrupt,
          fmt::format("{}: the row of '{}' in rate_limiter_state cannot be read", where, domain)};
}

Failure no_writer(const std::string& where) {
  return {Fault::kCorrupt, fmt::format("{}: the table weir_writer is empty", where)};
}

Failure too_new(std::size_t version, const std::string& where) {
  return {Fault::kTooNew,
          fmt::format("{} was written by a later version (schema {})", where, version)};
}

Outcome<Row> to_row(const StoredRow& stored, const std::string& where) {
  const auto unit = named<Unit>(stored.unit, kUnitCount);
  const auto algorithm = named<LimitSpec::Algorithm>(stored.algorithm, kAlgorithms.size());
  auto slots = parse_slots(stored.slots);
  const bool negative = stored.amount < 0 || stored.period_ns < 0 || stored.burst < 0 ||
                        stored.used < 0 || stored.previous < 0;
  if (!unit || !algorithm || !slots || negative) {
    return std::unexpected(damaged_row(stored.gate, stored.limit, where));
  }
  return Row{.key = {std::string{stored.gate}, std::string{stored.limit}},
             .unit = *unit,
             .algorithm = *algorithm,
             .amount = stored.amount,
             .period = Nanos{stored.period_ns},
             .burst = stored.burst,
             .at = from_unix_ns(stored.at_ns),
             .used = stored.used,
             .previous = stored.previous,
             .slots = std::move(*slots),
             .expires = from_unix_ns(stored.expires_ns)};
}

}  // namespace weir::store
