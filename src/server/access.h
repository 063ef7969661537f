// Access: who may ask for what.
//
// Tokens come in a header, never in a cookie; only their hashes are kept, and all are compared in
// constant time. Without tokens (a loopback address only, see wide_open) everybody is an admin, so
// two checks keep web pages out: the Host must be an IP address, localhost or a configured name
// (DNS rebinding), and an Origin must be our own on everything that changes or streams (CSRF).
// Safe to use from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "server/http.h"

namespace weir::server {

// What a route wants its caller to be.
enum class Need : std::uint8_t { kNothing, kClient, kRead, kAdmin };

struct Denial {
  int status;
  std::string_view code;
  std::string message;
};

class Access {
 public:
  explicit Access(const MainConfig& config) { apply(config); }
  // Whether tokens or their scopes have changed: then who watches must be asked again.
  bool apply(const MainConfig& config);

  // `peer`: the address it comes from. `streams`: the answer is a stream of events. A token is also
  // looked for where SDKs put a provider's key.
  std::expected<Identity, Denial> check(const net::RequestHead& head, std::string_view peer,
                                        Need need, bool streams) const;

 private:
  using Hash = std::array<unsigned char, 32>;
  struct Token {
    std::string name;
    Scope scope;
    Hash hash;
    bool operator==(const Token&) const = default;
  };
  struct Rules {
    std::vector<Token> tokens;
    std::vector<std::string> hosts;
  };
  static Hash hash_of(std::string_view text);
  std::shared_ptr<const Rules> rules() const;

  mutable std::mutex mutex_;
  std::shared_ptr<const Rules> rules_;
};

}  // namespace weir::server
