// How fast requests to a provider may go by what is configured.
#pragma once

#include <optional>
#include <string_view>

#include "config/model.h"

namespace weir {

// Of the limits on requests that a call of `model` passes, the one of the shortest period: it says
// it best. Nothing if there is none.
std::optional<Rate> known_rate(const ProviderConfig& provider, std::string_view model);

}  // namespace weir
