#include "server/binding.h"

#include <gtest/gtest.h>

namespace weir::server {
namespace {

using namespace std::chrono_literals;

LimitStatus tokens(Amount available) {
  LimitStatus limit;
  limit.unit = Unit::kTokens;
  limit.amount = 10;
  limit.period = 1min;
  limit.capacity = 100;
  limit.available = available;
  return limit;
}

TEST(TimeUntil, IsWhatTheRateNeedsForWhatIsMissing) {
  EXPECT_EQ(time_until(tokens(40), Cost::of(Unit::kTokens, 60)), 2min);
  EXPECT_EQ(time_until(tokens(60), Cost::of(Unit::kTokens, 60)), 0s);
  EXPECT_EQ(time_until(tokens(0), Cost::of(Unit::kRequests, 1)), 0s);
}

TEST(TimeUntil, IsTheEndOfTheWindowWhereThereIsOne) {
  LimitStatus limit = tokens(0);
  limit.resets_in = 5s;
  EXPECT_EQ(time_until(limit, Cost::of(Unit::kTokens, 60)), 5s);
}

TEST(TimeUntil, StaysInRangeForTheLargestDebt) {
  LimitStatus limit = tokens(-kAmountMax);
  limit.amount = 1;
  limit.period = 24h;
  EXPECT_EQ(time_until(limit, Cost::of(Unit::kTokens, 1)), kPeriodMax);
}

}  // namespace
}  // namespace weir::server
