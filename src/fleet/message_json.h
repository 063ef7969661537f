// What the fleet's messages have in common: small JSON objects that anybody may have written.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string_view>

namespace weir::fleet {

// Nothing unless it is one JSON object of at most `bytes_max` that is not deeply nested.
std::optional<boost::json::object> parse_object(std::string_view text, std::size_t bytes_max);

// Nothing unless the object has such a string.
std::optional<std::string_view> text_of(const boost::json::object& object, std::string_view key);

}  // namespace weir::fleet
