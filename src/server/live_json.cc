#include <fmt/format.h>

#include <cmath>

#include "server/live_view.h"
#include "server/text.h"

namespace weir::server {
namespace {

double in_ms(Nanos span) { return std::chrono::duration<double, std::milli>{span}.count(); }

template <class T, class F>
void add_or_null(JsonText& json, std::string_view key, const std::optional<T>& value, F text) {
  json.key(key).raw(value ? text(*value) : std::string{"null"});
}

std::string limit_amount(Unit unit, double amount) {
  return unit == Unit::kMicroUsd ? amount_text(unit, std::llround(amount)) : decimal(amount);
}

void add_spread(JsonText& json, std::string_view key, const WaitHistogram::Spread& spread) {
  json.key(key).open('{').key("count").number(spread.count);
  json.key("mean_ms")
      .raw(decimal(in_ms(spread.mean)))
      .key("p50_ms")
      .raw(decimal(in_ms(spread.p50)));
  json.key("p99_ms").raw(decimal(in_ms(spread.p99))).key("max_ms").raw(decimal(in_ms(spread.max)));
  json.close('}');
}

void add_minute(JsonText& json, const Activity::Counts& minute) {
  json.key("minute").open('{').key("arrived").number(minute.arrived);
  json.key("admitted").number(minute.admitted).key("refused").number(minute.refused);
  json.key("abandoned").number(minute.abandoned).key("limited").number(minute.limited);
  json.key("failed").number(minute.failed).key("tokens").number(minute.tokens);
  json.key("usd").raw(amount_text(Unit::kMicroUsd, minute.micro_usd)).close('}');
}

void add_limit(JsonText& json, const LimitView& limit, CalendarTime time) {
  const auto amount = [&](double value) { return limit_amount(limit.unit, value); };
  // To the second: two clocks were read.
  const auto at = [&](Nanos in) {
    return std::to_string(unix_ms(std::chrono::round<std::chrono::seconds>(time + in)));
  };
  json.open('{').key("name").text(limit.name).key("unit").text(unit_text(limit.unit));
  json.key("scope").text(limit.scope).key("amount").raw(amount(limit.amount)).key("per_ms");
  limit.period > Nanos{0} ? json.number(ceil_ms(limit.period)) : json.raw("null");
  json.key("capacity").raw(amount_text(limit.unit, limit.capacity));
  json.key("available").raw(amount_text(limit.unit, limit.available));
  json.key("used").raw(decimal(limit.used)).key("hits").number(limit.hits);
  add_or_null(json, "configured", limit.configured, amount);
  add_or_null(json, "ends_at_ms", limit.ends_in, at);
  add_or_null(json, "resets_at_ms", limit.resets_in, at);
  json.close('}');
}

void add_agents(JsonText& json, const Activity::View& activity) {
  const auto add = [&](const Activity::Agent& agent, std::size_t others) {
    json.open('{').key("name").text(agent.name);
    if (others > 0) json.key("others").number(others);
    json.key("share").raw(decimal(agent.share)).key("admitted").number(agent.admitted);
    json.key("waiting").number(agent.waiting).key("in_flight").number(agent.in_flight).close('}');
  };
  json.key("agents").open('[');
  for (const Activity::Agent& agent : activity.agents) add(agent, 0);
  if (activity.agents_total > activity.agents.size()) {
    add(activity.others, activity.agents_total - activity.agents.size());
  }
  json.close(']').key("agents_total").number(activity.agents_total);
}

void add_queue(JsonText& json, const Activity::View& activity, Instant now, CalendarTime time) {
  json.key("queue").open('[');
  for (const Activity::Queued& queued : activity.queue) {
    json.open('{').key("agent").text(queued.agent).key("model").text(queued.model);
    json.key("waited_ms").number(ceil_ms(std::max(now - queued.since, Nanos{0})));
    json.key("tokens").number(Activity::tokens_of(queued.cost));
    json.key("priority").number(queued.priority).close('}');
  }
  json.close(']').key("slowest").open('[');
  for (const Activity::Slow& slow : activity.slowest) {
    json.open('{').key("agent").text(slow.agent).key("model").text(slow.model);
    json.key("waited_ms").number(ceil_ms(slow.waited)).key("limit").text(slow.limit);
    json.key("at_ms").number(unix_ms(time - (now - slow.at))).close('}');
  }
  json.close(']');
}

std::string resource_json(const ResourceView& resource, const LiveView& live) {
  JsonText json;
  const bool paused = resource.state == ResourceView::State::kPaused;
  json.open('{').key("name").text(resource.name).key("domain");
  resource.domain.empty() ? json.raw("null") : json.text(resource.domain);
  json.key("profile").text(name(resource.profile)).key("state").text(name(resource.state));
  json.key("held_ms").number(paused ? 0 : ceil_ms(resource.held_for));
  json.key("held_in_part_ms").number(ceil_ms(resource.held_in_part));
  json.key("reason").text(resource.reason);
  json.key("waiting").number(resource.activity.waiting);
  json.key("in_flight").number(resource.activity.in_flight);
  json.key("in_flight_age_ms").number(ceil_ms(resource.activity.in_flight_age)).key("binding");
  if (resource.binding) {
    const LimitView& limit = resource.limits[*resource.binding];
    json.open('{').key("limit").text(limit.name).key("unit").text(unit_text(limit.unit));
    json.key("scope").text(limit.scope).close('}');
  } else {
    json.raw("null");
  }
  add_spread(json, "wait", resource.activity.wait);
  add_spread(json, "upstream", resource.activity.upstream);
  add_minute(json, resource.activity.minute);
  json.key("limits").open('[');
  for (const LimitView& limit : resource.limits) add_limit(json, limit, live.time);
  json.close(']');
  add_agents(json, resource.activity);
  add_queue(json, resource.activity, live.now, live.time);
  json.close('}');
  return json.str();
}

void add_warning(JsonText& json, const Warning& warning) {
  json.open('{').key("severity").text(name(warning.severity)).key("code").text(warning.code);
  json.key("resource");
  warning.resource.empty() ? json.raw("null") : json.text(warning.resource);
  json.key("text").text(warning.text).key("advice").text(warning.advice).close('}');
}

}  // namespace

std::string_view name(Warning::Severity severity) {
  switch (severity) {
    case Warning::Severity::kInfo: return "info";
    case Warning::Severity::kWarning: return "warning";
    case Warning::Severity::kCritical: return "critical";
  }
  return "unknown";
}

std::int64_t unix_ms(CalendarTime at) {
  return std::chrono::floor<std::chrono::milliseconds>(at).time_since_epoch().count();
}

std::string decimal(double value) {
  if (!std::isfinite(value)) return "null";
  if (value == std::round(value) && std::abs(value) < 1e15) return fmt::format("{:.0f}", value);
  return std::abs(value) >= 1'000 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

void add_sources(JsonText& json, const SourceSummary& sources) {
  json.open('{').key("total").number(sources.total).key("due").number(sources.due);
  json.key("queued").number(sources.queued).key("running").number(sources.running);
  json.key("failing").number(sources.failing);
  json.key("overdue_ms").number(ceil_ms(sources.overdue)).key("breakers_open").open('[');
  for (const std::string& domain : sources.breakers_open) json.text(domain);
  json.close(']').key("store_open").boolean(sources.store_open);
  json.key("results_given_up").number(sources.results_given_up).close('}');
}

void add_live(JsonText& json, const LiveView& live) {
  json.key("time_ms").number(unix_ms(live.time)).key("version").text(live.version);
  json.key("uptime_ms").number(ceil_ms(live.uptime)).key("node").text(live.node);
  json.key("durability").text(live.durability);
  json.key("store").open('{').key("state").text(live.store.state);
  json.key("message").text(live.store.message).close('}').key("fleet");
  if (live.fleet) {
    json.open('{').key("state").text(live.fleet->state);
    json.key("connected").boolean(live.fleet->connected).key("breaker").text(live.fleet->breaker);
    json.key("message").text(live.fleet->message).close('}');
  } else {
    json.raw("null");
  }
  json.key("warnings").open('[');
  for (const Warning& warning : live.warnings) add_warning(json, warning);
  json.close(']').key("sources");
  live.sources ? add_sources(json, *live.sources) : void(json.raw("null"));
  json.key("resources_total").number(live.resources_total).key("resources").open('[');
  for (const ResourceView& resource : live.resources) {
    const std::string text = resource_json(resource, live);
    if (json.str().size() + text.size() > kLiveBytesMax) break;
    json.raw(text);
  }
  json.close(']');
}

}  // namespace weir::server
