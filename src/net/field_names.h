// Header fields and query parameters that mean something to whoever passes a message on.
#pragma once

#include <span>
#include <string_view>

namespace weir::net {

// Names in any case.

bool is_any_of(std::string_view name, std::span<const std::string_view> names);

// Concerns one connection alone (RFC 9110, 7.6.1, and what went by other names).
bool is_hop_by_hop(std::string_view field);

// May carry a credential, with whichever provider.
bool is_credential_field(std::string_view field);
// Likewise a query's parameter. `key` is none: it may be anything.
bool is_credential_parameter(std::string_view parameter);

}  // namespace weir::net
