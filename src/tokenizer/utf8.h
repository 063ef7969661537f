// UTF-8 made sure of once, so that what reads the text afterwards need not look.
#pragma once

#include <string>
#include <string_view>

namespace weir {

// `text` if it is UTF-8; else a view of `repaired`, which becomes `text` with U+FFFD for each byte
// that is no part of a well-formed character.
std::string_view well_formed_utf8(std::string_view text, std::string& repaired);

}  // namespace weir
