// For tests of the client against real servers.
#pragma once

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gate/real_time_for_test.h"
#include "redis/client.h"
#include "redis/redis_for_test.h"

namespace weir::redis {

using namespace std::chrono_literals;

class ClientTest : public testing::Test {
 protected:
  using Answer = Result<net::RespValue>;

  std::shared_ptr<Client> connect(Options options) {
    return Client::create(std::move(options), time_.source()).value();
  }
  std::shared_ptr<Client> connect(const std::string& url) { return connect(options(url)); }
  static Options options(const std::string& url) {
    Options made;
    made.url = url;
    return made;
  }

  Instant now() const { return time_.clock.now(); }
  Instant in(Nanos time) const { return now() + time; }

  Answer ask(Client& client, std::vector<std::string> words) const {
    const std::string key = words.size() > 1 ? words[1] : "";
    return client.ask(key, std::move(words), in(10s));
  }
  // As text, whatever it is; a failure as its name.
  std::string say(Client& client, std::vector<std::string> words) const {
    return as_text(ask(client, std::move(words)));
  }
  static std::string as_text(const Answer& answer) {
    if (!answer) return std::string{name(answer.error().code)};
    switch (answer->kind) {
      case net::RespValue::Kind::kInteger: return std::to_string(answer->integer);
      case net::RespValue::Kind::kNull: return "null";
      default: return answer->text;
    }
  }
  Answer run(Client& client, const Script& script, std::vector<std::string> keys,
             std::vector<std::string> args) const {
    std::promise<Answer> promise;
    client.run(script, std::move(keys), std::move(args), in(10s),
               [&promise](Answer answer) { promise.set_value(std::move(answer)); });
    return promise.get_future().get();
  }

  RealTime<> time_;
};

}  // namespace weir::redis
