// The rows of `bench/run fleet`, by the file that measures them. README.md says how.
//
// For the driver's main thread; what goes wrong ends the program.
#pragma once

#include <vector>

#include "daemon/servers.h"
#include "daemon/settings.h"
#include "harness.h"
#include "weir/core/error.h"

namespace weir::bench {

template <class T>
T must(Result<T> result) {
  if (!result) die(result.error().message);
  return *std::move(result);
}

// An empty Redis that keeps nothing on disk. One at a time.
Server start_redis(const Settings& settings);
std::string redis_url(const Server& redis);
// What redis-cli prints; `words` as in a shell.
std::string redis_cli(const Settings& settings, const Server& redis, const std::string& words);

// lease_trips and lease_use. Forks, so no other thread may have been started.
std::vector<Row> leases(const Settings& settings);

Row lease_local(const Settings& settings);
Row fanout(const Settings& settings);

// Wants take_sides().
Row redis_bucket(const Settings& settings);

}  // namespace weir::bench
