#include "daemon/sockets.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "harness.h"

namespace weir::bench {

Socket::Socket() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (fd_ < 0) die(std::string{"socket: "} + std::strerror(errno));
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void Answer::add(std::string_view bytes) {
  text_ += bytes;
  if (wanted_ != 0) return;
  const auto end = text_.find("\r\n\r\n");
  if (end == text_.npos) return;
  head_ = end + 4;
  std::string head = text_.substr(0, head_);
  std::ranges::transform(head, head.begin(), [](unsigned char c) { return std::tolower(c); });
  constexpr std::string_view kLength = "\r\ncontent-length:";
  const auto length = head.find(kLength);
  if (length == head.npos) die("an answer without Content-Length: " + text_);
  wanted_ = head_ + std::strtoul(head.c_str() + length + kLength.size(), nullptr, 10);
}

}  // namespace weir::bench
