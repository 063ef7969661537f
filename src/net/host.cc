#include "net/host.h"

#include <arpa/inet.h>
#include <idn2.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <memory>

#include "net/characters.h"

namespace weir::net {
namespace {

constexpr std::size_t kNameMax = 253;
constexpr std::size_t kLabelMax = 63;
constexpr std::size_t kWrittenMax = 4 * kNameMax;  // before IDN: UTF-8, four bytes a character

// White space, control characters and backslashes, which browsers drop or read as slashes.
constexpr bool misleads(char c) { return (is_ascii(c) && c <= ' ') || c == 0x7f || c == '\\'; }

// The canonical text of an address of `family`; nothing if `text` is none.
template <int family>
std::optional<std::string> address(std::string_view text) {
  std::array<char, INET6_ADDRSTRLEN> buffer{};
  if (text.size() >= buffer.size()) return std::nullopt;
  std::ranges::copy(text, buffer.begin());
  in6_addr parsed{};  // large enough for both
  if (inet_pton(family, buffer.data(), &parsed) != 1) return std::nullopt;
  return inet_ntop(family, &parsed, buffer.data(), buffer.size());
}

bool is_scheme(std::string_view text) {
  return !text.empty() && is_letter(text.front()) && std::ranges::all_of(text, [](char c) {
    return is_letter(c) || is_digit(c) || c == '+' || c == '-' || c == '.';
  });
}

bool is_port(std::string_view text) {
  if (text.empty() || text.size() > 5 || !std::ranges::all_of(text, is_digit)) return false;
  int port = 0;
  for (const char c : text) port = port * 10 + (c - '0');
  return port <= 65'535;
}

bool is_label(std::string_view label) {
  return !label.empty() && label.size() <= kLabelMax && label.front() != '-' &&
         label.back() != '-' && std::ranges::all_of(label, [](char c) {
           return is_letter(c) || is_digit(c) || c == '-' || c == '_';
         });
}

// Such a last label makes resolvers read the name as an IPv4 address: 2130706433, 0x7f.1.
bool is_number(std::string_view label) {
  return std::ranges::all_of(label, is_digit) ||
         (label.starts_with("0x") &&
          std::ranges::all_of(label.substr(2), [](char c) { return hex_value(c) >= 0; }));
}

std::optional<std::string> punycode(const std::string& name) {
  std::uint8_t* raw = nullptr;
  const int status = idn2_lookup_u8(reinterpret_cast<const std::uint8_t*>(name.c_str()), &raw,
                                    IDN2_NFC_INPUT | IDN2_NONTRANSITIONAL);
  const std::unique_ptr<std::uint8_t, decltype(&idn2_free)> owned{raw, &idn2_free};
  if (status != IDN2_OK) return std::nullopt;
  return reinterpret_cast<const char*>(raw);
}

std::optional<std::string> canonical_name(std::string_view written) {
  if (written.size() > kWrittenMax) return std::nullopt;
  std::string name{written};
  std::ranges::transform(name, name.begin(), lower);
  const bool ascii = std::ranges::all_of(name, is_ascii);
  if (!ascii || name.starts_with("xn--") || name.contains(".xn--")) {
    auto converted = punycode(name);
    if (!converted) return std::nullopt;
    name = std::move(*converted);
  }
  if (name.ends_with('.')) name.pop_back();
  if (name.size() > kNameMax) return std::nullopt;

  std::string_view last;
  for (std::size_t begin = 0; begin <= name.size(); begin += last.size() + 1) {
    last = std::string_view{name}.substr(begin);
    last = last.substr(0, last.find('.'));
    if (!is_label(last)) return std::nullopt;
  }
  if (is_number(last) && address<AF_INET>(name) != name) return std::nullopt;
  return name;
}

}  // namespace

std::optional<std::string> host_of(std::string_view url) {
  if (std::ranges::any_of(url, misleads)) return std::nullopt;
  if (auto bare = address<AF_INET6>(url)) return bare;

  std::string_view authority = url;
  const std::size_t colon = url.find("://");
  const bool has_scheme = colon != url.npos && is_scheme(url.substr(0, colon));
  if (has_scheme) authority.remove_prefix(colon + 3);
  authority = authority.substr(0, authority.find_first_of("/?#"));
  authority.remove_prefix(authority.rfind('@') + 1);  // npos + 1 is 0

  const bool bracketed = authority.starts_with('[');
  const std::size_t end = bracketed ? authority.find(']') : authority.find(':');
  if (bracketed && end == authority.npos) return std::nullopt;
  const std::string_view host = authority.substr(bracketed, end - bracketed);
  const std::string_view rest =
      authority.substr(std::min(authority.size(), bracketed ? end + 1 : end));
  const bool port_is_well = rest.empty() || (rest == ":" && has_scheme) ||
                            (rest.starts_with(':') && is_port(rest.substr(1)));
  if (!port_is_well) return std::nullopt;
  return bracketed ? address<AF_INET6>(host) : canonical_name(host);
}

bool is_address(std::string_view host) { return address<AF_INET>(host) || address<AF_INET6>(host); }

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" ||
         (host.starts_with("127.") && address<AF_INET>(host));
}

}  // namespace weir::net
