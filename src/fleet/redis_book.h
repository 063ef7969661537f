// RedisBook: the common book, kept in Redis by lease.lua.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fleet/lease.h"
#include "redis/client.h"

namespace weir::fleet {

// The script and what goes through it.
const redis::Script& lease_script();
// q:{gate}:s and q:{gate}:l
std::vector<std::string> book_keys(const std::string& gate);
std::vector<std::string> encode(const LeaseCall& call);
// Fails with kUnavailable if `reply` is not the answer to `asks` asks, with kCallFailed if the
// server refused.
Result<LeaseAnswer> decode(const net::RespValue& reply, std::size_t asks);

class RedisBook final : public Book {
 public:
  explicit RedisBook(std::shared_ptr<redis::Client> client) : client_(std::move(client)) {}

  void ask(const LeaseCall& call, Instant deadline, Done done) override;
  Server server(const std::string& gate) const override;

 private:
  std::shared_ptr<redis::Client> client_;
};

}  // namespace weir::fleet
