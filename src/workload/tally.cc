#include "workload/tally.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace weir::workload {
namespace {

std::string count_with_part(std::uint64_t count, std::uint64_t whole) {
  return fmt::format("{} ({})", count_text(static_cast<std::int64_t>(count)),
                     percent_text(part_of(count, whole)));
}

}  // namespace

std::vector<double> fair_parts(std::span<const Share> shares) {
  std::vector<double> wanted;
  double left = 0;
  for (const Share& share : shares) {
    wanted.push_back(share.wanted);
    left += share.served;
  }
  std::ranges::sort(wanted);
  double level = wanted.empty() ? 0 : wanted.back();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double even = left / static_cast<double>(wanted.size() - i);
    if (wanted[i] > even) {
      level = even;
      break;
    }
    left -= wanted[i];
  }
  std::vector<double> parts;
  for (const Share& share : shares) parts.push_back(std::min(share.wanted, level));
  return parts;
}

double fairness(std::span<const Share> shares) {
  const std::vector<double> fair = fair_parts(shares);
  double sum = 0;
  double squares = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (fair[i] <= 0) continue;
    const double got = shares[i].served / fair[i];
    sum += got;
    squares += got * got;
    ++count;
  }
  return squares == 0 ? 1 : sum * sum / (static_cast<double>(count) * squares);
}

std::vector<TallyLine> lines(std::span<const Tally* const> tallies) {
  std::vector<TallyLine> lines;
  const auto add = [&](std::string label, auto text) {
    lines.push_back({std::move(label), {}});
    for (const Tally* tally : tallies) lines.back().values.push_back(text(*tally));
  };
  add("calls wanted",
      [](const Tally& t) { return count_text(static_cast<std::int64_t>(t.wanted)); });
  add("calls done", [](const Tally& t) { return count_with_part(t.done, t.wanted); });
  add("calls given up", [](const Tally& t) { return count_with_part(t.given_up, t.wanted); });
  add("429s from the provider",
      [](const Tally& t) { return count_text(static_cast<std::int64_t>(t.refusals)); });
  add("quota used", [](const Tally& t) { return percent_text(t.quota_used); });
  add("wait of calls done, median",
      [](const Tally& t) { return server::span_text(t.waits.spread().p50); });
  add("wait of calls done, 99%",
      [](const Tally& t) { return server::span_text(t.waits.spread().p99); });
  add("fairness (1 is best)", [](const Tally& t) { return fmt::format("{:.3f}", t.fairness); });
  if (std::ranges::any_of(tallies, [](const Tally* tally) { return tally->tasks_done > 0; })) {
    add("tasks finished",
        [](const Tally& t) { return count_text(static_cast<std::int64_t>(t.tasks_done)); });
  }
  add("tokens put to use", [](const Tally& t) { return count_text(t.used_tokens); });
  if (std::ranges::any_of(tallies, [](const Tally* tally) { return tally->micro_usd > 0; })) {
    add("dollars wasted", [](const Tally& t) {
      return fmt::format("{} of {}", usd_text(t.wasted_micro_usd), usd_text(t.micro_usd));
    });
  } else {
    add("tokens wasted", [](const Tally& t) { return count_text(t.wasted_tokens); });
  }
  return lines;
}

void append_json(server::JsonText& json, const Tally& tally) {
  const auto ms = [](Nanos span) {
    return fmt::format("{:.3f}", static_cast<double>(span.count()) / 1e6);
  };
  const WaitHistogram::Spread wait = tally.waits.spread();
  json.key("calls_wanted").number(tally.wanted);
  json.key("calls_asked").number(tally.asked);
  json.key("calls_done").number(tally.done);
  json.key("calls_given_up").number(tally.given_up);
  json.key("calls_too_large").number(tally.too_large);
  json.key("refusals_429").number(tally.refusals);
  json.key("quota_used").raw(fmt::format("{:.6f}", tally.quota_used));
  json.key("wait_p50_ms").raw(ms(wait.p50));
  json.key("wait_p99_ms").raw(ms(wait.p99));
  json.key("fairness").raw(fmt::format("{:.6f}", tally.fairness));
  json.key("tasks_done").number(tally.tasks_done);
  json.key("tokens").number(tally.tokens);
  json.key("tokens_used").number(tally.used_tokens);
  json.key("tokens_wasted").number(tally.wasted_tokens);
  json.key("usd").raw(server::amount_text(Unit::kMicroUsd, tally.micro_usd));
  json.key("usd_wasted").raw(server::amount_text(Unit::kMicroUsd, tally.wasted_micro_usd));
}

std::vector<std::string> remarks(const Tally& tally, Nanos patience) {
  std::vector<std::string> remarks;
  if (tally.too_large > 0) {
    remarks.push_back(fmt::format("{} of the calls are larger than a limit and can never be made.",
                                  percent_text(part_of(tally.too_large, tally.asked))));
  }
  const double impatient = part_of(tally.given_up - tally.too_large, tally.wanted);
  if (impatient > 0.01) {
    remarks.push_back(
        fmt::format("Even with Weir {} of the calls gave up after {}: this quota is too small for "
                    "the fleet; --feed says how many agents it feeds.",
                    percent_text(impatient), server::span_text(patience)));
  }
  return remarks;
}

double part_of(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string percent_text(double part) { return fmt::format("{:.1f}%", 100 * part); }

std::string count_text(std::int64_t count) {
  std::string digits = std::to_string(count);
  const std::size_t first = digits.front() == '-' ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string usd_text(Amount micro_usd) {
  const double dollars = static_cast<double>(micro_usd) / 1e6;
  if (dollars < 100) return fmt::format("${:.2f}", dollars);
  return "$" + count_text(std::llround(dollars));
}

}  // namespace weir::workload
