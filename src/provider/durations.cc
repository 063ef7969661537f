#include "provider/durations.h"

#include <absl/time/time.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "net/characters.h"
#include "weir/core/int128.h"

namespace weir {
namespace {

constexpr std::int64_t kWholeMax = 1'000'000'000'000'000'000;
constexpr std::int64_t kBillion = 1'000'000'000;
constexpr std::int64_t kFirstEpoch = 1'000'000'000;  // 2001; so many seconds are no wait
constexpr std::int64_t kFirstEpochMillis = 1'000'000'000'000;
constexpr std::size_t kDateBytesMax = 64;

struct Decimal {
  std::int64_t whole = 0;  // at most kWholeMax
  std::int64_t billionths = 0;

  Nanos of(Nanos unit) const {
    const Int128 nanos =
        Int128{whole} * unit.count() + Int128{billionths} * unit.count() / kBillion;
    return Nanos{static_cast<Nanos::rep>(std::min(nanos, Int128{kPeriodMax.count()}))};
  }
};

// Takes digits with an optional fraction off the front.
std::optional<Decimal> take_decimal(std::string_view& text) {
  if (text.empty() || !net::is_digit(text.front())) return std::nullopt;
  Decimal decimal;
  const auto take_digits = [&text](auto use) {
    while (!text.empty() && net::is_digit(text.front())) {
      use(text.front() - '0');
      text.remove_prefix(1);
    }
  };
  take_digits([&](int digit) {
    decimal.whole = std::min(std::min(decimal.whole, kWholeMax / 10) * 10 + digit, kWholeMax);
  });
  if (text.size() >= 2 && text[0] == '.' && net::is_digit(text[1])) {
    text.remove_prefix(1);
    std::int64_t place = kBillion;
    take_digits([&](int digit) { decimal.billionths += digit * (place /= 10); });
  }
  return decimal;
}

std::optional<Decimal> whole_decimal(std::string_view text) {
  const auto decimal = take_decimal(text);
  return text.empty() ? decimal : std::nullopt;
}

std::optional<Nanos> unit_of(std::string_view word) {
  struct Named {
    std::string_view name;
    Nanos unit;
  };
  using namespace std::chrono_literals;
  static constexpr std::array kUnits = std::to_array<Named>(
      {{"ns", 1ns},   {"us", 1us},    {"ms", 1ms},      {"milliseconds", 1ms}, {"s", 1s},
       {"sec", 1s},   {"secs", 1s},   {"second", 1s},   {"seconds", 1s},       {"m", 1min},
       {"min", 1min}, {"mins", 1min}, {"minute", 1min}, {"minutes", 1min},     {"h", 1h},
       {"hr", 1h},    {"hrs", 1h},    {"hour", 1h},     {"hours", 1h},         {"d", 24h},
       {"day", 24h},  {"days", 24h}});
  for (const Named& named : kUnits) {
    if (net::same_ignoring_case(named.name, word)) return named.unit;
  }
  return std::nullopt;
}

void skip_spaces(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
}

// Takes "2m 13s" off the front, as far as numbers with units go.
std::optional<Nanos> take_duration(std::string_view& text) {
  std::optional<Nanos> sum;
  while (true) {
    std::string_view rest = text;
    skip_spaces(rest);
    const auto number = take_decimal(rest);
    if (!number) return sum;
    skip_spaces(rest);
    const auto letters =
        static_cast<std::size_t>(std::ranges::find_if_not(rest, net::is_letter) - rest.begin());
    const auto unit = unit_of(rest.substr(0, letters));
    if (!unit) return sum;
    sum = std::min(sum.value_or(Nanos{0}) + number->of(*unit), kPeriodMax);
    text = rest.substr(letters);
  }
}

}  // namespace

std::optional<Nanos> read_decimal(std::string_view text, Nanos unit) {
  const auto decimal = whole_decimal(text);
  return decimal ? std::optional{decimal->of(unit)} : std::nullopt;
}

std::optional<Amount> read_amount(std::string_view text) {
  const auto decimal = whole_decimal(text);
  return decimal ? std::optional{std::min<Amount>(decimal->whole, kAmountMax)} : std::nullopt;
}

std::optional<Nanos> read_duration(std::string_view text) {
  if (const auto seconds = read_decimal(text, std::chrono::seconds{1})) return seconds;
  const auto duration = take_duration(text);
  return text.empty() ? duration : std::nullopt;
}

std::optional<Nanos> read_leading_duration(std::string_view text) { return take_duration(text); }

std::optional<CalendarTime> read_date(std::string_view text) {
  if (text.size() > kDateBytesMax) return std::nullopt;
  for (const char* format : {absl::RFC3339_full, "%a, %d %b %Y %H:%M:%S GMT",
                             "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"}) {
    absl::Time time;
    std::string error;
    if (!absl::ParseTime(format, std::string{text}, &time, &error)) continue;
    if (time < absl::UnixEpoch() || time > absl::FromCivil(absl::CivilYear{2200}, {})) continue;
    return CalendarTime{absl::ToChronoTime(time).time_since_epoch()};
  }
  return std::nullopt;
}

std::optional<Nanos> read_reset(std::string_view text, CalendarTime wall) {
  std::optional<CalendarTime> date;
  if (const auto number = whole_decimal(text)) {
    if (number->whole < kFirstEpoch) return number->of(std::chrono::seconds{1});
    const bool millis = number->whole >= kFirstEpochMillis;
    // Past 2200 it is as good as never; and stays inside 64 bits.
    const std::int64_t seconds =
        std::min(millis ? number->whole / 1'000 : number->whole, kWholeMax / kBillion * 7);
    date = CalendarTime{std::chrono::seconds{seconds}};
    if (millis) *date += std::chrono::milliseconds{number->whole % 1'000};
  } else if (const auto duration = read_duration(text)) {
    return duration;
  } else {
    date = read_date(text);
  }
  if (!date || *date < wall) return std::nullopt;
  return std::min<Nanos>(*date - wall, kPeriodMax);
}

}  // namespace weir
