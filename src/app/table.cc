#include "app/table.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace weir::app {
namespace {

// Continuation bytes of UTF-8 take no place.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string_view code(Colour colour) {
  constexpr std::array<std::string_view, 4> kCodes{"", "\x1b[2m", "\x1b[33m", "\x1b[31m"};
  return kCodes[static_cast<std::size_t>(colour)];
}

}  // namespace

std::string table(const std::vector<std::vector<Cell>>& rows, bool colours) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], width(row[i].text));
    }
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const Cell& cell = row[i];
      const std::string gap(widths[i] - width(cell.text), ' ');
      if (i != 0) line += "  ";
      if (cell.number) line += gap;
      if (colours) line += code(cell.colour);
      line += cell.text;
      if (colours && cell.colour != Colour::kPlain) line += "\x1b[0m";
      if (!cell.number && i + 1 != row.size()) line += gap;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

}  // namespace weir::app
