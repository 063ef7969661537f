#include <algorithm>
#include <charconv>

#include "net/characters.h"
#include "net/host.h"
#include "net/upstream.h"

namespace weir::net {

std::optional<Origin> Origin::parse(std::string_view url) {
  const std::size_t colon = url.find("://");
  if (colon == url.npos) return std::nullopt;
  const std::string_view scheme = url.substr(0, colon);
  Origin origin;
  origin.tls = same_ignoring_case(scheme, "https");
  if (!origin.tls && !same_ignoring_case(scheme, "http")) return std::nullopt;
  const std::uint16_t default_port = origin.tls ? 443 : 80;
  origin.port = default_port;

  const std::string_view rest = url.substr(colon + 3);
  const std::string_view authority = rest.substr(0, rest.find('/'));
  std::string_view path = rest.substr(authority.size());
  if (authority.find_first_of("@?#") != authority.npos) return std::nullopt;
  if (!all_are(kTargetCharacter, path) || path.contains('?')) return std::nullopt;

  auto host = host_of(url.substr(0, colon + 3 + authority.size()));
  if (!host) return std::nullopt;
  origin.host = std::move(*host);
  if (const std::size_t mark = authority.rfind(':');
      mark != authority.npos && !authority.ends_with(']')) {
    const std::string_view digits = authority.substr(mark + 1);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), origin.port);
    if (error != std::errc{} || origin.port == 0) return std::nullopt;
  }

  origin.authority = origin.host.contains(':') ? "[" + origin.host + "]" : origin.host;
  if (origin.port != default_port) origin.authority += ":" + std::to_string(origin.port);
  while (path.ends_with('/')) path.remove_suffix(1);
  origin.base = path;
  return origin;
}

}  // namespace weir::net
