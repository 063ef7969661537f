#include "net/wire.h"

#include <openssl/err.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>

namespace weir::net {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr std::size_t kRecordBytes = 16 * 1024;

bool is_transient(int error) { return error == EAGAIN || error == EINTR; }

bool wants_more(int error) { return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE; }

iovec vector_of(std::string_view bytes) {
  return {const_cast<char*>(bytes.data()), bytes.size()};  // sendmsg() only reads them
}

}  // namespace

error_code Wire::connect(const Protocol::endpoint& address) {
  close();
  error_code error;
  if (socket_.open(address.protocol(), error)) return error;
  if (socket_.non_blocking(true, error)) return error;
  error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay{true}, ignored);
  if (::connect(socket_.native_handle(), address.data(), static_cast<socklen_t>(address.size())) ==
          0 ||
      errno == EINPROGRESS) {
    return {};
  }
  return {errno, boost::system::system_category()};
}

error_code Wire::connected() {
  int error = 0;
  socklen_t size = sizeof(error);
  ::getsockopt(socket_.native_handle(), SOL_SOCKET, SO_ERROR, &error, &size);
  return {error, boost::system::system_category()};
}

Wire::Handshake Wire::handshake(TlsClient& tls, const Origin& origin) {
  if (ssl_ == nullptr) ssl_ = tls.open(socket_.native_handle(), origin);
  if (ssl_ == nullptr) {
    failure_ = "TLS: no session can be made";
    return Handshake::kFailed;
  }
  ERR_clear_error();
  const int done = SSL_do_handshake(ssl_.get());
  if (done == 1) return Handshake::kDone;
  switch (SSL_get_error(ssl_.get(), done)) {
    case SSL_ERROR_WANT_READ: return Handshake::kWantsRead;
    case SSL_ERROR_WANT_WRITE: return Handshake::kWantsWrite;
    default: failure_ = tls_failure(ssl_.get()); return Handshake::kFailed;
  }
}

std::optional<std::size_t> Wire::write(std::string_view front, std::string_view back) {
  if (ssl_ != nullptr) return write_tls(front, back);
  std::array<iovec, 2> pieces{vector_of(front), vector_of(back)};
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  const ssize_t sent = ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL);
  if (sent >= 0) return static_cast<std::size_t>(sent);
  return is_transient(errno) ? std::optional<std::size_t>{0} : std::nullopt;
}

std::optional<std::size_t> Wire::write_tls(std::string_view front, std::string_view back) {
  std::array<char, kRecordBytes> joined;
  std::size_t written = 0;
  while (!front.empty() || !back.empty()) {
    // What was refused once must be offered again as it was: so it is joined alike each time.
    std::string_view piece = front.empty() ? back : front;
    if (!front.empty() && front.size() < joined.size()) {
      char* end = std::ranges::copy(front, joined.begin()).out;
      const std::size_t fits = std::min(back.size(), joined.size() - front.size());
      end = std::ranges::copy(back.substr(0, fits), end).out;
      piece = {joined.data(), end};
    }
    ERR_clear_error();
    std::size_t took = 0;
    const int status = SSL_write_ex(ssl_.get(), piece.data(), piece.size(), &took);
    if (status != 1) {
      const bool open = wants_more(SSL_get_error(ssl_.get(), status));
      return open || written > 0 ? std::optional{written} : std::nullopt;
    }
    written += took;
    back.remove_prefix(took - std::min(took, front.size()));
    front.remove_prefix(std::min(took, front.size()));
  }
  return written;
}

Wire::Read Wire::read(std::span<char> room) {
  if (ssl_ != nullptr) return read_tls(room);
  const ssize_t got = ::recv(socket_.native_handle(), room.data(), room.size(), 0);
  if (got > 0) return {.bytes = static_cast<std::size_t>(got)};
  if (got == 0) return {.end = Read::End::kClean};
  return {.end = is_transient(errno) ? Read::End::kNone : Read::End::kBroken};
}

// Only whole records are taken, so that nothing stays inside OpenSSL that the socket does not tell.
Wire::Read Wire::read_tls(std::span<char> room) {
  Read read;
  while (room.size() - read.bytes >= kRecordBytes) {
    ERR_clear_error();
    std::size_t got = 0;
    const int status =
        SSL_read_ex(ssl_.get(), room.data() + read.bytes, room.size() - read.bytes, &got);
    if (status != 1) {
      const int error = SSL_get_error(ssl_.get(), status);
      if (!wants_more(error)) {
        read.end = error == SSL_ERROR_ZERO_RETURN ? Read::End::kClean : Read::End::kBroken;
      }
      break;
    }
    read.bytes += got;
  }
  return read;
}

bool Wire::quiet() {
  char byte = 0;
  const ssize_t got = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0) return is_transient(errno);
  if (got == 0 || ssl_ == nullptr) return false;
  // Perhaps a ticket for the next session, which is no part of an answer.
  ERR_clear_error();
  const int status = SSL_peek(ssl_.get(), &byte, 1);
  return status <= 0 && wants_more(SSL_get_error(ssl_.get(), status));
}

void Wire::close() {
  if (ssl_ != nullptr) {
    // Without it OpenSSL would not resume the session.
    if (SSL_is_init_finished(ssl_.get()) == 1) SSL_shutdown(ssl_.get());
    ERR_clear_error();
    ssl_ = nullptr;
  }
  error_code ignored;
  socket_.close(ignored);
}

}  // namespace weir::net
