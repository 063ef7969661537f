#include "source/source_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "config/load.h"
#include "server/status_api.h"
#include "server/text.h"

namespace weir::source {
namespace {

using server::HttpRequest;
using server::JsonText;
using server::Responder;

std::int64_t since_1970_ms(CalendarTime at) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(at.time_since_epoch()).count();
}

void unknown(std::string_view name, Responder& responder) {
  responder.error(404, "source_unknown", fmt::format("no source is called \"{}\"", name));
}

void unavailable(Responder& responder, std::string_view why) {
  responder.error(503, "store_unavailable", fmt::format("the sources' store: {}", why));
}

store::Failure away() { return {store::Fault::kAway, "not available"}; }

// A change that was not made.
void refuse(const Error& error, std::string_view name, Responder& responder) {
  switch (error.code) {
    case Errc::kResourceUnknown: return unknown(name, responder);
    case Errc::kUnavailable: return unavailable(responder, error.message);
    case Errc::kClosed: return responder.error(503, "closing", "the daemon is stopping");
    default: return responder.error(400, weir::name(error.code), error.message);
  }
}

void add_result(JsonText& json, const store::SourceResult& result) {
  json.open('{').key("at_ms").number(since_1970_ms(result.at));
  json.key("status").number(result.status).key("took_ms").number(result.took_ms);
  json.key("bytes").number(result.bytes).key("message").text(result.message).close('}');
}

// The inside of its object.
void add_view(JsonText& json, const View& view, CalendarTime wall) {
  const SourceConfig& config = view.config;
  json.key("name").text(config.name).key("url").text(config.url);
  json.key("every_ms").number(server::ceil_ms(config.every));
  json.key("timeout_ms").number(server::ceil_ms(config.timeout));
  json.key("resource");
  view.resource.empty() ? json.raw("null") : json.text(view.resource);
  json.key("state").text(view.state).key("due_at_ms").number(since_1970_ms(wall + view.due_in));
  json.key("failures").number(view.failures).key("rate_limited").number(view.rate_limited);
  json.key("last");
  if (view.last) {
    add_result(json, *view.last);
  } else {
    json.raw("null");
  }
}

// What a browser may show as it is; everything else is bytes.
std::string_view safe_type(std::string_view content_type) {
  if (content_type.starts_with("application/json")) return "application/json";
  if (content_type.starts_with("text/plain")) return "text/plain; charset=utf-8";
  return "application/octet-stream";
}

}  // namespace

void SourceApi::add_routes(server::Router& router) {
  const auto add = [&](std::string method, std::string pattern, server::Need need, auto handler) {
    router.add({.method = std::move(method),
                .pattern = std::move(pattern),
                .need = need,
                .handler = [this, handler](const HttpRequest& http, Responder& responder) {
                  (this->*handler)(http, responder);
                }});
  };
  using enum server::Need;
  add("GET", "/v1/sources", kRead, &SourceApi::list);
  add("GET", "/v1/sources/{name}", kRead, &SourceApi::get);
  add("GET", "/v1/sources/{name}/body", kRead, &SourceApi::body);
  add("PUT", "/v1/sources/{name}", kAdmin, &SourceApi::put);
  add("DELETE", "/v1/sources/{name}", kAdmin, &SourceApi::remove);
}

bool SourceApi::is_loaded(Responder& responder) const {
  const Keeper& keeper = sources_.keeper();
  if (keeper.loaded()) return true;
  unavailable(responder, keeper.status().message);
  return false;
}

void SourceApi::list(const HttpRequest& http, Responder& responder) {
  if (!is_loaded(responder)) return;
  std::size_t count = kCountDefault;
  if (const auto text = net::query_value(http.head.query, "count")) {
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), count);
    if (error != std::errc{} || end != text->data() + text->size() || count == 0 ||
        count > kCountMax) {
      return responder.error(400, "invalid_request",
                             fmt::format("`count` is a number from 1 to {}", kCountMax));
    }
  }
  const std::string after = net::query_value(http.head.query, "after").value_or("");
  const CalendarTime wall = clock_.wall();
  JsonText json;
  json.open('{').key("total").number(sources_.summary().total).key("sources").open('[');
  for (const View& view : sources_.list(after, count)) {
    json.open('{');
    add_view(json, view, wall);
    json.close('}');
  }
  json.close(']').close('}');
  responder.reply({.body = json.str()});
}

