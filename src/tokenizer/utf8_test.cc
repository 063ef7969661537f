#include "tokenizer/utf8.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

std::string repair(std::string_view text) {
  std::string repaired;
  return std::string{well_formed_utf8(text, repaired)};
}

TEST(Utf8Test, WellFormedTextStaysWhereItIs) {
  std::string repaired;
  for (const std::string_view text :
       {"", "plain", "a text of more than sixteen bytes, then ü and ß",
        "\u007f\u0080\u07ff\u0800\uD7FF\uE000\uffff\U00010000\U0010ffff"}) {
    const std::string_view same = well_formed_utf8(text, repaired);
    EXPECT_EQ(same.data(), text.data());
    EXPECT_EQ(same.size(), text.size());
  }
}

TEST(Utf8Test, EachByteOfNoCharacterBecomesAReplacement) {
  EXPECT_EQ(repair("\xFF"), "\uFFFD");
  EXPECT_EQ(repair("a\x80z"), "a\uFFFDz");
  EXPECT_EQ(repair("\xE2\x82"), "\uFFFD\uFFFD");                      // cut short
  EXPECT_EQ(repair("\xE2\x82\xC3\xA4"), "\uFFFD\uFFFDä");             // cut short by another
  EXPECT_EQ(repair("\xC0\xAF"), "\uFFFD\uFFFD");                      // longer than need be
  EXPECT_EQ(repair("\xE0\x9F\xBF"), "\uFFFD\uFFFD\uFFFD");            // the same
  EXPECT_EQ(repair("\xF0\x8F\xBF\xBF"), "\uFFFD\uFFFD\uFFFD\uFFFD");  // the same
  EXPECT_EQ(repair("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");            // a surrogate
  EXPECT_EQ(repair("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");  // beyond U+10FFFF
  EXPECT_EQ(repair("\xF5"), "\uFFFD");
}

TEST(Utf8Test, FindsABadByteAtAnyPlaceOfALongText) {
  for (std::size_t at = 0; at < 64; ++at) {
    std::string text(64, 'x');
    text[at] = '\xC3';
    EXPECT_EQ(repair(text), std::string(at, 'x') + "\uFFFD" + std::string(63 - at, 'x'));
  }
}

}  // namespace
}  // namespace weir
