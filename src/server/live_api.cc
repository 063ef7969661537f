#include "server/live_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "server/diagnosis.h"
#include "server/forecast.h"
#include "server/text.h"

namespace weir::server {

LiveApi::LiveApi(Parts parts)
    : parts_(std::move(parts)),
      started_(parts_.time.clock.now()),
      history_(parts_.resources, parts_.events, parts_.time) {
  parts_.time.timer.arm(*this, started_ + kEvery);
}

LiveApi::~LiveApi() { parts_.time.timer.disarm(*this); }

void LiveApi::add_routes(Router& router) {
  router.add({.method = "GET",
              .pattern = "/v1/live",
              .need = Need::kRead,
              .handler = [this](const HttpRequest& http, Responder& responder) {
                JsonText json;
                json.open('{').key("scope").text(name(http.client.scope));
                add_live(json, look());
                json.close('}');
                responder.reply({.body = json.str()});
              }});
  router.add({.method = "GET",
              .pattern = "/v1/history/{name}",
              .need = Need::kRead,
              .handler = [this](const HttpRequest& http, Responder& responder) {
                const std::string& name = http.parameters[0];
                const auto span =
                    History::parse_span(net::query_value(http.head.query, "span").value_or("1h"));
                if (!span) {
                  return responder.error(400, "invalid_request", "`span` is 1h or 24h");
                }
                if (parts_.resources.find(name) == nullptr) {
                  return responder.error(404, "resource_unknown",
                                         fmt::format("no resource is called \"{}\"", name));
                }
                responder.reply({.body = history_.json(name, *span)});
              }});
}

void LiveApi::ring(Instant now) {
  if (parts_.events.watched("live")) {
    JsonText json;
    add_live(json, look());
    parts_.events.publish("live", json.str());
  }
  parts_.time.timer.arm(*this, now + kEvery);
}

std::vector<std::shared_ptr<Resource>> LiveApi::busiest(Instant now) const {
  struct Row {
    Activity::Busy busy;
    std::size_t index;  // by name
  };
  const auto all = parts_.resources.all();
  std::vector<Row> rows;
  for (std::size_t i = 0; i < all.size(); ++i) rows.push_back({all[i]->activity().busy(now), i});
  const auto count = std::min(rows.size(), kResourcesShown);
  const auto middle = rows.begin() + static_cast<std::ptrdiff_t>(count);
  std::ranges::partial_sort(rows, middle, [](const Row& a, const Row& b) {
    const auto key = [](const Row& row) {
      return std::tuple{row.busy.waiting, row.busy.in_flight, row.busy.admitted};
    };
    return key(a) != key(b) ? key(a) > key(b) : a.index < b.index;
  });
  std::vector<std::shared_ptr<Resource>> busiest;
  for (const Row& row : std::span{rows}.first(count)) busiest.push_back(all[row.index]);
  return busiest;
}

void LiveApi::forecast(ResourceView& resource) const {
  for (LimitView& limit : resource.limits) {
    const bool holds = limit.blocks_for > Nanos{0};  // it has ended, for who comes next
    if (limit.period < kForecastPeriodMin || holds) continue;
    limit.ends_in =
        time_left({.used = limit.used, .period = limit.period, .resets_in = limit.resets_in},
                  history_.use_of(resource.name, limit));
  }
}

LiveView LiveApi::look() const {
  const Instant now = parts_.time.clock.now();
  LiveView live{.time = parts_.time.clock.wall(),
                .uptime = now - started_,
                .now = now,
                .version = parts_.version,
                .node = parts_.node,
                .durability = parts_.durability,
                .resources_total = parts_.resources.all().size(),
                .sources = parts_.sources()};
  if (parts_.journal != nullptr) {
    const store::JournalStatus status = parts_.journal->status();
    live.store = {.state = name(status.state),
                  .message = status.failure ? status.failure->message : std::string{}};
  }
  if (parts_.quota != nullptr) {
    const SharedQuotaStatus status = parts_.quota->status();
    live.fleet = {.state = name(status.state),
                  .connected = status.connected,
                  .breaker = name(status.breaker),
                  .message = status.failure};
  } else if (parts_.bus != nullptr) {
    const BusStatus status = parts_.bus->status();
    live.fleet = {.state = "bus",
                  .connected = status.connected,
                  .breaker = name(CircuitBreaker::State::kClosed),
                  .message = status.failure};
  }
  for (const auto& resource : busiest(now)) {
    live.resources.push_back(view_of(*resource, now));
    forecast(live.resources.back());
    live.resources.back().upstream_usual = history_.upstream_usual(live.resources.back().name);
  }
  live.warnings = diagnose(live);
  return live;
}

}  // namespace weir::server
