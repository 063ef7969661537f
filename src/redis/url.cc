#include "redis/url.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "net/characters.h"
#include "net/host.h"

namespace weir::redis {
namespace {

constexpr int kDatabaseMax = 1'000'000;
constexpr std::size_t kSocketPathMax = 107;  // sockaddr_un

template <class Number>
std::optional<Number> whole_number(std::string_view text) {
  Number parsed{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, parsed);
  if (error != std::errc{} || stop != end || !net::is_digit(text.front())) return std::nullopt;
  return parsed;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  while (!text.empty()) {
    if (text.front() != '%') {
      decoded += text.front();
      text.remove_prefix(1);
      continue;
    }
    const int high = text.size() < 3 ? -1 : net::hex_value(text[1]);
    const int low = text.size() < 3 ? -1 : net::hex_value(text[2]);
    if (high < 0 || low < 0) return std::nullopt;
    decoded += static_cast<char>(high * 16 + low);
    text.remove_prefix(3);
  }
  return decoded;
}

std::unexpected<Error> wrong(std::string_view what) {
  return fail(Errc::kInvalidConfig, fmt::format("the Redis URL {}", what));
}

Result<void> set_database(Address& address, std::string_view text) {
  const auto database = whole_number<int>(text);
  if (!database || *database > kDatabaseMax) {
    return wrong("has a database that is no number from 0");
  }
  address.database = *database;
  return {};
}

Result<void> set_credentials(Address& address, std::string_view text) {
  const std::size_t colon = text.find(':');
  const bool alone = colon == text.npos;  // a user who needs no password
  auto user = percent_decoded(text.substr(0, colon));
  auto password = percent_decoded(alone ? std::string_view{} : text.substr(colon + 1));
  if (!user || !password) return wrong("has a '%' in its user or password that is not %XX");
  if (alone && user->empty()) return wrong("has nothing before its '@'");
  if (!alone && password->empty()) return wrong("has an empty password");
  address.user = std::move(*user);
  address.password = std::move(*password);
  return {};
}

Result<Address> parse_unix(std::string_view rest) {
  Address address;
  const std::size_t mark = rest.find('?');
  auto path = percent_decoded(rest.substr(0, mark));
  if (!path || !path->starts_with('/')) return wrong("has no absolute path after unix://");
  if (path->size() > kSocketPathMax) return wrong("has too long a path for a Unix socket");
  address.path = std::move(*path);
  if (mark == rest.npos) return address;
  const std::string_view query = rest.substr(mark + 1);
  if (!query.starts_with("db=")) return wrong("has something else than db=N after its '?'");
  if (auto set = set_database(address, query.substr(3)); !set) return std::unexpected(set.error());
  return address;
}

}  // namespace

std::string Address::label() const {
  if (host.empty()) return path;
  return fmt::format(fmt::runtime(host.contains(':') ? "[{}]:{}" : "{}:{}"), host, port);
}

Address Address::at(std::string other_host, std::uint16_t other_port) const {
  Address other = *this;
  other.host = std::move(other_host);
  other.port = other_port;
  return other;
}

Result<Address> parse_url(std::string_view url) {
  const std::size_t colon = url.find("://");
  const std::string_view scheme = url.substr(0, colon == url.npos ? 0 : colon);
  const std::string_view rest = url.substr(colon == url.npos ? url.size() : colon + 3);
  if (net::same_ignoring_case(scheme, "unix")) return parse_unix(rest);

  Address address;
  address.tls = net::same_ignoring_case(scheme, "rediss");
  if (!address.tls && !net::same_ignoring_case(scheme, "redis")) {
    return wrong("does not begin with redis://, rediss:// or unix://");
  }
  // A password may have any character, so the last '@' ends it.
  const std::size_t at = rest.rfind('@');
  if (at != rest.npos) {
    if (auto set = set_credentials(address, rest.substr(0, at)); !set) {
      return std::unexpected(set.error());
    }
  }
  const std::string_view place = at == rest.npos ? rest : rest.substr(at + 1);
  if (place.find_first_of("?#") != place.npos)
    return wrong("has a '?' or '#', which means nothing here");
  const std::string_view authority = place.substr(0, place.find('/'));
  const auto host = net::host_of(authority);
  // Not more of it: who forgets the '@' has a password after the colon.
  if (!host) {
    return wrong(
        fmt::format("has no host[:port] in '{}'", authority.substr(0, authority.find(':'))));
  }
  address.host = *host;
  const std::size_t mark = authority.rfind(':');
  if (mark != authority.npos && !authority.ends_with(']') && *host != authority) {
    const auto port = whole_number<std::uint16_t>(authority.substr(mark + 1));
    if (!port || *port == 0) {
      return wrong(fmt::format("has '{}' as its port, which is no number from 1 to 65535",
                               authority.substr(mark + 1)));
    }
    address.port = *port;
  }
  std::string_view path = place.substr(authority.size());
  if (path.size() > 1) {
    if (auto set = set_database(address, path.substr(1)); !set) return std::unexpected(set.error());
  }
  return address;
}

}  // namespace weir::redis
