#include "weir/control/backoff.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace weir {
namespace {

using namespace std::chrono_literals;

Backoff make(const Backoff::Config& config, std::uint64_t seed = 1) {
  return Backoff::create(config, seed).value();
}

std::vector<Nanos> draw(Backoff backoff, int count) {
  std::vector<Nanos> delays;
  for (int i = 0; i < count; ++i) delays.push_back(backoff.next());
  return delays;
}

// S1.8
TEST(BackoffTest, DoublesItsCeilingUpToTheLongestDelay) {
  Backoff backoff = make({.initial = 100ms, .factor = 2, .max_delay = 1s});
  for (const Nanos ceiling : {100ms, 200ms, 400ms, 800ms, 1000ms, 1000ms}) {
    EXPECT_EQ(backoff.ceiling(), ceiling);
    const Nanos delay = backoff.next();
    EXPECT_GE(delay, 0ns);
    EXPECT_LE(delay, ceiling);
  }
}

TEST(BackoffTest, CountsFactorsToTheMillionth) {
  Backoff backoff = make({.initial = 1s, .factor = 1.000001, .max_delay = 1h});
  backoff.next();
  EXPECT_EQ(backoff.ceiling(), 1s + 1us);
}

TEST(BackoffTest, TheLongestDelaysDoNotOverflow) {
  Backoff backoff = make({.initial = kPeriodMax, .factor = Factor::kMax, .max_delay = kPeriodMax});
  for (int i = 0; i < 3; ++i) {
    EXPECT_LE(backoff.next(), kPeriodMax);
    EXPECT_EQ(backoff.ceiling(), kPeriodMax);
  }
}

TEST(BackoffTest, SpreadsDelaysOverTheWholeInterval) {
  const auto delays = draw(make({.initial = 9ns, .factor = 1, .max_delay = 9ns}), 10'000);
  for (Nanos delay = 0ns; delay <= 9ns; ++delay) {
    EXPECT_NEAR(static_cast<double>(std::ranges::count(delays, delay)), 1000, 150);
  }
}

TEST(BackoffTest, TheSameSeedGivesTheSameDelaysAndAnotherDoesNot) {
  const Backoff backoff = make({}, 42);
  EXPECT_EQ(draw(backoff, 20), draw(make({}, 42), 20));
  EXPECT_EQ(draw(backoff, 20), draw(make({}, 7).with_seed(42), 20));
  EXPECT_NE(draw(backoff, 20), draw(make({}, 43), 20));
}

TEST(BackoffTest, RefusesWhatIsOutOfRangeAndNamesIt) {
  const struct {
    Backoff::Config config;
    const char* names;
  } rows[] = {
      {{.initial = 0ns}, "initial"},
      {{.initial = 2s, .max_delay = 1s}, "not 2000000000 ns"},
      {{.factor = 0.5}, "factor must be from 1 to 10^6, not 0.5"},
      {{.factor = 2e6}, "not 2000000"},
      {{.factor = std::numeric_limits<double>::quiet_NaN()}, "not nan"},
      {{.max_delay = 0s}, "max_delay"},
      {{.max_delay = kPeriodMax + 1ns}, "not 34560000000000001 ns"},
  };
  for (const auto& row : rows) {
    const auto made = Backoff::create(row.config, 1);
    ASSERT_FALSE(made.has_value()) << row.names;
    EXPECT_EQ(made.error(), Errc::kInvalidConfig);
    EXPECT_NE(made.error().message.find(row.names), std::string::npos) << made.error().message;
  }
}

}  // namespace
}  // namespace weir
