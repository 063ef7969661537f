// Small pieces of wire text: JSON strings, calendar times, numbers of milliseconds.
#pragma once

#include <charconv>
#include <string>
#include <string_view>

#include "weir/core/cost.h"
#include "weir/core/time.h"

namespace weir::server {

// Appends `text` with JSON's quotes and escapes. Bytes that are not UTF-8 become U+FFFD.
void append_json(std::string& out, std::string_view text);

template <class Integer>
void append_number(std::string& out, Integer value) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}

// Puts JSON together, commas included:
//   JsonText json;
//   json.open('{').key("name").text("x").key("limits").open('[').close(']').close('}');
class JsonText {
 public:
  JsonText& open(char bracket) {
    separate();
    text_ += bracket;
    return *this;
  }
  JsonText& close(char bracket) {
    text_ += bracket;
    return *this;
  }
  JsonText& key(std::string_view name) {
    separate();
    append_json(text_, name);
    text_ += ':';
    return *this;
  }
  JsonText& text(std::string_view value) {
    separate();
    append_json(text_, value);
    return *this;
  }
  template <class Integer>
  JsonText& number(Integer value) {
    separate();
    append_number(text_, value);
    return *this;
  }
  // "true", "null", a decimal: JSON as it is.
  JsonText& raw(std::string_view value) {
    separate();
    text_ += value;
    return *this;
  }
  JsonText& boolean(bool value) { return raw(value ? "true" : "false"); }

  const std::string& str() const { return text_; }

 private:
  void separate() {
    if (!text_.empty() && text_.back() != '{' && text_.back() != '[' && text_.back() != ':') {
      text_ += ',';
    }
  }

  std::string text_;
};

// An amount as users see it: of micro_usd, dollars as a decimal ("0.25"); else the number.
std::string amount_text(Unit unit, Amount amount);
// The unit as users see it: micro_usd is "usd".
std::string_view unit_text(Unit unit);

// For people: "350 ms", "4.2 s", "4 min 10 s", "3 h 5 min".
std::string span_text(Nanos span);

// "2026-11-15T22:46:09.120Z"
std::string iso_time(CalendarTime at);
// "Sun, 15 Nov 2026 22:46:09 GMT"
std::string http_date(CalendarTime at);

// Rounded up, so that who waits that long does not come too early.
constexpr std::int64_t ceil_ms(Nanos span) {
  return std::chrono::ceil<std::chrono::milliseconds>(span).count();
}
constexpr std::int64_t ceil_seconds(Nanos span) {
  return std::chrono::ceil<std::chrono::seconds>(span).count();
}

}  // namespace weir::server