void SourceApi::get(const HttpRequest& http, Responder& responder) {
  if (!is_loaded(responder)) return;
  const auto view = sources_.find(http.parameters[0]);
  if (!view) return unknown(http.parameters[0], responder);
  JsonText json;
  json.open('{');
  add_view(json, *view, clock_.wall());
  json.key("max_body").number(view->config.max_body).key("headers").open('{');
  for (const auto& [name, value] : view->config.headers) json.key(name).text(value);
  json.close('}').key("results");
  sources_.keeper().ask([later = responder.later([] {}), name = view->config.name,
                         json = std::move(json)](store::SourceStore* store) mutable {
    const auto results = store == nullptr ? std::unexpected(away()) : store->results(name);
    if (results) {
      json.open('[');
      for (const store::SourceResult& result : *results) add_result(json, result);
      json.close(']');
    } else {
      json.raw("null");
    }
    json.close('}');
    later.resume([json = std::move(json)](Responder* answer) {
      if (answer != nullptr) answer->reply({.body = json.str()});
    });
    return store == nullptr || results;
  });
}

void SourceApi::body(const HttpRequest& http, Responder& responder) {
  if (!is_loaded(responder)) return;
  if (!sources_.find(http.parameters[0])) return unknown(http.parameters[0], responder);
  sources_.keeper().ask([later = responder.later([] {}),
                         name = http.parameters[0]](store::SourceStore* store) mutable {
    using Body = store::Outcome<std::optional<store::SourceBody>>;
    Body body = store == nullptr ? std::unexpected(away()) : store->body(name);
    const bool fine = store == nullptr || body;
    later.resume([name, body = std::move(body)](Responder* answer) {
      if (answer == nullptr) return;
      if (!body) return unavailable(*answer, body.error().message);
      if (!*body) {
        return answer->error(404, "no_body",
                             fmt::format("nothing was fetched of \"{}\" yet", name));
      }
      const store::SourceBody& kept = **body;
      const std::string fields = fmt::format(
          "X-Content-Type-Options: nosniff\r\nContent-Security-Policy: sandbox; default-src "
          "'none'\r\nContent-Disposition: attachment\r\nX-Weir-Fetched-At: {}\r\n"
          "X-Weir-Status: {}\r\nX-Weir-Cut: {}\r\n",
          server::iso_time(kept.at), kept.status, kept.cut);
      answer->reply(
          {.body = kept.bytes, .fields = fields, .content_type = safe_type(kept.content_type)});
    });
    return fine;
  });
}

void SourceApi::put(const HttpRequest& http, Responder& responder) {
  const std::string& name = http.parameters[0];
  if (!is_name(name)) {
    return responder.error(400, "invalid_request",
                           "a source's name has 1 to 64 of: letters, digits, '.', '_', '-'");
  }
  const auto config = parse_source(http.body, "body", name);
  if (!config) {
    return responder.reply({.status = 400, .body = server::mistakes_body(config.error())});
  }
  sources_.put(
      *config, http.client.name,
      [this, name, later = responder.later([] {})](Result<Sources::Changed> changed) mutable {
        later.resume([this, name, changed = std::move(changed)](Responder* answer) {
          if (answer == nullptr) return;
          if (!changed) return refuse(changed.error(), name, *answer);
          const auto view = sources_.find(name);
          if (!view) return unknown(name, *answer);  // removed meanwhile
          JsonText json;
          json.open('{');
          add_view(json, *view, clock_.wall());
          json.key("stored").boolean(changed->stored);
          json.key("durable").boolean(sources_.durable()).close('}');
          answer->reply({.status = changed->replaced ? 200 : 201, .body = json.str()});
        });
      });
}

void SourceApi::remove(const HttpRequest& http, Responder& responder) {
  const std::string& name = http.parameters[0];
  auto later = responder.later([] {});
  sources_.remove(name, http.client.name,
                  [name, later = std::move(later)](Result<Sources::Changed> changed) mutable {
                    later.resume([name, changed = std::move(changed)](Responder* answer) {
                      if (answer == nullptr) return;
                      if (!changed) return refuse(changed.error(), name, *answer);
                      JsonText json;
                      json.open('{').key("removed").boolean(true);
                      json.key("stored").boolean(changed->stored).close('}');
                      answer->reply({.body = json.str()});
                    });
                  });
}

}  // namespace weir::source
