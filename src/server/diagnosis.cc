#include "server/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "server/text.h"
#include "store/journal.h"

namespace weir::server {
namespace {

using Severity = Warning::Severity;

std::string percent(double part) { return fmt::format("{:.0f}%", 100 * part); }

std::string called(const LimitView& limit) {
  if (limit.scope == "provider") return fmt::format("\"{}\"", limit.name);
  return fmt::format("\"{}\" ({})", limit.name, limit.scope);
}

// What lies ahead needs no fractions.
std::string ahead(Nanos span) { return span_text(std::chrono::ceil<std::chrono::seconds>(span)); }

// How many are meant: "1 call waits", "5 calls wait".
std::string calls_wait(std::uint64_t count) {
  return count == 1 ? "1 call waits" : fmt::format("{} calls wait", count);
}

class Findings {
 public:
  Findings(const ResourceView& resource, Instant now) : resource_(resource), now_(now) {}

  std::vector<Warning> all() {
    using enum ResourceView::State;
    if (resource_.state == kPaused) paused();
    if (!resource_.reason.empty()) exhausted();
    if (resource_.state == kHeld) held();
    if (resource_.state == kOpen) held_in_part();
    lowered();
    const bool fails = failing();
    if (resource_.state == kOpen) {
      const bool congested = waits_long() || refuses();
      if (!fails && api_is_slow() && (!congested || waits_for_the_api())) {
        slow_theirs();
      } else if (congested) {
        slow_ours();
      }
    }
    forgotten();
    ending();
    return std::move(warnings_);
  }

 private:
  void warn(Severity severity, std::string_view code, std::string text, std::string advice) {
    warnings_.push_back({.severity = severity,
                         .code = code,
                         .resource = resource_.name,
                         .text = std::move(text),
                         .advice = std::move(advice)});
  }

  void paused() {
    const auto waiting = resource_.activity.waiting;
    warn(waiting > 0 ? Severity::kWarning : Severity::kInfo, "paused",
         waiting > 0 ? fmt::format("An operator has paused this provider; {}.", calls_wait(waiting))
                     : "An operator has paused this provider.",
         "Resume it to let calls through again, or drain the queue to end those that wait.");
  }

  void exhausted() {
    const bool all = resource_.state == ResourceView::State::kExhausted;
    warn(all ? Severity::kCritical : Severity::kWarning, "exhausted",
         fmt::format("The provider says that {} is used up ({}). It is asked again in {}.",
                     all ? "the quota" : "the quota of one model or key", resource_.reason,
                     ahead(resource_.reason_for)),
         "Raise the spend limit or top up the balance at the provider, then resume it here; or "
         "wait for the reset.");
  }

  void held() {
    if (resource_.held_for < kLongHold && resource_.activity.waiting == 0) return;
    warn(resource_.held_for < kLongHold ? Severity::kInfo : Severity::kWarning, "held",
         fmt::format("The provider has asked to wait {} more; {}.", ahead(resource_.held_for),
                     calls_wait(resource_.activity.waiting)),
         "Calls go on by themselves. If this comes often, configure the provider's real limits "
         "here, or run fewer agents.");
  }

  void held_in_part() {
    if (resource_.held_in_part < kLongHold) return;
    warn(Severity::kInfo, "held_in_part",
         fmt::format("The provider has asked to wait {} more with one model or key; others go on.",
                     ahead(resource_.held_in_part)),
         "Its calls go on by themselves. If this comes often, configure the provider's real limits "
         "of that model here.");
  }

  void lowered() {
    for (const LimitView& limit : resource_.limits) {
      if (!limit.configured || limit.amount >= *limit.configured) continue;
      warn(Severity::kWarning, "limit_lowered",
           fmt::format("The rate is lowered to {} of {} {} a minute after answers of 429; it grows "
                       "back by a tenth every 30 s.",
                       percent(limit.amount / *limit.configured),
                       amount_text(limit.unit, std::llround(*limit.configured)),
                       unit_text(limit.unit)),
           "Wait until it has grown back, or run fewer agents. If 429s keep coming, the limits "
           "configured here are above what the provider grants.");
      return;
    }
  }

