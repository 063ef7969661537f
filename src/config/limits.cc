#include "config/limits.h"

#include <fmt/format.h>

#include <algorithm>

#include "weir/gate/gate.h"
#include "weir/limiter/provider_limiter.h"

namespace weir {
namespace {

using Algorithm = LimitSpec::Algorithm;

constexpr std::array<std::pair<std::string_view, Unit>, 6> kUnits{
    {{"requests", Unit::kRequests},
     {"tokens", Unit::kTokens},
     {"input_tokens", Unit::kInputTokens},
     {"output_tokens", Unit::kOutputTokens},
     {"usd", Unit::kMicroUsd},
     {"slots", Unit::kSlots}}};

constexpr std::array<std::pair<std::string_view, Algorithm>, 5> kAlgorithms{
    {{"token_bucket", Algorithm::kTokenBucket},
     {"stepped", Algorithm::kStepped},
     {"fixed_window", Algorithm::kFixedWindow},
     {"sliding_window", Algorithm::kSlidingWindow},
     {"sliding_log", Algorithm::kSlidingLog}}};

enum class Align { kCalendar };
constexpr std::array<std::pair<std::string_view, Align>, 1> kAligns{
    {{"calendar", Align::kCalendar}}};

bool is_limit_name(std::string_view name) {
  return name.size() <= 64 && std::ranges::all_of(name, [](char c) {
           return c >= ' ' && c <= '~' && c != '"' && c != '\\';
         });
}

std::optional<std::chrono::minutes> parse_time_of_day(std::string_view text) {
  const auto digit = [&](std::size_t i) { return text[i] - '0'; };
  if (text.size() != 5 || text[2] != ':') return {};
  for (const std::size_t i : {0U, 1U, 3U, 4U}) {
    if (digit(i) < 0 || digit(i) > 9) return {};
  }
  const int hour = digit(0) * 10 + digit(1);
  const int minute = digit(3) * 10 + digit(4);
  if (hour > 23 || minute > 59) return {};
  return std::chrono::hours{hour} + std::chrono::minutes{minute};
}

// reset and zone; `per` names the key of the period.
Alignment read_alignment(Fields& fields, std::string_view per, std::optional<Nanos> period) {
  Alignment align;
  if (const auto reset = fields.text("reset", "a time of day such as 00:00")) {
    const auto time = parse_time_of_day(*reset);
    if (time) {
      align.reset = *time;
    } else {
      fields.mistake("reset",
                     fmt::format("must be a time of day from 00:00 to 23:59: {}", excerpt(*reset)));
    }
  }
  if (const auto zone = fields.text("zone", "a time zone such as UTC or Europe/Berlin")) {
    auto loaded = Zone::load(*zone);
    if (loaded) {
      align.zone = *std::move(loaded);
    } else {
      fields.mistake("zone", loaded.error().message);
    }
  }
  constexpr Nanos kDay = std::chrono::days{1};
  if (period && *period > kDay && *period % kDay != Nanos{0}) {
    fields.mistake(per, fmt::format("on the calendar a period above a day is of whole days: {}",
                                    spell(*period)));
  }
  return align;
}

class LimitList {
 public:
  explicit LimitList(Reading& reading) : reading_(reading) {}

  // `at` is where a mistake stands, `path` the field it is in.
  void add(LimitConfig limit, const Node& at, std::string path) {
    const bool own_name = !limit.spec.name.empty();
    const auto made = Limit::create(limit.spec, Instant{});
    if (!made) return reading_.mistake(at, std::move(path), made.error().message);
    limit.spec.name = made->spec().name;
    if (!own_name && limit.spec.unit == Unit::kMicroUsd) {  // outside, money is dollars
      limit.spec.name.replace(0, name(Unit::kMicroUsd).size(), "usd");
    }
    drafts_.push_back({std::move(limit), own_name, &at, std::move(path)});
  }

  void add_entry(const Node& node, const std::string& path) {
    auto found = Fields::of(reading_, node, path);
    if (!found) return;
    Fields& fields = *found;
    for (const auto* key : {"unit", "amount"}) fields.require(key);
    const auto unit = fields.choice("unit", kUnits);
    if (unit == Unit::kSlots) return add_slots(fields, node, path);
    fields.require("per");
    const auto amount_of = [&](std::string_view key) {
      return unit == Unit::kMicroUsd ? fields.micro_usd(key) : fields.whole(key, 1, kAmountMax);
    };
    const auto amount = amount_of("amount");
    const auto period = fields.period("per");
    const bool default_algorithm = fields.find("algorithm") == nullptr;
    const auto algorithm =
        default_algorithm ? Algorithm::kTokenBucket : fields.choice("algorithm", kAlgorithms);
    const auto burst = amount_of("burst");
    const bool bucket = algorithm == Algorithm::kTokenBucket || algorithm == Algorithm::kStepped;
    if (fields.find("burst") != nullptr && algorithm && !bucket) {
      fields.mistake("burst", "only a token_bucket and a stepped one have a burst");
    }
    const std::string limit_name = read_name(fields);
    LimitConfig limit;
    if (fields.find("align") != nullptr) {
      if (fields.choice("align", kAligns) && algorithm && algorithm != Algorithm::kFixedWindow) {
        fields.mistake("align", "only a fixed_window stands on the calendar");
      }
      limit.align = read_alignment(fields, "per", period);
    } else {
      for (const auto* key : {"reset", "zone"}) {
        if (fields.find(key) != nullptr) fields.mistake(key, "needs align: calendar beside it");
      }
    }
    fields.finish();
    if (!unit || !amount || !period || !algorithm) return;
    limit.spec = {.unit = *unit, .algorithm = *algorithm, .amount = *amount, .period = *period};
    if (bucket) limit.spec.burst = burst.value_or(*amount);
    limit.spec.name = limit_name;
    add(std::move(limit), node, path);
  }

