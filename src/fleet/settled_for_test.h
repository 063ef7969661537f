// A Redis whose quota can be used at once.
#pragma once

#include <string>

#include "fleet/redis_book.h"
#include "redis/redis_for_test.h"

namespace weir::fleet {

// The server has had the book for long: nobody waits for witnesses of another one.
inline const redis::RedisServer& settled(const redis::RedisServer& server,
                                         const std::string& gate = "api") {
  const std::string info = server.cli({"INFO", "server"});
  const std::string run = info.substr(info.find("run_id:") + 7, 40);
  server.cli({"HSET", book_keys(gate)[0], "run", run});
  return server;
}

}  // namespace weir::fleet
