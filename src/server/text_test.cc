#include "server/text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weir::server {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;

std::string json_of(std::string_view text) {
  std::string out;
  append_json(out, text);
  return out;
}

TEST(Text, EscapesWhatJsonWantsEscaped) {
  struct Row {
    std::string text, json;
  };
  for (const Row& row : std::vector<Row>{{"", R"("")"},
                                         {"plain", R"("plain")"},
                                         {"a\"b\\c", R"("a\"b\\c")"},
                                         {"a\nb", R"("a\nb")"},
                                         {"a\r\tb", R"("a\u000d\u0009b")"},
                                         {"\0"s, R"("\u0000")"},
                                         {"\x1f\x7f", R"("\u001f\u007f")"},
                                         {"</script>", R"("</script>")"}}) {
    EXPECT_EQ(json_of(row.text), row.json);
  }
}

TEST(Text, KeepsUtf8AndReplacesWhatIsNot) {
  for (const std::string good : {"\xC2\x80", "\xC3\xA9", "\xDF\xBF", "\xE0\xA0\x80", "\xE2\x82\xAC",
                                 "\xED\x9F\xBF", "\xEE\x80\x80", "\xEF\xBF\xBF", "\xF0\x90\x80\x80",
                                 "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(json_of("<" + good + ">"), "\"<" + good + ">\"");
  }
  const std::string sign = "\xEF\xBF\xBD";
  struct Row {
    std::string text;
    int signs;
  };
  for (const Row& row : std::vector<Row>{{"\x80", 1},
                                         {"\xC0\x80", 2},  // NUL in two bytes
                                         {"\xC1\xBF", 2},
                                         {"\xE0\x80\x80", 3},      // too long
                                         {"\xED\xA0\x80", 3},      // a surrogate
                                         {"\xF0\x80\x80\x80", 4},  // too long
                                         {"\xF4\x90\x80\x80", 4},  // beyond the last
                                         {"\xF5\x80\x80\x80", 4},
                                         {"\xFF", 1},
                                         {"\xE2\x82", 2},  // cut short
                                         {"\xF0\x9F\x98", 3}}) {
    std::string expected = "\"<";
    for (int i = 0; i < row.signs; ++i) expected += sign;
    EXPECT_EQ(json_of("<" + row.text + ">"), expected + ">\"");
    EXPECT_EQ(json_of("<" + row.text), expected + "\"");
  }
}

TEST(Text, PutsCommasWhereTheyBelong) {
  JsonText json;
  json.open('{').key("empty").open('{').close('}').key("none").open('[').close(']');
  json.key("list").open('[').number(1).text("[").text("{:").boolean(true).raw("null");
  json.open('{').key("a:").number(-5).key("b").raw("0.5").close('}').open('[').close(']');
  json.close(']').key("last").text(",").close('}');
  EXPECT_EQ(
      json.str(),
      R"({"empty":{},"none":[],"list":[1,"[","{:",true,null,{"a:":-5,"b":0.5},[]],"last":","})");
}

TEST(Text, ShowsDollarsAsDecimals) {
  struct Row {
    Unit unit;
    Amount amount;
    std::string text;
  };
  using enum Unit;
  for (const Row& row : std::vector<Row>{{kMicroUsd, 250'000, "0.25"},
                                         {kMicroUsd, -500'000, "-0.5"},
                                         {kMicroUsd, 50'000'000, "50"},
                                         {kMicroUsd, 1, "0.000001"},
                                         {kMicroUsd, -1, "-0.000001"},
                                         {kMicroUsd, 0, "0"},
                                         {kMicroUsd, 100'000'001, "100.000001"},
                                         {kMicroUsd, kAmountMax, "1000000000"},
                                         {kTokens, 250'000, "250000"},
                                         {kRequests, -3, "-3"}}) {
    EXPECT_EQ(amount_text(row.unit, row.amount), row.text);
  }
  EXPECT_EQ(unit_text(kMicroUsd), "usd");
  EXPECT_EQ(unit_text(kInputTokens), "input_tokens");
}

TEST(Text, WritesTimesOfTheCalendar) {
  using namespace std::chrono;
  struct Row {
    CalendarTime at;
    std::string iso, http;
  };
  const auto day = [](int y, unsigned m, unsigned d) {
    return CalendarTime{sys_days{year{y} / month{m} / std::chrono::day{d}}};
  };
  for (const Row& row : std::vector<Row>{
           {day(2026, 11, 15) + 22h + 46min + 9s + 120ms, "2026-11-15T22:46:09.120Z",
            "Sun, 15 Nov 2026 22:46:09 GMT"},
           {day(1970, 1, 1), "1970-01-01T00:00:00.000Z", "Thu, 01 Jan 1970 00:00:00 GMT"},
           {day(2024, 2, 29) + 24h - 1ns, "2024-02-29T23:59:59.999Z",
            "Thu, 29 Feb 2024 23:59:59 GMT"},
           {day(2025, 1, 1), "2025-01-01T00:00:00.000Z", "Wed, 01 Jan 2025 00:00:00 GMT"},
           {day(1969, 12, 31) + 24h - 1ms, "1969-12-31T23:59:59.999Z",
            "Wed, 31 Dec 1969 23:59:59 GMT"}}) {
    EXPECT_EQ(iso_time(row.at), row.iso);
    EXPECT_EQ(http_date(row.at), row.http);
  }
}

TEST(Text, RoundsWaitsUp) {
  EXPECT_EQ(ceil_ms(0ns), 0);
  EXPECT_EQ(ceil_ms(1ns), 1);
  EXPECT_EQ(ceil_ms(1ms), 1);
  EXPECT_EQ(ceil_ms(1ms + 1ns), 2);
  EXPECT_EQ(ceil_seconds(1ms), 1);
  EXPECT_EQ(ceil_seconds(60s), 60);
}

TEST(SpanText, IsAsLongAsItIsWorth) {
  using namespace std::chrono_literals;
  EXPECT_EQ(span_text(0s), "0 ms");
  EXPECT_EQ(span_text(4200us), "4.2 ms");
  EXPECT_EQ(span_text(350ms), "350 ms");
  EXPECT_EQ(span_text(12'340ms), "12.3 s");
  EXPECT_EQ(span_text(1s), "1 s");
  EXPECT_EQ(span_text(59'960ms), "60 s");
  EXPECT_EQ(span_text(1min), "1 min");
  EXPECT_EQ(span_text(24h), "24 h");
  EXPECT_EQ(span_text(250s), "4 min 10 s");
  EXPECT_EQ(span_text(3h + 5min), "3 h 5 min");
}

}  // namespace
}  // namespace weir::server
