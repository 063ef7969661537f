#include "net/field_names.h"

#include <algorithm>
#include <array>

#include "net/characters.h"

namespace weir::net {
bool is_any_of(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::any_of(names,
                             [&](std::string_view each) { return same_ignoring_case(name, each); });
}

bool is_hop_by_hop(std::string_view field) {
  constexpr std::array<std::string_view, 9> kNames{
      "connection",        "keep-alive",         "proxy-connection",   "te", "trailer", "upgrade",
      "transfer-encoding", "proxy-authenticate", "proxy-authorization"};
  return is_any_of(field, kNames);
}

bool is_credential_field(std::string_view field) {
  constexpr std::array<std::string_view, 8> kNames{"authorization",
                                                   "x-api-key",
                                                   "api-key",
                                                   "x-goog-api-key",
                                                   "proxy-authorization",
                                                   "ocp-apim-subscription-key",
                                                   "x-amz-security-token",
                                                   "cookie"};
  return is_any_of(field, kNames);
}

bool is_credential_parameter(std::string_view parameter) {
  constexpr std::array<std::string_view, 5> kNames{"access_token", "api_key", "api-key", "apikey",
                                                   "subscription-key"};
  return is_any_of(parameter, kNames);
}

}  // namespace weir::net
