// What one limit says to one cost at one instant: yes, not before, never.
#pragma once

#include <cstdint>

#include "weir/core/time.h"

namespace weir {

struct Decision {
  enum class Kind : std::uint8_t { kAdmit, kWait, kNever };

  Kind kind = Kind::kAdmit;
  // False where nobody can know when to come back (slots): retry_after is then a suggestion.
  bool exact = true;
  // With kWait: the same call succeeds this much later if nobody else comes, and not earlier.
  Nanos retry_after{0};

  static constexpr Decision admit() { return {}; }
  static constexpr Decision wait(Nanos retry_after) {
    return {.kind = Kind::kWait, .exact = true, .retry_after = retry_after};
  }
  // A slot comes back when somebody releases it; interfaces suggest a second.
  static constexpr Decision wait_for_release() {
    return {.kind = Kind::kWait, .exact = false, .retry_after = std::chrono::seconds{1}};
  }
  static constexpr Decision never() { return {.kind = Kind::kNever}; }

  constexpr bool admitted() const { return kind == Kind::kAdmit; }
  friend constexpr bool operator==(const Decision&, const Decision&) = default;
};

}  // namespace weir
