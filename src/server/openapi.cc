#include "server/openapi.h"

#include "embedded/openapi_text.h"

namespace weir::server {

std::string_view openapi() { return kEmbedded[0].second; }

}  // namespace weir::server
