// MessageBus: tells every member of a fleet something, as far as they can be reached.
//
// The contract of the bus in one process, of NATS and of Redis Pub/Sub (connect_bus). Safe to use
// from any thread, also from a handler. Delivery is at most once: what is published while a
// subscriber is cut off, or further behind than kPendingMax messages, does not reach it. What one
// publisher says on one subject arrives in the order in which it was said.
//
// No call waits for the network: a bus that is down costs its user nothing but the messages.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "weir/core/error.h"
#include "weir/time/timer.h"

namespace weir {

struct BusStatus {
  bool connected = false;
  bool subscribed = false;     // connected, and every subscription of before is in place there
  std::uint64_t connects = 0;  // times it became connected
  std::uint64_t published = 0;
  std::uint64_t delivered = 0;
  std::uint64_t dropped = 0;  // messages that this end gave up: not connected, or too far behind
  std::string failure = {};   // why it is not connected; never holds a password
};

class MessageBus {
 public:
  static constexpr std::size_t kPayloadMax = 64 * 1024;
  static constexpr std::size_t kPendingMax = 4096;  // messages a subscriber may be behind
  static constexpr std::size_t kHandlersMax = 8;    // that run at once

  // Its end: no handler runs afterwards, unless it is ended from inside its own handler.
  class Subscription {
   public:
    Subscription() = default;
    Subscription(const Subscription&) = delete;
    Subscription& operator=(const Subscription&) = delete;
    virtual ~Subscription() = default;
  };
  // Called on a thread of the bus, one message at a time for each subscription. One that is slow
  // delays its own subscription, and others only while kHandlersMax are slow at once. Must not
  // throw.
  using Handler = std::function<void(std::string_view payload)>;

  MessageBus() = default;
  MessageBus(const MessageBus&) = delete;
  MessageBus& operator=(const MessageBus&) = delete;
  virtual ~MessageBus() = default;

  // Fails with kUnavailable while it is not connected, with kClosed after close(), with
  // kInvalidConfig for a payload above kPayloadMax or a subject that is_subject() refuses. The
  // publisher's own subscriptions hear it as well.
  virtual Result<void> publish(std::string_view subject, std::string_view payload) = 0;

  // Lasts over lost connections. Fails with kClosed or kInvalidConfig. Must end before the bus.
  virtual Result<std::unique_ptr<Subscription>> subscribe(std::string_view subject,
                                                          Handler handler) = 0;

  virtual BusStatus status() const = 0;

  // Ends every delivery; from any thread, also from a handler, and more than once. No handler runs
  // afterwards, unless it is called from one.
  virtual void close() = 0;
};

// Words of letters, digits, '-' and '_', joined by dots; at most 200 bytes.
bool is_subject(std::string_view subject);

struct BusConfig {
  // nats://[user:password@ | token@]host[:4222], several with commas between them; tls:// the same
  // with certificates verified; redis:// and rediss:// as for Redis (see docs/fleet.md).
  std::string url;
  std::string name = {};     // of this member, for the server's lists
  std::string ca_file = {};  // trusted beside the system's authorities; empty: those alone
};

// Connects in the background and whenever the connection is lost. Fails with kInvalidConfig for a
// URL it cannot use, in a message that has no password in it.
Result<std::shared_ptr<MessageBus>> connect_bus(const BusConfig& config,
                                                TimeSource time = TimeSource::system());

}  // namespace weir
