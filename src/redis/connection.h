// Connection: to one server, made again whenever it is lost; commands are pipelined on it.
//
// Belongs to the client's thread. While the first attempt to connect is under way commands wait for
// it; after a failure they fail at once until there is a connection again.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "net/resp.h"
#include "net/tls.h"
#include "net/wire.h"
#include "redis/command.h"
#include "redis/greeting.h"
#include "redis/url.h"
#include "weir/control/backoff.h"
#include "weir/time/timer.h"

namespace weir::redis {

class Connection;

// Who has connections. Called on the client's thread.
class ConnectionOwner {
 public:
  virtual void on_up(Connection& connection) = 0;
  // It ceased to be up, or could not be made.
  virtual void on_failure(Connection& connection, const std::string& why) = 0;
  // `command` is over. The connection is as on_failure() or an answer has left it.
  virtual void on_end(Connection& connection, Command command, Result<net::RespValue> answer) = 0;
  // Said unasked, or anything at all on a connection of kEvents.
  virtual void on_event(net::RespValue event) = 0;
  // A write carried commands.
  virtual void on_written() = 0;
  // Something has happened on a connection and been dealt with.
  virtual void on_batch_end() = 0;

 protected:
  ~ConnectionOwner() = default;
};

// What all connections of a client share.
struct Loop {
  boost::asio::io_context& io;
  TimeSource time;
  const Options& options;
  std::shared_ptr<net::TlsClient> tls;
  std::vector<char> received = std::vector<char>(64 * 1024);  // by whichever reads
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  enum class Use : std::uint8_t { kCommands, kEvents };

  Connection(Loop& loop, ConnectionOwner& owner, Address address, Use use, std::uint64_t seed);

  void connect();
  // Elsewhere from the next attempt on.
  void move_to(Address address) { address_ = std::move(address); }
  // Queues it until flush(), or ends it at once.
  void send(Command command);
  // For kEvents: queues bytes until flush(). Only while up().
  void send_raw(std::string_view bytes) { out_ += bytes; }
  void flush();

  // Ends what is too late; and the instant at which there will be something to do.
  void sweep(Instant now);
  Instant due() const;

  // Gives the connection up for a new one; everything under way fails.
  void lose(const std::string& why) { lose(Errc::kUnavailable, why); }
  // For good.
  void close();

  bool up() const { return phase_ == Phase::kUp; }
  bool idle() const { return commands_.empty(); }
  bool cluster() const { return cluster_; }
  const Address& address() const { return address_; }
  const Server& server() const { return server_; }

 private:
  enum class Phase : std::uint8_t {
    kResting,  // until retry_at_
    kResolving,
    kConnecting,
    kHandshaking,
    kGreeting,
    kUp,
    kClosed,
  };

  void resolve();
  void connect_next(std::string why);
  void on_connected();
  void handshake();
  void greet();
  void on_greeted();
  void receive();
  void take(net::RespValue value);
  void push(Command command);
  Command pop();
  void lose(Errc code, const std::string& why);
  void end_all(Errc code, const std::string& why, Instant now);
  void end_late_waiters(Instant now);
  void ping();
  void wait_readable();
  void wait_writable();

  Loop& loop_;
  ConnectionOwner& owner_;
  Address address_;
  const Use use_;
  net::Wire wire_;
  boost::asio::ip::tcp::resolver resolver_;
  std::vector<net::Wire::Protocol::endpoint> addresses_;
  std::size_t next_address_ = 0;

  Phase phase_ = Phase::kResting;
  bool failed_ = false;   // since it was up, or ever
  unsigned attempt_ = 0;  // what waited on an earlier socket has no meaning any more
  Instant retry_at_{};
  Instant connect_by_{};
  Instant attempt_by_{};  // the share of one address
  const Backoff calm_;
  Backoff backoff_;
  Instant up_at_{};

  std::optional<Greeting> greeting_;
  std::optional<net::RespReader> reader_;
  Server server_;
  bool cluster_ = false;

  std::string out_;
  std::size_t sent_ = 0;  // of out_
  bool watching_ = false;
  bool writing_ = false;
  Instant heard_at_{};
  std::optional<Instant> ping_by_;

  std::deque<Command> commands_;  // in the order of their answers
  // The earliest deadline of any suffix of commands_ that begins with a smaller one than the next:
  // since answers come in order, the front is the earliest of all.
  std::deque<std::pair<std::uint64_t, Instant>> deadlines_;
  std::uint64_t first_ = 0;  // the number of commands_.front()
};

}  // namespace weir::redis
