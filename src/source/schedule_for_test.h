// A schedule in stepped time, with workers that ask their gates again.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "provider/resources_for_test.h"
#include "source/schedule.h"

namespace weir::source {

using namespace std::chrono_literals;
using enum Ending::Kind;

class ScheduleTest : public ::testing::Test {
 protected:
  void limit(const std::string& domain, Amount amount, Nanos period) {
    ProviderConfig config = provider(domain, {named("window", requests_each(amount, period))});
    config.domain = domain;
    providers.push_back(std::move(config));
    ASSERT_TRUE(resources.apply(providers));
  }
  void put(const std::string& name, const std::string& host, Nanos every = 1min) {
    ASSERT_TRUE(schedule.put({.name = name, .url = "https://" + host + "/x", .every = every}));
  }
  void put_many(int count, const std::string& host, Nanos every = 1min) {
    for (int i = 0; i < count; ++i) put(fmt::format("s{:05}", i), host, every);
  }
  // A worker that asks its gates again.
  Ending::Kind work(Task& task) {
    if (task.resource == nullptr) {
      schedule.admit(task);
      return kFetched;
    }
    auto route = task.resource->route(caller_of(*task.resource->config())).value();
    auto permit = route.path.try_acquire({.agent = kAgent}, time.now());
    if (!permit) return kRateLimitExceeded;
    schedule.admit(task);
    return kFetched;
  }
  Schedule::Change end(Task task, Ending::Kind kind, std::optional<Nanos> retry_after = {}) {
    return schedule.end(std::move(task), {kind, retry_after}, {.at = time.wall(), .status = 200});
  }
  // All that is queued is taken, asks and ends; who was fetched, in order.
  std::vector<std::string> run() {
    std::vector<std::string> fetched;
    while (auto task = schedule.take()) {
      const auto kind = work(*task);
      if (kind == kFetched) fetched.push_back(task->source->config.name);
      end(std::move(*task), kind);
    }
    return fetched;
  }
  std::vector<std::string> cycle() {
    schedule.cycle();
    return run();
  }
  std::string state(std::string_view name) {
    return std::string{schedule.view(*schedule.find(name)).state};
  }
  void use(const std::string& name, int count) {
    for (int i = 0; i < count; ++i) ASSERT_TRUE(resources.find(name)->gate().try_acquire({}));
  }

  SimulatedTime time;
  std::vector<ProviderConfig> providers;
  Resources resources{GateMaking{time.source()}};
  Schedule schedule{resources, time};
};

}  // namespace weir::source
