#include "provider/pattern.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weir {
namespace {

TEST(Pattern, AStarStandsForAnyTextAnywhere) {
  for (const auto& [pattern, text] : {std::pair{"claude-opus-*", "claude-opus-4"},
                                      {"claude-opus-*", "claude-opus-"},
                                      {"*-mini", "gpt-4o-mini"},
                                      {"gpt-*-mini", "gpt-4o-mini"},
                                      {"a*b*c", "aXbbYbc"},
                                      {"*ab", "aab"},
                                      {"*", ""},
                                      {"**", "x"},
                                      {"", ""},
                                      {"gpt-4o", "gpt-4o"}}) {
    EXPECT_TRUE(matches(pattern, text)) << pattern << " " << text;
  }
}

TEST(Pattern, EverythingElseStandsForItself) {
  for (const auto& [pattern, text] : {std::pair{"claude-opus-*", "claude-opus"},
                                      {"claude-*", "Claude-opus"},
                                      {"*-mini", "gpt-4o-mini-2"},
                                      {"gpt-*-mini", "gpt-mini"},
                                      {"gpt.4", "gpt-4"},
                                      {"a?c", "abc"},
                                      {"", "x"},
                                      {"gpt-4", "gpt-4o"}}) {
    EXPECT_FALSE(matches(pattern, text)) << pattern << " " << text;
  }
}

TEST(Pattern, TakesNoLongTimeOverManyStars) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "a*";
  EXPECT_FALSE(matches(pattern + "b", std::string(10'000, 'a')));
}

TEST(Pattern, TheMostSpecificWins) {
  struct Rule {
    std::string pattern;
  };
  const std::vector<Rule> rules{{"*"},     {"claude-*"},         {"*-4"},
                                {"***-4"}, {"claude-*-*-*-*-*"}, {"claude-opus-4"}};
  const auto winner = [&](std::string_view text) { return most_specific(rules, text)->pattern; };
  EXPECT_EQ(winner("claude-opus-4"), "claude-opus-4");
  EXPECT_EQ(winner("claude-haiku-4"), "claude-*");
  EXPECT_EQ(winner("gpt-4"), "*-4");
  EXPECT_EQ(winner("claude-a-b-c-d-e"), "claude-*-*-*-*-*");
  EXPECT_EQ(winner("o3"), "*");
  EXPECT_EQ(most_specific(std::vector<Rule>{{"claude-*"}}, "o3"), nullptr);
}

}  // namespace
}  // namespace weir
