#include "tokenizer/rank_table.h"

#include <gtest/gtest.h>

#include "tokenizer/ranks_for_test.h"

namespace weir {
namespace {

// The 256 bytes, the byte being the rank.
std::string bytes_alone() {
  std::string text;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    text += test::kBase64[byte >> 2];
    text += test::kBase64[(byte & 3) << 4];
    text += "== " + std::to_string(byte) + "\n";
  }
  return text;
}

std::string mistake(const std::string& text) {
  const auto table = RankTable::parse(text);
  return table ? "none" : table.error();
}

TEST(RankTableTest, AMistakeIsSaidWithItsLine) {
  const std::string good = bytes_alone();
  EXPECT_EQ(mistake(good), "none");
  EXPECT_EQ(mistake(good + "YWE= 256"), "none");
  EXPECT_EQ(mistake(good + "YWE=\n"), "line 257 of the ranks: not a token and a rank");
  EXPECT_EQ(mistake(good + "\n"), "line 257 of the ranks: not a token and a rank");
  EXPECT_EQ(mistake(good + "YW*= 256\n"), "line 257 of the ranks: the token is not base64");
  EXPECT_EQ(mistake(good + "YWE 256\n"), "line 257 of the ranks: the token is not base64");
  EXPECT_EQ(mistake(good + " 256\n"), "line 257 of the ranks: the token is not base64");
  for (const char* rank : {"", "x", "-1", "1x", "16777216", "99999999999"}) {
    EXPECT_EQ(mistake(good + "YWE= " + rank + "\n"),
              "line 257 of the ranks: the rank is not a number up to 16777215");
  }
  EXPECT_EQ(mistake(good + "YQ== 256\n"), "line 257 of the ranks: the token was there before");
  EXPECT_EQ(mistake(good + std::string(344, 'Y') + " 256\n"),
            "line 257 of the ranks: the token has more than 255 bytes");
  EXPECT_EQ(mistake(""), "the ranks have no token for the byte 0x00");
}

TEST(RankTableTest, FindsEveryTokenOfAFileAndNothingElse) {
  for (const Encoding encoding : {Encoding::kCl100k, Encoding::kO200k}) {
    const test::Vocabulary vocabulary{encoding};
    const auto table =
        RankTable::parse(test::ranks_file(std::string{test::name(encoding)} + ".tiktoken"));
    ASSERT_TRUE(table.has_value()) << table.error();
    ASSERT_GT(vocabulary.ranks.size(), 100'000U);
    for (const auto& [token, rank] : vocabulary.ranks) {
      const std::string followed = token + "and what follows it";
      const char* const end = followed.data() + token.size();
      ASSERT_EQ(table->find(followed.data(), end, followed.data() + followed.size()), rank);
      ASSERT_EQ(table->find(followed.data(), end, end), rank);
      const std::string longer = token + '\0';
      const auto known = vocabulary.ranks.find(longer);
      ASSERT_EQ(
          table->find(longer.data(), longer.data() + longer.size(), longer.data() + longer.size()),
          known == vocabulary.ranks.end() ? RankTable::kNone : known->second);
    }
  }
}

TEST(RankTableTest, TellsApartTokensThatDifferInTheirLastBytesAlone) {
  std::string text = bytes_alone();
  std::vector<std::string> tokens;
  for (const char high : test::kBase64) {
    for (const char low : test::kBase64) {
      const std::string base64 = std::string{"YWFhYWFhYWFhYW"} + high + low;
      tokens.push_back(test::decoded(base64));
      if (tokens.size() % 2 == 0)
        text += base64 + " " + std::to_string(1000 + tokens.size()) + "\n";
    }
  }
  const auto table = RankTable::parse(text);
  ASSERT_TRUE(table.has_value()) << table.error();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const char* const end = tokens[i].data() + tokens[i].size();
    ASSERT_EQ(table->find(tokens[i].data(), end, end), i % 2 == 1 ? 1001 + i : RankTable::kNone);
  }
}

}  // namespace
}  // namespace weir
