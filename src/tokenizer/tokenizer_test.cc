#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tokenizer/ranks_for_test.h"

namespace weir {
namespace {

using test::encode;
using test::Vocabulary;
using Tokens = std::vector<std::uint32_t>;

class TokenizerTest : public test::BothEncodings {};
INSTANTIATE_TEST_SUITE_P(, TokenizerTest, testing::Values(Encoding::kCl100k, Encoding::kO200k),
                         [](const auto& test) { return weir::test::name(test.param); });

// A part of `text` between two marks; `text` is what is left.
std::string cut(std::string& text, std::string_view before, std::string_view after) {
  const std::size_t from = text.find(before) + before.size();
  const std::size_t to = text.find(after, from);
  std::string found = text.substr(from, to - from);
  text.erase(0, to);
  return found;
}

TEST_P(TokenizerTest, AgreesWithThePublishedPlans) {
  std::string plans = test::ranks_file("TestPlans.txt");
  std::size_t tried = 0;
  while (plans.find("EncodingName: ") != plans.npos) {
    const std::string encoding = cut(plans, "EncodingName: ", "\n");
    const std::string sample = cut(plans, "Sample: ", "\nEncoded: [");
    std::istringstream numbers{cut(plans, "Encoded: [", "]")};
    if (encoding != test::name(GetParam())) continue;
    Tokens expected;
    for (std::uint32_t token = 0; numbers >> token; numbers.ignore(1)) expected.push_back(token);
    EXPECT_EQ(encode(tokenizer(), sample), expected) << sample;
    EXPECT_EQ(tokenizer().count(sample), expected.size()) << sample;
    ++tried;
  }
  EXPECT_EQ(tried, GetParam() == Encoding::kCl100k ? 64 : 57);
}

// Bytes of any kind: words, repetitions, all of Unicode, noise.
std::string random_text(std::mt19937& random) {
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  const std::uint32_t kind = below(4);
  std::string text;
  for (std::uint32_t left = below(300); left > 0; --left) {
    if (kind == 0) text += static_cast<char>('a' + below(26));
    if (kind == 1) text += std::string(1 + below(40), static_cast<char>(' ' + below(95)));
    if (kind == 2) text += static_cast<char>(' ' + below(95));
    if (kind == 3) {
      const std::uint32_t point = 0x800 + below(0xD000);  // three bytes each
      text += static_cast<char>(0xE0 | point >> 12);
      text += static_cast<char>(0x80 | (point >> 6 & 0x3F));
      text += static_cast<char>(0x80 | (point & 0x3F));
    }
  }
  return text;
}

TEST_P(TokenizerTest, TheTokensSpellTheText) {
  const Vocabulary vocabulary{GetParam()};
  std::mt19937 random{5};
  for (int i = 0; i < 500; ++i) {
    const std::string text = random_text(random);
    const Tokens tokens = encode(tokenizer(), text);
    ASSERT_EQ(vocabulary.text_of(tokens), text);
    ASSERT_EQ(tokenizer().count(text), tokens.size());
  }
}

// Merging by its definition: the lowest rank first, of equals the leftmost.
Tokens merged_by_definition(const Vocabulary& vocabulary, std::string_view piece) {
  std::vector<std::string> parts;
  for (const char c : piece) parts.emplace_back(1, c);
  while (true) {
    auto lowest = vocabulary.ranks.end();
    std::size_t place = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = vocabulary.ranks.find(parts[i] + parts[i + 1]);
      if (found == vocabulary.ranks.end()) continue;
      if (lowest == vocabulary.ranks.end() || found->second < lowest->second) {
        lowest = found;
        place = i;
      }
    }
    if (lowest == vocabulary.ranks.end()) break;
    parts[place] += parts[place + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
  Tokens tokens;
  for (const std::string& part : parts) tokens.push_back(vocabulary.ranks.at(part));
  return tokens;
}

TEST_P(TokenizerTest, MergesPiecesOfAnyLengthByTheDefinition) {
  const Vocabulary vocabulary{GetParam()};
  std::mt19937 random{7};
  for (const unsigned length : {3U, 8U, 13U, 40U, 95U, 96U, 97U, 98U, 150U, 250U}) {
    for (const unsigned alphabet : {1U, 2U, 5U, 26U}) {
      std::string piece;
      while (piece.size() < length) piece += static_cast<char>('a' + random() % alphabet);
      ASSERT_EQ(encode(tokenizer(), piece), merged_by_definition(vocabulary, piece)) << piece;
    }
  }
}

TEST_P(TokenizerTest, ATokenThatIsAWholePieceIsThatToken) {
  EXPECT_EQ(encode(tokenizer(), "").size(), 0U);
  EXPECT_EQ(encode(tokenizer(), " the").size(), 1U);
  EXPECT_EQ(encode(tokenizer(), std::string(64, ' ')).size(), 1U);
}

TEST_P(TokenizerTest, SpecialTokensAreOrdinaryText) {
  EXPECT_GT(tokenizer().count("<|endoftext|>"), 3U);
}

TEST_P(TokenizerTest, EachBadByteCountsAsAReplacementCharacter) {
  EXPECT_EQ(encode(tokenizer(), "a\xFFz"), encode(tokenizer(), "a\uFFFDz"));
  EXPECT_EQ(encode(tokenizer(), "\xE2\x82"), encode(tokenizer(), "\uFFFD\uFFFD"));
  EXPECT_EQ(tokenizer().count("\xF0\x9F\x99"), tokenizer().count("\uFFFD\uFFFD\uFFFD"));
}

// Were it quadratic, this would not end in the time a test has.
TEST_P(TokenizerTest, AMountainOfOneLetterIsEncoded) {
  constexpr std::size_t kSize = std::size_t{1} << 18;
  const Tokens tokens = encode(tokenizer(), std::string(kSize, 'a'));
  EXPECT_EQ(tokens.size(), kSize / 8);
  EXPECT_TRUE(std::ranges::all_of(tokens, [&](std::uint32_t t) { return t == tokens[0]; }));
}

TEST_P(TokenizerTest, TokensAreAppended) {
  Tokens tokens{7};
  tokenizer().encode("a", tokens);
  ASSERT_EQ(tokens.size(), 2U);
  EXPECT_EQ(tokens[0], 7U);
}

TEST(TokenizerCreateTest, BadRanksAreRefusedWithTheLine) {
  const auto made = Tokenizer::create(Encoding::kO200k, "YQ== 0\nnonsense\n");
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error(), "line 2 of the ranks: not a token and a rank");
}

}  // namespace
}  // namespace weir
