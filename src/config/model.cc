#include "config/model.h"

#include <fmt/format.h>

#include <charconv>

#include "config/fields.h"
#include "config/load.h"
#include "net/host.h"

namespace weir {

std::string Mistake::text() const {
  std::string text = place.file;
  if (place.line > 0) text += fmt::format(":{}:{}", place.line, place.column);
  for (const auto& part : {field, message}) {
    if (!text.empty() && !part.empty()) text += ": ";
    text += part;
  }
  return text;
}

bool Listen::loopback() const { return net::is_loopback(host); }

std::optional<std::string> wide_open(const MainConfig& main) {
  if (main.listen.loopback() || !main.tokens.empty()) return {};
  return fmt::format(
      "listening on {} without auth.tokens would let everybody in; add tokens, or listen on "
      "127.0.0.1",
      main.listen.host);
}

Result<Listen> parse_listen(std::string_view text) {
  const auto refusal = [&] {
    return fail(Errc::kInvalidConfig,
                fmt::format("{} is not an address to listen on; write 127.0.0.1:9347, [::1]:9347 "
                            "or a port from 0 to 65535",
                            excerpt(text)));
  };
  Listen listen;
  const std::size_t colon = text.rfind(':');
  const std::string_view port = colon == text.npos ? text : text.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), listen.port);
  if (error != std::errc{} || end != port.data() + port.size()) return refusal();
  if (colon == text.npos) return listen;
  const std::string_view host = text.substr(0, colon);
  if (host.find_first_of("/@?#") != host.npos ||
      (host.find(':') != host.npos && !host.starts_with('['))) {
    return refusal();
  }
  auto known = net::host_of(host);
  if (!known) return refusal();
  listen.host = *std::move(known);
  return listen;
}

}  // namespace weir
