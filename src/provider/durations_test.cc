#include "provider/durations.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

using namespace std::chrono_literals;
using std::chrono::sys_days;

constexpr CalendarTime kNow{sys_days{std::chrono::year{2026} / 11 / 16}};

TEST(DurationsTest, ReadsEveryFormInWhichProvidersWriteThem) {
  const std::pair<std::string_view, Nanos> rows[] = {
      {"1s", 1s},
      {"6m0s", 6min},
      {"12ms", 12ms},
      {"2m59.56s", 179'560ms},
      {"7.66s", 7'660ms},
      {"900ms", 900ms},
      {"34.07s", 34'070ms},
      {"2m 13s", 133s},
      {"5 minutes", 5min},
      {"1h2m3s", 3'723s},
      {"20", 20s},
      {"0.5", 500ms},
      {"1d2h", 26h},
      {"3 Seconds", 3s},
      {"34.074824224s", 34'074'824'224ns},
      {"0", 0s},
      {"1.0000000009", 1s},  // below a nanosecond
  };
  for (const auto& [text, duration] : rows) EXPECT_EQ(read_duration(text), duration) << text;
}

TEST(DurationsTest, WhatIsNoDurationIsNothing) {
  for (const std::string_view text : {"", "-1", "-1s", "+1", "NaN", "inf", "1e3", "0x10", "1.",
                                      ".5", "1s!", "1 x", "s", "1,5", "1s2", " ", "\xff\xfe"}) {
    EXPECT_EQ(read_duration(text), std::nullopt) << text;
  }
}

TEST(DurationsTest, WhatIsTooLargeIsTheLongestPeriod) {
  const std::string digits(1'000, '9');
  for (const std::string& text : {digits, digits + "d", digits + "." + digits + "h",
                                  std::string{"400d 400d 1ns"}, std::string{"401d"}}) {
    EXPECT_EQ(read_duration(text), kPeriodMax) << text;
  }
  EXPECT_EQ(read_amount(digits), kAmountMax);
  EXPECT_EQ(read_amount("42.9"), 42);
}

TEST(DurationsTest, AtTheFrontOfASentenceTheRestDoesNotMatter) {
  EXPECT_EQ(read_leading_duration("34.07s."), 34'070ms);
  EXPECT_EQ(read_leading_duration("2m 13s, then again"), 133s);
  EXPECT_EQ(read_leading_duration("5 seconds and 3 apples"), 5s);
  EXPECT_EQ(read_leading_duration("3 apples"), std::nullopt);
  EXPECT_EQ(read_leading_duration("30"), std::nullopt);
}

TEST(DurationsTest, ReadsDatesOfHttpAndOfRfc3339) {
  const CalendarTime expected{sys_days{std::chrono::year{1994} / 11 / 6} + 8h + 49min + 37s};
  for (const std::string_view text :
       {"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994", "1994-11-06T08:49:37Z", "1994-11-06T09:49:37+01:00"}) {
    EXPECT_EQ(read_date(text), expected) << text;
  }
  EXPECT_EQ(read_date("1994-11-06T08:49:37.25Z"), expected + 250ms);
  for (const std::string_view text :
       {"", "tomorrow", "infinite-future", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z",
        "1994-13-06T08:49:37Z", "1994-11-06"}) {
    EXPECT_EQ(read_date(text), std::nullopt) << text;
  }
}

TEST(DurationsTest, AResetIsADateAnEpochSecondsOrADuration) {
  const std::pair<std::string_view, Nanos> rows[] = {
      {"2026-11-16T00:01:00Z", 1min},
      {"1794787260", 60s},
      {"1794787260500", 60'500ms},
      {"60", 1min},
      {"1.5", 1'500ms},
      {"6m0s", 6min},
      {"99999999999999999999", kPeriodMax},
  };
  for (const auto& [text, expected] : rows) EXPECT_EQ(read_reset(text, kNow), expected) << text;
  for (const std::string_view past : {"1794787199", "2026-11-15T23:59:59Z", "-5", "", "soon"}) {
    EXPECT_EQ(read_reset(past, kNow), std::nullopt) << past;
  }
}

}  // namespace
}  // namespace weir
