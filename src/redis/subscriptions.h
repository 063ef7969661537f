// Subscriptions: who listens to which channel, and how far the server knows of it.
//
// add(), remove() and complete() may be called by any thread, the rest by the client's thread
// alone. Knows no connection: changes() are the commands that one needs.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "net/resp.h"
#include "redis/client.h"

namespace weir::redis {

class Subscriptions {
 public:
  std::uint64_t add(std::string channel, Client::Heard heard);
  // Waits for a call of `heard` that another thread runs.
  void remove(std::uint64_t id, bool on_client_thread);
  bool complete() const;

  // The connection is a new one: the server knows of nothing.
  void forget();
  // What is to be sent so that the server knows of everything asked for until now; may be empty.
  std::string changes();
  // Something the server has said.
  void take(const net::RespValue& event);

 private:
  struct Listener {
    std::string channel;
    std::shared_ptr<const Client::Heard> heard;
  };

  void deliver(const std::string& channel, std::string_view payload);

  mutable std::mutex mutex_;
  std::condition_variable delivered_;
  std::uint64_t last_id_ = 0;
  std::uint64_t delivering_ = 0;
  std::map<std::uint64_t, Listener> listeners_;
  std::map<std::string, std::set<std::uint64_t>, std::less<>> wanted_;  // channel: listeners
  std::set<std::string, std::less<>> requested_;
  // Of those requested, confirmations that are still to come; one that is confirmed is not here.
  std::map<std::string, int, std::less<>> unconfirmed_;
};

}  // namespace weir::redis