  bool failing() {
    const Activity::Counts& minute = resource_.activity.minute;
    if (minute.failed < kFailedMin ||
        static_cast<double>(minute.failed) < kFailedPart * static_cast<double>(minute.admitted)) {
      return false;
    }
    warn(
        Severity::kCritical, "api_failing",
        fmt::format("In the last minute {} of {} calls got no answer from the API, a broken one or "
                    "an error of 5xx: it is not us.",
                    std::min(minute.failed, minute.admitted), minute.admitted),
        "Look at the provider's status page, and whether its address (`upstream`) can be reached "
        "from here. The callers got the reason.");
    return true;
  }

  Nanos longest_wait() const {
    const auto& queue = resource_.activity.queue;
    return queue.empty() ? Nanos{0} : now_ - queue.front().since;
  }

  // Those who still wait are halfway through, as a rule.
  Nanos wait() const {
    const auto& admitted = resource_.activity.wait;
    const Nanos longest = longest_wait();
    return admitted.count >= kCallsMin ? std::max(admitted.mean, longest / 2) : longest;
  }
  // Where hardly a call has ended, those under way tell how long the API takes.
  Nanos upstream() const {
    const auto& ended = resource_.activity.upstream;
    return few_ended() ? std::max(ended.mean, resource_.activity.in_flight_age) : ended.mean;
  }
  bool few_ended() const { return resource_.activity.upstream.count < kCallsMin; }

  bool waits_long() const {
    const double part = static_cast<double>(wait().count()) /
                        static_cast<double>(std::max<Nanos>(wait() + upstream(), Nanos{1}).count());
    return wait() >= kCongestedWait && part >= kCongestedPart;
  }
  bool refuses() const {
    const Activity::Counts& minute = resource_.activity.minute;
    return minute.refused >= kRefusedMin && static_cast<double>(minute.refused) >=
                                                kRefusedPart * static_cast<double>(minute.arrived);
  }
  bool api_is_slow() const {
    const Activity::View& activity = resource_.activity;
    return resource_.upstream_usual && activity.upstream.count + activity.in_flight >= kCallsMin &&
           upstream() >= kSlowUpstream && times_as_long() >= kSlowerThanUsual;
  }
  double times_as_long() const {
    const Nanos usual = std::max(*resource_.upstream_usual, Nanos{1});
    return static_cast<double>(upstream().count()) / static_cast<double>(usual.count());
  }
  // A slow API keeps its slots taken: who waits for one does not wait for us.
  bool waits_for_the_api() const {
    return waits_long() && resource_.binding &&
           resource_.limits[*resource_.binding].unit == Unit::kSlots;
  }

  // S3.9: our own congestion.
  void slow_ours() {
    std::string text;
    if (waits_long()) {
      const Nanos admitted = resource_.activity.wait.mean;
      if (admitted >= kCongestedWait) {
        text = fmt::format("Calls wait {} for quota", span_text(admitted));
        if (upstream() > Nanos{0}) {
          text += fmt::format(" and {} for the API", span_text(upstream()));
        }
        text += "; ";
      }
      const auto waiting = resource_.activity.waiting;
      const Nanos longest = longest_wait();
      text += waiting == 0 ? "nobody waits now" : calls_wait(waiting) + " now";
      text += longest > Nanos{0} ? fmt::format(", the longest for {}.", span_text(longest)) : ".";
    } else {
      const Activity::Counts& minute = resource_.activity.minute;
      text = fmt::format("In the last minute {} of {} calls were refused for lack of quota.",
                         minute.refused, minute.arrived);
    }
    if (resource_.binding) {
      const LimitView& limit = resource_.limits[*resource_.binding];
      text += fmt::format(" The limit that binds is {}, {} used.", called(limit),
                          percent(std::min(limit.used, 1.0)));
    }
    warn(wait() >= kCongestedBadly ? Severity::kCritical : Severity::kWarning, "congestion",
         std::move(text), congestion_advice());
  }

