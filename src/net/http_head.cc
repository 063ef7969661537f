#include "net/http_head.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>

#include "net/characters.h"

namespace weir::net {
namespace {

constexpr std::size_t kMethodMax = 32;
constexpr std::size_t kTargetMax = 8 * 1024;
constexpr std::size_t kLengthDigitsMax = 18;  // what always fits into 64 bits

constexpr std::string_view kLineEnd = "\r\n";

using Fault = std::optional<HttpFault>;

enum class Version { kOneZero, kOneOne };

// What the fields say about the message itself.
struct Facts {
  std::optional<std::string_view> host;
  std::optional<std::string_view> content_length;
  std::optional<std::string_view> transfer_encoding;
  bool close = false;
  bool expects_continue = false;
};

constexpr bool is_blank(char c) { return c == ' ' || c == '\t'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// Cuts the next line off `rest`, without its CRLF. Nothing if it does not end so.
std::optional<std::string_view> take_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  if (end == rest.npos || end == 0 || rest[end - 1] != '\r') return std::nullopt;
  const std::string_view line = rest.substr(0, end - 1);
  rest.remove_prefix(end + 1);
  return line;
}

// Cuts `text` at the first `mark`, which is dropped; all of it if there is none.
std::string_view take_until(std::string_view& text, char mark) {
  const std::size_t end = std::min(text.find(mark), text.size());
  const std::string_view front = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return front;
}

// host, host:port, [v6] or [v6]:port, by their characters alone.
bool is_host(std::string_view text) {
  const bool bracketed = text.starts_with('[');
  const auto end = std::ranges::find_if_not(text.substr(bracketed), [&](char c) {
    return bracketed ? hex_value(c) >= 0 || c == ':' || c == '.'
                     : is_digit(c) || is_letter(c) || c == '-' || c == '.' || c == '_';
  });
  std::string_view rest{end, text.end()};
  if (rest.size() + bracketed == text.size()) return false;
  if (bracketed) {
    if (!rest.starts_with(']')) return false;
    rest.remove_prefix(1);
  }
  if (rest.empty()) return true;
  return rest.front() == ':' && rest.size() >= 2 && rest.size() <= 6 &&
         std::ranges::all_of(rest.substr(1), is_digit);
}

Fault note_connection(std::string_view value, Facts& facts) {
  while (!value.empty()) {
    facts.close = same_ignoring_case(trimmed(take_until(value, ',')), "close") || facts.close;
  }
  return {};
}

// Keeps the one value of a field that must be alone. A tab beside it is skipped by some readers
// and taken for a part of it by others.
Fault note_once(std::optional<std::string_view>& kept, std::string_view raw,
                std::string_view value) {
  if (kept || raw.contains('\t')) return HttpFault::kBadMessage;
  kept = value;
  return {};
}

Fault note(std::string_view name, std::string_view raw, std::string_view value, Facts& facts) {
  switch (name.size()) {
    case 4:
      if (same_ignoring_case(name, "host")) return note_once(facts.host, raw, value);
      break;
    case 6:
      if (!same_ignoring_case(name, "expect")) break;
      if (!same_ignoring_case(value, "100-continue")) return HttpFault::kExpectation;
      facts.expects_continue = true;
      break;
    case 10:
      if (same_ignoring_case(name, "connection")) return note_connection(value, facts);
      break;
    case 14:
      if (same_ignoring_case(name, "content-length")) {
        return note_once(facts.content_length, raw, value);
      }
      break;
    case 17:
      if (same_ignoring_case(name, "transfer-encoding")) {
        return note_once(facts.transfer_encoding, raw, value);
      }
      break;
  }
  return {};
}

// How many bytes at the front of `text` may stand in a value; eight at a time as far as they are
// plain: none below space, and none 0x7f.
std::size_t value_size(std::string_view text) {
  constexpr std::uint64_t kOnes = ~std::uint64_t{0} / 0xff;
  std::size_t size = 0;
  for (; size + 8 <= text.size(); size += 8) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, text.data() + size, 8);
    const std::uint64_t del = eight ^ (kOnes * 0x7f);
    const std::uint64_t odd = ((eight - kOnes * ' ') & ~eight) | ((del - kOnes) & ~del);
    if ((odd & (kOnes * 0x80)) != 0) break;
  }
  return size + count_of(kValueCharacter, text.substr(size));
}

