// tools/kills: a kill campaign of any length (src/app/kill_campaign_for_test.h).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "app/kill_campaign_for_test.h"
#include "store/postgresql_for_test.h"

namespace weir::app {
namespace {

constexpr Amount kBlockMin = 10;  // a smaller one says little about the part of it that is lost

// A large quota has large blocks; of a small one, hardly a moment is without a commit.
struct Quota {
  Amount limit;
  Nanos life_max;
};
constexpr Quota kQuotas[] = {{1'000'000, std::chrono::milliseconds{150}},
                             {1'000, std::chrono::milliseconds{20}}};

struct What {
  int kills = 0;
  std::string store = "sqlite";
  std::string sync = "process";
  std::string durability = "exact";
};

// Ends with its contents.
struct Directory {
  Directory() { std::filesystem::create_directories(path); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  ~Directory() { std::filesystem::remove_all(path); }

  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / fmt::format("weir-kills-{}", getpid());
};

KillReport run(const What& what, const Quota& quota) {
  const Directory directory;
  int databases = 0;
  KillCampaign::Options options{.program = WEIR_PROGRAM,
                                .directory = directory.path,
                                .durability = what.durability,
                                .sync = what.sync,
                                .kills = (what.kills + 1) / 2,
                                .limit = quota.limit,
                                .life_max = quota.life_max};
  options.new_store = [&]() -> std::string {
    if (what.store == "postgresql") return store::PostgresqlForTest::shared().make_database();
    return directory.path / fmt::format("{}.db", ++databases);
  };
  if (isatty(STDERR_FILENO) != 0) {
    options.after_kill = [wanted = options.kills](const KillReport& report) {
      fmt::print(stderr, "\rlimit {}: {} of {} kills, {} admitted", report.limit, report.kills,
                 wanted, report.admitted);
    };
  }
  const KillReport report = KillCampaign{std::move(options)}.run();
  if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\n");
  return report;
}

void print(const std::vector<KillReport>& reports) {
  const auto row = [&](std::string_view name, const auto& value) {
    fmt::print("{:<28}", name);
    for (const KillReport& report : reports) fmt::print("{:>14}", value(report));
    fmt::print("\n");
  };
  row("limit", [](const auto& r) { return fmt::to_string(r.limit); });
  row("kills", [](const auto& r) { return fmt::to_string(r.kills); });
  row("  while the daemon started",
      [](const auto& r) { return fmt::to_string(r.kills - std::ssize(r.under_load)); });
  row("quotas", [](const auto& r) { return fmt::to_string(r.quotas); });
  row("admitted", [](const auto& r) { return fmt::to_string(r.admitted); });
  row("over, a quota at most",
      [](const auto& r) { return fmt::to_string(std::max<Amount>(r.over, 0)); });
  row("over, a kill at most", [](const auto& r) { return fmt::to_string(r.max_gain()); });
  row("loss, a kill at most", [](const auto& r) { return fmt::to_string(r.max_loss()); });
  row("loss, mean", [](const auto& r) { return fmt::format("{:.1f}", r.mean_loss()); });
  row("block, mean", [](const auto& r) { return fmt::format("{:.1f}", r.mean_block()); });
  row(fmt::format("loss / block of {} or more", kBlockMin), [](const auto& r) {
    const double block = r.mean_block(kBlockMin);
    return block == 0 ? "" : fmt::format("{:.2f}", r.mean_loss(kBlockMin) / block);
  });
}

}  // namespace
}  // namespace weir::app

int main(int argc, char** argv) {
  using namespace weir::app;
  CLI::App program{
      "Kills a daemon under load again and again, and counts from outside what it admits:\n"
      "half of the kills with a large limit, half with a small one. Fails if it was ever too much.",
      "tools/kills"};
  program.footer("Example:\n  tools/kills 10000 --store postgresql");
  What what;
  program.add_option("N", what.kills, "How many kills")->required()->check(CLI::PositiveNumber);
  const auto choice = [&](const char* name, std::string& value, const char* about,
                          const std::vector<std::string>& of) {
    program.add_option(name, value, about)->check(CLI::IsMember(of))->capture_default_str();
  };
  choice("--store", what.store, "The database", {"sqlite", "postgresql"});
  choice("--sync", what.sync, "What a commit survives", {"process", "power"});
  choice("--durability", what.durability, "How well state is kept", {"exact", "snapshot"});
  CLI11_PARSE(program, argc, argv);
  try {
    std::vector<KillReport> reports;
    for (const Quota& quota : kQuotas) reports.push_back(run(what, quota));
    print(reports);
    return std::ranges::any_of(reports,
                               [](const auto& r) { return r.over > 0 || r.max_gain() > 0; });
  } catch (const std::exception& error) {
    fmt::print(stderr, "tools/kills: {}\n", error.what());
    return 1;
  }
}
