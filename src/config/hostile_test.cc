// Random damage to files that were right: nothing crashes, and every mistake stands in the text.
#include <gtest/gtest.h>

#include <random>

#include "config/load.h"
#include "config/texts_for_test.h"

namespace weir {
namespace {

void expect_inside(const Mistakes& mistakes, const std::string& text) {
  EXPECT_FALSE(mistakes.empty()) << text;
  std::vector<std::size_t> lengths(1);
  for (const char c : text) c == '\n' ? lengths.push_back(0) : void(++lengths.back());
  for (const auto& mistake : mistakes) {
    const auto line = static_cast<std::size_t>(mistake.place.line);
    const auto column = static_cast<std::size_t>(mistake.place.column);
    ASSERT_LE(line, lengths.size()) << mistake.text() << "\n" << text;
    if (line > 0) {
      ASSERT_GE(column, 1U) << mistake.text() << "\n" << text;
      ASSERT_LE(column, lengths[line - 1] + 1) << mistake.text() << "\n" << text;
    }
  }
}

TEST(HostileText, DamagedFilesAreReadOrRefusedWithAPlace) {
  std::mt19937 random{20'261'115};
  const auto below = [&](std::size_t end) {
    return std::uniform_int_distribution<std::size_t>{0, end - 1}(random);
  };
  constexpr std::string_view kPieces[] = {
      "\n",    " ",  ":",           ": ",       "- ",   "[",   "]",   "{",  "}",      "\"",
      "'",     "#",  "&a ",         "*a",       "!x ",  "|\n", ">\n", "%",  "\t",     "\r",
      "---\n", "? ", "99999999999", "\xC3\xA9", "\xFF", ",",   "~",   "-1", "limits", "1d"};
  for (int round = 0; round < 1000; ++round) {
    constexpr std::string_view kTexts[] = {kProviderExample, kMainExample, kSeedJson, kSeedFmp};
    std::string text{kTexts[below(std::size(kTexts))]};
    for (std::size_t i = 0, count = 1 + below(6); i < count && !text.empty(); ++i) {
      const std::size_t at = below(text.size());
      switch (below(4)) {
        case 0: text[at] = static_cast<char>(below(256)); break;
        case 1: text.erase(at, 1 + below(20)); break;
        case 2: text.insert(at, kPieces[below(std::size(kPieces))]); break;
        case 3: text.insert(at, text.substr(below(text.size()), below(60))); break;
      }
    }
    if (const auto parsed = parse_provider(text, "f"); !parsed) expect_inside(parsed.error(), text);
    if (const auto parsed = parse_main(text, "f"); !parsed) expect_inside(parsed.error(), text);
    if (const auto parsed = parse_limits(text, "f"); !parsed) expect_inside(parsed.error(), text);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace weir
