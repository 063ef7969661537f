#include <fmt/format.h>

#include <array>

#include "config/fields.h"
#include "config/load.h"

namespace weir {
namespace {

using Algorithm = LimitSpec::Algorithm;

std::string dollars(Amount micro_usd) {
  std::string text = fmt::format("${}.{:06}", micro_usd / 1'000'000, micro_usd % 1'000'000);
  // Cents stay: $0.50, $12.345, but $50.
  while (text.ends_with('0') && text[text.size() - 3] != '.') text.pop_back();
  return text.ends_with(".00") ? text.substr(0, text.size() - 3) : text;
}

std::string count(Unit unit, Amount amount) {
  if (unit == Unit::kMicroUsd) return dollars(amount);
  constexpr std::array<std::string_view, kUnitCount> kWords{"request",      "token", "input token",
                                                            "output token", "",      "call"};
  return fmt::format("{} {}{}", amount, kWords[static_cast<std::size_t>(unit)],
                     amount == 1 ? "" : "s");
}

// "a day", "every 2h"
std::string each(Nanos period) {
  if (period == std::chrono::days{1}) return "a day";
  if (period == std::chrono::hours{1}) return "an hour";
  if (period == std::chrono::minutes{1}) return "a minute";
  if (period == std::chrono::seconds{1}) return "a second";
  return "every " + spell(period);
}

std::string in_words(const LimitConfig& limit) {
  const LimitSpec& spec = limit.spec;
  const std::string amount = count(spec.unit, spec.amount);
  const std::string period = spell(spec.period);
  const Amount step = spec.amount;
  if (limit.align) {
    const auto reset = limit.align->reset.count();
    return fmt::format("{}{} {}, from {:02}:{:02} {}",
                       spec.unit == Unit::kMicroUsd ? "" : "at most ", amount, each(spec.period),
                       reset / 60, reset % 60, limit.align->zone.name());
  }
  switch (spec.algorithm) {
    case Algorithm::kTokenBucket:
      return fmt::format("{} {}, at most {} at once", amount, each(spec.period),
                         count(spec.unit, spec.burst));
    case Algorithm::kStepped:
      return fmt::format("at most {} at once, {} more every {}", count(spec.unit, spec.burst),
                         spec.unit == Unit::kMicroUsd ? amount : fmt::to_string(step), period);
    case Algorithm::kFixedWindow:
      return fmt::format("at most {} in each window of {}, starting with its first request", amount,
                         period);
    case Algorithm::kSlidingWindow:
      return fmt::format("at most {} in any {}, by a sliding window", amount, period);
    case Algorithm::kSlidingLog:
      return fmt::format("at most {} in any {}, to the letter", amount, period);
    case Algorithm::kConcurrency: return fmt::format("at most {} at a time", amount);
    case Algorithm::kWarmUp: break;  // no file can ask for it
  }
  return spec.name;
}

void append(std::string& text, std::string_view indent, const std::vector<LimitConfig>& limits) {
  for (const auto& limit : limits) text += fmt::format("{}{}\n", indent, in_words(limit));
}

}  // namespace

std::string explain(const ProviderConfig& provider) {
  std::string text = provider.name;
  if (!provider.domain.empty()) text += fmt::format(" ({})", provider.domain);
  text += '\n';
  append(text, "  ", provider.limits);
  if (provider.limits.empty()) text += "  no limits: everything is admitted\n";
  for (const auto& model : provider.models) {
    text += fmt::format("  models {}, together:\n", model.pattern);
    append(text, "    ", model.limits);
  }
  for (const auto& agent : provider.agents) {
    text += fmt::format("  each agent {}, weight {}, priority {}{}\n", agent.pattern, agent.weight,
                        agent.priority, agent.limits.empty() ? "" : ":");
    append(text, "    ", agent.limits);
  }
  text += fmt::format("  api key: {}{}\n", provider.api_key.empty() ? "none" : "yes",
                      provider.key_parameter.empty()
                          ? ""
                          : fmt::format(", in the query as {}", provider.key_parameter));
  return text;
}

std::string explain(const SourceConfig& source) {
  return fmt::format("{} ({})\n  a source: every {}, time-out {}, {} bytes kept of it at most\n",
                     source.name, source.url, spell(source.every), spell(source.timeout),
                     source.max_body);
}

}  // namespace weir
