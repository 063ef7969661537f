#include <atomic>
#include <chrono>
#include <memory>
#include <semaphore>
#include <thread>

#include "fleet/rows.h"
#include "weir/fleet/distributed_limiter.h"

namespace weir::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int kRounds = 11;
constexpr int kAgents = 1'000;
constexpr double kHeardMaxMs = 100;

std::shared_ptr<MessageBus> connect(const Server& nats) {
  return must(
      connect_bus({.url = "nats://127.0.0.1:" + std::to_string(nats.port()), .name = "bench"}));
}

void await_subscribed(const MessageBus& bus) {
  while (!bus.status().subscribed) std::this_thread::sleep_for(std::chrono::milliseconds{1});
}

// A resource for each round, since a cut is not made twice in a window.
std::string resource(int round) { return "api-" + std::to_string(round); }

std::unique_ptr<DistributedLimiter> agent(DistributedLimiterConfig config) {
  auto limiter = must(DistributedLimiter::create(std::move(config)));
  for (int i = 0; i <= kRounds; ++i) {
    if (auto set = limiter->set_capacity(resource(i), 1'000, std::chrono::minutes{1}); !set) {
      die(set.error().message);
    }
  }
  return limiter;
}

}  // namespace

Row fanout(const Settings& settings) {
  const std::uint16_t port = free_port();
  const Server nats{settings.at("nats_server") + " -a 127.0.0.1 -p " + std::to_string(port), port};
  const auto bus = connect(nats);
  const auto far_bus = connect(nats);
  std::atomic<int> heard = 0;
  std::binary_semaphore all_heard{0};
  std::vector<std::unique_ptr<DistributedLimiter>> agents;
  for (int i = 0; i < kAgents; ++i) {
    agents.push_back(agent({.bus = bus,
                            .agent_id = "agent-" + std::to_string(i),
                            .on_capacity_change = [&](const CapacityChange&) {
                              if (heard.fetch_add(1) + 1 == kAgents) all_heard.release();
                            }}));
  }
  const auto far = agent({.bus = far_bus, .agent_id = "far"});
  await_subscribed(*bus);
  await_subscribed(*far_bus);

  std::vector<double> heard_ms;
  std::string text = "until 1,000 have heard, ms:";
  for (int i = 0; i <= kRounds; ++i) {  // the first is a warm-up
    heard = 0;
    const auto begin = SteadyClock::now();
    far->announce_reduced(resource(i), "429");
    if (!all_heard.try_acquire_for(std::chrono::seconds{10})) {
      die(std::to_string(heard) + " of 1,000 agents have heard of a reduction");
    }
    const std::chrono::duration<double, std::milli> elapsed = SteadyClock::now() - begin;
    text += ' ' + std::to_string(elapsed.count());
    if (i > 0) heard_ms.push_back(elapsed.count());
  }
  note(text);
  return smaller_is_better("fanout", median(heard_ms), kHeardMaxMs, "ms", 1, "100 ms");
}

}  // namespace weir::bench
