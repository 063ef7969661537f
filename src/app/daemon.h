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
#include "server/log.h"
#include "weir/time/timer.h"

namespace weir::app {

class Daemon {
 public:
  struct Options {
    Sources sources;                    // none at all: the built-in examples
    std::optional<Listen> listen = {};  // instead of the main file's
    unsigned threads = 0;               // 0: one a core
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

  // Reads the files again and changes what has changed; waiters and counts stay. A configuration
  // with mistakes is refused whole, and the old one stays.
  std::expected<void, Mistakes> reload();

  // Answers who waits, lets answers out, and ends; within Listener::kStopPatience.
  void stop();

 private:
  struct Parts;
  using Reloaded = std::function<void(std::expected<void, Mistakes>)>;

  explicit Daemon(Options options, TimeSource time, server::Log& log);
  std::expected<Model, Mistakes> read() const;
  void reload_later(Reloaded done);
  void run_reloads(const std::stop_token& stop);

  const Options options_;
  const TimeSource time_;
  server::Log& log_;
  Listen listen_;  // as configured at the start
  std::unique_ptr<Parts> parts_;

  std::mutex reload_mutex_;  // one at a time
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<Reloaded> reloads_;
  std::jthread reloader_;
};

}  // namespace weir::app
