// Patterns of names: '*' stands for any text, also none; everything else for itself, case included.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <ranges>
#include <string_view>

namespace weir {

inline bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;  // the last one seen, and how far its text goes
  std::size_t taken = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

// The rule (with a member `pattern`) that says most about `text`: the text itself, else the one
// with the most literal characters, of equal ones the first. Null if none matches.
template <std::ranges::forward_range Rules>
const std::ranges::range_value_t<Rules>* most_specific(const Rules& rules, std::string_view text) {
  const std::ranges::range_value_t<Rules>* best = nullptr;
  std::size_t most = 0;
  for (const auto& rule : rules) {
    const std::string_view pattern = rule.pattern;
    if (!matches(pattern, text)) continue;
    const auto stars = static_cast<std::size_t>(std::ranges::count(pattern, '*'));
    const std::size_t literal =
        pattern == text ? std::numeric_limits<std::size_t>::max() : pattern.size() - stars;
    if (best != nullptr && literal <= most) continue;
    best = &rule;
    most = literal;
  }
  return best;
}

}  // namespace weir
