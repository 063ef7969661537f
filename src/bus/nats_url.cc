#include "bus/nats_url.h"

#include <charconv>

#include <fmt/format.h>

#include "net/host.h"
#include "net/http_head.h"

namespace weir::bus {
namespace {

// Says nothing of the URL itself: a slip may have put the password anywhere.
std::unexpected<Error> refuse(std::string_view what) {
  return fail(Errc::kInvalidConfig, fmt::format("the URL of the bus: {}", what));
}

Result<NatsServers> parse_one(std::string_view url) {
  NatsServers parsed;
  if (url.starts_with("tls://")) {
    parsed.tls = true;
  } else if (!url.starts_with("nats://")) {
    return refuse("neither nats:// nor tls://");
  }
  std::string_view authority = url.substr(url.find("://") + 3);
  if (authority.ends_with('/')) authority.remove_suffix(1);
  if (const auto at = authority.rfind('@'); at != authority.npos) {
    const std::string_view credentials = authority.substr(0, at);
    authority.remove_prefix(at + 1);
    const auto colon = credentials.find(':');
    const auto first = net::percent_decoded(credentials.substr(0, colon));
    const auto second =
        net::percent_decoded(colon == credentials.npos ? "" : credentials.substr(colon + 1));
    if (!first || !second) return refuse("a credential is not percent-encoded");
    if (first->empty()) return refuse("neither user nor token before '@'");
    if (colon == credentials.npos) {
      parsed.token = *first;
    } else {
      parsed.user = *first;
      parsed.password = *second;
    }
  }

  std::string_view port = "4222";
  if (const auto colon = authority.rfind(':');
      colon != authority.npos && authority.find(']', colon) == authority.npos) {
    port = authority.substr(colon + 1);
    authority = authority.substr(0, colon);
  }
  unsigned number = 0;
  const auto end = port.data() + port.size();
  const auto read = std::from_chars(port.data(), end, number);
  if (read.ec != std::errc{} || read.ptr != end || number == 0 || number > 65535) {
    return refuse("the port is no number from 1 to 65535");
  }
  const auto host = net::host_of(authority);
  if (!host || authority.find_first_of("/?#@") != authority.npos) {
    return refuse("neither a host's name nor an address");
  }
  const bool ipv6 = host->contains(':');
  parsed.servers.push_back(
      {*host, fmt::format("nats://{}{}{}:{}", ipv6 ? "[" : "", *host, ipv6 ? "]" : "", number)});
  return parsed;
}

}  // namespace

Result<NatsServers> parse_nats_url(std::string_view urls) {
  NatsServers all;
  for (;;) {
    const auto comma = urls.find(',');
    auto one = parse_one(urls.substr(0, comma));
    if (!one) return one;
    if (all.servers.empty()) {
      all = std::move(*one);
    } else {
      if (one->tls != all.tls) return refuse("nats:// and tls:// in one list");
      if (one->user.empty() && one->token.empty()) {
        one->user = all.user, one->password = all.password, one->token = all.token;
      } else if (all.user.empty() && all.token.empty()) {
        all.user = one->user, all.password = one->password, all.token = one->token;
      }
      if (one->user != all.user || one->password != all.password || one->token != all.token) {
        return refuse("different credentials in one list");
      }
      all.servers.push_back(std::move(one->servers.front()));
    }
    if (comma == urls.npos) return all;
    urls.remove_prefix(comma + 1);
  }
}

}  // namespace weir::bus
