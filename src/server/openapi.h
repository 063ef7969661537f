// The API's description (docs/openapi.json), as it is served at /openapi.json.
#pragma once

#include <string_view>

namespace weir::server {

std::string_view openapi();

}  // namespace weir::server
