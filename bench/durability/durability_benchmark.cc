// `bench/run durability`: what it costs to keep state, and what a kill costs. README.md says how
// each figure is measured.
#include <cstdlib>

#include "app/kill_campaign_for_test.h"
#include "daemon/servers.h"
#include "daemon/settings.h"
#include "harness.h"

namespace weir::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kRounds = 5;
constexpr int kResources = 1'000;
constexpr int kKills = 300;
constexpr Amount kBlockMin = 10;
constexpr double kLossMax = 0.6;  // of a block
constexpr int kRows = 1'000'000;
constexpr double kStartMaxMs = 3'000;

Row lost(const Settings& settings) {
  const fs::path scratch = empty_directory(settings);
  int quotas = 0;
  const app::KillReport report =
      app::KillCampaign{{.program = settings.at("weir"),
                         .directory = scratch.string(),
                         .new_store = [&] { return scratch / (std::to_string(++quotas) + ".db"); },
                         .kills = kKills,
                         .limit = 1'000'000}}
          .run();
  note("kills: " + std::to_string(report.kills) + ", quotas: " + std::to_string(report.quotas) +
       ", admitted " + std::to_string(report.admitted) + "; lost in one kill " +
       round(report.mean_loss()) + " on average and at most " + std::to_string(report.max_loss()) +
       ", of blocks of " + round(report.mean_block()));
  if (report.over > 0 || report.max_gain() > 0) die("a kill let too much be admitted");
  if (report.mean_block(kBlockMin) == 0) die("no block was as large as 10");
  return smaller_is_better("lost", report.mean_loss(kBlockMin),
                           kLossMax * report.mean_block(kBlockMin), "units", 1, "0.6 blocks");
}

fs::path many_providers(const fs::path& scratch) {
  const fs::path directory = scratch / "providers";
  fs::create_directory(directory);
  for (int i = 0; i < kResources; ++i) {
    const std::string name = "r" + std::to_string(i);
    write(directory / (name + ".yaml"),
          "name: " + name + "\ndomain: " + name + ".example\nlimit: 100000\nperiod: 1m\n");
  }
  return directory;
}

std::string store_in(const fs::path& path) { return "--store " + path.string(); }

std::vector<Row> throughput(const Settings& settings) {
  const fs::path scratch = empty_directory(settings);
  const fs::path providers = many_providers(scratch);
  const auto weir = [&](const std::string& options) {
    return start_weir(settings.at("weir"), providers, options);
  };
  struct Side {
    std::string name;
    Server server;
    std::vector<double> per_second{};
  };
  Side sides[] = {
      Side{"none", weir("--durability none")},
      Side{"process", weir("--sync process " + store_in(scratch / "process.db"))},
      Side{"power", weir("--sync power " + store_in(scratch / "power.db"))},
  };
  const Call call{"POST", "/v1/acquire", R"({"resource":"r@"})", kResources};
  const Wrk warm_up{settings.at("wrk"), 50, 1};
  for (const Side& side : sides) warm_up.run(side.server.port(), call);
  const Wrk wrk{settings.at("wrk"), 50, 3};
  for (int i = 1; i <= kRounds; ++i) {
    std::string text = "requests a second, round " + std::to_string(i) + ":";
    for (Side& side : sides) {
      const double cpu_seconds = side.server.cpu_seconds();
      side.per_second.push_back(wrk.run(side.server.port(), call).per_second);
      text += ' ' + side.name + ' ' + round(side.per_second.back()) + " with " +
              round(100 * (side.server.cpu_seconds() - cpu_seconds) / wrk.seconds) +
              "% of its core";
    }
    note(text);
  }
  const auto figure = [&](std::size_t side) { return median(sides[side].per_second); };
  return {
      larger_is_better("durable", figure(1), figure(0), "req/s", 0.8, "durability: none"),
      larger_is_better("durable_power", figure(2), figure(0), "req/s", 0.6, "durability: none"),
  };
}

Call acquire_as(const std::string& agent) {
  return {"POST", "/v1/acquire", R"({"resource":"bench","agent":")" + agent + R"("})"};
}

void run_sql(const Settings& settings, const fs::path& database, const std::string& sql) {
  const std::string command = settings.at("sqlite3") + ' ' + database.string() + " \"" + sql + '"';
  if (std::system(command.c_str()) != 0) die("failed: " + command);
}

// Each agent has used the one call that it has in a day.
Row start_rows(const Settings& settings) {
  const fs::path scratch = empty_directory(settings);
  const fs::path provider = scratch / "bench.yaml";
  const fs::path database = scratch / "rows.db";
  write(provider,
        "name: bench\ndomain: bench.example\nagents:\n  default: {limit: 1, period: 1d}\n");
  const auto weir = [&] { return start_weir(settings.at("weir"), provider, store_in(database)); };
  {
    const Server server = weir();
    if (!ask(server.port(), acquire_as("a0"))) die("an agent was refused its first call");
  }
  const std::string columns =
      "unit, algorithm, amount, period_ns, burst, at_ns, used, previous, slots, expires_ns";
  run_sql(settings, database,
          "WITH RECURSIVE agents(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM agents WHERE i < " +
              std::to_string(kRows - 1) + ") INSERT INTO weir_limits (gate, name, " + columns +
              ") SELECT 'bench agent a' || i, name, " + columns +
              " FROM weir_limits, agents WHERE gate = 'bench agent a0'");
  std::vector<double> start_ms;
  for (int i = 1; i <= kRounds; ++i) {
    const Server server = weir();
    start_ms.push_back(server.start_ms());
    note("start, round " + std::to_string(i) + ": " + round(start_ms.back()) + " ms, " +
         round(server.resident_mib()) + " MiB");
    for (const int agent : {1, kRows / 2, kRows - 1}) {
      if (ask(server.port(), acquire_as("a" + std::to_string(agent)))) {
        die("a row was not read: its agent was admitted");
      }
    }
  }
  fs::remove_all(scratch);
  return smaller_is_better("start_rows", median(start_ms), kStartMaxMs, "ms", 1, "3 s");
}

std::vector<Row> measure(const Settings& settings) {
  const Row loss = lost(settings);  // with both cores for both
  take_sides();
  std::vector<Row> rows = throughput(settings);
  rows.push_back(loss);
  rows.push_back(start_rows(settings));
  return rows;
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  using namespace weir::bench;
  const Arguments arguments = read_arguments(argc, argv, {"scratch", "weir", "wrk", "sqlite3"});
  print(measure(arguments.settings), arguments.format);
}
