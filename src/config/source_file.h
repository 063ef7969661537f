// A source's definition, in a file for `weir add` or in the body of a PUT.
//
//   name: fmp-aapl-prices
//   url: https://financialmodelingprep.com/api/v3/historical-price-full/AAPL
//   every: 5m          # default 1m
//   timeout: 10s       # default 30s
//   max_body: 256KiB   # default 1MiB
//   headers: {Accept: application/json}
#pragma once

#include "config/fields.h"

namespace weir {

inline constexpr std::size_t kSourceHeadersMax = 32;
inline constexpr std::size_t kSourceUrlBytesMax = 2048;
inline constexpr std::string_view kKeyInQuery =
    "holds a key; put it into the provider's file (api_key, and api_key_parameter for its name): "
    "keys are never stored";

// What could be read; with mistakes in the Reading it is not to be used. `name` as parse_source()
// (load.h) has it.
SourceConfig read_source(Reading& reading, const Node& root, std::string_view name);

}  // namespace weir
