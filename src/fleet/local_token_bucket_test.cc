#include "weir/fleet/local_token_bucket.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>

#include "gate/real_time_for_test.h"
#include "weir/time/simulated_time.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using Config = LocalTokenBucket::Config;
using Scope = LocalTokenBucket::Scope;

class LocalTokenBucketTest : public testing::Test {
 protected:
  std::unique_ptr<LocalTokenBucket> bucket(const Config& config) {
    return LocalTokenBucket::create(config, time_).value();
  }
  Error error_of(const Config& config) {
    auto made = LocalTokenBucket::create(config, time_);
    EXPECT_FALSE(made);
    return made ? Error{} : made.error();
  }

  SimulatedTime time_;
};

// S2.3
TEST_F(LocalTokenBucketTest, GivesEachAgentABucketOfItsOwn) {
  const auto bucket = this->bucket({.capacity = 10, .refill_rate = 2.0});
  EXPECT_TRUE(*bucket->acquire("a", 10));
  EXPECT_FALSE(*bucket->acquire("a", 1));
  EXPECT_TRUE(*bucket->acquire("b", 10));
}

// S2.3
TEST_F(LocalTokenBucketTest, GivesAllAgentsOneBucketIfSetSo) {
  const auto bucket =
      this->bucket({.capacity = 10, .refill_rate = 2.0, .scope = Scope::kAllAgents});
  EXPECT_TRUE(*bucket->acquire("a", 6));
  EXPECT_FALSE(*bucket->acquire("b", 5));
  EXPECT_EQ(bucket->available_tokens("c"), 4);
  EXPECT_TRUE(*bucket->acquire("b", 4));
  EXPECT_FALSE(*bucket->acquire("a", 1));
}

TEST_F(LocalTokenBucketTest, RefillsAtItsRateUpToItsCapacity) {
  const auto bucket = this->bucket({.capacity = 10, .refill_rate = 2.0});
  EXPECT_EQ(bucket->available_tokens("a"), 10);
  EXPECT_TRUE(*bucket->acquire("a", 10));
  time_.advance(499ms);
  EXPECT_FALSE(*bucket->acquire("a", 1));
  time_.advance(1ms);
  EXPECT_EQ(bucket->available_tokens("a"), 1);
  EXPECT_TRUE(*bucket->acquire("a", 1));
  time_.advance(1h);
  EXPECT_EQ(bucket->available_tokens("a"), 10);
}

TEST_F(LocalTokenBucketTest, ResetFillsTheBucketHoweverOften) {
  const auto bucket = this->bucket({.capacity = 10, .refill_rate = 0.001, .agents_max = 1});
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(bucket->acquire("a", 7).value());
    ASSERT_TRUE(bucket->reset("a"));
    ASSERT_EQ(bucket->available_tokens("a"), 10);
  }
  EXPECT_TRUE(bucket->reset("unknown"));
}

TEST_F(LocalTokenBucketTest, RefusesWhatCanNeverBeAdmitted) {
  const auto bucket = this->bucket({.capacity = 10});
  EXPECT_EQ(bucket->acquire("a", 0).error(), Errc::kInvalidCost);
  EXPECT_EQ(bucket->acquire("a", -3).error().message, "tokens must be at least 1: -3");
  EXPECT_EQ(bucket->acquire("a", 11).error(), Errc::kNeverFits);
  EXPECT_EQ(bucket->acquire("a", 11).error().message,
            "11 tokens are more than the bucket holds, 10");
  EXPECT_EQ(bucket->available_tokens("a"), 10);
}

// S2.7
TEST_F(LocalTokenBucketTest, RefusesIdsThatCannotBe) {
  const auto bucket = this->bucket({});
  for (const std::string_view bad : {"", "a b", "a\n", "{a}", "\xc3\xa9"}) {
    EXPECT_EQ(bucket->acquire(bad, 1).error(), Errc::kInvalidConfig) << bad;
    EXPECT_EQ(bucket->available_tokens(bad).error(), Errc::kInvalidConfig) << bad;
    EXPECT_EQ(bucket->reset(bad).error(), Errc::kInvalidConfig) << bad;
  }
}

TEST_F(LocalTokenBucketTest, SaysWhenThereIsNoRoomForAnotherAgentUntilBucketsAreFull) {
  const auto bucket = this->bucket({.capacity = 10, .refill_rate = 1.0, .agents_max = 4});
  Result<bool> got = true;
  for (int i = 0; got && i < 1000; ++i) got = bucket->acquire("agent" + std::to_string(i), 10);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error(), Errc::kCapacityExhausted);
  EXPECT_FALSE(*bucket->acquire("agent0", 1));  // remembered
  time_.advance(10s + 1ns);
  EXPECT_TRUE(bucket->acquire("another", 10).value());
}

TEST_F(LocalTokenBucketTest, NamesTheValueItCannotUse) {
  EXPECT_EQ(error_of({.capacity = 0}), Errc::kInvalidConfig);
  EXPECT_EQ(error_of({.capacity = 0}).message, "capacity must be from 1 to 1000000000000000: 0");
  EXPECT_EQ(error_of({.refill_rate = -1.5}).message,
            "refill_rate must be above 0 and at most 1000000000 tokens a second: -1.5");
  EXPECT_EQ(error_of({.refill_rate = std::nan("")}), Errc::kInvalidConfig);
  EXPECT_EQ(error_of({.refill_rate = std::numeric_limits<double>::infinity()}),
            Errc::kInvalidConfig);
  EXPECT_EQ(error_of({.refill_rate = 1e-9}).message,
            "refill_rate must fill a capacity of 1000 within 400 days: 1e-09");
  EXPECT_EQ(error_of({.agents_max = 0}), Errc::kInvalidConfig);
}

TEST_F(LocalTokenBucketTest, KeepsToAnyRate) {
  for (const double rate :
       {1e-6, 0.1, 0.7, 1.0 / 3, 3.0, 10.0, 99'991.5, 1e6 / 3, 1e9 / 7, 3e8, 1e9}) {
    const auto capacity = static_cast<Amount>(std::ceil(rate));
    const auto bucket = this->bucket({.capacity = capacity, .refill_rate = rate});
    ASSERT_TRUE(*bucket->acquire("a", capacity)) << rate;
    const double fill = std::ceil(static_cast<double>(capacity) / rate * 1e9);
    time_.advance(Nanos{static_cast<std::int64_t>(fill * 0.999)});
    EXPECT_FALSE(*bucket->acquire("a", capacity)) << rate;
    time_.advance(Nanos{static_cast<std::int64_t>(fill * 0.011)} + 1ns);
    EXPECT_TRUE(*bucket->acquire("a", capacity)) << rate;
  }
}

TEST_F(LocalTokenBucketTest, AdmitsNoMoreThanItHoldsInManyThreads) {
  RealTime real;
  const auto bucket =
      LocalTokenBucket::create({.capacity = 1000, .refill_rate = 1e-4}, real.clock).value();
  std::atomic<Amount> admitted = 0;
  in_threads(4, [&](int) {
    for (int i = 0; i < 2000; ++i) admitted += *bucket->acquire("a", 1) ? 1 : 0;
  });
  EXPECT_EQ(admitted, 1000);
}

}  // namespace
}  // namespace weir
