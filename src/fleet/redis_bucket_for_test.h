// A Redis for each test of the buckets, and what another program would see and write there.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "gate/real_time_for_test.h"
#include "redis/redis_for_test.h"
#include "weir/fleet/distributed_token_bucket.h"

namespace weir::fleet {

class RedisBucketTest : public testing::Test {
 protected:
  using Config = DistributedTokenBucket::Config;

  // A decision may take its time where the machine is busy; a freeze is noticed all the same.
  static constexpr Nanos kPatient = std::chrono::seconds{20};

  static Config config_of(const std::string& url) {
    return {.redis_url = url, .timeout = kPatient};
  }

  std::unique_ptr<DistributedTokenBucket> bucket(Amount capacity, double refill_rate) {
    Config config = config_of(server_.url());
    config.capacity = capacity;
    config.refill_rate = refill_rate;
    return DistributedTokenBucket::create(config, time_.source()).value();
  }

  template <class Condition>
  static void until(Condition condition) {
    while (!condition()) nap();
  }

  std::string cli(std::vector<std::string> words) const { return server_.cli(std::move(words)); }
  std::string field(const std::string& agent, const std::string& name) const {
    return cli({"HGET", "quota:" + agent + ":tokens", name});
  }
  double number(const std::string& agent, const std::string& name) const {
    return std::strtod(field(agent, name).c_str(), nullptr);
  }
  void write(const std::string& agent, const std::string& tokens, const std::string& last) const {
    cli({"HSET", "quota:" + agent + ":tokens", "tokens", tokens, "last_refill", last});
  }
  double redis_now() const {
    return std::strtod(cli({"EVAL",
                            "local t = redis.call('TIME') return t[1] .. '.' .. "
                            "string.format('%06d', t[2])",
                            "0"})
                           .c_str(),
                       nullptr);
  }
  std::int64_t ttl(const std::string& agent) const {
    return std::strtoll(cli({"TTL", "quota:" + agent + ":tokens"}).c_str(), nullptr, 10);
  }

  RealTime<> time_;
  redis::RedisServer server_;
};

}  // namespace weir::fleet
