// A multiplier in parts per million: people write 1.1, the arithmetic is 1,100,000 / 10^6.
#pragma once

#include <cassert>
#include <cstdint>

#include "weir/core/int128.h"

namespace weir {

class Factor {
 public:
  static constexpr double kMax = 1e6;

  // Rounds to the nearest millionth. `value` lies in [0, kMax]; configurations check it before.
  constexpr explicit Factor(double value)
      : ppm_(static_cast<std::int64_t>(value * kMillion + 0.5)) {
    assert(value >= 0 && value <= kMax);
  }

  // Rounded down.
  constexpr Int128 times(std::int64_t amount) const { return Int128{amount} * ppm_ / kMillion; }

 private:
  static constexpr std::int64_t kMillion = 1'000'000;

  std::int64_t ppm_;
};

}  // namespace weir
