// The classes of characters that the tokenizers' patterns tell apart, a bit each so that a set of
// classes is a mask. They are those of Unicode as npm tiktoken has it (tools/unicode_ranges).
#pragma once

#include <cstdint>

namespace weir {

using ClassMask = std::uint8_t;

inline constexpr ClassMask kUpper = 1;     // Lu, Lt
inline constexpr ClassMask kLower = 2;     // Ll
inline constexpr ClassMask kCaseless = 4;  // Lm, Lo
inline constexpr ClassMask kMark = 8;      // M
inline constexpr ClassMask kNumber = 16;   // N
inline constexpr ClassMask kSpace = 32;    // \s but for the next two
inline constexpr ClassMask kNewline = 64;  // \r \n
inline constexpr ClassMask kOther = 128;

// The class of every code point, by its value. Made at the first call; lives as long as the
// program.
const ClassMask* unicode_classes();

}  // namespace weir
