// The rows of `bench/run proxy`, by the file that measures them. README.md says how.
//
// For the driver's main thread; what goes wrong ends the program.
#pragma once

#include <vector>

#include "daemon/settings.h"
#include "harness.h"

namespace weir::bench {

Row quota_known(const Settings& settings);
Row sdk_alone(const Settings& settings);

// These want take_sides().
// proxy_rps, proxy_llm_rps, proxy_portkey and proxy_p99.
std::vector<Row> forwarding(const Settings& settings);
Row stream_first(const Settings& settings);

}  // namespace weir::bench
