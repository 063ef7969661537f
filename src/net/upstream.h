// Upstream: HTTP/1.1 calls to other servers, over TLS or plainly, on connections that are kept.
//
// Lives on one io_context and is used on its thread alone. Names are verified against the
// system's certificates; redirects are not followed; whatever two readers could understand
// differently in an answer is a failure (http_head.h). What a server sends is read only as far as
// its receiver takes it, so a call never holds more than kReadBytes of an answer.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/http_head.h"
#include "weir/core/time.h"
#include "weir/time/clock.h"

namespace weir::net {

// Where calls go: "https://api.example.com:8443/base".
struct Origin {
  bool tls = true;
  std::string host;  // as host_of() has it
  std::uint16_t port = 443;
  std::string authority;  // for the Host field: "api.example.com:8443", without a default port
  std::string base;       // "/base", without a slash at its end; empty for none

  // Nothing for what is no http:// or https:// URL of host, port and path.
  static std::optional<Origin> parse(std::string_view url);
  friend bool operator==(const Origin&, const Origin&) = default;
};

enum class UpstreamFault : std::uint8_t {
  kUnreachable,  // no address, no connection, no TLS with that name
  kBroken,       // ended before the answer was whole
  kMalformed,    // an answer that can be read in more than one way, or too large a head
  kTooSlow,      // longer silence than `patience`
};

// Who gets the answer. All are called on the loop's thread, never inside UpstreamPool::call().
// A receiver may drop its UpstreamCall in any of them.
class UpstreamReceiver {
 public:
  // Once, for the final answer (1xx are passed over). The views end with the call.
  virtual void on_head(const ResponseHead& head) = 0;
  // Bytes of the body, free of their framing.
  virtual void on_body(std::string_view bytes) = 0;
  // The body is whole. Last call, unless on_failure() was.
  virtual void on_end() = 0;
  virtual void on_failure(UpstreamFault fault, std::string_view message) = 0;

 protected:
  ~UpstreamReceiver() = default;
};

struct UpstreamRequest {
  std::string method = {};  // of the head below
  std::string head = {};    // request line and fields with the blank line, framing included
  std::string body = {};
  Nanos patience = std::chrono::minutes{10};  // longest silence of the server
};

// One call under way. Dropping it cancels it: the connection is closed unless the answer was whole.
class UpstreamCall {
 public:
  virtual ~UpstreamCall() = default;
  // Stops reading after what has been read already (at most kReadBytes, and perhaps the end), and
  // goes on. While paused the server's silence is not counted.
  virtual void pause() = 0;
  virtual void resume() = 0;
  // What was sent, for who drops the call and sends it again.
  virtual UpstreamRequest take_request() = 0;
};

class TlsClient;  // certificates and sessions, shared by all pools
struct UpstreamLoop;

class UpstreamPool {
 public:
  struct Options {
    std::size_t idle_max = 256;  // connections kept, of all origins
    Nanos idle_timeout = std::chrono::seconds{60};
    Nanos connect_timeout = std::chrono::seconds{10};  // address, connection and TLS together
  };
  static constexpr std::size_t kReadBytes = 64 * 1024;

  UpstreamPool(boost::asio::io_context& io, const Clock& clock, std::shared_ptr<TlsClient> tls,
               Options options);
  ~UpstreamPool();

  using Request = UpstreamRequest;
  // Sends it on a kept connection or a new one. If a kept connection ends before any byte of the
  // answer came, it is sent once more on a new one.
  std::unique_ptr<UpstreamCall> call(const Origin& origin, Request request,
                                     UpstreamReceiver& receiver);

  // Ends what is too slow, and what is idle for too long. To be called about every second.
  void sweep();

  std::size_t idle() const;

 private:
  std::shared_ptr<UpstreamLoop> loop_;
};

// For HTTP. Trusts the system's certificates, or, where it is given, those of the PEM file alone.
std::expected<std::shared_ptr<TlsClient>, std::string> make_tls_client(
    const std::string& ca_file = {});

}  // namespace weir::net
