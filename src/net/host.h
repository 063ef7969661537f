// Hosts, in the one form in which they are compared.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weir::net {

// The host of a URL or of a bare "host", "host:port", "user@host:port", in the one form in which
// hosts are compared: lower case, IDN as punycode (IDNA 2008, TR46 non-transitional), no trailing
// dot, IPv4 and IPv6 literals in their canonical text ("[::1]" becomes "::1"). Nothing for what is
// no host: empty labels, a label of more than 63 bytes, a name of more than 253, other characters.
std::optional<std::string> host_of(std::string_view url);

// Whether `host`, as host_of gives it, is an IPv4 or IPv6 address; and one of this machine itself.
bool is_address(std::string_view host);
bool is_loopback(std::string_view host);  // 127.0.0.0/8, ::1, localhost

}  // namespace weir::net
