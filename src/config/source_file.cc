#include "config/source_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "net/characters.h"
#include "net/field_names.h"
#include "net/http_head.h"
#include "net/upstream.h"

namespace weir {
namespace {

constexpr Nanos kEveryMin = std::chrono::seconds{1};
constexpr Nanos kEveryMax = std::chrono::days{365};
constexpr Nanos kTimeoutMax = std::chrono::minutes{10};
constexpr std::uint64_t kBodyMost = 8 * 1024 * 1024;
constexpr std::size_t kHeaderBytesMax = 1024;  // of one value

constexpr std::string_view kKeyBelongs =
    "put the key into the provider's file (api_key): keys are never stored";

std::string lower(std::string_view text) {
  std::string out{text};
  std::ranges::transform(out, out.begin(), net::lower);
  return out;
}

// Beyond the fields that providers are known to use: what is called like a credential.
bool carries_credential(std::string_view field) {
  if (net::is_credential_field(field)) return true;
  constexpr std::array<std::string_view, 15> kParts{
      "token",           "secret",  "apikey",      "api-key",       "password",
      "passphrase",      "x-auth",  "credential",  "auth-key",      "access-key",
      "application-key", "app-key", "private-key", "functions-key", "subscription-key"};
  std::string name = lower(field);
  std::ranges::replace(name, '_', '-');
  return std::ranges::any_of(kParts, [&](auto part) { return name.contains(part); });
}

bool query_carries_credential(std::string_view query) {
  constexpr std::array<std::string_view, 16> kNames{
      "token",   "api_token",     "auth_token", "private_token",  "id_token",   "refresh_token",
      "secret",  "client_secret", "password",   "passwd",         "access_key", "secret_key",
      "app_key", "sig",           "signature",  "x-amz-signature"};
  while (!query.empty()) {
    const std::string_view parameter = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(parameter.size() + 1, query.size()));
    const std::string_view encoded = parameter.substr(0, parameter.find('='));
    const std::string name = net::percent_decoded(encoded).value_or(std::string{encoded});
    if (net::is_credential_parameter(name) || net::is_any_of(name, kNames)) return true;
  }
  return false;
}

// Why `url` is none to fetch from; empty if it is. Never quotes it: it may hold a password.
std::string_view url_flaw(std::string_view url) {
  if (url.size() > kSourceUrlBytesMax) return "is longer than 2048 bytes";
  const std::size_t scheme = url.find("://");
  if (scheme == url.npos || (!net::same_ignoring_case(url.substr(0, scheme), "https") &&
                             !net::same_ignoring_case(url.substr(0, scheme), "http"))) {
    return "must begin with https:// or http://";
  }
  const std::size_t rest = std::min(url.find_first_of("/?#", scheme + 3), url.size());
  if (url.substr(0, rest).contains('@')) {
    return "must not hold a user or a password; put the key into the provider's file (api_key)";
  }
  if (url.contains('#')) return "must not hold a fragment (#)";
  if (!net::all_are(net::kTargetCharacter, url.substr(rest))) {
    return "must be percent-encoded: its path and query hold visible ASCII alone";
  }
  if (!net::Origin::parse(url.substr(0, rest))) return "is not a URL such as https://example.com/a";
  const std::size_t query = url.find('?');
  if (query != url.npos && query_carries_credential(url.substr(query + 1))) {
    return kKeyInQuery;
  }
  return {};
}

std::string_view header_flaw(std::string_view name, std::string_view value) {
  constexpr std::array<std::string_view, 4> kOurs{"host", "content-length", "expect",
                                                  "accept-encoding"};
  if (name.empty() || name.size() > 64 || !net::all_are(net::kTokenCharacter, name)) {
    return "is no name of a header";
  }
  if (net::is_hop_by_hop(name) || net::is_any_of(name, kOurs) ||
      lower(name).starts_with("x-weir-")) {
    return "is written by Weir itself";
  }
  if (carries_credential(name)) return kKeyBelongs;
  if (value.size() > kHeaderBytesMax || !net::all_are(net::kValueCharacter, value) ||
      value.starts_with(' ') || value.ends_with(' ')) {
    return "must be a value of at most 1024 bytes on one line";
  }
  return {};
}

void read_headers(SourceConfig& source, Fields& fields) {
  const auto headers = fields.map("headers");
  if (!headers) return;
  const Node& node = headers->node();
  if (node.keys.size() > kSourceHeadersMax) {
    return fields.mistake("headers", fmt::format("are at most {}", kSourceHeadersMax));
  }
  Reading& reading = fields.reading();
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const Node& value = node.items[i];
    const std::string& name = node.keys[i].text;
    const std::string path = fmt::format("headers.{}", shown(name));
    if (value.kind == Node::Kind::kRefused) continue;
    if (value.kind != Node::Kind::kScalar) {
      reading.mistake(node.keys[i], path, "expected text");
      continue;
    }
    if (const auto flaw = header_flaw(name, value.text); !flaw.empty()) {
      reading.mistake(node.keys[i], path, std::string{flaw});
    }
    const auto same = [&](const auto& other) { return net::same_ignoring_case(other.first, name); };
    if (std::ranges::any_of(source.headers, same)) {
      reading.mistake(node.keys[i], path, "stands here twice");
    }
    source.headers.emplace_back(name, value.text);
  }
}

void read_period(Fields& fields, std::string_view key, Nanos from, Nanos to, Nanos& value) {
  const auto given = fields.period(key);
  if (!given) return;
  value = *given;
  if (value < from || value > to) {
    fields.mistake(key, fmt::format("is from {} to {}", spell(from), spell(to)));
  }
}

}  // namespace

SourceConfig read_source(Reading& reading, const Node& root, std::string_view name) {
  SourceConfig source;
  auto found = Fields::of(reading, root);
  if (!found) return source;
  Fields& fields = *found;
  if (name.empty()) fields.require("name");
  source.name = fields.name("name").value_or(std::string{name});
  if (!name.empty() && source.name != name) {
    fields.mistake("name", fmt::format("is not {}, as the address of the request says", name));
  }
  if (const Node* at = fields.find("name"); at != nullptr && !source.name.empty()) {
    reading.claim(&Claims::sources, source.name, *at, "name");
  }
  fields.require("url");
  source.url = fields.text("url", "a URL such as https://example.com/a").value_or("");
  if (const auto flaw = url_flaw(source.url); !source.url.empty() && !flaw.empty()) {
    fields.mistake("url", std::string{flaw});
  }
  read_period(fields, "every", kEveryMin, kEveryMax, source.every);
  read_period(fields, "timeout", kEveryMin, kTimeoutMax, source.timeout);
  source.max_body = fields.bytes("max_body", kBodyMost).value_or(source.max_body);
  read_headers(source, fields);
  fields.finish();
  return source;
}

}  // namespace weir
