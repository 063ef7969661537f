#include <algorithm>
#include <array>
#include <cstddef>

#include "net/characters.h"
#include "provider/durations.h"
#include "provider/signals_parts.h"
#include "weir/core/int128.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr Nanos kDay = 24h;
constexpr Nanos kMonth = 30 * kDay;
// Anthropic rounds what remains of tokens to the nearest 1,000.
constexpr Amount kAnthropicRounding = 499;
// Longer than the name of any field that is looked at.
constexpr std::size_t kNameBytesMax = 48;

// Quotas of one answer that are told apart by name, not by what they mean.
enum class Family : std::uint8_t {
  kBare,  // x-ratelimit-limit
  kNamed,
  kProject,
  kUsageBased,
  kAnthropic,
  kTrial,
  kMonthly,
  kOldDraft,  // ratelimit-limit
  kDraft,     // ratelimit and ratelimit-policy
};

enum class Part : std::uint8_t { kLimit, kRemaining, kReset };

// A quota whose parts come in several fields.
struct Draft {
  Family family;
  Unit unit;
  Nanos named;                   // the period that the field's name says; 0 if it does not
  std::string_view policy = {};  // kDraft: its name
  Nanos window{0};               // the period that its value says
  std::optional<Amount> limit = {};
  std::optional<Amount> remaining = {};
  std::optional<Nanos> reset_in = {};
  bool other_unit = false;  // bytes, or calls at one time
};

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool take_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

std::optional<Part> take_part(std::string_view& name) {
  if (take_prefix(name, "limit")) return Part::kLimit;
  if (take_prefix(name, "remaining")) return Part::kRemaining;
  if (take_prefix(name, "reset")) return Part::kReset;
  return std::nullopt;
}

std::optional<Unit> unit_of(std::string_view name) {
  if (name == "requests" || name == "req") return Unit::kRequests;
  if (name == "tokens") return Unit::kTokens;
  if (name == "input-tokens") return Unit::kInputTokens;
  if (name == "output-tokens") return Unit::kOutputTokens;
  return std::nullopt;
}

class HeaderReader {
 public:
  HeaderReader(Profile profile, CalendarTime wall) : profile_(profile), wall_(wall) {}

  void read(std::string_view name, std::string_view value);
  HeaderFacts finish(Signals& signals);

 private:
  static constexpr std::size_t kDraftsMax = 16;

  void read_x_ratelimit(std::string_view name, std::string_view value);
  void read_anthropic(std::string_view name, std::string_view value);
  void read_old_draft(Part part, std::string_view value);
  void read_draft(std::string_view value);
  std::optional<Nanos> read_retry_after(std::string_view value) const;
  // Found or made; null if there is no room for it.
  Draft* draft(Family family, Unit unit, Nanos named, std::string_view policy = {});
  void note(Draft* draft, Part part, std::string_view value) const;
  Nanos period_of(const Draft& draft) const;
  Quota quota_of(const Draft& draft) const;

  Profile profile_;
  CalendarTime wall_;
  std::array<Draft, kDraftsMax> drafts_{};
  std::size_t count_ = 0;
  std::string_view github_resource_ = {};
  std::array<std::optional<Nanos>, 3> retry_after_{};  // the first that is there counts
  bool html_ = false;
  bool cloudflare_ = false;
  HeaderFacts facts_;
};

Draft* HeaderReader::draft(Family family, Unit unit, Nanos named, std::string_view policy) {
  const auto end = drafts_.begin() + count_;
  const auto known = std::find_if(drafts_.begin(), end, [&](const Draft& d) {
    return d.family == family && d.unit == unit && d.named == named && d.policy == policy;
  });
  if (known != end) return known;
  if (end == drafts_.end()) return nullptr;
  *end = {.family = family, .unit = unit, .named = named, .policy = policy};
  ++count_;
  return end;
}

void HeaderReader::note(Draft* draft, Part part, std::string_view value) const {
  if (draft == nullptr) return;
  switch (part) {
    case Part::kLimit: draft->limit = read_amount(value); break;
    case Part::kRemaining: draft->remaining = read_amount(value); break;
    case Part::kReset: draft->reset_in = read_reset(value, wall_); break;
  }
}