  std::string congestion_advice() const {
    if (!resource_.binding) return "Run fewer agents, or let them ask less often.";
    const LimitView& limit = resource_.limits[*resource_.binding];
    const Activity::Counts& minute = resource_.activity.minute;
    if (limit.unit == Unit::kSlots) {
      const std::string taken = limit.capacity == 1
                                    ? "The only slot is taken"
                                    : fmt::format("All {} slots are taken", limit.capacity);
      return taken +
             ": raise max_concurrency if the provider allows more calls at a time, or run "
             "fewer agents.";
    }
    if (limit.scope.starts_with("agent ")) {
      return "It is this agent's own limit: raise it in the provider's file (`agents`), or let the "
             "agent ask less often.";
    }
    if (limit.configured && limit.amount < *limit.configured) {
      return "It was lowered after answers of 429: wait until it has grown back, or run fewer "
             "agents.";
    }
    if (limit.unit == Unit::kMicroUsd) {
      return "The budget is used up until it resets: raise it, or move work to a cheaper model.";
    }
    const bool tokens = limit.unit == Unit::kTokens || limit.unit == Unit::kOutputTokens;
    if (tokens && minute.estimated > 0 &&
        static_cast<double>(minute.settled) <
            kUsedOfEstimate * static_cast<double>(minute.estimated)) {
      return fmt::format(
          "Calls use {} of the tokens that they reserve: lower max_tokens in the agents' requests, "
          "so that more of them fit at a time.",
          percent(static_cast<double>(minute.settled) / static_cast<double>(minute.estimated)));
    }
    return fmt::format(
        "Run fewer agents, or ask the provider for a higher quota and raise \"{}\" here.",
        limit.name);
  }

  // S3.9: the API's slowness.
  void slow_theirs() {
    const std::string compared = fmt::format("{:.1f} times as long as in the last hour ({})",
                                             times_as_long(), span_text(*resource_.upstream_usual));
    const std::string takes =
        few_ended() ? fmt::format(
                          "Calls have been under way for {} on average, {}, and hardly one has "
                          "ended in the last minute.",
                          span_text(upstream()), compared)
                    : fmt::format("The API takes {}, {}.", span_text(upstream()), compared);
    const std::string waits =
        waits_for_the_api()
            ? fmt::format("Slots stay taken for as long, so calls wait {} for one",
                          span_text(wait()))
            : fmt::format("Calls wait {} for quota", span_text(resource_.activity.wait.mean));
    warn(Severity::kWarning, "api_slow", fmt::format("{} {}: it is not us.", takes, waits),
         "Nothing here makes it faster. Look at the provider's status page, or send work to "
         "another model or provider.");
  }

  void forgotten() {
    const Activity::View& activity = resource_.activity;
    if (!activity.expired_at || now_ - *activity.expired_at > kExpiredLately) return;
    const bool slots = std::ranges::any_of(
        resource_.limits, [](const LimitView& limit) { return limit.unit == Unit::kSlots; });
    warn(Severity::kWarning, slots ? "stale_slots" : "permits_expired",
         fmt::format(
             "{} {} never released and {} been taken back, the last {} ago.",
             activity.totals.expired, activity.totals.expired == 1 ? "permit was" : "permits were",
             activity.totals.expired == 1 ? "has" : "have", span_text(now_ - *activity.expired_at)),
         "Some agent ends or crashes without releasing (the log names it). Let it release on every "
         "path out, or renew while it works.");
  }

  void ending() {
    for (const LimitView& limit : resource_.limits) {
      if (!limit.ends_in) continue;
      const bool soon = *limit.ends_in < kBudgetSoon;
      std::string text =
          fmt::format("At this pace {} ends in {}", called(limit), ahead(*limit.ends_in));
      if (limit.resets_in) {
        text += fmt::format(", {} before it resets", ahead(*limit.resets_in - *limit.ends_in));
      }
      warn(soon ? Severity::kWarning : Severity::kInfo, "budget_ends", text + ".",
           "Slow down or pause what can wait, or raise the limit.");
    }
  }

