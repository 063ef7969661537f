#include "provider/charge.h"

#include <algorithm>
#include <array>

#include "provider/pattern.h"
#include "provider/prices.h"

namespace weir {
namespace {

// By Profile, from the providers' pages on rate limits, November 2026, where not said otherwise.
constexpr std::array<ChargeRule, 8> kRules{{
    // Generic: as whoever speaks OpenAI's or Anthropic's language mostly counts.
    {Reserve::kInputPlusExpected, true, true, 4096},
    // OpenAI: "the maximum of max_tokens and the estimated number of tokens"; failed requests
    // count, and so does cached input.
    {Reserve::kLargerOfBoth, false, true, 4096},
    // Anthropic: input and cache writes estimated and corrected, output as it comes; max_tokens and
    // cache reads do not count.
    {Reserve::kInputPlusExpected, true, false, 4096},
    // Gemini: input tokens a minute.
    {Reserve::kInput, true, true, 8192},
    // Azure: prompt, max_tokens and best_of, as a running estimate that is reset each minute.
    {Reserve::kInputPlusMaximum, false, true, 4096},
    // Bedrock: input and max_tokens, settled; cache reads are released. Without max_tokens AWS
    // reserves the model's maximum; taken to be 64,000, five times 12,800.
    {Reserve::kInputPlusMaximum, true, false, 12'800},
    // Groq: cached input does not count. Whether the rest of max_tokens comes back is not said.
    {Reserve::kInputPlusMaximum, false, false, 4096},
    // Mistral: not said; taken to be actual use, because it answers with a tokens-query-cost.
    {Reserve::kInputPlusExpected, true, true, 4096},
}};

// quotas-token-burndown: output of Claude from version 4 on counts five times on Bedrock. Those
// have their family before their version.
Amount burndown(Profile profile, std::string_view model) {
  const bool burns = profile == Profile::kBedrock &&
                     (matches("*claude-opus-*", model) || matches("*claude-sonnet-*", model) ||
                      matches("*claude-haiku-*", model) || matches("*claude-fable-*", model));
  return burns ? 5 : 1;
}

Amount counted_input(Profile profile, std::string_view model, const Usage& usage) {
  const bool cached_counts = charge_rule(profile).cached_counts ||
                             (profile == Profile::kAnthropic && matches("*3-5-haiku*", model));
  return cached_counts ? usage.all_input() : usage.all_input() - usage.cached_input;
}

bool is_counted(Api api) { return api != Api::kOther && api != Api::kCountTokens; }

}  // namespace

std::optional<Usage> usage_of(const CallFacts& call, const Charge& charge, Ending ending,
                              const UsageReader* answer) {
  if (!is_counted(call.api) || ending == Ending::kUnsent || ending == Ending::kRefused) return {};
  std::optional<Usage> told = answer == nullptr ? std::nullopt : answer->usage();
  if (ending == Ending::kAnswered && told) return told;
  const Amount visible = answer == nullptr ? 0 : answer->visible_output();
  if (ending == Ending::kAnswered && visible == 0) return {};
  Usage usage = told.value_or(Usage{});
  if (usage.all_input() == 0) usage.input = charge.input;
  usage.output = std::max(usage.output, visible);
  return usage;
}

const ChargeRule& charge_rule(Profile profile) {
  static_assert(static_cast<std::size_t>(Profile::kMistral) + 1 == kRules.size());
  return kRules[static_cast<std::size_t>(profile)];
}

Cost reserved(Profile profile, std::string_view model, const std::optional<Price>& price,
              const ExpectedTokens& expected) {
  const Amount factor = burndown(profile, model);
  Amount tokens = expected.input;
  switch (charge_rule(profile).reserve) {
    case Reserve::kInput: break;
    case Reserve::kInputPlusExpected: tokens += expected.output * factor; break;
    case Reserve::kInputPlusMaximum: tokens += expected.max_output * factor; break;
    case Reserve::kLargerOfBoth: tokens = std::max(tokens, expected.max_output); break;
  }
  const Usage usage{.input = expected.input, .output = expected.output};
  return Cost::call()
      .with(Unit::kTokens, tokens)
      .with(Unit::kInputTokens, expected.input)
      .with(Unit::kOutputTokens, expected.output)
      .with(Unit::kMicroUsd, price ? micro_usd(*price, usage, profile) : 0);
}

Charge charge(const ProviderConfig& provider, const CallFacts& call,
              const Calibration& calibration) {
  Charge charge{.cost = Cost::call()};
  if (!is_counted(call.api)) return charge;
  const ChargeRule& rule = charge_rule(provider.profile);
  const auto expected = calibration.expect(call.model);
  charge.input = expected.input(call);
  Amount maximum = 0;
  if (call.api != Api::kEmbeddings) {
    const Amount stated =
        call.max_output.value_or(provider.default_max_tokens.value_or(rule.default_max_output));
    maximum = stated * call.choices;
    charge.output = std::min(expected.output * call.choices, maximum);
  }
  const auto price = price_of(provider, call.model);
  charge.priced = price.has_value();
  charge.cost = reserved(provider.profile, call.model, price,
                         {.input = charge.input, .output = charge.output, .max_output = maximum});
  return charge;
}

Cost settlement(const ProviderConfig& provider, const CallFacts& call, const Charge& charge,
                Ending ending, const UsageReader* answer) {
  Cost cost;
  if (ending == Ending::kUnsent) cost = cost.with(Unit::kRequests, 0);
  if (!is_counted(call.api)) return cost;

  const bool refunds =
      provider.refund_unused_tokens.value_or(charge_rule(provider.profile).refunds);
  if (ending == Ending::kUnsent || ending == Ending::kRefused) {
    cost = cost.with(Unit::kInputTokens, 0).with(Unit::kOutputTokens, 0).with(Unit::kMicroUsd, 0);
    return refunds || ending == Ending::kUnsent ? cost.with(Unit::kTokens, 0) : cost;
  }

  const auto usage = usage_of(call, charge, ending, answer);
  if (!usage) return cost;
  const Amount input = counted_input(provider.profile, call.model, *usage);
  const bool input_alone = charge_rule(provider.profile).reserve == Reserve::kInput;
  cost = cost.with(Unit::kInputTokens, input).with(Unit::kOutputTokens, usage->output);
  if (const auto price = price_of(provider, call.model)) {
    cost = cost.with(Unit::kMicroUsd, micro_usd(*price, *usage, provider.profile));
  }
  if (!refunds) return cost;
  const Amount output = usage->output * burndown(provider.profile, call.model);
  return cost.with(Unit::kTokens, input_alone ? input : input + output);
}

}  // namespace weir
