#include "provider/prices.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

std::optional<Amount> input_price(std::string_view model, const ProviderConfig& provider = {}) {
  const auto price = price_of(provider, model);
  return price ? std::optional{price->input} : std::nullopt;
}

TEST(Prices, TheLongestPatternWins) {
  EXPECT_EQ(input_price("gpt-4o"), 2'500'000);
  EXPECT_EQ(input_price("gpt-4o-2024-11-20"), 2'500'000);
  EXPECT_EQ(input_price("gpt-4o-2024-05-13"), 5'000'000);
  EXPECT_EQ(input_price("gpt-4o-mini-2024-07-18"), 150'000);
  EXPECT_EQ(input_price("gpt-4"), 30'000'000);
  EXPECT_EQ(input_price("gpt-4.1-nano"), 100'000);
  EXPECT_EQ(input_price("gpt-5.4-mini-2026-03-17"), 750'000);
  EXPECT_EQ(input_price("claude-opus-4-20250514"), 15'000'000);
  EXPECT_EQ(input_price("claude-opus-4-7"), 5'000'000);
  EXPECT_EQ(input_price("gemini-2.5-flash-lite"), 100'000);
  EXPECT_EQ(price_of({}, "claude-opus-5-5")->cached_input, 250'000);
  EXPECT_EQ(price_of({}, "gpt-5.6")->cache_write, 6'250'000);
}

TEST(Prices, NamesMayHaveAPrefix) {
  EXPECT_EQ(input_price("us.anthropic.claude-sonnet-4-5-20250929-v1:0"), 3'000'000);
  EXPECT_EQ(input_price("anthropic.claude-3-5-haiku-20241022-v1:0"), 800'000);
  EXPECT_EQ(input_price("meta-llama/llama-4-scout-17b-16e-instruct"), 110'000);
  EXPECT_EQ(input_price("models/gemini-2.5-pro"), 1'250'000);
}

TEST(Prices, OfAnUnknownModelThereIsNone) {
  EXPECT_FALSE(input_price("my-model"));
  EXPECT_FALSE(input_price(""));
}

TEST(Prices, TheConfigurationComesFirst) {
  ProviderConfig provider;
  provider.prices = {{"gpt-*", {1, 2, 3, 4}}, {"gpt-4o", {5, 6, 7, 8}}};
  EXPECT_EQ(input_price("gpt-4o", provider), 5);
  EXPECT_EQ(input_price("gpt-4o-mini", provider), 1);
  EXPECT_EQ(input_price("o3", provider), 2'000'000);
}

TEST(Dollars, AreExactAndRoundedUp) {  // S3.10
  const Price price{2'500'003, 10'000'019, 1'250'007, 3'750'011};
  const auto cost = [&](const Usage& usage) { return micro_usd(price, usage, Profile::kOpenai); };
  EXPECT_EQ(cost({}), 0);
  EXPECT_EQ(cost({.input = 1}), 3);
  EXPECT_EQ(cost({.input = 1'000'000}), 2'500'003);
  EXPECT_EQ(cost({.input = 999'983}), 2'499'961);   // 2499960.49…
  EXPECT_EQ(cost({.output = 101}), 1011);           // 1010.001919
  EXPECT_EQ(cost({.cached_input = 1009}), 1262);    // 1261.257…
  EXPECT_EQ(cost({.cache_write = 1013}), 3799);     // 3798.76…
  EXPECT_EQ(cost({.cache_write_1h = 1013}), 6079);  // 1.6 times: 6078.01…
  // One rounding for all: 2.500003 + 10.000019 + 1.250007 + 3.750011 + 6.0000176
  EXPECT_EQ(
      cost({.input = 1, .cached_input = 1, .cache_write = 1, .cache_write_1h = 1, .output = 1}),
      24);
  EXPECT_EQ(cost({.input = kAmountMax}), kAmountMax);
}

TEST(Dollars, FollowTheTierThatServed) {
  const Price price{1'000'000, 3'000'000, 0, 0};
  const auto cost = [&](ServiceTier tier, Profile profile = Profile::kOpenai) {
    return micro_usd(price, {.input = 7, .output = 2, .tier = tier}, profile);
  };
  EXPECT_EQ(cost(ServiceTier::kStandard), 13);
  EXPECT_EQ(cost(ServiceTier::kBatch), 7);
  EXPECT_EQ(cost(ServiceTier::kFlex), 7);
  EXPECT_EQ(cost(ServiceTier::kPriority), 26);
  EXPECT_EQ(cost(ServiceTier::kPriority, Profile::kAnthropic), 13);
}

TEST(Dollars, OfALongPromptAreMore) {
  const Price price{1'000'000, 2'000'000, 1'000'000, 0, 1000};
  EXPECT_EQ(micro_usd(price, {.input = 1000, .output = 3}, Profile::kGemini), 1006);
  EXPECT_EQ(micro_usd(price, {.input = 1, .cached_input = 1000, .output = 3}, Profile::kGemini),
            2011);  // twice 1001 and 1.5 times 6
}

}  // namespace
}  // namespace weir
