// The keys of a file that limit: limit and period, tokens_per_minute, max_concurrency, limits,
// budget. The same for providers, models, agents and the API.
#pragma once

#include <vector>

#include "config/fields.h"

namespace weir {

// All of them, named, in the order above. Each is one that Limit::create accepts.
std::vector<LimitConfig> read_limits(Fields& fields);

}  // namespace weir
