// The heads that the proxy sends, up and down: written anew, so that nothing of how a message came
// framed, and nothing that concerned one connection alone, goes on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/model.h"
#include "net/http_head.h"
#include "net/upstream.h"

namespace weir::proxy {

struct Upward {
  const net::Origin& origin;
  std::string_view path;   // below the origin's base, as the client sent it
  std::string_view query;  // without '?'
  std::size_t body_bytes;
  std::string_view token_field;  // what carried the client's Weir token; see server::Identity
  bool read;                     // the answer is to be read, so it must not be compressed
};

// Every end-to-end field of the client goes on but X-Weir-* and credentials. Of these the provider
// gets the configured key, or the client's own if `pass_client_key`.
std::string request_head(const net::RequestHead& head, const ProviderConfig& provider,
                         const Upward& upward);

// How the body of an answer is framed for the client.
struct Framing {
  enum class Kind : std::uint8_t {
    kNone,    // no body, whatever the fields say: HEAD, 204, 304
    kLength,  // as many bytes as Content-Length says
    kChunked,
    kClose,  // the end of the connection is its end
  };
  Kind kind = Kind::kNone;
  std::uint64_t length = 0;
};

// `more`: further lines, each with its CRLF.
std::string response_head(const net::ResponseHead& head, const Framing& framing, bool keep_alive,
                          std::string_view more = {});

// Whether a path leaves its base: a segment "..", percent-encoded or not.
bool climbs(std::string_view path);

}  // namespace weir::proxy
