#include "provider/charge.h"

#include <gtest/gtest.h>

#include <vector>

namespace weir {
namespace {

ProviderConfig provider(Profile profile) {
  ProviderConfig config;
  config.profile = profile;
  return config;
}

CallFacts call(std::string model, Amount input, std::optional<Amount> max_output,
               Amount choices = 1) {
  return {.api = Api::kChat,
          .model = std::move(model),
          .max_output = max_output,
          .choices = choices,
          .input_tokens = input};
}

UsageReader answer(const std::string& body, const char* type = "application/json") {
  UsageReader reader{type};
  reader.read(body);
  return reader;
}

// Uncached 1009, read 503, written 211, output 307, in Anthropic's shape: for every profile.
UsageReader usual() {
  return answer(R"({"usage":{"input_tokens":1009,"cache_read_input_tokens":503,
                    "cache_creation_input_tokens":211,"output_tokens":307}})");
}

struct Row {
  Profile profile;
  const char* model;
  Amount reserved;                // of 1000 in, at most 2000 out, two choices
  std::optional<Amount> settled;  // on usual()
  std::optional<Amount> refused;
  Amount settled_input;
};

TEST(ChargeRules, AreThoseOfTheProfile) {  // S3.10
  const Calibration calibration;           // expects 1024 of output a choice
  for (const Row& row : std::vector<Row>{
           {Profile::kOpenai, "gpt-4o", 4000, {}, {}, 1723},
           {Profile::kAzure, "gpt-4o", 5000, {}, {}, 1723},
           {Profile::kAnthropic, "claude-opus-5", 1200 + 2048, 1220 + 307, 0, 1220},
           {Profile::kAnthropic, "claude-3-5-haiku-latest", 1200 + 2048, 1723 + 307, 0, 1723},
           {Profile::kGemini, "gemini-2.5-pro", 1000, 1723, 0, 1723},
           {Profile::kBedrock, "us.anthropic.claude-sonnet-4-20250514-v1:0", 1200 + 5 * 4000,
            1220 + 5 * 307, 0, 1220},
           {Profile::kBedrock, "anthropic.claude-3-5-sonnet-20241022-v2:0", 1200 + 4000, 1220 + 307,
            0, 1220},
           {Profile::kGroq, "llama-3.1-8b-instant", 5000, {}, {}, 1220},
           {Profile::kMistral, "mistral-small", 1000 + 2048, 1723 + 307, 0, 1723},
           {Profile::kGeneric, "qwen", 1000 + 2048, 1723 + 307, 0, 1723},
       }) {
    const ProviderConfig config = provider(row.profile);
    const CallFacts facts = call(row.model, 1000, 2000, 2);
    const Charge reserved = charge(config, facts, calibration);
    EXPECT_EQ(reserved.cost[Unit::kRequests], 1);
    EXPECT_EQ(reserved.cost[Unit::kSlots], 1);
    EXPECT_EQ(reserved.cost[Unit::kTokens], row.reserved) << row.model;
    EXPECT_EQ(reserved.cost[Unit::kInputTokens], reserved.input);
    EXPECT_EQ(reserved.cost[Unit::kOutputTokens], 2048);
    EXPECT_TRUE(reserved.cost.valid());

    const UsageReader told = usual();
    const Cost settled = settlement(config, facts, reserved, Ending::kAnswered, &told);
    EXPECT_EQ(settled.names(Unit::kTokens), row.settled.has_value()) << row.model;
    EXPECT_EQ(settled[Unit::kTokens], row.settled.value_or(0)) << row.model;
    EXPECT_EQ(settled[Unit::kInputTokens], row.settled_input) << row.model;
    EXPECT_EQ(settled[Unit::kOutputTokens], 307);
    EXPECT_FALSE(settled.names(Unit::kRequests));
    EXPECT_FALSE(settled.names(Unit::kSlots));

    const Cost refused = settlement(config, facts, reserved, Ending::kRefused, nullptr);
    EXPECT_EQ(refused.names(Unit::kTokens), row.refused.has_value()) << row.model;
    EXPECT_TRUE(refused.names(Unit::kMicroUsd));
    EXPECT_EQ(refused[Unit::kMicroUsd], 0);
    EXPECT_FALSE(refused.names(Unit::kRequests));
  }
}

TEST(ChargeRules, TheLargerOfBothIsThePromptIfThatIsMore) {
  const Charge reserved = charge(provider(Profile::kOpenai), call("gpt-4o", 5003, 2000, 2), {});
  EXPECT_EQ(reserved.cost[Unit::kTokens], 5003);
}

TEST(ChargeRules, TheConfigurationSaysWhetherTheRestComesBack) {
  const UsageReader told = usual();
  const auto settled = [&](Profile profile, bool refunds) {
    ProviderConfig config = provider(profile);
    config.refund_unused_tokens = refunds;
    const CallFacts facts = call("m", 1000, 2000);
    const Charge reserved = charge(config, facts, {});
    return settlement(config, facts, reserved, Ending::kAnswered, &told);
  };
  EXPECT_EQ(settled(Profile::kOpenai, true)[Unit::kTokens], 1723 + 307);
  EXPECT_EQ(settled(Profile::kGroq, true)[Unit::kTokens], 1220 + 307);  // less what was cached
  EXPECT_FALSE(settled(Profile::kMistral, false).names(Unit::kTokens));
}

TEST(ChargeRules, WithoutAMaximumTheConfigurationsCountsElseTheProfiles) {
  ProviderConfig config = provider(Profile::kAzure);
  const CallFacts facts = call("m", 1000, {});
  EXPECT_EQ(charge(config, facts, {}).cost[Unit::kTokens], 1000 + 4096);
  config.default_max_tokens = 1013;
  EXPECT_EQ(charge(config, facts, {}).cost[Unit::kTokens], 1000 + 1013);
  EXPECT_EQ(charge(config, facts, {}).output, 1013);
}

