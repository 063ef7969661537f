#include "server/text.h"

#include <fmt/chrono.h>

#include <array>
#include <cmath>

namespace weir::server {
namespace {

// How many bytes the well-formed UTF-8 sequence at the front takes; 0 if there is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const bool shortest = lead != 0xE0 || byte(1) >= 0xA0;
    const bool no_surrogate = lead != 0xED || byte(1) < 0xA0;
    return continues(1) && continues(2) && shortest && no_surrogate ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const bool in_range = (lead != 0xF0 || byte(1) >= 0x90) && (lead != 0xF4 || byte(1) < 0x90);
    return continues(1) && continues(2) && continues(3) && in_range ? 4 : 0;
  }
  return 0;
}

bool is_plain(char c) {
  return static_cast<unsigned char>(c) >= 0x20 && static_cast<unsigned char>(c) < 0x7F &&
         c != '"' && c != '\\';
}

}  // namespace

void append_json(std::string& out, std::string_view text) {
  out += '"';
  for (std::size_t i = 0; i < text.size();) {
    std::size_t plain = i;
    while (plain < text.size() && is_plain(text[plain])) ++plain;
    out.append(text, i, plain - i);
    if ((i = plain) == text.size()) break;

    const char c = text[i];
    const std::size_t length = utf8_length(text.substr(i));
    if (length > 1) {
      out.append(text, i, length);
    } else if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
    }
    i += std::max<std::size_t>(length, 1);
  }
  out += '"';
}

std::string amount_text(Unit unit, Amount amount) {
  if (unit != Unit::kMicroUsd) return std::to_string(amount);
  const Amount size = amount < 0 ? -amount : amount;
  std::string text =
      fmt::format("{}{}.{:06}", amount < 0 ? "-" : "", size / 1'000'000, size % 1'000'000);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string_view unit_text(Unit unit) { return unit == Unit::kMicroUsd ? "usd" : name(unit); }

std::string span_text(Nanos span) {
  const double seconds = static_cast<double>(span.count()) / 1e9;
  if (seconds < 0.0005) return "0 ms";
  if (seconds < 0.01) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 10) return fmt::format("{:.2g} s", seconds);
  if (seconds < 60) return fmt::format("{:.3g} s", seconds);
  const auto whole = std::llround(seconds);
  const auto parts = [](long long large, const char* unit, long long small, const char* rest) {
    return small == 0 ? fmt::format("{} {}", large, unit)
                      : fmt::format("{} {} {} {}", large, unit, small, rest);
  };
  if (whole < 3600) return parts(whole / 60, "min", whole % 60, "s");
  return parts(whole / 3600, "h", whole / 60 % 60, "min");
}

std::string iso_time(CalendarTime at) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(at);
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(at - seconds);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(seconds.time_since_epoch().count()),
                     ms.count());
}

std::string http_date(CalendarTime at) {
  constexpr std::array kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                               "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto seconds = std::chrono::floor<std::chrono::seconds>(at).time_since_epoch().count();
  const std::tm day = fmt::gmtime(seconds);
  return fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT",
                     kDays[static_cast<std::size_t>(day.tm_wday)], day.tm_mday,
                     kMonths[static_cast<std::size_t>(day.tm_mon)], day.tm_year + 1900, day.tm_hour,
                     day.tm_min, day.tm_sec);
}

}  // namespace weir::server
