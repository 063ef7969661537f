#include "server/status_api.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/limit_spec.h"
#include "server/metrics_text.h"
#include "server/openapi.h"
#include "server/text.h"

namespace weir::server {
namespace {

constexpr std::size_t kAgentsShown = 1'000;

// Seed 003's shape: the first limit on tokens, and the slots; null for what it does not have.
void add_rate_limit(JsonText& json, const GateMetrics& metrics) {
  const auto find = [&](auto wanted) -> const LimitStatus* {
    const auto found = std::ranges::find_if(metrics.limits, wanted, &LimitStatus::unit);
    return found == metrics.limits.end() ? nullptr : &*found;
  };
  const LimitStatus* tokens = find([](Unit unit) { return unit == Unit::kTokens; });
  const LimitStatus* slots = find([](Unit unit) { return unit == Unit::kSlots; });
  const auto add = [&](std::string_view key, const LimitStatus* limit, auto value) {
    json.key(key);
    limit == nullptr ? json.raw("null") : json.number(value(*limit));
  };
  json.open('{');
  add("available_tokens", tokens, [](const LimitStatus& l) { return l.available; });
  add("max_capacity", tokens, [](const LimitStatus& l) { return l.capacity; });
  add("active_requests", slots, [](const LimitStatus& l) { return l.capacity - l.available; });
  add("max_concurrency", slots, [](const LimitStatus& l) { return l.capacity; });
  json.key("token_limit_hits").number(tokens == nullptr ? 0 : tokens->hits);
  json.key("concurrency_hits").number(slots == nullptr ? 0 : slots->hits);
  json.close('}');
}

void resource_unknown(std::string_view name, Responder& responder) {
  responder.error(404, "resource_unknown", fmt::format("no resource is called \"{}\"", name));
}

// What the proxy has sent there; nothing if it has not been used.
void add_proxied(JsonText& json, const Traffic& traffic) {
  if (traffic.sent == 0) return;
  json.key("proxy").open('{').key("sent").number(traffic.sent.load());
  json.key("limited").number(traffic.limited.load());
  json.key("overloaded").number(traffic.overloaded.load());
  json.key("exhausted").number(traffic.exhausted.load());
  json.key("retried").number(traffic.retried.load()).key("failed").number(traffic.failed.load());
  json.key("cut").number(traffic.cut.load());
  json.key("input_tokens").number(traffic.input_tokens.load());
  json.key("cached_input_tokens").number(traffic.cached_input_tokens.load());
  json.key("output_tokens").number(traffic.output_tokens.load());
  json.key("usd").raw(amount_text(Unit::kMicroUsd, static_cast<Amount>(traffic.micro_usd.load())));
  json.close('}');
}

// `tokens_per_minute` is kept as a tenth of it every 6 s.
Amount as_written(const LimitSpec& spec) {
  const bool tenth = spec.algorithm == LimitSpec::Algorithm::kStepped &&
                     spec.period == Nanos{std::chrono::seconds{6}};
  return tenth ? 10 * spec.amount : spec.amount;
}

}  // namespace

std::string mistakes_body(const Mistakes& mistakes) {
  JsonText json;
  json.open('{').key("error").text("invalid_config");
  json.key("message").text(mistakes.empty() ? "" : mistakes.front().text());
  json.key("mistakes").open('[');
  for (const Mistake& mistake : mistakes) json.text(mistake.text());
  json.close(']').close('}');
  return json.str();
}

void StatusApi::add_routes(Router& router) {
  const auto show = [&](std::string path, Need need, std::string_view type, auto text) {
    router.add({.method = "GET",
                .pattern = std::move(path),
                .need = need,
                .handler = [text, type](const HttpRequest&, Responder& responder) {
                  responder.reply({.body = text(), .content_type = type});
                }});
  };
  constexpr std::string_view kJson = "application/json";
  show("/api/status", Need::kRead, kJson, [this] { return status(); });
  show("/v1/resources", Need::kRead, kJson, [this] { return resources(); });
  show("/metrics", Need::kRead, "text/plain; version=0.0.4; charset=utf-8",
       [this] { return metrics(); });
  show("/v1/news", Need::kRead, kJson, [this] { return parts_.events.news(); });
  show("/openapi.json", Need::kNothing, kJson, [] { return openapi(); });
  show("/healthz", Need::kNothing, kJson, [] { return std::string_view{R"({"status":"ok"})"}; });
  router.add({.method = "GET",
              .pattern = "/readyz",
              .need = Need::kNothing,
              .handler = [this](const HttpRequest&, Responder& responder) {
                if (!ready_) {
                  return responder.error(503, "closing", "the daemon is starting or stopping");
                }
                if (parts_.journal != nullptr && !parts_.journal->admits()) {
                  return responder.error(503, "store_unavailable",
                                         "nothing is admitted while the store is not available");
                }
                if (parts_.quota != nullptr && parts_.quota->status().denies) {
                  return responder.error(503, "store_unavailable",
                                         "the fleet's quota is away, and the fallback admits no "
                                         "more than what was leased");
                }
                responder.reply({.body = R"({"status":"ready"})"});
              }});
  router.add({.method = "GET",
              .pattern = "/v1/events",
              .need = Need::kRead,
              .handler =
                  [this](const HttpRequest& http, Responder& responder) {
                    parts_.events.watch(responder, net::query_value(http.head.query, "only"));
                  },
              .streams = true});

  const auto add = [&](std::string method, std::string pattern, Need need, auto handler) {
    router.add({.method = std::move(method),
                .pattern = std::move(pattern),
                .need = need,
                .handler = [this, handler](const HttpRequest& http, Responder& responder) {
                  (this->*handler)(http, responder);
                }});
  };
  add("GET", "/v1/resources/{name}", Need::kRead, &StatusApi::get_resource);
  add("PUT", "/v1/resources/{name}", Need::kAdmin, &StatusApi::put_resource);
  add("DELETE", "/v1/resources/{name}", Need::kAdmin, &StatusApi::delete_resource);
  for (const char* operation : {"pause", "resume", "drain"}) {
    add("POST", std::string{"/v1/resources/{name}/"} + operation, Need::kAdmin,
        &StatusApi::operate);
  }
  add("POST", "/v1/reload", Need::kAdmin, &StatusApi::reload);
}

void StatusApi::add_gate(JsonText& json, const Gate& gate,
                         const std::vector<LimitConfig>& limits) const {
  const GateMetrics metrics = gate.metrics();
  const std::vector<Amount> blocks =
      parts_.journal == nullptr ? std::vector<Amount>{} : parts_.journal->blocks(gate.name());
  json.key("acquired").number(metrics.acquired).key("rejected").number(metrics.rejected);
  json.key("waited").number(metrics.waited).key("waiting").number(metrics.waiting);
  json.key("average_wait_ms").number(ceil_ms(metrics.average_wait()));
  json.key("limits").open('[');
  for (std::size_t i = 0; i < metrics.limits.size(); ++i) {
    const LimitStatus& limit = metrics.limits[i];
    json.open('{').key("name").text(limit.name).key("unit").text(unit_text(limit.unit));
    json.key("amount").raw(amount_text(limit.unit, limit.amount));
    if (limit.period > Nanos{0}) json.key("per_ms").number(ceil_ms(limit.period));
    json.key("available").raw(amount_text(limit.unit, limit.available));
    json.key("capacity").raw(amount_text(limit.unit, limit.capacity));
    if (i < blocks.size() && limit.unit != Unit::kSlots) {
      json.key("block").raw(amount_text(limit.unit, blocks[i]));
    }
    json.key("hits").number(limit.hits);
    const auto config = std::ranges::find_if(
        limits, [&](const LimitConfig& one) { return one.spec.name == limit.name; });
    if (config != limits.end()) add_limit_spec(json.key("spec"), *config);
    json.close('}');
  }
  json.close(']');
  if (parts_.quota != nullptr) add_share(json, gate.name());
}

// What this daemon has of the fleet's quota.
void StatusApi::add_share(JsonText& json, const std::string& gate) const {
  const auto share = parts_.quota->share(gate);
  if (!share) return;
  json.key("share").open('{').key("state").text(name(share->state));
  json.key("members").number(share->members).key("limits").open('[');
  for (const QuotaShare::Part& part : share->parts) {
    json.open('{').key("name").text(part.limit);
    json.key("leased").raw(amount_text(part.unit, part.leased));
    json.key("reserve").raw(amount_text(part.unit, part.reserve));
    json.key("free").raw(amount_text(part.unit, part.free)).close('}');
  }
  json.close(']').close('}');
}

void StatusApi::add_accounts(JsonText& json, const Resource& resource) const {
  json.key("accounts").open('[');
  auto accounts = resource.accounts();
  if (accounts.size() > kAgentsShown) accounts.resize(kAgentsShown);
  const Instant now = parts_.clock.now();
  for (const auto& account : accounts) {
    const GateMetrics metrics = account->gate().metrics();
    json.open('{').key("name").text(account->gate().name());
    json.key("held_ms").number(metrics.held ? ceil_ms(metrics.held_for) : 0);
    if (const auto closed = account->exhausted(now)) {
      json.key("exhausted").text(closed->reason);
      json.key("exhausted_ms").number(ceil_ms(closed->until - now));
    }
    add_gate(json, account->gate());
    json.close('}');
  }
  json.close(']');
}

// `details`: with the limits of each agent that has its own, and with what is known of accounts.
void StatusApi::add_resource(JsonText& json, Resource& resource, bool details) const {
  const auto config = resource.config();
  json.open('{').key("name").text(resource.name());
  json.key("domain");
  resource.domain().empty() ? json.raw("null") : json.text(resource.domain());
  json.key("profile").text(name(config->profile)).key("paused").boolean(resource.paused());
  add_gate(json, resource.gate(), details ? config->limits : std::vector<LimitConfig>{});
  json.key("models").open('[');
  for (const auto& [pattern, gate] : resource.model_gates()) {
    json.open('{').key("pattern").text(pattern);
    add_gate(json, *gate);
    json.close('}');
  }
  json.close(']');
  add_proxied(json, resource.traffic());
  if (details) {
    add_accounts(json, resource);
    json.key("agents").open('[');
    auto gates = resource.agent_gates();
    if (gates.size() > kAgentsShown) gates.resize(kAgentsShown);
    for (const auto& [agent, gate] : gates) {
      json.open('{').key("agent").text(agent);
      add_gate(json, *gate);
      json.close('}');
    }
    json.close(']');
  }
  json.close('}');
}

void StatusApi::add_store(JsonText& json) const {
  json.key("store").open('{').key("durability").text(parts_.durability);
  if (parts_.journal != nullptr) {
    const store::JournalStatus status = parts_.journal->status();
    json.key("state").text(name(status.state)).key("since").text(iso_time(status.since));
    if (status.failure) {
      json.key("fault").text(name(status.failure->fault));
      json.key("message").text(status.failure->message);
    }
    json.key("older_copy").boolean(status.older_copy);
    json.key("commits").number(status.commits).key("rows").number(status.rows);
    json.key("failures").number(status.failures);
    json.key("commit_ms").number(ceil_ms(status.commit_time));
  }
  json.close('}');
}

void StatusApi::add_fleet(JsonText& json) const {
  if (parts_.quota == nullptr && parts_.bus == nullptr) return;
  json.key("fleet").open('{').key("node").text(parts_.node);
  if (parts_.quota != nullptr) {
    const SharedQuotaStatus status = parts_.quota->status();
    json.key("quota").open('{').key("state").text(name(status.state));
    json.key("connected").boolean(status.connected).key("breaker").text(name(status.breaker));
    json.key("connects").number(status.connects);
    json.key("calls").number(status.calls).key("failures").number(status.failures);
    json.key("granted").number(status.granted).key("returned").number(status.returned);
    json.key("burnt").number(status.burnt).key("fallback").number(status.fallback_draws);
    if (!status.failure.empty()) json.key("failure").text(status.failure);
    json.close('}');
  }
  if (parts_.bus != nullptr) {
    const BusStatus status = parts_.bus->status();
    json.key("bus").open('{').key("connected").boolean(status.connected);
    json.key("subscribed").boolean(status.subscribed);
    json.key("connects").number(status.connects).key("published").number(status.published);
    json.key("delivered").number(status.delivered).key("dropped").number(status.dropped);
    if (parts_.signals != nullptr) {
      const FleetSignalsStatus signals = parts_.signals->status();
      json.key("told").number(signals.told).key("heard").number(signals.heard);
      json.key("ignored").number(signals.ignored).key("malformed").number(signals.malformed);
    }
    if (!status.failure.empty()) json.key("failure").text(status.failure);
    json.close('}');
  }
  json.close('}');
}

std::string StatusApi::status() const {
  JsonText json;
  const auto resources = parts_.resources.all();
  json.open('{').key("rate_limits").open('{');
  for (const auto& resource : resources) {
    json.key(resource->name());
    add_rate_limit(json, resource->gate().metrics());
  }
  json.close('}').key("resources").open('[');
  for (const auto& resource : resources) add_resource(json, *resource, false);
  json.close(']');
  add_store(json);
  add_fleet(json);
  add_sources(json.key("sources"), parts_.sources());
  json.key("permits").number(parts_.permits.size());
  json.key("permits_expired").number(parts_.permits.expired());
  json.key("connections").number(parts_.http().connections);
  json.key("uptime_ms").number(ceil_ms(parts_.clock.now() - started_));
  json.key("version").text(parts_.version).close('}');
  return json.str();
}

std::string StatusApi::metrics() const {
  return metrics_text(
             parts_.resources,
             {.version = parts_.version,
              .uptime = parts_.clock.now() - started_,
              .http = parts_.http(),
              .permits = parts_.permits.size(),
              .permits_expired = parts_.permits.expired(),
              .store = parts_.journal == nullptr ? std::nullopt
                                                 : std::optional{parts_.journal->status()},
              .quota =
                  parts_.quota == nullptr ? std::nullopt : std::optional{parts_.quota->status()},
              .bus = parts_.bus == nullptr ? std::nullopt : std::optional{parts_.bus->status()}}) +
         parts_.more_metrics();
}

std::string StatusApi::resources() const {
  JsonText json;
  json.open('{').key("resources").open('[');
  for (const auto& resource : parts_.resources.all()) add_resource(json, *resource, false);
  json.close(']').close('}');
  return json.str();
}

void StatusApi::get_resource(const HttpRequest& http, Responder& responder) {
  const auto resource = parts_.resources.find(http.parameters[0]);
  if (resource == nullptr) {
    return resource_unknown(http.parameters[0], responder);
  }
  JsonText json;
  add_resource(json, *resource, true);
  responder.reply({.body = json.str()});
}

void StatusApi::put_resource(const HttpRequest& http, Responder& responder) {
  const std::string& name = http.parameters[0];
  if (!is_name(name)) {
    return responder.error(400, "invalid_request",
                           "a resource's name has 1 to 64 of: letters, digits, '.', '_', '-'");
  }
  auto limits = parse_limits(http.body, "body");
  if (!limits) return responder.reply({.status = 400, .body = mistakes_body(limits.error())});

  const auto known = parts_.resources.find(name);
  ProviderConfig config = known != nullptr ? *known->config() : ProviderConfig{};
  const std::vector<LimitConfig> before = config.limits;
  config.name = name;
  config.limits = *limits;
  const auto changed = parts_.resources.put(std::move(config));
  if (!changed) {
    const int status = changed.error() == Errc::kClosed ? 503 : 400;
    return responder.error(status, weir::name(changed.error().code), changed.error().message);
  }
  if (known == nullptr) {
    note(http.client.name, "resource added", name);
  } else {
    note_limits(http.client.name, name, before, *limits);
  }
  JsonText json;
  add_resource(json, **changed, true);
  responder.reply({.status = known != nullptr ? 200 : 201, .body = json.str()});
}

void StatusApi::delete_resource(const HttpRequest& http, Responder& responder) {
  if (!parts_.resources.remove(http.parameters[0])) {
    return resource_unknown(http.parameters[0], responder);
  }
  note(http.client.name, "resource removed", http.parameters[0]);
  responder.reply({.body = R"({"removed":true})"});
}

void StatusApi::operate(const HttpRequest& http, Responder& responder) {
  const auto resource = parts_.resources.find(http.parameters[0]);
  if (resource == nullptr) {
    return resource_unknown(http.parameters[0], responder);
  }
  const std::string_view operation = http.head.path.substr(http.head.path.rfind('/') + 1);
  if (operation == "pause") resource->pause();
  if (operation == "resume") resource->resume();
  if (operation == "drain") resource->drain();
  note(http.client.name, operation, resource->name());
  JsonText json;
  json.open('{').key("paused").boolean(resource->paused()).close('}');
  responder.reply({.body = json.str()});
}

void StatusApi::reload(const HttpRequest& http, Responder& responder) {
  auto later = std::make_shared<Later>(responder.later([] {}));
  parts_.reload([this, later, client = http.client.name](std::expected<void, Mistakes> reloaded) {
    if (reloaded) tell(client, "reload", {});
    later->resume([this, reloaded = std::move(reloaded)](Responder* answering) {
      if (answering == nullptr) return;
      if (!reloaded) {
        return answering->reply({.status = 400, .body = mistakes_body(reloaded.error())});
      }
      JsonText json;
      json.open('{').key("resources").number(parts_.resources.all().size()).close('}');
      answering->reply({.body = json.str()});
    });
  });
}

void StatusApi::note(std::string_view client, std::string_view what, std::string_view resource) {
  parts_.log.info(what, {{"resource", resource}, {"by", client}});
  tell(client, what, resource);
}

// Amounts that have changed are told one by one, any other change as such.
void StatusApi::note_limits(std::string_view client, std::string_view resource,
                            const std::vector<LimitConfig>& before,
                            const std::vector<LimitConfig>& after) {
  const auto named = [](const LimitConfig& limit) { return limit.spec.name; };
  const auto amount = [](const LimitConfig& limit) { return limit.spec.amount; };
  if (!std::ranges::equal(before, after, {}, named, named) ||
      std::ranges::equal(before, after, {}, amount, amount)) {
    return note(client, "limits changed", resource);
  }
  for (std::size_t i = 0; i < after.size(); ++i) {
    const LimitSpec& spec = after[i].spec;
    if (spec.amount == before[i].spec.amount) continue;
    const std::string from = amount_text(spec.unit, as_written(before[i].spec));
    const std::string to = amount_text(spec.unit, as_written(spec));
    parts_.log.info(
        "limit changed",
        {{"resource", resource}, {"limit", spec.name}, {"from", from}, {"to", to}, {"by", client}});
    JsonText json;
    json.key("what").text("limit changed").key("resource").text(resource).key("by").text(client);
    json.key("limit").text(spec.name).key("from").raw(from).key("to").raw(to);
    parts_.events.publish("operated", json.str());
  }
}

void StatusApi::tell(std::string_view client, std::string_view what, std::string_view resource) {
  JsonText json;
  json.key("what").text(what).key("resource").text(resource).key("by").text(client);
  parts_.events.publish("operated", json.str());
}

}  // namespace weir::server
