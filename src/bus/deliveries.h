// Deliveries: the receiving half of every bus. Who listens to what, and the threads they hear it
// on.
//
// Each subscription has a queue of at most MessageBus::kPendingMax messages; what comes when it is
// full is dropped. Threads are started as they are needed, at most one a subscription and
// MessageBus::kHandlersMax in all. Safe to use from any thread, also from a handler. deliver()
// never waits for a handler.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "weir/bus/message_bus.h"

namespace weir::bus {

class Deliveries : public std::enable_shared_from_this<Deliveries> {
 public:
  using Handler = MessageBus::Handler;

  // `interest` is called without a lock after the first subscription of a subject was made or its
  // last one ended; is_wanted() tells which, and a later call may have made it untrue again.
  using Interest = std::function<void(const std::string& subject)>;
  explicit Deliveries(Interest interest = {}) : interest_(std::move(interest)) {}

  // Fails with kClosed, or with kInvalidConfig for what is_subject() refuses.
  Result<std::unique_ptr<MessageBus::Subscription>> subscribe(std::string_view subject,
                                                              Handler handler);

  void deliver(std::string_view subject, std::string_view payload);

  bool is_wanted(const std::string& subject) const;
  std::vector<std::string> wanted() const;

  // Returns when nothing waits and no handler runs.
  void settle();

  // Afterwards nothing is delivered. Waits for the handlers that run, unless called from one.
  void close();
  bool is_closed() const;
  // After close(): waits for the threads to end, but for the caller's own.
  void join();

  std::uint64_t delivered() const;
  std::uint64_t dropped() const;

 private:
  struct Inbox;
  class Ticket;
  using Payload = std::shared_ptr<const std::string>;

  void put(Inbox& inbox, const Payload& payload);
  void make_ready(Inbox& inbox);
  void work();
  void run_one(std::unique_lock<std::mutex>& lock);
  void end(Inbox& inbox);

  const Interest interest_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;   // the threads: something is ready, or closed
  std::condition_variable quiet_;  // whoever waits for a handler: one has returned
  std::map<std::string, std::vector<std::shared_ptr<Inbox>>, std::less<>> inboxes_;
  std::size_t subscriptions_ = 0;
  std::deque<std::shared_ptr<Inbox>> ready_;  // with messages, and not running
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0;
  std::size_t running_ = 0;
  bool closed_ = false;
  std::uint64_t delivered_ = 0;
  std::uint64_t dropped_ = 0;
};

// What publish() refuses whatever the bus: fails with kInvalidConfig.
Result<void> check_message(std::string_view subject, std::string_view payload);

}  // namespace weir::bus