TEST(ChargeRules, ACallOfNoKnownApiIsOneRequest) {
  const CallFacts other;
  const Charge reserved = charge(provider(Profile::kOpenai), other, {});
  EXPECT_EQ(reserved.cost, Cost::call());
  EXPECT_TRUE(reserved.priced);
  const UsageReader told = usual();
  EXPECT_EQ(settlement(provider(Profile::kOpenai), other, reserved, Ending::kAnswered, &told),
            Cost{});
  CallFacts counting = call("claude-opus-5", 1000, {});
  counting.api = Api::kCountTokens;
  EXPECT_EQ(charge(provider(Profile::kAnthropic), counting, {}).cost, Cost::call());
}

TEST(ChargeRules, EmbeddingsHaveNoOutput) {
  CallFacts facts = call("text-embedding-3-small", 1000, {});
  facts.api = Api::kEmbeddings;
  for (const Profile profile : {Profile::kOpenai, Profile::kAzure, Profile::kMistral}) {
    const Charge reserved = charge(provider(profile), facts, {});
    EXPECT_EQ(reserved.cost[Unit::kTokens], 1000);
    EXPECT_EQ(reserved.cost[Unit::kOutputTokens], 0);
    EXPECT_EQ(reserved.cost[Unit::kMicroUsd], 20);
  }
}

TEST(ChargeRules, WhatNeverLeftIsGivenBack) {
  const CallFacts facts = call("gpt-4o", 1000, 2000);
  const ProviderConfig config = provider(Profile::kOpenai);
  const Cost back = settlement(config, facts, charge(config, facts, {}), Ending::kUnsent, nullptr);
  for (const Unit unit :
       {Unit::kRequests, Unit::kTokens, Unit::kInputTokens, Unit::kOutputTokens, Unit::kMicroUsd}) {
    EXPECT_TRUE(back.names(unit)) << name(unit);
    EXPECT_EQ(back[unit], 0) << name(unit);
  }
}

TEST(Settlement, OfACutStreamIsWhatWasSeen) {
  const ProviderConfig config = provider(Profile::kAnthropic);
  const CallFacts facts = call("claude-opus-5", 1000, 2000);
  const Charge reserved = charge(config, facts, {});
  const std::string start =
      "data: {\"message\":{\"usage\":{\"input_tokens\":1103,\"output_tokens\":1}}}\n\n";
  std::string content;
  for (int i = 0; i < 53; ++i) content += "data: {\"delta\":{\"text\":\"ab\"}}\n\n";
  const char* sse = "text/event-stream";

  const UsageReader both = answer(start + content, sse);
  const Cost told = settlement(config, facts, reserved, Ending::kCut, &both);
  EXPECT_EQ(told[Unit::kTokens], 1103 + 53);
  EXPECT_EQ(told[Unit::kOutputTokens], 53);
  EXPECT_EQ(told[Unit::kMicroUsd], 1103 * 5 + 53 * 25);

  const UsageReader alone = answer(content, sse);  // the input as it was expected
  EXPECT_EQ(settlement(config, facts, reserved, Ending::kCut, &alone)[Unit::kTokens], 1200 + 53);
  EXPECT_EQ(settlement(config, facts, reserved, Ending::kAnswered, &alone)[Unit::kTokens],
            1200 + 53);
  EXPECT_EQ(settlement(config, facts, reserved, Ending::kCut, nullptr)[Unit::kTokens], 1200);
}

TEST(Settlement, OfAnAnswerThatSaysNothingIsWhatWasReserved) {
  const ProviderConfig config = provider(Profile::kAnthropic);
  const CallFacts facts = call("claude-opus-5", 1000, 2000);
  const UsageReader silent = answer("{}");
  EXPECT_EQ(settlement(config, facts, charge(config, facts, {}), Ending::kAnswered, &silent),
            Cost{});
}

TEST(Dollars, AreReservedByTheEstimateAndSettledByTheUsage) {  // S3.10
  ProviderConfig config = provider(Profile::kOpenai);
  config.prices = {{"m", {7'000'003, 11'000'017, 1'000'003, 13'000'027}}};
  const CallFacts facts = call("m", 1009, 100);
  const Charge reserved = charge(config, facts, {});
  EXPECT_TRUE(reserved.priced);
  EXPECT_EQ(reserved.cost[Unit::kMicroUsd], 8164);  // 7063.003027 + 1100.0017, rounded up
  const UsageReader told = usual();
  EXPECT_EQ(settlement(config, facts, reserved, Ending::kAnswered, &told)[Unit::kMicroUsd],
            // 7063.003027 + 503.001509 + 2743.005697 + 3377.005219
            13687);
}

TEST(Dollars, OfAModelWithoutAPriceAreNone) {
  const ProviderConfig config = provider(Profile::kOpenai);
  const CallFacts facts = call("unheard-of", 1009, 100);
  const Charge reserved = charge(config, facts, {});
  EXPECT_FALSE(reserved.priced);
  EXPECT_EQ(reserved.cost[Unit::kMicroUsd], 0);
}

TEST(ChargeRules, StayValidWhateverIsAskedFor) {
  for (const Profile profile : {Profile::kOpenai, Profile::kAzure, Profile::kBedrock}) {
    const CallFacts facts = call("claude-opus-5", 1'000'000'000'000, 1'000'000'000, 1000);
    EXPECT_TRUE(charge(provider(profile), facts, {}).cost.valid());
  }
}

}  // namespace
}  // namespace weir
