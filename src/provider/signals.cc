#include "provider/signals.h"

#include <algorithm>
#include <array>
#include <string>

#include "config/zone.h"
#include "provider/durations.h"
#include "provider/signals_parts.h"

namespace weir {
namespace {

using Kind = Signals::Kind;

// What is back within this time is worth waiting for; Google's own client draws the line here.
constexpr Nanos kWorthWaiting = std::chrono::seconds{300};
// GitHub of its secondary limits: "wait for at least one minute".
constexpr Nanos kSecondaryWait = std::chrono::minutes{1};

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

template <class... Parts>
bool contains_any(std::string_view text, Parts... parts) {
  return (contains(text, parts) || ...);
}

// "limit: 0" and not "limit: 0.5" or "limit: 05".
bool states_limit_of_zero(std::string_view text) {
  constexpr std::string_view kWords = "limit: 0";
  for (std::size_t at = text.find(kWords); at != text.npos; at = text.find(kWords, at + 1)) {
    const std::string_view after = text.substr(at + kWords.size(), 2);
    const bool goes_on = !after.empty() && (after[0] >= '0' && after[0] <= '9');
    const bool fraction =
        after.size() == 2 && after[0] == '.' && after[1] >= '0' && after[1] <= '9';
    if (!goes_on && !fraction) return true;
  }
  return false;
}

// "You will regain access on 2026-12-01 at 00:00 UTC."
std::optional<Nanos> regained_in(std::string_view text, CalendarTime wall) {
  constexpr std::string_view kWords = "regain access on ";
  const std::size_t at = text.find(kWords);
  if (at == text.npos) return std::nullopt;
  const std::string_view date = text.substr(at + kWords.size());
  if (date.size() < 19 || date.substr(10, 4) != " at ") return std::nullopt;
  std::string rfc3339{date.substr(0, 10)};
  rfc3339.append("T").append(date.substr(14, 5)).append(":00Z");
  return read_reset(rfc3339, wall);
}

Nanos until_midnight_pacific(CalendarTime wall) {
  constexpr Nanos kDay = std::chrono::hours{24};
  const auto zone = Zone::load("America/Los_Angeles");
  return zone.value_or(Zone{}).next_reset(wall, kDay, std::chrono::minutes{0}) - wall;
}

// One answer, all that was read of it.
class Judgement {
 public:
  Judgement(int status, const HeaderFacts& headers, const BodyFacts& body, CalendarTime wall)
      : status_(status), headers_(headers), body_(body), wall_(wall) {
    hint_ = headers.retry_after ? headers.retry_after : body.retry_after;
  }

  Kind kind() const {
    const bool refusal = status_ == 400 || status_ == 402 || status_ == 403 || status_ == 429;
    if (refusal && (out_of_money() || (limited() && used_up()))) return Kind::kExhausted;
    if (limited()) return Kind::kLimited;
    return overloaded() ? Kind::kOverloaded : Kind::kFailed;
  }

  // Of kLimited and kOverloaded.
  std::optional<Nanos> retry_after() const {
    if (hint_ || !limited()) return hint_;
    if (headers_.back_in) return headers_.back_in;
    if (contains(body_.text, "secondary rate limit")) return kSecondaryWait;
    return std::nullopt;
  }

  // Of kExhausted.
  std::optional<Nanos> resets_in(Profile profile) const {
    if (headers_.unified_rejected) return headers_.unified_reset;
    if (body_.daily && (profile == Profile::kGemini || body_.resource_exhausted)) {
      return until_midnight_pacific(wall_);
    }
    if (const auto regained = regained_in(body_.text, wall_)) return regained;
    const auto said = hint_ ? hint_ : headers_.back_in;
    return body_.daily || said > kWorthWaiting ? said : std::nullopt;
  }

 private:
  bool limited() const {
    if (status_ == 429) return headers_.aws_error != "ModelNotReadyException";
    if (status_ == 503) return body_.code == "slow_down";
    if (headers_.aws_error.starts_with("Throttling")) return true;
    if (status_ != 403) return false;
    return headers_.retry_after || headers_.nothing_left || headers_.cloudflare_page ||
           contains(body_.text, "rate limit");
  }

