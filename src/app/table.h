// A table for a terminal: columns as wide as they need to be, numbers to the right.
#pragma once

#include <string>
#include <vector>

namespace weir::app {

enum class Colour : std::uint8_t { kPlain, kFaint, kYellow, kRed };

struct Cell {
  std::string text;
  Colour colour = Colour::kPlain;
  bool number = false;
};

// The first row is the heading. `colours`: for a terminal.
std::string table(const std::vector<std::vector<Cell>>& rows, bool colours);

}  // namespace weir::app
