#include "tokenizer/splitter.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace weir {
namespace {

using Pieces = std::vector<std::string_view>;

Pieces split(Encoding encoding, std::string_view text) {
  const char* const end = text.data() + text.size();
  const Splitter splitter{end, unicode_classes()};
  Pieces pieces;
  for (const char* at = text.data(); at != end;) {
    const char* const next =
        encoding == Encoding::kCl100k ? splitter.cl100k_piece(at) : splitter.o200k_piece(at);
    pieces.emplace_back(at, next);
    at = next;
  }
  return pieces;
}
Pieces cl100k(std::string_view text) { return split(Encoding::kCl100k, text); }
Pieces o200k(std::string_view text) { return split(Encoding::kO200k, text); }

TEST(SplitterTest, BothPutASpaceOrSymbolBeforeTheWordItLeads) {
  for (const auto split_by : {cl100k, o200k}) {
    EXPECT_EQ(split_by("one two.three\ttab"), (Pieces{"one", " two", ".three", "\ttab"}));
    EXPECT_EQ(split_by("a  b"), (Pieces{"a", " ", " b"}));
    EXPECT_EQ(split_by(" !? ;x"), (Pieces{" !?", " ;", "x"}));
  }
}

TEST(SplitterTest, BothTakeThreeNumbersAtATime) {
  for (const auto split_by : {cl100k, o200k}) {
    EXPECT_EQ(split_by("1234567"), (Pieces{"123", "456", "7"}));
    EXPECT_EQ(split_by(" 12²½x"), (Pieces{" ", "12²", "½", "x"}));
  }
}

TEST(SplitterTest, BothLeaveTheLastSpaceToWhatFollows) {
  for (const auto split_by : {cl100k, o200k}) {
    EXPECT_EQ(split_by("   x"), (Pieces{"  ", " x"}));
    EXPECT_EQ(split_by("   1"), (Pieces{"  ", " ", "1"}));
    EXPECT_EQ(split_by("x   "), (Pieces{"x", "   "}));
    EXPECT_EQ(split_by("x \n \r\n  y"), (Pieces{"x", " \n \r\n", " ", " y"}));
    EXPECT_EQ(split_by("\u3000\u00a0\u2028."), (Pieces{"\u3000\u00a0", "\u2028", "."}));
    EXPECT_EQ(split_by("\n."), (Pieces{"\n", "."}));
  }
}

TEST(SplitterTest, Cl100kCutsContractionsOffBeforeWords) {
  EXPECT_EQ(cl100k("it's we'LL'd 'tis"), (Pieces{"it", "'s", " we", "'LL", "'d", " '", "tis"}));
  EXPECT_EQ(cl100k("'tis 'x'ſ'r"), (Pieces{"'t", "is", " '", "x", "'ſ", "'r"}));
}

TEST(SplitterTest, O200kLeavesContractionsAtTheirWords) {
  EXPECT_EQ(o200k("it's we'LL'd 'tis"), (Pieces{"it's", " we'LL", "'d", " '", "tis"}));
  EXPECT_EQ(o200k("A'S1'sx'ſ'r"), (Pieces{"A'S", "1", "'sx'ſ", "'r"}));
}

TEST(SplitterTest, Cl100kKeepsMixedCaseTogether) {
  EXPECT_EQ(cl100k("camelCaseHTTPServer"), (Pieces{"camelCaseHTTPServer"}));
}

TEST(SplitterTest, O200kCutsBeforeACapitalAfterASmallLetter) {
  EXPECT_EQ(o200k("camelCaseHTTPServer"), (Pieces{"camel", "Case", "HTTPServer"}));
  EXPECT_EQ(o200k(" ABC.DEF"), (Pieces{" ABC", ".DEF"}));
  EXPECT_EQ(o200k("AªBC"), (Pieces{"Aª", "BC"}));
  EXPECT_EQ(o200k("漢ABc漢D"), (Pieces{"漢ABc漢", "D"}));
}

TEST(SplitterTest, MarksAreSymbolsInCl100kAndLettersInO200k) {
  EXPECT_EQ(cl100k("e\u0301a"), (Pieces{"e", "\u0301a"}));
  EXPECT_EQ(o200k("e\u0301a"), (Pieces{"e\u0301a"}));
  EXPECT_EQ(o200k("\u0301\u0301"), (Pieces{"\u0301\u0301"}));
  EXPECT_EQ(o200k("\u0301ABC"), (Pieces{"\u0301", "ABC"}));
  EXPECT_EQ(o200k("\u0301's"), (Pieces{"\u0301's"}));
}

TEST(SplitterTest, SymbolsTakeTheNewlinesAndInO200kTheSlashesAfterThem) {
  EXPECT_EQ(cl100k(";\n\n/x"), (Pieces{";\n\n", "/x"}));
  EXPECT_EQ(o200k(";\n\n/x"), (Pieces{";\n\n/", "x"}));
}

TEST(SplitterTest, ReadsAMegabyteOfAnythingInLinearTime) {
  for (const std::string unit :
       {" ", "\n", "a", "A", "1", "!", "'", "/", "\u0301", "漢", " \n", "ªA", "A\u0301", " '"}) {
    std::string text;
    while (text.size() < std::size_t{1} << 20) text += unit;
    text += ".";
    for (const auto split_by : {cl100k, o200k}) {
      std::size_t sum = 0;
      for (const std::string_view piece : split_by(text)) sum += piece.size();
      EXPECT_EQ(sum, text.size());
    }
  }
}

}  // namespace
}  // namespace weir
