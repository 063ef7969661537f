// ScriptBook: lease.lua on a real server, told the time.
#pragma once

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <utility>

#include "fleet/redis_book.h"
#include "gate/real_time_for_test.h"
#include "redis/client.h"
#include "redis/redis_for_test.h"

namespace weir::fleet {

class ScriptBook {
 public:
  ScriptBook()
      : client_(
            redis::Client::create({.url = server_.url(), .ca_file = {}}, time_.source()).value()),
        script_(told_the_time(lease_script().text())) {
    while (!client_->status().up) nap();
  }

  Result<LeaseAnswer> decide(const LeaseCall& call, Micros now) {
    std::vector<std::string> args = encode(call);
    args.push_back(std::to_string(now));
    const auto reply = run(book_keys(call.gate), std::move(args));
    if (!reply) return std::unexpected(reply.error());
    return decode(*reply, call.asks.size());
  }

  // With the arguments as they are; the last one is the time.
  Result<net::RespValue> run(std::vector<std::string> keys, std::vector<std::string> args) {
    std::promise<Result<net::RespValue>> promise;
    auto reply = promise.get_future();
    client_->run(script_, std::move(keys), std::move(args), deadline(),
                 [&promise](Result<net::RespValue> value) { promise.set_value(std::move(value)); });
    return reply.get();
  }
  net::RespValue command(std::vector<std::string> words) {
    return client_->ask("", std::move(words), deadline()).value();
  }

 private:
  Instant deadline() { return time_.clock.now() + std::chrono::seconds{30}; }

  static std::string told_the_time(std::string text) {
    const std::string clock = "redis.call('TIME')";
    const auto at = text.find(clock);
    EXPECT_NE(at, std::string::npos);
    EXPECT_EQ(text.find(clock, at + 1), std::string::npos) << "one clock, read once";
    return text.replace(at, clock.size(), "{0, table.remove(ARGV)}");
  }

  RealTime<> time_;
  redis::RedisServer server_;
  std::shared_ptr<redis::Client> client_;
  redis::Script script_;
};

}  // namespace weir::fleet
