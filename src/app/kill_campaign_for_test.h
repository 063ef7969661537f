// Kill campaign: one quota, a daemon that is killed again and again while callers draw from it, and
// a count from outside of what reached them.
//
// A quota begins with an empty store and lasts until a caller is refused, or until there are enough
// kills: then what is left is drawn without one. So the limit less what was admitted is what the
// kills have cost, and below zero the daemon has admitted too much. One kill of ten comes while the
// daemon starts.
#pragma once

#include <algorithm>
#include <fstream>
#include <functional>
#include <random>

#include "app/killed_daemon_for_test.h"

namespace weir::app {

struct KillReport {
  // Of a daemon that had callers.
  struct Kill {
    Amount block = 0;  // written ahead, as the daemon said last
    Amount left = 0;   // of the quota, at its start
    Amount loss = 0;   // what is left after the kill is less than it should be
  };

  Amount limit = 0;  // of one quota
  int kills = 0;     // those of a daemon that starts included
  int quotas = 0;
  Amount admitted = 0;
  Amount over = 0;  // by a quota beyond its limit, at most; below zero if none was
  std::vector<Kill> under_load = {};

  // Of the kills with a block at least that large; 0 if there are none.
  double mean_loss(Amount block_min = 0) const { return mean(&Kill::loss, block_min); }
  double mean_block(Amount block_min = 0) const { return mean(&Kill::block, block_min); }
  Amount max_loss() const {
    Amount most = 0;
    for (const Kill& kill : under_load) most = std::max(most, kill.loss);
    return most;
  }
  // The most that one kill let be admitted a second time. It is over the limit, and can be hidden
  // by what other kills of the quota have lost.
  Amount max_gain() const {
    Amount most = 0;
    for (const Kill& kill : under_load) most = std::max(most, -kill.loss);
    return most;
  }

 private:
  double mean(Amount Kill::* value, Amount block_min) const {
    double sum = 0;
    int count = 0;
    for (const Kill& kill : under_load) {
      if (kill.block < block_min) continue;
      sum += static_cast<double>(kill.*value);
      ++count;
    }
    return count == 0 ? 0 : sum / count;
  }
};

class KillCampaign {
 public:
  struct Options {
    std::string program;
    std::string directory;  // for files of its own
    std::string durability = "exact";
    std::string sync = "process";
    std::function<std::string()> new_store = {};  // an empty one: a path or a URL
    int kills = 100;
    Amount limit = 100'000;
    std::size_t callers = 3;
    Nanos life_max = std::chrono::milliseconds{150};  // from ready until the kill
    std::function<void(const KillReport&)> after_kill = [](const KillReport&) {};
  };

  explicit KillCampaign(Options options)
      : options_(std::move(options)), bodies_(options_.callers, R"({"resource":"quota"})") {
    daemon_ = {.program = options_.program,
               .directory = options_.directory,
               .provider = options_.directory + "/quota.yaml",
               .durability = options_.durability,
               .sync = options_.sync};
    std::ofstream{daemon_.provider}
        << "name: quota\ndomain: quota.example\nperiod: 1d\nlimit: " << options_.limit << '\n';
    report_.limit = options_.limit;
    report_.over = -options_.limit;
  }

  KillReport run() {
    while (report_.kills < options_.kills) draw_one_quota();
    return report_;
  }

 private:
  static constexpr Nanos kStarting = std::chrono::milliseconds{20};
  static constexpr Nanos kLookEvery = std::chrono::milliseconds{2};  // at most

  struct Seen {
    Amount available = 0;
    Amount block = 0;
  };
  static Seen look(KilledDaemon& daemon) {
    const auto resource = daemon.get("/v1/resources/quota");
    const auto& limit = resource.at("limits").at(0).as_object();
    const auto* block = limit.if_contains("block");  // exact only
    return {limit.at("available").as_int64(), block == nullptr ? 0 : block->as_int64()};
  }

  Nanos at_random(Nanos most) {
    return Nanos{std::uniform_int_distribution<std::int64_t>{0, most.count()}(random_)};
  }

  void draw_one_quota() {
    daemon_.store = options_.new_store();
    admitted_ = 0;
    lost_ = 0;
    bool exhausted = false;
    while (!exhausted) {
      exhausted = live_until_exhausted_or_killed();
      options_.after_kill(report_);
    }
    ++report_.quotas;
    report_.over = std::max(report_.over, admitted_ - options_.limit);
  }

  bool live_until_exhausted_or_killed() {
    KilledDaemon daemon{daemon_};
    const bool last = report_.kills >= options_.kills;
    if (!last && at_random(Nanos{9}) == Nanos{0}) {
      pause_for(at_random(kStarting));
      kill(daemon);
      return false;
    }
    daemon.await();
    KillReport::Kill life{.left = look(daemon).available};
    note_loss(life.left);

    Callers callers{daemon.port(), bodies_, Callers::OnRefusal::kEnd};
    const Clock& clock = TimeSource::system().clock;
    const Instant until = clock.now() + at_random(options_.life_max);
    while (!callers.refused() && (last || clock.now() < until)) {
      life.block = look(daemon).block;
      pause_for(at_random(kLookEvery));
    }
    const bool exhausted = callers.refused();
    if (!exhausted) {
      kill(daemon);
      report_.under_load.push_back(life);
      loss_unknown_ = true;
    }
    for (const Amount granted : callers.join()) {
      admitted_ += granted;
      report_.admitted += granted;
    }
    return exhausted;
  }

  void kill(KilledDaemon& daemon) {
    daemon.kill();
    ++report_.kills;
  }

  // Of the last kill under load, if there was one since: `available` is what it has left.
  void note_loss(Amount available) {
    const Amount lost = options_.limit - available - admitted_;
    if (loss_unknown_) report_.under_load.back().loss = lost - lost_;
    loss_unknown_ = false;
    lost_ = lost;
  }

  const Options options_;
  const std::vector<std::string> bodies_;
  KilledDaemon::Options daemon_;
  std::mt19937_64 random_{std::random_device{}()};
  KillReport report_;
  // Of this quota.
  Amount admitted_ = 0;
  Amount lost_ = 0;
  bool loss_unknown_ = false;
};

}  // namespace weir::app
