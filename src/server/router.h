// Router: which handler answers a request. Filled before the listener starts, then only read.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "server/access.h"
#include "server/http.h"

namespace weir::server {

class Router {
 public:
  using Handler = std::function<void(const HttpRequest&, Responder&)>;
  struct Route {
    std::string method;
    // "/v1/permits/{id}/settle": {…} stands for one segment, two at most. "/proxy/" and all below
    // it, whatever the method, if it ends in a slash.
    std::string pattern;
    Need need;
    Handler handler;
    bool streams = false;
    // The largest body it takes; Connection::kBodyMax where there is none. A body of
    // BodyShare::kFree or less is not asked about.
    std::function<std::size_t(const net::RequestHead&)> body_max = {};
    // Says why a client is not let in; our own way where there is none.
    std::function<void(const net::RequestHead&, const Denial&, Responder&)> deny = {};
  };

  explicit Router(const Access& access) : access_(access) {}

  void add(Route route);
  // "GET /v1/resources/{name}" …, in no order.
  std::vector<std::string> list() const;

  // Checks who asks, finds the route and calls its handler; or replies with what is wrong. A HEAD
  // is answered as a GET (the connection leaves the body out), except of what streams.
  void dispatch(const net::RequestHead& head, std::string_view body, BodyShare& share,
                std::string_view peer, Responder& responder) const;

  // Says why a request is not taken, in the words of its route.
  void deny(const net::RequestHead& head, const Denial& denial, Responder& responder) const;

  // The largest body that this client may send there; nothing if the usual one.
  std::optional<std::size_t> body_max(const net::RequestHead& head, std::string_view peer) const;

 private:
  // The routes of one pattern, by method.
  struct Place {
    std::vector<std::string> segments;  // empty: stands for any
    std::vector<Route> routes;
  };
  using Parameters = std::array<std::string, 2>;

  const Place* find(std::string_view path, Parameters& parameters) const;
  const Route* find_below(std::string_view path) const;

  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  const Access& access_;
  std::unordered_map<std::string, Place, Hash, std::equal_to<>> fixed_;
  std::unordered_map<std::string, Place> patterns_;
  std::vector<Route> below_;
};

}  // namespace weir::server
