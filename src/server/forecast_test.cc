#include "server/forecast.h"

#include <gtest/gtest.h>

#include <vector>

namespace weir::server {
namespace {

using namespace std::chrono_literals;

// Used up evenly from `from` to `to` within `span`, seen every 10 s.
std::vector<UseSample> rising(double from, double to, Nanos span) {
  std::vector<UseSample> samples;
  for (Nanos age = span; age >= 0s; age -= 10s) {
    const double passed = 1 - static_cast<double>(age.count()) / static_cast<double>(span.count());
    samples.push_back({age, from + (to - from) * passed});
  }
  return samples;
}

struct Case {
  const char* what;
  Quantity now;
  std::vector<UseSample> past;
  std::optional<Nanos> left;
};

TEST(ForecastTest, SaysHowLongAQuotaLasts) {
  const std::vector<Case> cases{
      {"half in an hour, as in the last minutes",
       {.used = 0.5, .period = 24h, .resets_in = 12h},
       rising(0.375, 0.5, 15min),
       1h},
      {"only the last 15 minutes count",
       {.used = 0.5, .period = 24h, .resets_in = 12h},
       rising(0, 0.5, 1h),
       1h},
      {"it resets before it ends",
       {.used = 0.5, .period = 24h, .resets_in = 59min},
       rising(0.375, 0.5, 15min),
       std::nullopt},
      {"it ends before it resets",
       {.used = 0.5, .period = 24h, .resets_in = 61min},
       rising(0.375, 0.5, 15min),
       1h},
      {"a bucket has no reset",
       {.used = 0.5, .period = 1h, .resets_in = std::nullopt},
       rising(0.25, 0.5, 10min),
       20min},
      {"a minute of history is enough",
       {.used = 0.1, .period = 1h, .resets_in = std::nullopt},
       rising(0, 0.1, 1min),
       9min},
      {"less is not",
       {.used = 0.1, .period = 1h, .resets_in = std::nullopt},
       rising(0, 0.1, 50s),
       std::nullopt},
      {"nobody uses it",
       {.used = 0.5, .period = 24h, .resets_in = 12h},
       rising(0.5, 0.5, 15min),
       std::nullopt},
      {"it recovers",
       {.used = 0.5, .period = 24h, .resets_in = std::nullopt},
       rising(0.6, 0.5, 15min),
       std::nullopt},
      {"it has ended", {.used = 1.2, .period = 24h, .resets_in = 2h}, rising(0.9, 1.2, 15min), 0s},
      {"nothing is known", {.used = 0.5, .period = 24h, .resets_in = 2h}, {}, std::nullopt},
      {"it lasts for years",
       {.used = 1e-9, .period = 24h, .resets_in = std::nullopt},
       rising(0, 1e-9, 15min),
       std::nullopt},
  };
  for (const Case& one : cases) {
    const auto left = time_left(one.now, one.past);
    ASSERT_EQ(left.has_value(), one.left.has_value()) << one.what;
    EXPECT_LE(std::chrono::abs(left.value_or(0s) - one.left.value_or(0s)), 2ms) << one.what;
  }
}

TEST(ForecastTest, WhatWasUsedBeforeTheResetDoesNotCount) {
  // It was full 5 minutes ago, began anew, and is used up at 1% a minute since.
  auto past = rising(0.9, 0.95, 10min);
  for (auto& sample : past) {
    if (sample.age <= 5min) sample.used = 0.05 - static_cast<double>(sample.age / 1s) / 6'000;
  }
  const Quantity now{.used = 0.05, .period = 24h, .resets_in = 24h - 5min};
  const auto left = time_left(now, past);
  ASSERT_TRUE(left);
  EXPECT_LE(std::chrono::abs(*left - 95min), 5s);
}

}  // namespace
}  // namespace weir::server
