// Client::Core: the thread of a client and everything that lives on it.
//
// Callers hand over commands under a mutex and wake the thread once; it routes all that waits, and
// writes once to each server. Whatever has no lock belongs to the thread.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "redis/client.h"
#include "redis/command.h"
#include "redis/connection.h"
#include "redis/slots.h"
#include "redis/subscriptions.h"
#include "weir/time/timer.h"

namespace weir::redis {

class Client::Core final : public std::enable_shared_from_this<Core>,
                           public ConnectionOwner,
                           public Alarm {
 public:
  Core(Options options, Address address, TimeSource time, std::shared_ptr<net::TlsClient> tls);

  void start();
  // From any thread. end() is for who is done with the client.
  void close();
  void end();

  void submit(Command command);
  Server server(std::string_view key) const;
  void on_change(std::function<void()> listener);
  std::uint64_t subscribe(std::string channel, Heard heard);
  void unsubscribe(std::uint64_t subscription);
  bool subscribed() const { return subscriptions_.complete(); }
  Status status() const;

  void on_up(Connection& connection) override;
  void on_failure(Connection& connection, const std::string& why) override;
  void on_end(Connection& connection, Command command, Result<net::RespValue> answer) override;
  void on_event(net::RespValue event) override;
  void on_written() override { ++round_trips_; }
  void on_batch_end() override;

  void ring(Instant now) override;

 private:
  using Node = std::shared_ptr<Connection>;
  struct Later {
    Instant at;
    Command command;
  };

  bool on_thread() { return io_.get_executor().running_in_this_thread(); }
  void shut_down();
  void wake();
  void drain();
  void flush();
  void arm();
  void sweep();
  void tell_change();
  void note(const std::string& failure);

  void route(Command command);
  Connection& node_for(int slot) const;
  // An empty host is the one that was asked.
  Connection& node_at(const std::string& host, std::uint16_t port, const Connection& asked);
  Node any_up() const;
  // Whether `command` goes on, in another form or elsewhere.
  bool goes_on(Connection& connection, Command& command, const net::RespValue& answer);
  void follow(const Redirect& redirect, const Connection& asked, Command command);
  void finish(Command command, Result<net::RespValue> answer);

  void ask_for_slots();
  void learn_slots(const Connection& asked, const net::RespValue& answer);
  void sync_later();
  void sync();

  const Options options_;
  const TimeSource time_;
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      io_.get_executor()};
  Loop loop_;
  std::uint64_t seed_;

  mutable std::mutex mutex_;
  std::vector<Command> incoming_;
  bool woken_ = false;  // drain() is going to look at incoming_
  bool closed_ = false;
  std::string failure_;
  std::vector<std::function<void()>> listeners_;
  // Changed by the thread alone, and under the mutex.
  Node first_;                                   // of the URL
  std::map<std::string, Node> nodes_;            // by label, the first one included
  std::array<Connection*, kSlots> slots_{};      // null: not known
  std::map<const Connection*, Server> servers_;  // of the nodes that are up

  std::vector<Command> batch_;  // empty; kept for its memory
  std::vector<Later> later_;    // to be tried again
  bool asking_for_slots_ = false;
  bool slots_are_old_ = false;  // a reason to ask again came while asking
  bool shut_ = false;
  Instant armed_for_ = kEndOfTime;

  Subscriptions subscriptions_;
  Node listening_;
  std::atomic<bool> syncing_ = false;
  std::size_t moves_ = 0;  // of listening_, to another node

  std::atomic<bool> up_ = false;
  std::atomic<bool> cluster_ = false;
  std::atomic<std::uint64_t> connects_ = 0;
  std::atomic<std::uint64_t> failures_ = 0;
  std::atomic<std::uint64_t> commands_ = 0;
  std::atomic<std::uint64_t> round_trips_ = 0;
  std::atomic<std::size_t> pending_ = 0;

  std::thread thread_;
};

}  // namespace weir::redis
