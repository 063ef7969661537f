// Daemon: the rooms wired together; what `weir start` runs, and what tests run with their own time.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "config/load.h"
#include "server/events.h"
#include "server/log.h"
#include "store/journal.h"
#include "weir/bus/message_bus.h"
#include "weir/fleet/shared_quota.h"
#include "weir/time/timer.h"

namespace weir::app {

class Daemon {
 public:
  struct Options {
    ConfigFiles files;  // none at all: the built-in examples
    // Instead of the main file's:
    std::optional<Listen> listen = {};
    std::optional<Secret> store = {};
    std::optional<Durability> durability = {};
    std::optional<Sync> sync = {};
    // Where the state of a daemon without a configured store is kept, in a file named after its
    // address; empty: in memory.
    std::string state_directory = {};
    unsigned threads = 0;  // 0: one a core
    // For what the page and other watchers are told; outlives the daemon. Null: that of `time`.
    Timer* watching = nullptr;
  };
  // Why it did not start: lines for the user, and the program's exit code.
  struct Failure {
    int exit_code;
    std::vector<std::string> lines;
  };

  // `time` and `log` must outlive it.
  static std::expected<std::unique_ptr<Daemon>, Failure> start(Options options, TimeSource time,
                                                               server::Log& log);
  ~Daemon();  // stops

  std::uint16_t port() const;
  // "GET /v1/resources/{name}" …: what it answers to.
  std::vector<std::string> routes() const;

  // Reads the files again and changes what has changed; waiters and counts stay. A configuration
  // with mistakes is refused whole, and the old one stays.
  std::expected<void, Mistakes> reload();

  // Answers who waits, lets answers out, and ends; within Listener::kStopPatience.
  void stop();

 private:
  struct Backers;
  struct Door;
  struct Parts;
  using Reloaded = std::function<void(std::expected<void, Mistakes>)>;

  explicit Daemon(Options options, TimeSource time, server::Log& log);
  std::expected<Model, Mistakes> read() const;
  std::expected<Backers, Failure> open_backers(const MainConfig& config,
                                               const std::shared_ptr<const Calendar>& calendar,
                                               server::EventHub& events, std::uint16_t port);
  std::expected<std::unique_ptr<SharedQuota>, Failure> open_quota(const FleetConfig& config,
                                                                  const std::string& node,
                                                                  server::EventHub& events);
  // Where state is kept; empty, and why is in the log: in memory alone.
  std::string store_place(const MainConfig& config) const;
  // Null where the state is in memory alone.
  std::expected<std::unique_ptr<store::Journal>, Failure> open_journal(
      const MainConfig& config, const store::Options& place,
      std::shared_ptr<const Calendar> calendar, server::EventHub& events);
  void reload_later(Reloaded done);
  void run_reloads(const std::stop_token& stop);

  const Options options_;
  const TimeSource time_;
  server::Log& log_;
  MainConfig main_;  // as configured at the start
  std::unique_ptr<Parts> parts_;

  std::mutex reload_mutex_;  // one at a time
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<Reloaded> reloads_;
  std::jthread reloader_;
};

}  // namespace weir::app
