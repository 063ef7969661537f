// 128-bit products: amounts times nanoseconds do not fit into 64 bits.
#pragma once

namespace weir {

__extension__ using Int128 = __int128;

// Division of b > 0 that rounds towards minus and plus infinity.
constexpr Int128 floor_div(Int128 a, Int128 b) { return a / b - (a % b < 0 ? 1 : 0); }
constexpr Int128 ceil_div(Int128 a, Int128 b) { return a / b + (a % b > 0 ? 1 : 0); }

}  // namespace weir
