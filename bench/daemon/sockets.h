// Sockets of 127.0.0.1, and answers as they come in. For answers with a Content-Length only.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace weir::bench {

class Socket {
 public:
  Socket();
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }

  int fd() const { return fd_; }

 private:
  int fd_;
};

sockaddr_in loopback(std::uint16_t port);
inline sockaddr* generic(sockaddr_in& address) { return reinterpret_cast<sockaddr*>(&address); }

class Answer {
 public:
  void add(std::string_view bytes);
  bool whole() const { return wanted_ != 0 && text_.size() >= wanted_; }
  bool ok() const { return text_.starts_with("HTTP/1.1 200 "); }
  std::string_view text() const { return text_; }
  std::string_view body() const { return std::string_view{text_}.substr(head_); }
  void clear() { *this = {}; }

 private:
  std::string text_;
  std::size_t head_ = 0;    // bytes of the head, when it is whole
  std::size_t wanted_ = 0;  // bytes of all, likewise
};

}  // namespace weir::bench
