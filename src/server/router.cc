#include "server/router.h"

#include <algorithm>
#include <ranges>

#include "server/text.h"

namespace weir::server {
namespace {

std::vector<std::string_view> segments_of(std::string_view path) {
  std::vector<std::string_view> segments;
  for (auto part : path | std::views::drop(1) | std::views::split('/')) {
    segments.emplace_back(part.begin(), part.end());
  }
  return segments;
}

bool is_parameter(std::string_view segment) { return segment.starts_with('{'); }

}  // namespace

std::string error_body(std::string_view code, std::string_view message) {
  std::string body = "{\"error\":";
  append_json(body, code);
  body += ",\"message\":";
  append_json(body, message);
  body += '}';
  return body;
}

void Router::add(Route route) {
  if (route.pattern.size() > 1 && route.pattern.ends_with('/')) {
    below_.push_back(std::move(route));
    return;
  }
  const bool fixed = route.pattern.find('{') == std::string::npos;
  Place& place = fixed ? fixed_[route.pattern] : patterns_[route.pattern];
  if (place.routes.empty() && !fixed) {
    for (std::string_view segment : segments_of(route.pattern)) {
      place.segments.emplace_back(is_parameter(segment) ? std::string_view{} : segment);
    }
  }
  place.routes.push_back(std::move(route));
}

std::vector<std::string> Router::list() const {
  std::vector<std::string> all;
  const auto add_all = [&](const auto& places) {
    for (const auto& [pattern, place] : places) {
      for (const Route& route : place.routes) all.push_back(route.method + " " + pattern);
    }
  };
  add_all(fixed_);
  add_all(patterns_);
  for (const Route& route : below_) all.push_back(route.method + " " + route.pattern);
  return all;
}

const Router::Place* Router::find(std::string_view path, Parameters& parameters) const {
  if (const auto fixed = fixed_.find(path); fixed != fixed_.end()) return &fixed->second;
  const std::vector<std::string_view> segments = segments_of(path);
  for (const auto& [pattern, place] : patterns_) {
    if (place.segments.size() != segments.size()) continue;
    std::size_t found = 0;
    const bool matches = std::ranges::equal(
        place.segments, segments, [&](const std::string& wanted, std::string_view segment) {
          if (!wanted.empty()) return wanted == segment;
          auto decoded = net::percent_decoded(segment);
          if (!decoded || decoded->empty()) return false;
          parameters[found++] = std::move(*decoded);
          return true;
        });
    if (matches) return &place;
  }
  return nullptr;
}

const Router::Route* Router::find_below(std::string_view path) const {
  const auto found = std::ranges::find_if(
      below_, [&](const Route& route) { return path.starts_with(route.pattern); });
  return found == below_.end() ? nullptr : &*found;
}

std::optional<std::size_t> Router::body_max(const net::RequestHead& head,
                                            std::string_view peer) const {
  const Route* route = find_below(head.path);
  if (route == nullptr || !route->body_max || !access_.check(head, peer, route->need, false)) {
    return {};
  }
  return route->body_max(head);
}

void Router::deny(const net::RequestHead& head, const Denial& denial, Responder& responder) const {
  const Route* route = find_below(head.path);
  if (route != nullptr && route->deny) return route->deny(head, denial, responder);
  responder.error(denial.status, denial.code, denial.message,
                  denial.status == 401 ? "WWW-Authenticate: Bearer\r\n" : "");
}

void Router::dispatch(const net::RequestHead& head, std::string_view body, BodyShare& share,
                      std::string_view peer, Responder& responder) const {
  Parameters parameters;
  const Route* route = find_below(head.path);
  const Place* place = route != nullptr ? nullptr : find(head.path, parameters);
  if (place != nullptr) {
    const auto found = std::ranges::find_if(place->routes, [&](const Route& known) {
      return known.method == (head.method == "HEAD" && !known.streams ? "GET" : head.method);
    });
    if (found != place->routes.end() && !(found->streams && head.method == "HEAD")) {
      route = &*found;
    }
  }

  const auto client = access_.check(head, peer, route != nullptr ? route->need : Need::kNothing,
                                    route != nullptr && route->streams);
  if (!client) {
    return deny(head, client.error(), responder);
  }
  if (place == nullptr && route == nullptr) {
    responder.error(404, "path_unknown",
                    "there is nothing at " + std::string{head.path} + "; see /openapi.json");
    return;
  }
  if (route == nullptr) {
    std::string allow = "Allow: ";
    for (const Route& known : place->routes) {
      if (!allow.ends_with(' ')) allow += ", ";
      allow += known.method;
      if (known.method == "GET" && !known.streams) allow += ", HEAD";
    }
    responder.error(405, "method_unknown",
                    std::string{head.path} + " does not take " + std::string{head.method},
                    allow + "\r\n");
    return;
  }
  route->handler(
      {.head = head, .body = body, .client = *client, .parameters = parameters, .share = &share},
      responder);
}

}  // namespace weir::server