  const ResourceView& resource_;
  const Instant now_;
  std::vector<Warning> warnings_;
};

void look_at_daemon(const LiveView& live, std::vector<Warning>& warnings) {
  if (live.store.state != "none" && live.store.state != name(store::JournalStatus::State::kOpen)) {
    warnings.push_back(
        {.severity = Severity::kCritical,
         .code = "store_away",
         .text = fmt::format("The store {} ({}).",
                             live.store.state == name(store::JournalStatus::State::kFenced)
                                 ? "is taken by another daemon"
                                 : "does not answer",
                             live.store.message),
         .advice = "Mend the disk or the database; the daemon tries again by "
                   "itself. What happens meanwhile is set by on_store_failure."});
  }
  if (live.fleet) {
    const LiveView::Fleet& fleet = *live.fleet;
    const bool away = fleet.state == "away" || (fleet.state == "bus" && !fleet.connected);
    if (away) {
      warnings.push_back({.severity = Severity::kCritical,
                          .code = "fleet_away",
                          .text = fmt::format("The fleet cannot be reached: {}.", fleet.message),
                          .advice = "Look at Redis and at the network between. Until it is back "
                                    "the fallback decides what is admitted here."});
    } else if (fleet.breaker != "closed") {
      warnings.push_back(
          {.severity = Severity::kWarning,
           .code = "breaker_open",
           .text = fmt::format("The breaker in front of the fleet's Redis is {}.", fleet.breaker),
           .advice = "It closes by itself once Redis answers again."});
    }
  }
}

void look_at_sources(const SourceSummary& sources, std::vector<Warning>& warnings) {
  if (!sources.store_open) {
    warnings.push_back(
        {.severity = Severity::kWarning,
         .code = "store_away",
         .text = fmt::format("The sources' store does not answer ({}); {} results were given up.",
                             sources.store_message, sources.results_given_up),
         .advice =
             "Mend the disk or the database; it is opened again by itself. Until then sources "
             "go on, and what is fetched is in memory alone."});
  }
  if (!sources.breakers_open.empty()) {
    const std::size_t others = sources.breakers_open.size() - 1;
    warnings.push_back(
        {.severity = Severity::kWarning,
         .code = "breaker_open",
         .text = fmt::format("Sources of {}{} are not fetched: their server has failed too often.",
                             sources.breakers_open.front(),
                             others == 0 ? "" : fmt::format(" and {} more", others)),
         .advice =
             "They are tried again by themselves; `weir sources NAME` shows the last error."});
  }
  if (sources.overdue >= kSourcesLate) {
    warnings.push_back(
        {.severity = Severity::kWarning,
         .code = "sources_late",
         .text = fmt::format(
             "{} of {} sources are due and wait for quota, the longest for {} ({}).", sources.due,
             sources.total, span_text(sources.overdue), sources.overdue_domain),
         .advice = "Fetch them less often (`every`), or raise the limit of their provider."});
  }
  if (sources.failing > 0) {
    warnings.push_back(
        {.severity = Severity::kInfo,
         .code = "sources_failing",
         .text = sources.failing == 1
                     ? fmt::format("The source {} failed at its last fetch.", sources.first_failing)
                     : fmt::format("{} and {} more of {} sources failed at their last fetch.",
                                   sources.first_failing, sources.failing - 1, sources.total),
         .advice = fmt::format("`weir sources {}` shows why; failed ones are tried again with "
                               "growing pauses.",
                               sources.first_failing)});
  }
}

}  // namespace

std::vector<Warning> diagnose(const LiveView& live) {
  std::vector<Warning> warnings;
  look_at_daemon(live, warnings);
  // By name: how busy they are changes each second, and nobody reads what jumps.
  std::vector<const ResourceView*> by_name;
  for (const ResourceView& resource : live.resources) by_name.push_back(&resource);
  std::ranges::sort(by_name, {}, &ResourceView::name);
  for (const ResourceView* resource : by_name) {
    std::ranges::move(Findings{*resource, live.now}.all(), std::back_inserter(warnings));
  }
  if (live.sources) look_at_sources(*live.sources, warnings);
  std::ranges::stable_sort(warnings, std::greater<>{}, &Warning::severity);
  if (warnings.size() > kWarningsMax) warnings.resize(kWarningsMax);
  return warnings;
}

}  // namespace weir::server
