// The head of an HTTP/1.1 message: request line or status line, and header fields, strictly read.
//
// Pure: bytes in, views of those bytes out; nothing is copied or allocated. Whatever two readers of
// one message could understand differently is refused (request smuggling, docs/http.md): a bare CR
// or LF, NUL, folded lines, white space before a colon, more than one Content-Length or one that is
// not all digits, any Transfer-Encoding but exactly `chunked`, both of them, no Host or several.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace weir::net {

// Why a message is refused, and the status that says so.
enum class HttpFault : std::uint16_t {
  kBadMessage = 400,
  kBodyTooLarge = 413,
  kTargetTooLong = 414,
  kExpectation = 417,  // an Expect that is not 100-continue
  kHeadTooLarge = 431,
  kNotImplemented = 501,  // a method or transfer coding that nobody here knows
  kVersion = 505,
};

inline constexpr std::size_t kHeadBytesMax = 16 * 1024;
inline constexpr std::size_t kFieldsMax = 100;

struct Field {
  std::string_view name;   // as sent
  std::string_view value;  // without white space around it
};

class Fields {
 public:
  // Only those that are there are ever written or copied: room for all is 3 KiB.
  Fields() {}
  Fields(const Fields& other) { *this = other; }
  Fields& operator=(const Fields& other);

  // The value of the first field of this name, whatever its case; nothing if there is none.
  std::optional<std::string_view> find(std::string_view name) const;
  std::size_t count(std::string_view name) const;
  std::span<const Field> all() const { return {fields_.data(), count_}; }
  bool add(Field field);  // false if full

 private:
  union {
    std::array<Field, kFieldsMax> fields_;
  };
  std::size_t count_ = 0;
};

// How the body is framed; the same rules for both directions.
struct BodyFraming {
  std::uint64_t length = 0;  // unless chunked
  bool chunked = false;
  bool until_close = false;  // responses only
};

struct RequestHead {
  std::string_view method;
  std::string_view path;   // "/v1/acquire", as sent: neither decoded nor normalised
  std::string_view query;  // after the '?', without it
  std::string_view host;   // of the one Host field
  Fields fields;
  BodyFraming body;
  bool keep_alive = true;
  bool expects_continue = false;
  bool http_1_0 = false;
};

struct ResponseHead {
  int status = 0;
  std::string_view reason;  // "OK"; empty where a server sends none
  Fields fields;
  BodyFraming body;
  bool keep_alive = true;
  bool http_1_0 = false;
};

// The size of the head at the front of `bytes`, its blank line included; nothing if it has not all
// come. `searched`: how many bytes an earlier call has looked at already. What cannot become a good
// head (a bare LF, a blank line first, more than kHeadBytesMax) ends where that is seen, so that
// parsing it says why.
std::optional<std::size_t> find_head_end(std::string_view bytes, std::size_t searched = 0);

// `head`: the bytes that find_head_end() measured. Absolute targets ("http://host/path") are
// accepted and must agree with Host. HTTP/1.0 is served without keep-alive.
std::expected<RequestHead, HttpFault> parse_request_head(std::string_view head);

// `request_method`: HEAD has no body whatever the head says, nor have 1xx, 204 and 304. A 1xx that
// speaks of a body is refused; after a 204 that does, the connection is not kept: others would look
// for that body in front of the next answer.
std::expected<ResponseHead, HttpFault> parse_response_head(std::string_view head,
                                                           std::string_view request_method);

// The head as text again, for the time after its bytes are gone; no longer than it was.
std::string text_of(const ResponseHead& head);

// "a=1&b=%20" → the decoded value of the first `name`, a '+' being a space as in forms; nothing if
// it is not there or not well encoded.
std::optional<std::string> query_value(std::string_view query, std::string_view name);

// Undoes %XX. Nothing if it is not well encoded or holds NUL.
std::optional<std::string> percent_decoded(std::string_view text);

}  // namespace weir::net
