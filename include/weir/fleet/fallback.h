// What a member of a fleet does while the quota's common book cannot be reached and what it has
// been granted is used up.
#pragma once

#include <cstdint>

namespace weir {

enum class Fallback : std::uint8_t {
  kDeny,     // admits nothing
  kReserve,  // spends a reserve that was set aside for this, then admits nothing: never over
  kShare,    // admits its part: limit ÷ members, as far as it knows them
  kOpen,     // admits everything
  kLocal,    // admits by limits of its own, of full size
};

}  // namespace weir
