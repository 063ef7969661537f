#include "provider/prices.h"

#include <algorithm>
#include <array>
#include <limits>

#include "provider/pattern.h"
#include "weir/core/int128.h"

namespace weir {
namespace {

struct Row {
  std::string_view pattern;
  Price price;
};

// Dollars per million tokens: input, output, cached input, cache write (of 5 minutes).
constexpr Row row(std::string_view pattern, double input, double output, double cached,
                  double write, Amount long_from = 0) {
  const auto micro = [](double dollars) { return static_cast<Amount>(dollars * 1e6 + 0.5); };
  return {pattern, {micro(input), micro(output), micro(cached), micro(write), long_from}};
}
// Whose caches are written for the price of input.
constexpr Row row(std::string_view pattern, double input, double output, double cached) {
  return row(pattern, input, output, cached, input);
}
constexpr Row row(std::string_view pattern, double input, double output) {
  return row(pattern, input, output, input, input);
}

constexpr Amount k200k = 200'000;
constexpr Amount k272k = 272'000;

// From BerriAI/litellm's model_prices_and_context_window.json (MIT) as of kPricesDate; the cached
// input of Opus 5.5 and Fable 5.1 from Anthropic's own list as of 2026-10-04.
constexpr std::array kTable = std::to_array<Row>({
    // OpenAI
    row("gpt-3.5-turbo*", 0.5, 1.5),
    row("gpt-35-turbo*", 0.5, 1.5),
    row("gpt-4", 30, 60),
    row("gpt-4-0*", 30, 60),
    row("gpt-4-turbo*", 10, 30),
    row("gpt-4.1*", 2, 8, 0.5),
    row("gpt-4.1-mini*", 0.4, 1.6, 0.1),
    row("gpt-4.1-nano*", 0.1, 0.4, 0.025),
    row("gpt-4o*", 2.5, 10, 1.25),
    row("gpt-4o-2024-05-13", 5, 15),
    row("gpt-4o-mini*", 0.15, 0.6, 0.075),
    row("gpt-5", 1.25, 10, 0.125),
    row("gpt-5-*", 1.25, 10, 0.125),
    row("gpt-5-mini*", 0.25, 2, 0.025),
    row("gpt-5-nano*", 0.05, 0.4, 0.005),
    row("gpt-5-pro*", 15, 120),
    row("gpt-5.1*", 1.25, 10, 0.125),
    row("gpt-5.1-codex-mini*", 0.25, 2, 0.025),
    row("gpt-5.2*", 1.75, 14, 0.175),
    row("gpt-5.2-pro*", 21, 168),
    row("gpt-5.3*", 1.75, 14, 0.175),
    row("gpt-5.4*", 2.5, 15, 0.25, 2.5, k272k),
    row("gpt-5.4-mini*", 0.75, 4.5, 0.075),
    row("gpt-5.4-nano*", 0.2, 1.25, 0.02),
    row("gpt-5.4-pro*", 30, 180, 3, 30, k272k),
    row("gpt-5.5*", 5, 30, 0.5, 5, k272k),
    row("gpt-5.5-pro*", 30, 180, 3, 30, k272k),
    row("gpt-5.6*", 5, 30, 0.5, 6.25, k272k),
    row("gpt-5.6-terra*", 2, 12, 0.2, 2.5, k272k),
    row("gpt-5.6-luna*", 0.2, 1.2, 0.02, 0.25, k272k),
    row("codex-mini*", 1.5, 6, 0.375),
    row("o1*", 15, 60, 7.5),
    row("o1-pro*", 150, 600),
    row("o3*", 2, 8, 0.5),
    row("o3-mini*", 1.1, 4.4, 0.55),
    row("o3-pro*", 20, 80),
    row("o3-deep-research*", 10, 40, 2.5),
    row("o4-mini*", 1.1, 4.4, 0.275),
    row("o4-mini-deep-research*", 2, 8, 0.5),
    row("text-embedding-3-large", 0.13, 0),
    row("text-embedding-3-small", 0.02, 0),
    row("text-embedding-ada-002*", 0.1, 0),
    // Anthropic
    row("claude-3-haiku*", 0.25, 1.25, 0.03, 0.3),
    row("claude-3-5-haiku*", 0.8, 4, 0.08, 1),
    row("claude-3-5-sonnet*", 3, 15, 0.3, 3.75),
    row("claude-3-7-sonnet*", 3, 15, 0.3, 3.75),
    row("claude-3-opus*", 15, 75, 1.5, 18.75),
    row("claude-haiku-4-5*", 1, 5, 0.1, 1.25),
    row("claude-sonnet-4*", 3, 15, 0.3, 3.75, k200k),
    row("claude-sonnet-4-6*", 3, 15, 0.3, 3.75),
    row("claude-sonnet-5*", 2, 10, 0.2, 2.5),
    row("claude-opus-4*", 5, 25, 0.5, 6.25),
    row("claude-opus-4-1*", 15, 75, 1.5, 18.75),
    row("claude-opus-4-2025*", 15, 75, 1.5, 18.75),
    row("claude-opus-4-0*", 15, 75, 1.5, 18.75),
    row("claude-opus-5*", 5, 25, 0.5, 6.25),
    row("claude-opus-5-5*", 5, 25, 0.25, 6.25),
    row("claude-fable-5*", 10, 50, 1, 12.5),
    row("claude-fable-5-1*", 10, 50, 0.25, 12.5),
    // Gemini
    row("gemini-2.0-flash*", 0.1, 0.4, 0.025),
    row("gemini-2.0-flash-lite*", 0.075, 0.3, 0.01875),
    row("gemini-2.5-flash*", 0.3, 2.5, 0.03),
    row("gemini-2.5-flash-lite*", 0.1, 0.4, 0.01),
    row("gemini-2.5-pro*", 1.25, 10, 0.125, 1.25, k200k),
    row("gemini-3-pro*", 2, 12, 0.2, 2, k200k),
    row("gemini-3-flash*", 0.5, 3, 0.05),
    row("gemini-3.1-pro*", 2, 12, 0.2, 2, k200k),
    row("gemini-3.1-flash-lite*", 0.25, 1.5, 0.025),
    row("gemini-3.5-flash*", 1.5, 9, 0.15),
    row("gemini-3.5-flash-lite*", 0.3, 2.5, 0.03),
    row("gemini-3.6-flash*", 1.5, 7.5, 0.15),
    row("gemini-embedding-001", 0.15, 0),
    row("gemini-embedding-2*", 0.2, 0),
    // Groq
    row("llama-3.1-8b-instant", 0.05, 0.08),
    row("llama-3.3-70b-versatile", 0.59, 0.79),
    row("llama-4-maverick*", 0.2, 0.6),
    row("llama-4-scout*", 0.11, 0.34),
    row("gpt-oss-120b*", 0.15, 0.6, 0.075),
    row("gpt-oss-20b*", 0.075, 0.3, 0.0375),
    row("kimi-k2-instruct*", 1, 3, 0.5),
    row("qwen3-32b", 0.29, 0.59),
    // Mistral
    row("codestral*", 0.3, 0.9),
    row("codestral-latest", 1, 3),
    row("devstral-medium*", 0.4, 2),
    row("devstral-small*", 0.1, 0.3),
    row("magistral-medium*", 2, 5),
    row("magistral-small*", 0.5, 1.5),
    row("ministral-8b*", 0.15, 0.15),
    row("mistral-embed", 0.1, 0),
    row("mistral-large*", 0.5, 1.5),
    row("mistral-medium*", 1.5, 7.5),
    row("mistral-medium-2505", 0.4, 2),
    row("mistral-medium-2508", 0.4, 2),
    row("mistral-small*", 0.1, 0.3),
});

}  // namespace

std::optional<Price> price_of(const ProviderConfig& provider, std::string_view model) {
  if (const auto* own = most_specific(provider.prices, model)) return own->price;
  // "meta-llama/llama-4-…", "models/gemini-…", "us.anthropic.claude-…"
  if (const auto slash = model.rfind('/'); slash != model.npos) model.remove_prefix(slash + 1);
  if (const auto vendor = model.find("anthropic."); vendor != model.npos) {
    model.remove_prefix(vendor + std::string_view{"anthropic."}.size());
  }
  if (const auto* row = most_specific(kTable, model)) return row->price;
  return {};
}

Amount micro_usd(const Price& price, const Usage& usage, Profile profile) {
  const bool is_long = price.long_from > 0 && usage.all_input() > price.long_from;
  // Fifths, because an hour in a cache costs 8/5 of 5 minutes.
  const Int128 input = Int128{usage.input} * price.input * 5 +
                       Int128{usage.cached_input} * price.cached_input * 5 +
                       Int128{usage.cache_write} * price.cache_write * 5 +
                       Int128{usage.cache_write_1h} * price.cache_write * 8;
  const Int128 output = Int128{usage.output} * price.output * 5;
  Int128 halves = is_long ? 4 * input + 3 * output : 2 * (input + output);
  Int128 divisor = Int128{2} * 5 * 1'000'000;
  switch (usage.tier) {
    case ServiceTier::kStandard: break;
    case ServiceTier::kBatch:
    case ServiceTier::kFlex: divisor *= 2; break;
    case ServiceTier::kPriority:
      if (profile != Profile::kAnthropic) halves *= 2;
      break;
  }
  return static_cast<Amount>(std::min<Int128>(ceil_div(halves, divisor), kAmountMax));
}

}  // namespace weir
