// Daemons as processes that share one quota, and callers who count what reached them.
//
// Real time, real sockets, a real Redis. Failures that are not the subject throw.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "app/killed_daemon_for_test.h"
#include "app/process_for_test.h"
#include "core/temporary_directory_for_test.h"
#include "fleet/settled_for_test.h"
#include "net/http_client.h"

namespace weir::app {

// Nobody waits that long, unless something is wrong.
inline void until(const std::string& what, const std::function<bool()>& condition) {
  const TimeSource time = TimeSource::system();
  const Instant end = time.clock.now() + std::chrono::seconds{40};
  while (!condition()) {
    if (time.clock.now() > end) throw std::runtime_error{"never: " + what};
    pause_for(std::chrono::milliseconds{5});
  }
}

class FleetDaemon {
 public:
  struct Answer {
    int status = 0;
    std::string body = {};
    boost::json::value json = {};

    std::string text(std::string_view key) const {
      return std::string{std::string_view{json.at({key.data(), key.size()}).as_string()}};
    }
  };

  // Returns when it is ready. Its output goes to `files` + ".out" and ".err".
  FleetDaemon(const std::string& main_file, const std::string& files)
      : process_({WEIR_PROGRAM, "start", "--config", main_file, "--log", "json"}, files) {
    until("the daemon starts", [this] {
      if (process_.ended()) throw std::runtime_error{"no daemon:\n" + log()};
      const std::string before = "\"address\":\"127.0.0.1:";
      const std::string said = log();
      const std::size_t at = said.find(before);
      if (at == said.npos || said.find('\n', at) == said.npos) return false;
      port_ = static_cast<std::uint16_t>(std::stoi(said.substr(at + before.size())));
      return true;
    });
  }

  std::uint16_t port() const { return port_; }
  std::string log() const { return process_.err(); }
  void kill() {
    process_.signal(SIGKILL);
    process_.wait();
  }
  // Its exit code.
  int stop() {
    process_.signal(SIGTERM);
    return process_.wait();
  }

  Answer call(net::HttpClient::Call call) const {
    call.timeout = std::chrono::minutes{1};
    net::HttpClient http{{.port = port_}};
    const auto response = http.call(call);
    if (!response) throw std::runtime_error{response.error().message};
    boost::json::error_code error;
    return {response->status, response->body, boost::json::parse(response->body, error)};
  }
  Answer get(const std::string& target) const { return call({.target = target}); }
  Answer post(const std::string& target, const std::string& body = {}) const {
    return call({.method = "POST", .target = target, .body = body});
  }
  // `more`: further fields, such as R"(,"wait_ms":100)".
  Answer acquire(const std::string& resource, const std::string& more = {}) const {
    return post("/v1/acquire", R"({"resource":")" + resource + '"' + more + '}');
  }
  int release(const std::string& permit) const {
    return call({.method = "DELETE", .target = "/v1/permits/" + permit}).status;
  }

  std::string state() const {
    const auto quota = get("/api/status").json.at("fleet").at("quota");
    return std::string{std::string_view{quota.at("state").as_string()}};
  }
  std::int64_t members(const std::string& resource) const {
    return get("/v1/resources/" + resource).json.at("share").at("members").as_int64();
  }
  // Of the resource's first limit: "leased", "reserve" or "free".
  Amount share(const std::string& resource, const std::string& key) const {
    const auto resources = get("/v1/resources/" + resource);
    return resources.json.at("share").at("limits").at(0).at(key).as_int64();
  }

 private:
  Process process_;
  std::uint16_t port_ = 0;
};

// Threads that acquire from one daemon again and again, until it is gone or they are to stop.
class Hammer {
 public:
  struct Options {
    int callers = 2;
    Nanos pace{0};  // between the calls of one
  };