  bool overloaded() const {
    return status_ == 503 || status_ == 529 || status_ == 429 || body_.type == "overloaded_error";
  }

  // The whole account, until somebody pays or a month ends.
  bool out_of_money() const {
    // OpenRouter's: what is left would do for a smaller call.
    if (status_ == 402) return !contains(body_.text, "fewer max_tokens");
    static constexpr auto kCodes = std::to_array<std::string_view>(
        {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active",
         "enforced_spend_limit_reached", "budget_exceeded"});
    const auto names = [&](std::string_view code) {
      return std::ranges::find(kCodes, code) != kCodes.end();
    };
    return names(body_.code) || names(body_.type) ||
           contains_any(body_.text, "reached your specified api usage limits",
                        "credit balance is too low", "out of call volume quota");
  }

  // A quota that seconds do not bring back.
  bool used_up() const {
    if (headers_.unified_rejected || headers_.no_entitlement || body_.daily) return true;
    if (body_.resource_exhausted) {
      if (states_limit_of_zero(body_.text) || hint_ > kWorthWaiting) return true;
    }
    const bool long_quota = headers_.none_for_a_day ||
                            contains_any(body_.text, "per day", "daily limit", "daily quota");
    const auto said = hint_ ? hint_ : headers_.back_in;
    return long_quota && (!said || *said > kWorthWaiting);
  }

  int status_;
  const HeaderFacts& headers_;
  const BodyFacts& body_;
  CalendarTime wall_;
  std::optional<Nanos> hint_;  // what the provider itself says
};

std::string reason_of(Profile profile, int status, const HeaderFacts& headers,
                      const BodyFacts& body) {
  std::string reason{name(profile)};
  reason += ": ";
  if (!body.code.empty()) {
    reason += body.code;
  } else if (!headers.aws_error.empty()) {
    reason += headers.aws_error;
  } else {
    reason += "status " + std::to_string(status);
  }
  reason.resize(std::min(reason.size(), Signals::kReasonBytesMax));
  std::ranges::replace_if(reason, [](char c) { return c < ' ' || c > '~'; }, '?');
  return reason;
}

template <class T>
std::optional<T> stricter(const std::optional<T>& a, const std::optional<T>& b) {
  return a && b ? std::optional{std::min(*a, *b)} : a ? a : b;
}

}  // namespace

void Signals::add(const Quota& quota) {
  const auto end = quotas_.begin() + count_;
  const auto same = std::find_if(quotas_.begin(), end, [&](const Quota& known) {
    return known.unit == quota.unit && known.period == quota.period;
  });
  if (same != end) {
    same->limit = stricter(same->limit, quota.limit);
    same->remaining = stricter(same->remaining, quota.remaining);
    if (quota.reset_in)
      same->reset_in = std::max(same->reset_in.value_or(Nanos{0}), *quota.reset_in);
  } else if (end != quotas_.end()) {
    *end = quota;
    ++count_;
  }
}

Signals read_signals(Profile profile, const net::ResponseHead& head, std::string_view body,
                     CalendarTime wall) {
  Signals signals;
  const HeaderFacts headers = read_header_facts(profile, head.fields, wall, signals);
  if (head.status < 400) return signals;
  const BodyFacts facts = read_body_facts(body, wall);
  const Judgement judgement{head.status, headers, facts, wall};
  const auto bounded = [](std::optional<Nanos> time, Nanos max) -> std::optional<Nanos> {
    return time > Nanos{0} ? std::optional{std::min(*time, max)} : std::nullopt;
  };
  signals.kind = judgement.kind();
  if (signals.kind == Kind::kLimited || signals.kind == Kind::kOverloaded) {
    signals.retry_after = bounded(judgement.retry_after(), Signals::kRetryAfterMax);
  }
  if (signals.kind == Kind::kExhausted) {
    signals.resets_in = bounded(judgement.resets_in(profile), Signals::kResetMax);
  }
  signals.reason = reason_of(profile, head.status, headers, facts);
  return signals;
}

}  // namespace weir
