// SourceApi: /v1/sources, what is fetched and what came of it.
//
// Handlers for the Router; safe on any loop. What the store has is read on the store's thread. A
// body is foreign bytes: it is never shown as anything that a browser runs.
#pragma once

#include "server/router.h"
#include "source/sources.h"

namespace weir::source {

class SourceApi {
 public:
  static constexpr std::size_t kCountDefault = 100;
  static constexpr std::size_t kCountMax = 1'000;

  // Both outlive it.
  SourceApi(Sources& sources, const Clock& clock) : sources_(sources), clock_(clock) {}

  void add_routes(server::Router& router);

 private:
  // False, having answered, before the store was read for the first time.
  bool is_loaded(server::Responder& responder) const;
  void list(const server::HttpRequest& http, server::Responder& responder);
  void get(const server::HttpRequest& http, server::Responder& responder);
  void body(const server::HttpRequest& http, server::Responder& responder);
  void put(const server::HttpRequest& http, server::Responder& responder);
  void remove(const server::HttpRequest& http, server::Responder& responder);

  Sources& sources_;
  const Clock& clock_;
};

}  // namespace weir::source
