// The real program under load, to be killed at any instant: the daemon, and callers who count what
// reached them.
//
// Real time and real sockets. Failures that are not the subject throw.
#pragma once

#include <atomic>
#include <boost/json/parse.hpp>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "app/process_for_test.h"
#include "net/http_client.h"
#include "weir/core/cost.h"
#include "weir/time/sleep.h"

namespace weir::app {

inline void pause_for(Nanos duration) {
  const TimeSource time = TimeSource::system();
  sleep_until(time, time.clock.now() + duration);
}

class KilledDaemon {
 public:
  struct Options {
    std::string program;
    std::string directory;   // where its output goes
    std::string provider;    // a file
    std::string store = {};  // a path or a URL
    std::string durability = "exact";
    std::string sync = "process";
  };

  explicit KilledDaemon(const Options& options)
      : process_({options.program, "start", "--listen", "127.0.0.1:0", "--provider",
                  options.provider, "--store", options.store, "--durability", options.durability,
                  "--sync", options.sync, "--log", "json"},
                 options.directory + "/daemon") {}

  // Returns when it is ready.
  void await() {
    constexpr Nanos kPatience = std::chrono::seconds{60};
    const TimeSource time = TimeSource::system();
    const Instant until = time.clock.now() + kPatience;
    while (!ready()) {
      if (process_.ended() || time.clock.now() > until) {
        throw std::runtime_error{"the daemon does not start:\n" + process_.err()};
      }
      pause_for(std::chrono::milliseconds{1});
    }
  }

  // Returns when it is gone.
  void kill() {
    process_.signal(SIGKILL);
    if (process_.wait() != 1000 + SIGKILL) {
      throw std::runtime_error{"the daemon ended by itself:\n" + process_.err()};
    }
  }

  // GET of what is JSON. Once it is ready.
  boost::json::value get(const std::string& target) {
    const auto response = http_->get(target);
    if (!response) throw std::runtime_error{response.error().message};
    return boost::json::parse(response->body);
  }

  std::uint16_t port() const { return port_; }

 private:
  bool ready() {
    if (port_ == 0) {
      const std::string before = "\"address\":\"127.0.0.1:";
      const std::string log = process_.err();
      const std::size_t at = log.find(before);
      if (at == log.npos || log.find('\n', at) == log.npos) return false;
      port_ = static_cast<std::uint16_t>(std::stoi(log.substr(at + before.size())));
      http_.emplace(net::HttpClient::Options{.port = port_});
    }
    const auto response = http_->get("/readyz");
    return response && response->status == 200;
  }

  Process process_;
  std::uint16_t port_ = 0;
  std::optional<net::HttpClient> http_;
};

// A thread and a connection for each body, which acquires again and again until the daemon is gone.
class Callers {
 public:
  enum class OnRefusal { kEnd, kGoOn };

  Callers(std::uint16_t port, const std::vector<std::string>& bodies, OnRefusal on_refusal)
      : granted_(bodies.size()), wrong_(bodies.size()) {
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      threads_.emplace_back([=, this, body = bodies[i]](const std::stop_token& stop) {
        call(i, port, body, on_refusal, stop);
      });
    }
  }

  // Somebody was refused by a limit, or in a way that join() throws.
  bool refused() const { return refused_; }

  // Waits for the end of all. How many answers of 200 each has seen.
  std::vector<Amount> join() {
    for (std::jthread& thread : threads_) thread.join();
    for (const std::string& text : wrong_) {
      if (!text.empty()) throw std::runtime_error{"a caller was told: " + text};
    }
    return granted_;
  }

 private:
  void call(std::size_t which, std::uint16_t port, const std::string& body, OnRefusal on_refusal,
            const std::stop_token& stop) {
    net::HttpClient http{{.port = port}};
    while (!stop.stop_requested()) {
      const auto response = http.post("/v1/acquire", body);
      if (!response) return;  // gone
      switch (response->status) {
        case 200: ++granted_[which]; break;
        case 429:
          refused_ = true;
          if (on_refusal == OnRefusal::kEnd) return;
          break;
        case 503: break;  // the store is late
        default:
          wrong_[which] = response->body;
          refused_ = true;
          return;
      }
    }
  }

  std::vector<Amount> granted_;
  std::vector<std::string> wrong_;
  std::atomic<bool> refused_ = false;
  std::vector<std::jthread> threads_;  // the last: it ends before what it writes
};

}  // namespace weir::app