  // Borrowed and given back: no period, no algorithm.
  void add_slots(Fields& fields, const Node& node, const std::string& path) {
    const auto amount = fields.whole("amount", 1, kAmountMax);
    for (const auto* key : {"per", "algorithm", "burst", "align"}) {
      if (fields.find(key) != nullptr) {
        fields.mistake(key, "slots are given back: they have an amount and a name alone");
      }
    }
    LimitConfig limit;
    const std::string limit_name = read_name(fields);
    fields.finish();
    if (!amount) return;
    limit.spec = LimitSpec::concurrency(*amount);
    limit.spec.name = limit_name;
    add(std::move(limit), node, path);
  }

  static std::string read_name(Fields& fields) {
    const auto name = fields.text("name");
    if (name && !is_limit_name(*name)) {
      fields.mistake("name", "a limit's name is at most 64 printable characters, without \" or \\");
    }
    return name.value_or("");
  }

  void add_budget(Fields budget, std::string path) {
    budget.require("usd");
    const auto amount = budget.micro_usd("usd");
    const bool default_period = budget.find("per") == nullptr;
    const auto period = default_period ? Nanos{std::chrono::days{1}} : budget.period("per");
    Alignment align = read_alignment(budget, "per", period);
    budget.finish();
    if (!amount || !period) return;
    LimitConfig limit{LimitSpec::fixed_window(Unit::kMicroUsd, {*amount, *period}),
                      std::move(align)};
    limit.spec.name = "budget";
    add(std::move(limit), budget.node(), std::move(path));
  }

  // Names that files give must differ; ours give way, the later to the earlier.
  std::vector<LimitConfig> named() {
    std::vector<std::string> taken;
    const auto take = [&](const std::string& wanted) {
      const bool free = std::ranges::find(taken, wanted) == taken.end();
      if (free) taken.push_back(wanted);
      return free;
    };
    for (const Draft& draft : drafts_) {
      if (draft.own_name && !take(draft.limit.spec.name)) {
        reading_.mistake(*draft.at, draft.path,
                         fmt::format("two limits have the name \"{}\"", draft.limit.spec.name));
      }
    }
    std::vector<LimitConfig> limits;
    for (Draft& draft : drafts_) {
      const std::string wanted = draft.limit.spec.name;
      for (int i = 2; !draft.own_name && !take(draft.limit.spec.name); ++i) {
        draft.limit.spec.name = fmt::format("{} ({})", wanted, i);
      }
      limits.push_back(std::move(draft.limit));
    }
    return limits;
  }

 private:
  struct Draft {
    LimitConfig limit;
    bool own_name;
    const Node* at;
    std::string path;
  };

  Reading& reading_;
  std::vector<Draft> drafts_;
};

}  // namespace

std::vector<LimitConfig> read_limits(Fields& fields) {
  LimitList list{fields.reading()};
  const auto add = [&](LimitSpec spec, const char* key) {
    list.add({std::move(spec)}, *fields.find(key), fields.path(key));
  };
  const Node* const has_limit = fields.find("limit");
  const Node* const has_period = fields.find("period");
  const auto limit = fields.whole("limit", 1, kAmountMax);
  const auto period = fields.period("period");
  if (has_limit != nullptr && has_period == nullptr)
    fields.mistake("limit", "needs `period` beside it");
  if (has_period != nullptr && has_limit == nullptr)
    fields.mistake("period", "needs `limit` beside it");
  if (limit && period) add(LimitSpec::fixed_window(Unit::kRequests, {*limit, *period}), "limit");
  if (const auto tokens = fields.whole("tokens_per_minute", kTokensPerMinuteMin, kAmountMax)) {
    add(tokens_per_minute_limit(*tokens), "tokens_per_minute");
  }
  if (const auto slots = fields.whole("max_concurrency", 1, kAmountMax)) {
    add(LimitSpec::concurrency(*slots), "max_concurrency");
  }
  for (const auto& [node, path] : fields.list("limits")) list.add_entry(*node, path);
  if (auto budget = fields.map("budget"))
    list.add_budget(*std::move(budget), fields.path("budget"));

  auto limits = list.named();
  if (limits.size() > Gate::kLimitsMax) {
    fields.mistake("limits", fmt::format("at most {} limits in one place, not {}", Gate::kLimitsMax,
                                         limits.size()));
  }
  return limits;
}

}  // namespace weir