// All lines up to the blank one, which must be the last.
Fault parse_fields(std::string_view rest, Fields& fields, Facts& facts) {
  while (!rest.starts_with(kLineEnd)) {
    const std::string_view name = rest.substr(0, count_of(kTokenCharacter, rest));
    rest.remove_prefix(name.size());
    if (name.empty() || !rest.starts_with(':')) return HttpFault::kBadMessage;
    rest.remove_prefix(1);
    const std::string_view raw = rest.substr(0, value_size(rest));
    rest.remove_prefix(raw.size());
    if (!rest.starts_with(kLineEnd)) return HttpFault::kBadMessage;
    rest.remove_prefix(kLineEnd.size());

    const std::string_view value = trimmed(raw);
    if (const Fault fault = note(name, raw, value, facts)) return fault;
    if (!fields.add({name, value})) return HttpFault::kHeadTooLarge;
  }
  if (rest.size() != kLineEnd.size()) return HttpFault::kBadMessage;
  return {};
}

Fault frame_body(const Facts& facts, Version version, BodyFraming& body) {
  if (facts.transfer_encoding) {
    const std::string_view coding = *facts.transfer_encoding;
    if (facts.content_length || version == Version::kOneZero || coding.empty() ||
        !all_are(kTokenCharacter, coding)) {
      return HttpFault::kBadMessage;
    }
    if (!same_ignoring_case(coding, "chunked")) return HttpFault::kNotImplemented;
    body.chunked = true;
  } else if (facts.content_length) {
    const std::string_view digits = *facts.content_length;
    if (digits.empty() || !std::ranges::all_of(digits, is_digit)) return HttpFault::kBadMessage;
    if (digits.size() > kLengthDigitsMax) return HttpFault::kBodyTooLarge;
    std::from_chars(digits.data(), digits.data() + digits.size(), body.length);
  }
  return {};
}

std::expected<Version, HttpFault> parse_version(std::string_view text) {
  if (text == "HTTP/1.1") return Version::kOneOne;
  if (text == "HTTP/1.0") return Version::kOneZero;
  const bool well_formed = text.size() == 8 && text.starts_with("HTTP/") && is_digit(text[5]) &&
                           text[6] == '.' && is_digit(text[7]);
  return std::unexpected(well_formed ? HttpFault::kVersion : HttpFault::kBadMessage);
}

// Sets path and query, and host from an absolute target.
Fault parse_target(std::string_view target, RequestHead& request) {
  if (target.size() > kTargetMax) return HttpFault::kTargetTooLong;
  if (target.empty() || !all_are(kTargetCharacter, target)) return HttpFault::kBadMessage;
  if (target == "*") {
    request.path = target;
    if (request.method != "OPTIONS") return HttpFault::kBadMessage;
    return {};
  }
  if (target.front() != '/') {
    const std::size_t colon = target.find("://");
    const std::string_view scheme = target.substr(0, colon);
    const bool known = same_ignoring_case(scheme, "http") || same_ignoring_case(scheme, "https");
    if (colon == target.npos || !known) return HttpFault::kBadMessage;
    const std::string_view slash = target.substr(colon + 2, 1);
    target.remove_prefix(colon + 3);
    request.host = target.substr(0, target.find_first_of("/?"));
    if (!is_host(request.host)) return HttpFault::kBadMessage;
    target.remove_prefix(request.host.size());
    if (!target.starts_with('/')) {
      request.path = slash;  // no path is the path "/": a view of the one before the host
      request.query = target.substr(target.starts_with('?'));
      return {};
    }
  }
  request.path = take_until(target, '?');
  request.query = target;
  return {};
}

// Host must be there (but in HTTP/1.0), and be that of an absolute target.
Fault check_host(const Facts& facts, Version version, RequestHead& request) {
  if (!facts.host) {
    if (version == Version::kOneOne) return HttpFault::kBadMessage;
    return {};
  }
  if (!is_host(*facts.host)) return HttpFault::kBadMessage;
  if (!request.host.empty() && !same_ignoring_case(request.host, *facts.host)) {
    return HttpFault::kBadMessage;
  }
  request.host = *facts.host;
  return {};
}

Fault parse_request(std::string_view head, RequestHead& request) {
  if (head.size() > kHeadBytesMax) return HttpFault::kHeadTooLarge;
  auto line = take_line(head);
  if (!line) return HttpFault::kBadMessage;
  request.method = take_until(*line, ' ');
  if (request.method.empty() || !all_are(kTokenCharacter, request.method)) {
    return HttpFault::kBadMessage;
  }
  if (request.method.size() > kMethodMax) return HttpFault::kNotImplemented;
  const std::string_view target = take_until(*line, ' ');
  const auto version = parse_version(*line);
  if (!version) return version.error();
  if (const Fault fault = parse_target(target, request)) return fault;

  Facts facts;
  if (const Fault fault = parse_fields(head, request.fields, facts)) return fault;
  if (const Fault fault = check_host(facts, *version, request)) return fault;
  request.http_1_0 = *version == Version::kOneZero;
  request.keep_alive = !request.http_1_0 && !facts.close;
  request.expects_continue = !request.http_1_0 && facts.expects_continue;
  return frame_body(facts, *version, request.body);
}