  Hammer(const FleetDaemon& daemon, const std::string& resource, Options options)
      : port_(daemon.port()), body_(R"({"resource":")" + resource + "\"}") {
    for (int i = 0; i < options.callers; ++i) {
      threads_.emplace_back(
          [this, options](const std::stop_token& stop) { call(options.pace, stop); });
    }
  }
  Hammer(const FleetDaemon& daemon, const std::string& resource)
      : Hammer(daemon, resource, Options{}) {}

  Amount admitted() const { return admitted_; }
  Amount refused() const { return refused_; }          // by a limit
  Amount unavailable() const { return unavailable_; }  // 503

  void stop() {
    for (std::jthread& thread : threads_) thread.request_stop();
    threads_.clear();
    EXPECT_EQ(wrong_, 0) << "neither 200 nor 429 nor 503";
  }

 private:
  void call(Nanos pace, const std::stop_token& stop) {
    net::HttpClient http{{.port = port_}};
    while (!stop.stop_requested()) {
      const auto response = http.post("/v1/acquire", body_);
      if (!response) return;  // gone
      switch (response->status) {
        case 200: ++admitted_; break;
        case 429: ++refused_; break;
        case 503: ++unavailable_; break;
        default: ++wrong_;
      }
      if (pace > Nanos{0}) pause_for(pace);
    }
  }

  const std::uint16_t port_;
  const std::string body_;
  std::atomic<Amount> admitted_ = 0;
  std::atomic<Amount> refused_ = 0;
  std::atomic<Amount> unavailable_ = 0;
  std::atomic<Amount> wrong_ = 0;
  std::vector<std::jthread> threads_;  // the last: it ends before what it writes
};

class FleetTest : public ::testing::Test {
 protected:
  struct Member {
    std::string node;
    std::string fallback = "deny";
    std::string redis = {};  // empty: the shared one
    std::string bus = {};
  };

  // A provider file, read by every daemon when it starts or reloads.
  void provider(const std::string& name, const std::string& limits) {
    directory.write("providers/" + name + ".yaml",
                    "name: " + name + "\ndomain: " + name + ".example\n" + limits);
    names_.insert(name);
  }
  std::string main_file(const Member& member) {
    std::string text =
        "listen: 127.0.0.1:0\nproviders: [providers/]\nfleet:\n  timeout_ms: 1000\n  node: " +
        member.node + "\n  fallback: " + member.fallback + "\n  redis: \"" +
        (member.redis.empty() ? redis().url() : member.redis) + "\"\n";
    if (!member.bus.empty()) text += "  bus: \"" + member.bus + "\"\n";
    return directory.write(member.node + ".yaml", text);
  }
  std::unique_ptr<FleetDaemon> start(const Member& member) {
    if (member.redis.empty()) settle(redis());
    return std::make_unique<FleetDaemon>(main_file(member), directory.path(member.node));
  }
  std::vector<std::unique_ptr<FleetDaemon>> start_three() {
    std::vector<std::unique_ptr<FleetDaemon>> daemons;
    for (const char* node : {"a", "b", "c"}) daemons.push_back(start({.node = node}));
    return daemons;
  }
  // Has every provider's quota be of use at once: a Redis that has just been started is distrusted.
  void settle(const redis::RedisServer& server) const {
    for (const std::string& name : names_) fleet::settled(server, name);
  }
  // Takes one, as soon as the fleet gives any.
  static void admit_one(const FleetDaemon& daemon, const std::string& resource) {
    until("the first is admitted", [&] { return daemon.acquire(resource).status == 200; });
  }
  // Asks until there is a decision: a word of Redis that comes too late is none.
  static FleetDaemon::Answer decided(const FleetDaemon& daemon, const std::string& resource,
                                     const std::string& more = {}) {
    FleetDaemon::Answer answer;
    until("a decision", [&] {
      answer = daemon.acquire(resource, more);
      return answer.status != 503;
    });
    return answer;
  }
  // Takes until a block is held, which goes back when it is of no use for a second; how many.
  static Amount hold_a_block(const FleetDaemon& daemon, const std::string& resource) {
    Amount taken = 0;
    until("a block is held", [&] {
      if (daemon.share(resource, "leased") > 0) return true;
      taken += daemon.acquire(resource).status == 200 ? 1 : 0;
      return false;
    });
    return taken;
  }
  // Takes all there is, at least `wanted`, from a daemon.
  static Amount admit_all(const FleetDaemon& daemon, const std::string& resource, Amount wanted) {
    Hammer hammer{daemon, resource};
    until("all is used", [&] { return hammer.admitted() >= wanted; });
    const Amount refused = hammer.refused();
    until("refusals", [&] { return hammer.refused() > refused + 100; });
    hammer.stop();
    return hammer.admitted();
  }

  // One for all tests that do no harm to it: their resources have different names.
  static redis::RedisServer& redis() {
    static redis::RedisServer server;
    return server;
  }

  const TemporaryDirectory directory;

 private:
  std::set<std::string> names_;  // of the providers
};

}  // namespace weir::app