// x-ratelimit-limit, -limit-requests, -limit-project-tokens, -limit-req-minute, -limit-tokens-day.
void HeaderReader::read_x_ratelimit(std::string_view name, std::string_view value) {
  if (name == "resource") github_resource_ = value;
  const auto part = take_part(name);
  if (!part) return;
  if (name.empty()) return note(draft(Family::kBare, Unit::kRequests, Nanos{0}), *part, value);
  if (!take_prefix(name, "-")) return;
  Nanos period{0};
  if (take_suffix(name, "-second")) period = 1s;
  if (take_suffix(name, "-minute")) period = 1min;
  if (take_suffix(name, "-hour")) period = 1h;
  if (take_suffix(name, "-day")) period = kDay;
  if (take_suffix(name, "-month")) period = kMonth;
  Family family = Family::kNamed;
  if (take_prefix(name, "project-")) family = Family::kProject;
  if (take_suffix(name, "_usage_based")) family = Family::kUsageBased;
  if (const auto unit = unit_of(name)) note(draft(family, *unit, period), *part, value);
}

// Priority and fast tiers are other pools than the one that ordinary calls use: not looked at.
void HeaderReader::read_anthropic(std::string_view name, std::string_view value) {
  if (name == "unified-status") facts_.unified_rejected = value == "rejected";
  if (name == "unified-reset") facts_.unified_reset = read_reset(value, wall_);
  const std::size_t dash = name.rfind('-');
  if (dash == name.npos) return;
  std::string_view last = name.substr(dash + 1);
  const auto part = take_part(last);
  const auto unit = unit_of(name.substr(0, dash));
  if (!part || !last.empty() || !unit) return;
  note(draft(Family::kAnthropic, *unit, 1min), *part, value);
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// The front of `rest` up to `separator`, outside quotes, which is taken off with it.
std::string_view take_until(std::string_view& rest, char separator) {
  bool quoted = false;
  std::size_t end = 0;
  for (; end < rest.size() && (quoted || rest[end] != separator); ++end) {
    if (rest[end] == '"') quoted = !quoted;
  }
  const std::string_view front = trimmed(rest.substr(0, end));
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return front;
}

// The value of `key` in "…;q=100;w=60".
std::optional<std::string_view> parameter(std::string_view member, std::string_view key) {
  while (!member.empty()) {
    std::string_view one = take_until(member, ';');
    if (!take_prefix(one, key) || !take_prefix(one, "=")) continue;
    if (one.size() >= 2 && one.front() == '"' && one.back() == '"') {
      one = one.substr(1, one.size() - 2);
    }
    return one;
  }
  return std::nullopt;
}

// Up to draft 06 "RateLimit-Limit: 100, 100;w=60", reset in seconds; later "limit=100, …", and
// "RateLimit-Policy: 100;w=60".
void HeaderReader::read_old_draft(Part part, std::string_view value) {
  Draft* quota = draft(Family::kOldDraft, Unit::kRequests, Nanos{0});
  std::string_view rest = value;
  std::string_view first = take_until(rest, ',');
  note(quota, part, take_until(first, ';'));
  if (quota == nullptr) return;
  while (!value.empty() && quota->window == Nanos{0}) {
    const auto window = parameter(take_until(value, ','), "w");
    if (window) quota->window = read_decimal(*window, 1s).value_or(Nanos{0});
  }
}

// `"burst";q=100;w=60` of a policy, `"burst";r=50;t=30`.
void HeaderReader::read_draft(std::string_view value) {
  while (!value.empty()) {
    const std::string_view member = take_until(value, ',');
    std::string_view rest = member;
    std::string_view name = take_until(rest, ';');
    if (const auto part = take_part(name); part && take_prefix(name, "=")) {
      read_old_draft(*part, name);
      continue;
    }
    if (read_amount(name)) {
      read_old_draft(Part::kLimit, member);
      continue;
    }
    Draft* quota = draft(Family::kDraft, Unit::kRequests, Nanos{0}, name);
    if (quota == nullptr) return;
    if (const auto q = parameter(rest, "q")) note(quota, Part::kLimit, *q);
    if (const auto r = parameter(rest, "r")) note(quota, Part::kRemaining, *r);
    if (const auto t = parameter(rest, "t")) note(quota, Part::kReset, *t);
    if (const auto w = parameter(rest, "w")) quota->window = read_decimal(*w, 1s).value_or(0s);
    if (const auto unit = parameter(rest, "qu")) quota->other_unit = *unit != "requests";
  }
}

void HeaderReader::read(std::string_view name, std::string_view value) {
  if (take_prefix(name, "x-ratelimit-")) return read_x_ratelimit(name, value);
  if (take_prefix(name, "anthropic-ratelimit-")) return read_anthropic(name, value);
  if (name == "ratelimit" || name == "ratelimit-policy") return read_draft(value);
  if (take_prefix(name, "ratelimit-")) {
    const auto part = take_part(name);
    if (part && name.empty()) read_old_draft(*part, value);
    return;
  }
  if (take_prefix(name, "x-trial-endpoint-call-")) {
    const auto part = take_part(name);
    if (part) note(draft(Family::kTrial, Unit::kRequests, 1min), *part, value);
    return;
  }
  if (name == "x-endpoint-monthly-call-limit") {
    return note(draft(Family::kMonthly, Unit::kRequests, kMonth), Part::kLimit, value);
  }
  if (name == "retry-after-ms") retry_after_[0] = read_decimal(value, 1ms);
  if (name == "x-ms-retry-after-ms") retry_after_[1] = read_decimal(value, 1ms);
  if (name == "retry-after") retry_after_[2] = read_retry_after(value);
  if (name == "x-amzn-errortype") facts_.aws_error = value.substr(0, value.find(':'));
  if (name == "content-type") html_ = value.starts_with("text/html");
  if (name == "cf-ray") cloudflare_ = true;
}

std::optional<Nanos> HeaderReader::read_retry_after(std::string_view value) const {
  if (const auto seconds = read_decimal(value, 1s)) return seconds;
  const auto date = read_date(value);
  return date && *date > wall_ ? std::optional<Nanos>{*date - wall_} : std::nullopt;
}

Nanos HeaderReader::period_of(const Draft& draft) const {
  if (draft.named > Nanos{0}) return draft.named;
  if (draft.window > Nanos{0}) return draft.window;
  const bool known = draft.family == Family::kNamed || draft.family == Family::kProject ||
                     draft.family == Family::kUsageBased;
  if (draft.family == Family::kBare && !github_resource_.empty()) {
    return github_resource_.ends_with("search") ? Nanos{1min} : Nanos{1h};
  }
  if (!known) return Nanos{0};
  if (draft.unit != Unit::kRequests) return 1min;
  if (profile_ == Profile::kGroq) return kDay;
  // OpenAI states requests a day in the same field where that is the narrower limit. A reset is
  // when all is back: by it the period shows.
  if (profile_ != Profile::kAzure && draft.limit && draft.remaining && draft.reset_in &&
      *draft.remaining < *draft.limit) {
    const Int128 whole = Int128{draft.reset_in->count()} * *draft.limit;
    if (whole / (*draft.limit - *draft.remaining) > Nanos{1h}.count()) return kDay;
  }
  return 1min;
}

Quota HeaderReader::quota_of(const Draft& draft) const {
  Quota quota{.unit = draft.unit,
              .period = std::min(period_of(draft), kPeriodMax),
              .limit = draft.limit,
              .remaining = draft.remaining,
              .reset_in = draft.reset_in};
  // The true number may be this much higher. Taken as the higher one it never takes away what is
  // there; our own count, which it can only lower, is exact.
  if (draft.family == Family::kAnthropic && draft.unit != Unit::kRequests && quota.remaining) {
    *quota.remaining = std::min(*quota.remaining + kAnthropicRounding, kAmountMax);
  }
  const bool azure_tokens = profile_ == Profile::kAzure && draft.unit == Unit::kTokens;
  quota.fixed_window = draft.family == Family::kBare || azure_tokens;
  return quota;
}

HeaderFacts HeaderReader::finish(Signals& signals) {
  for (const auto& said : retry_after_) {
    if (!facts_.retry_after && said > Nanos{0}) facts_.retry_after = said;
  }
  facts_.cloudflare_page = html_ && cloudflare_;
  for (const Draft& draft : std::span{drafts_}.first(count_)) {
    // Azure's Responses API has said limits of 0 and -1 that mean nothing.
    if (draft.limit == 0) {
      facts_.no_entitlement = facts_.no_entitlement || profile_ == Profile::kMistral;
      continue;
    }
    if (draft.other_unit) continue;
    const Quota quota = quota_of(draft);
    signals.add(quota);
    if (draft.remaining != 0) continue;
    facts_.nothing_left = true;
    facts_.none_for_a_day = facts_.none_for_a_day || quota.period >= kDay;
    if (draft.reset_in > Nanos{0}) {
      facts_.back_in = std::max(facts_.back_in.value_or(0s), *draft.reset_in);
    }
  }
  return facts_;
}

}  // namespace

HeaderFacts read_header_facts(Profile profile, const net::Fields& fields, CalendarTime wall,
                              Signals& signals) {
  HeaderReader reader{profile, wall};
  std::array<char, kNameBytesMax> lower{};
  for (const auto& [name, value] : fields.all()) {
    if (name.size() > lower.size()) continue;
    std::ranges::transform(name, lower.begin(), net::lower);
    reader.read({lower.data(), name.size()}, value);
  }
  return reader.finish(signals);
}

}  // namespace weir
