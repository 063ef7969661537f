// UpstreamConnection: one connection to an origin, from its address to call after call.
//
// Everything here belongs to the thread of one io_context.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/upstream.h"
#include "net/upstream_answer.h"
#include "net/wire.h"

namespace weir::net {

class UpstreamConnection;
struct UpstreamLoop;

// A call, from its start to its end.
class UpstreamExchange final : public UpstreamCall {
 public:
  UpstreamExchange(UpstreamPool::Request the_request, UpstreamReceiver& the_receiver)
      : request(std::move(the_request)), receiver(the_receiver) {}
  ~UpstreamExchange() override;
  void pause() override { paused = true; }
  void resume() override;
  UpstreamRequest take_request() override { return std::move(request); }

  UpstreamRequest request;
  UpstreamReceiver& receiver;
  UpstreamConnection* connection = nullptr;  // while it is under way
  bool paused = false;
};

// What is known of an origin: its addresses, and the connections to it that are kept.
struct UpstreamHost {
  UpstreamHost(UpstreamLoop& loop, const Origin& origin);

  // Sees to it that `connection` gets to know the addresses: now or later. Old ones do until there
  // are new ones: the look-ups of a loop go one after the other, and any of them may hang.
  void resolve(UpstreamConnection& connection);
  void look_up();

  UpstreamLoop& loop;
  const Origin origin;
  std::vector<boost::asio::ip::tcp::endpoint> addresses = {};
  Instant fresh_until = {};
  Instant known_until = {};
  bool looking_up = false;
  std::vector<std::shared_ptr<UpstreamConnection>> waiting = {};  // for addresses
  std::vector<UpstreamConnection*> idle = {};                     // the last one used at the end
};

struct UpstreamLoop : std::enable_shared_from_this<UpstreamLoop> {
  UpstreamLoop(boost::asio::io_context& the_io, const Clock& the_clock,
               std::shared_ptr<TlsClient> the_tls, UpstreamPool::Options the_options)
      : io(the_io), clock(the_clock), tls(std::move(the_tls)), options(the_options) {}

  UpstreamHost& host_of(const Origin& origin);
  // Those without a connection whose addresses are not known any more.
  void forget_hosts(Instant now);
  UpstreamConnection& new_connection(UpstreamHost& host);

  using HostKey = std::pair<std::string, bool>;  // authority, and whether by TLS
  struct ByHostKey {
    using is_transparent = void;
    using View = std::pair<std::string_view, bool>;
    bool operator()(const View& a, const View& b) const { return a < b; }
  };

  boost::asio::io_context& io;
  const Clock& clock;
  const std::shared_ptr<TlsClient> tls;
  const UpstreamPool::Options options;
  boost::asio::ip::tcp::resolver resolver{io};
  std::map<HostKey, UpstreamHost, ByHostKey> hosts;
  std::list<std::shared_ptr<UpstreamConnection>> connections;
  std::size_t idle = 0;
  std::vector<char> received = std::vector<char>(UpstreamPool::kReadBytes);  // by whichever reads
  AnswerReader::Found found;                                                 // likewise
};

class UpstreamConnection : public std::enable_shared_from_this<UpstreamConnection> {
 public:
  UpstreamConnection(UpstreamLoop& loop, UpstreamHost& host)
      : loop_(loop), host_(host), wire_(loop.io) {}

  // Connects and sends the call. Fails at once if it cannot.
  void connect(UpstreamExchange& call);
  // The same, but later.
  void post_connect(UpstreamExchange& call);
  // False, and closed, if the server has ended the kept connection or said something unasked.
  bool take_up(UpstreamExchange& call);

  void on_addresses(std::string_view error);
  void wait_readable();
  void note_resumed();
  void sweep(Instant now);
  void close();

 private:
  friend struct UpstreamLoop;
  enum class Phase : std::uint8_t {
    kNew,
    kResolving,
    kConnecting,
    kHandshaking,
    kCalling,
    kIdle,
    kClosed
  };

  void attach(UpstreamExchange& call);
  UpstreamExchange* detach();
  void connect_next(std::string_view error);
  void on_connected();
  void handshake();
  void start_call();
  void send();
  void receive();
  void finish(bool keep);
  void on_broken(std::string_view what);
  void fail(UpstreamFault fault, std::string_view what);
  void wait_writable();
  void on_readable();
  void on_writable();

  UpstreamLoop& loop_;
  UpstreamHost& host_;
  Wire wire_;
  std::list<std::shared_ptr<UpstreamConnection>>::iterator place_;
  Phase phase_ = Phase::kNew;
  UpstreamExchange* call_ = nullptr;
  AnswerReader answer_;
  Instant since_{};  // the last progress, or when it became idle
  Instant connect_by_{};
  Instant attempt_by_{};  // the share of one address
  std::size_t next_address_ = 0;
  unsigned attempt_ = 0;  // what waited on an earlier socket has no meaning any more
  std::size_t sent_ = 0;
  bool unsendable_ = false;
  bool kept_ = false;      // from an earlier call
  bool answered_ = false;  // by at least a byte
  bool watching_ = false;  // for something to read
  bool writing_ = false;   // waiting for room
};

}  // namespace weir::net
