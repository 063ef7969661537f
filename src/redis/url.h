// Where a Redis is and as whom to speak to it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weir/core/error.h"

namespace weir::redis {

struct Address {
  bool tls = false;
  std::string host = {};  // as net::host_of() has it; empty for a Unix socket
  std::uint16_t port = 6379;
  std::string path = {};  // of a Unix socket
  std::string user = {};  // empty: the default one
  std::string password = {};
  int database = 0;

  // "host:port" or the path: what messages call it.
  std::string label() const;
  // Another server of the same fleet.
  Address at(std::string other_host, std::uint16_t other_port) const;
};

// The forms are those of Options::url. Fails with kInvalidConfig, in a message that says which part
// is wrong and never has the password in it.
Result<Address> parse_url(std::string_view url);

}  // namespace weir::redis
