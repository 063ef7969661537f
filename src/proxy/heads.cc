#include "proxy/heads.h"

#include <fmt/format.h>

#include <array>
#include <ranges>

#include "net/characters.h"
#include "net/field_names.h"
#include "provider/answers.h"

namespace weir::proxy {
namespace {

using net::same_ignoring_case;

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// Fields that concern one connection alone: always, or because Connection names them.
class HopByHop {
 public:
  explicit HopByHop(const net::Fields& fields) : fields_(fields) {
    named_ = fields.find("connection").has_value();
  }
  bool contains(std::string_view name) const {
    return net::is_hop_by_hop(name) || (named_ && is_named(name));
  }

 private:
  bool is_named(std::string_view name) const {
    for (const net::Field& field : fields_.all()) {
      if (!same_ignoring_case(field.name, "connection")) continue;
      for (const auto option : field.value | std::views::split(',')) {
        const std::string_view text{option.begin(), option.end()};
        if (same_ignoring_case(trimmed(text), name)) return true;
      }
    }
    return false;
  }

  const net::Fields& fields_;
  bool named_;
};

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

bool starts_ignoring_case(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() && same_ignoring_case(text.substr(0, prefix.size()), prefix);
}

}  // namespace

std::string request_head(const net::RequestHead& head, const ProviderConfig& provider,
                         const Upward& upward) {
  std::string out;
  out.reserve(1024);
  out.append(head.method).append(" ").append(upward.origin.base).append(upward.path);
  if (!upward.query.empty()) out.append("?").append(upward.query);
  append_key_parameter(out, provider);
  out += " HTTP/1.1\r\n";
  append_field(out, "Host", upward.origin.authority);

  constexpr std::array<std::string_view, 3> kOurs{"host", "content-length", "expect"};
  const HopByHop hop_by_hop{head.fields};
  for (const net::Field& field : head.fields.all()) {
    if (net::is_any_of(field.name, kOurs) || starts_ignoring_case(field.name, "x-weir-") ||
        hop_by_hop.contains(field.name)) {
      continue;
    }
    if (upward.read && same_ignoring_case(field.name, "accept-encoding")) continue;
    if (net::is_credential_field(field.name) &&
        (!provider.pass_client_key || same_ignoring_case(field.name, upward.token_field))) {
      continue;
    }
    append_field(out, field.name, field.value);
  }
  if (upward.read) append_field(out, "Accept-Encoding", "identity");
  append_key(out, provider);
  const bool bodiless = head.method == "GET" || head.method == "HEAD";
  if (upward.body_bytes != 0 || !bodiless) {
    fmt::format_to(std::back_inserter(out), "Content-Length: {}\r\n", upward.body_bytes);
  }
  out += "\r\n";
  return out;
}

std::string response_head(const net::ResponseHead& head, const Framing& framing, bool keep_alive,
                          std::string_view more) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", head.status, head.reason);
  const HopByHop hop_by_hop{head.fields};
  for (const net::Field& field : head.fields.all()) {
    if (hop_by_hop.contains(field.name)) continue;
    if (framing.kind != Framing::Kind::kNone && same_ignoring_case(field.name, "content-length")) {
      continue;
    }
    append_field(out, field.name, field.value);
  }
  out += more;
  if (framing.kind == Framing::Kind::kLength) {
    fmt::format_to(std::back_inserter(out), "Content-Length: {}\r\n", framing.length);
  }
  if (framing.kind == Framing::Kind::kChunked) out += "Transfer-Encoding: chunked\r\n";
  if (!keep_alive || framing.kind == Framing::Kind::kClose) out += "Connection: close\r\n";
  out += "\r\n";
  return out;
}

bool climbs(std::string_view path) {
  if (!path.contains("..") && !path.contains('%')) return false;
  for (const auto part : path | std::views::split('/')) {
    const auto decoded = net::percent_decoded({part.begin(), part.end()});
    if (!decoded || *decoded == ".." || decoded->contains("../") || decoded->contains("/..")) {
      return true;
    }
  }
  return false;
}

}  // namespace weir::proxy
