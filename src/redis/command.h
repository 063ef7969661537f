// A command on its way to a server and back.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "redis/client.h"

namespace weir::redis {

struct Command {
  static constexpr int kAnyNode = -1;

  std::string bytes = {};  // as they are sent
  Instant deadline = kEndOfTime;
  Client::Done done = {};  // empty: nobody waits for the answer
  int slot = kAnyNode;
  std::shared_ptr<const std::string> script = {};  // of an EVALSHA that has not been sent whole
  int redirects = 0;
  bool asking = false;  // goes behind an ASKING
  bool own = false;     // of the client itself: not counted
};

}  // namespace weir::redis