Fault parse_response(std::string_view head, std::string_view request_method,
                     ResponseHead& response) {
  if (head.size() > kHeadBytesMax) return HttpFault::kHeadTooLarge;
  auto line = take_line(head);
  if (!line) return HttpFault::kBadMessage;
  const auto version = parse_version(take_until(*line, ' '));
  if (!version) return version.error();
  const std::string_view code = take_until(*line, ' ');
  if (code.size() != 3 || code.front() == '0' || !std::ranges::all_of(code, is_digit) ||
      !all_are(kValueCharacter, *line)) {
    return HttpFault::kBadMessage;
  }
  std::from_chars(code.data(), code.data() + code.size(), response.status);
  response.reason = *line;
  response.http_1_0 = *version == Version::kOneZero;

  Facts facts;
  if (const Fault fault = parse_fields(head, response.fields, facts)) return fault;
  if (const Fault fault = frame_body(facts, *version, response.body)) return fault;
  const bool never_has_body = response.status < 200 || response.status == 204;
  const bool contradicts = never_has_body && (response.body.chunked || response.body.length != 0);
  if (contradicts && response.status < 200) return HttpFault::kBadMessage;
  if (request_method == "HEAD" || never_has_body || response.status == 304) {
    response.body = {};
  } else {
    response.body.until_close = !facts.content_length && !facts.transfer_encoding;
  }
  response.keep_alive =
      !response.http_1_0 && !facts.close && !response.body.until_close && !contradicts;
  return {};
}

}  // namespace

Fields& Fields::operator=(const Fields& other) {
  std::ranges::uninitialized_copy(other.all(), fields_);
  count_ = other.count_;
  return *this;
}

std::optional<std::string_view> Fields::find(std::string_view name) const {
  const auto field =
      std::ranges::find_if(all(), [&](const Field& f) { return same_ignoring_case(f.name, name); });
  if (field == all().end()) return std::nullopt;
  return field->value;
}

std::size_t Fields::count(std::string_view name) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      all(), [&](const Field& field) { return same_ignoring_case(field.name, name); }));
}

bool Fields::add(Field field) {
  if (count_ == fields_.size()) return false;
  std::construct_at(&fields_[count_++], field);
  return true;
}

std::optional<std::size_t> find_head_end(std::string_view bytes, std::size_t searched) {
  for (std::size_t end = searched; (end = bytes.find('\n', end)) != bytes.npos; ++end) {
    const bool bare = end == 0 || bytes[end - 1] != '\r';
    if (bare || end == 1 || bytes[end - 2] == '\n') return end + 1;
  }
  if (bytes.size() > kHeadBytesMax) return bytes.size();
  return std::nullopt;
}

std::expected<RequestHead, HttpFault> parse_request_head(std::string_view head) {
  RequestHead request;
  if (const Fault fault = parse_request(head, request)) return std::unexpected(*fault);
  return request;
}

std::expected<ResponseHead, HttpFault> parse_response_head(std::string_view head,
                                                           std::string_view request_method) {
  ResponseHead response;
  if (const Fault fault = parse_response(head, request_method, response)) {
    return std::unexpected(*fault);
  }
  return response;
}

std::optional<std::string> query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    std::string_view value = take_until(query, '&');
    if (take_until(value, '=') != name) continue;
    std::string spaced{value};
    std::ranges::replace(spaced, '+', ' ');
    return percent_decoded(spaced);
  }
  return std::nullopt;
}

std::string text_of(const ResponseHead& head) {
  std::string text = "HTTP/1.1 " + std::to_string(head.status);
  if (!head.reason.empty()) text.append(" ").append(head.reason);
  text += kLineEnd;
  for (const Field& field : head.fields.all()) {
    text.append(field.name).append(":").append(field.value).append(kLineEnd);
  }
  return text.append(kLineEnd);
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  while (!text.empty()) {
    char c = text.front();
    if (c == '%') {
      const int high = text.size() < 3 ? -1 : hex_value(text[1]);
      const int low = text.size() < 3 ? -1 : hex_value(text[2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      text.remove_prefix(2);
    }
    if (c == '\0') return std::nullopt;
    decoded += c;
    text.remove_prefix(1);
  }
  return decoded;
}

}  // namespace weir::net
