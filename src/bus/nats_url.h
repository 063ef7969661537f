// The URLs of NATS servers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weir/core/error.h"

namespace weir::bus {

struct NatsServers {
  struct Server {
    std::string host;
    std::string url;  // nats://host:port, without credentials
  };
  std::vector<Server> servers;  // at least one
  bool tls = false;
  // For all of them. A user without a password is a token.
  std::string user = {};
  std::string password = {};
  std::string token = {};
};

// {nats|tls}://[user:password@ | token@]host[:4222], several with commas between them: of one
// scheme, and with the same credentials where there are any. These are percent-decoded. Fails with
// kInvalidConfig in a message without credentials.
Result<NatsServers> parse_nats_url(std::string_view urls);

}  // namespace weir::bus
