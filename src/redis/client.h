// Client: one Redis, or a Redis Cluster, for everybody in the process.
//
// Safe to use from any thread. Callers share one connection (to each node of a cluster) and their
// commands are pipelined on it; a thread of the client's own does all the I/O, and runs `done` and
// the listeners, which must not wait. Connects in the background, again after a loss with jittered
// back-off; a connection counts as up once the server has answered on it.
//
// Every command has a deadline. The first that passes unanswered ends its connection, since an
// answer that came later could not be told from the next one's: whoever is under way fails with
// it, and until the server answers again every call fails at once. (Calls made during the very
// first attempt to connect wait for its outcome.)
//
// Follows MOVED and ASK. Reads from masters alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/resp.h"
#include "weir/core/error.h"
#include "weir/time/timer.h"

namespace weir::redis {

struct Options {
  // redis://[[user]:password@ or user@]host[:6379][/db], rediss:// the same with the certificate
  // verified, unix:///path[?db=N].
  std::string url;
  std::string ca_file;        // trusted beside the system's authorities; empty: those alone
  std::string name = "weir";  // CLIENT SETNAME
  Nanos connect_timeout = std::chrono::seconds{1};  // with the first answer
  std::size_t pending_max = 100'000;                // commands under way and not yet sent
  std::size_t reply_bytes_max = 64 * 1024 * 1024;
  int protocol = 3;  // RESP; a server that knows only 2 is spoken to in 2
};

struct Status {
  bool up = false;  // of a cluster: some node is
  bool cluster = false;
  std::uint64_t connects = 0;
  std::uint64_t failures = 0;     // times it ceased to be up, or could not connect
  std::uint64_t commands = 0;     // answered
  std::uint64_t round_trips = 0;  // writes that carried commands
  std::size_t pending = 0;
  std::string failure = {};  // the last one; never holds a password
};

// One run of one server: changes when it restarts and when another takes its place.
struct Server {
  std::string run_id;
  Instant up_since;  // by this process's clock; never early, and two seconds late at most
};

// A script and its SHA-1: sent by its hash, and whole where the server does not know it.
class Script {
 public:
  explicit Script(std::string text);
  const std::string& text() const { return *text_; }
  const std::string& sha1() const { return sha1_; }

 private:
  friend class Client;
  std::shared_ptr<const std::string> text_;  // calls under way share it
  std::string sha1_;
};

class Client {
 public:
  // A server's refusal (RespValue of kind kError) is an answer. Fails with kUnavailable when there
  // is no connection or it is lost: whether the command was carried out nobody knows; with
  // kDeadlineExceeded likewise; with kCapacityExhausted when too much is pending; with kClosed.
  // `done` is called once, on the client's thread and never from inside the call.
  using Done = std::move_only_function<void(Result<net::RespValue>)>;

  // Fails with kInvalidConfig for a URL it cannot use, without the password in the message.
  static Result<std::shared_ptr<Client>> create(Options options, TimeSource time);
  ~Client();

  // `key`: routes in a cluster; empty for any node. `words`: the command, ready to be sent.
  void call(std::string_view key, std::vector<std::string> words, Instant deadline, Done done);
  // All keys are in one slot.
  void run(const Script& script, std::vector<std::string> keys, std::vector<std::string> args,
           Instant deadline, Done done);

  // As call(), for whoever may wait: not on the client's thread.
  Result<net::RespValue> ask(std::string_view key, std::vector<std::string> words,
                             Instant deadline);

  // The server that has `key`, as of its connection now; empty run_id while there is none.
  Server server(std::string_view key) const;

  // Called on the client's thread whenever `up` changes, and when a connection has been made anew.
  void on_change(std::function<void()> listener);

  // Pub/Sub, on a connection of its own, made with the first subscription and restored with all of
  // them after a loss. Messages in order, on the client's thread.
  using Heard = std::function<void(std::string_view payload)>;
  std::uint64_t subscribe(std::string channel, Heard heard);
  // No call of `heard` begins afterwards, and none runs unless this is called from inside one.
  void unsubscribe(std::uint64_t subscription);
  bool subscribed() const;  // all of them, as the server has confirmed

  Status status() const;
  // Ends what is pending with kClosed: when it returns that is over, and no listener is called any
  // more. From any thread, a callback included.
  void close();

 private:
  class Core;
  explicit Client(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;
};

}  // namespace weir::redis
