// The rows of throughput and latency: the same requests to the same upstream, through each proxy.
#include <algorithm>
#include <span>

#include "proxy/open_loop.h"
#include "proxy/proxies.h"
#include "proxy/rows.h"

namespace weir::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kRounds = 5;
constexpr int kConnections = 50;
constexpr int kSeconds = 3;
// More and shorter: what disturbs a percentile comes now and then.
constexpr int kLatencyRounds = 11;
constexpr std::chrono::seconds kLatencyRound{1};
// A difference of two percentiles can come out as nothing, or less. A microsecond is less than
// either proxy can do.
constexpr double kAddedMinUs = 1;

struct Side {
  std::string name;
  const Server& server;
  Call call;
  std::string options = {};  // of wrk
  std::vector<double> per_second = {};
};

void measure_throughput(const Settings& settings, std::span<Side> sides) {
  const auto wrk = [&](const Side& side, int seconds) {
    // Portkey's answers take longer than the two seconds that wrk waits.
    return Wrk{settings.at("wrk") + " --timeout 30s" + side.options, kConnections, seconds}
        .run(side.server.port(), side.call)
        .per_second;
  };
  for (const Side& side : sides) wrk(side, 1);
  for (int i = 1; i <= kRounds; ++i) {
    std::string text = "requests a second, round " + std::to_string(i) + ":";
    for (Side& side : sides) {
      const double cpu_seconds = side.server.cpu_seconds();
      side.per_second.push_back(wrk(side, kSeconds));
      text += ' ' + side.name + ' ' + round(side.per_second.back());
      const double share = (side.server.cpu_seconds() - cpu_seconds) / kSeconds;
      if (share > 0.01) text += " with " + round(100 * share) + "% of its core";  // no nginx master
    }
    note(text);
  }
}

Row added_p99(std::span<const Side> sides, double per_second) {
  // Of the upstream itself, of nginx and of ours.
  std::vector<double> p99_us[3];
  note("latency at " + round(per_second) + " requests a second");
  for (int i = 1; i <= kLatencyRounds; ++i) {
    std::string text = "p99, round " + std::to_string(i) + ":";
    for (std::size_t side = 0; side < 3; ++side) {
      const std::vector<double> took = open_loop(
          sides[side].server.port(), sides[side].call,
          {.per_second = per_second, .lasting = kLatencyRound, .connections = kConnections});
      p99_us[side].push_back(took[took.size() * 99 / 100]);
      text += ' ' + sides[side].name + ' ' + round(p99_us[side].back()) + " us (p50 " +
              round(took[took.size() / 2]) + ')';
    }
    note(text);
  }
  const double direct = median(p99_us[0]);
  const auto added = [&](std::size_t side) {
    return std::max(median(p99_us[side]) - direct, kAddedMinUs);
  };
  return smaller_is_better("proxy_p99", added(2), added(1), "us", 0.7, "nginx");
}

}  // namespace

std::vector<Row> forwarding(const Settings& settings) {
  const fs::path scratch = empty_directory(settings);
  const Server upstream = start_upstream(settings, scratch);
  const Server nginx = start_nginx(settings, scratch, upstream.port());
  const Server weir = start_weir_proxy(settings, scratch, upstream.port());

  Side nginx_side{"nginx", nginx, chat("/proxy/bench/v1/items")};
  Side generic_side{"generic", weir, chat("/proxy/generic/v1/items")};
  std::vector<Row> rows;
  {
    const Server portkey = start_portkey(settings);
    Side sides[] = {
        nginx_side,
        generic_side,
        {"openai", weir, chat("/proxy/openai/v1/chat/completions")},
        {"portkey", portkey, chat("/v1/chat/completions"), portkey_fields(upstream.port())},
    };
    measure_throughput(settings, sides);
    const auto figure = [&](std::size_t side) { return median(sides[side].per_second); };
    rows = {
        larger_is_better("proxy_rps", figure(1), figure(0), "req/s", 1, "nginx"),
        larger_is_better("proxy_llm_rps", figure(2), figure(0), "req/s", 0.3, "nginx"),
        larger_is_better("proxy_portkey", figure(2), figure(3), "req/s", 10, "portkey"),
    };
  }
  const Side sides[] = {{"direct", upstream, nginx_side.call}, nginx_side, generic_side};
  rows.push_back(added_p99(sides, rows.front().peer / 2));
  return rows;
}

}  // namespace weir::bench
