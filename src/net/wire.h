// Wire: the bytes of one connection, plain or TLS, on a socket that never blocks.
//
// Belongs to one thread. Waiting is the owner's business: socket() tells when to try again.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "net/tls.h"

namespace weir::net {

class Wire {
 public:
  using Protocol = boost::asio::generic::stream_protocol;  // TCP, or a Unix socket

  explicit Wire(boost::asio::io_context& io) : socket_(io) {}
  ~Wire() { close(); }

  Protocol::socket& socket() { return socket_; }

  // Begins to connect, anew if need be. Once writable, connected() has the outcome.
  boost::system::error_code connect(const Protocol::endpoint& address);
  boost::system::error_code connected();

  enum class Handshake : std::uint8_t { kDone, kWantsRead, kWantsWrite, kFailed };
  // To be called until it is done or has failed.
  Handshake handshake(TlsClient& tls, const Origin& origin);
  // Why handshake() failed.
  const std::string& failure() const { return failure_; }

  // Sends `front` and then `back`, in one call and one record as far as they fit. How many bytes
  // were taken, perhaps none; nothing if the wire is broken.
  std::optional<std::size_t> write(std::string_view front, std::string_view back);

  struct Read {
    enum class End : std::uint8_t { kNone, kClean, kBroken };  // clean: the server said so
    std::size_t bytes = 0;
    End end = End::kNone;  // after those bytes
  };
  // `room` must hold a TLS record (16 KiB). No bytes and no end: there is nothing yet.
  Read read(std::span<char> room);

  // Whether it is open and nothing came that has not been read.
  bool quiet();

  void close();

 private:
  std::optional<std::size_t> write_tls(std::string_view front, std::string_view back);
  Read read_tls(std::span<char> room);

  Protocol::socket socket_;
  Ssl ssl_;
  std::string failure_;
};

}  // namespace weir::net
