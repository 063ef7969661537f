// Dollars: a dated table of the models people use, and the arithmetic.
#pragma once

#include <optional>
#include <string_view>

#include "config/model.h"
#include "provider/usage.h"

namespace weir {

// When the table was true. Configuration overrides it.
inline constexpr std::string_view kPricesDate = "2026-08-08";

// Of the provider's own prices the most specific pattern, else of the table's. A model's name may
// have a prefix ("openai/gpt-4o", "us.anthropic.claude-opus-5-v1:0", "models/gemini-2.5-pro").
std::optional<Price> price_of(const ProviderConfig& provider, std::string_view model);

// Micro-dollars, rounded up; at most kAmountMax. A cache written for an hour costs 1.6 times one
// for 5 minutes (Anthropic: 2 and 1.25 times input); batch and flex cost half, priority twice
// (OpenAI, Gemini: 1.65 to 2; Anthropic's is committed beforehand and costs the same).
Amount micro_usd(const Price& price, const Usage& usage, Profile profile);

}  // namespace weir
