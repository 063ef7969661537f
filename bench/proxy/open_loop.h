// Requests at a constant rate, whether answers come or not.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "daemon/servers.h"

namespace weir::bench {

struct Pace {
  double per_second;
  std::chrono::seconds lasting;
  std::size_t connections;
};

// How long each answer took, in microseconds, sorted: from the instant at which its request was
// due, though it may have been sent later because every connection was busy. The first tenth is
// left out. Dies at any answer but a 200.
std::vector<double> open_loop(std::uint16_t port, const Call& call, const Pace& pace);

}  // namespace weir::bench
