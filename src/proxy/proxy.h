// Proxy: the door that needs no code change. /proxy/NAME/… goes to the provider of that name once
// its gates admit it, and what comes back goes to the client as it comes.
//
// Registers with the Router; safe on any loop. Upstreams come from the configuration alone.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "proxy/exchange.h"
#include "server/router.h"

namespace weir::proxy {

class Proxy {
 public:
  struct Parts {
    Resources& resources;
    server::EventHub& events;
    server::Log& log;
    const Clock& clock;
    std::shared_ptr<net::TlsClient> tls;
    FindTokenizer tokenizer;
    FleetSignals* fleet = nullptr;  // hears of refusals; outlives the proxy
  };
  explicit Proxy(Parts parts);
  ~Proxy();

  void add_routes(server::Router& router);

 private:
  class Connections;

  void handle(const server::HttpRequest& http, server::Responder& responder);
  std::expected<Errand, Outcome> understand(const server::HttpRequest& http,
                                            Connections& connections);
  void warn_unpriced(const Errand& errand);
  static Connections& connections_of(server::Loop& loop, const Parts& parts);

  Parts parts_;
  House house_;
  std::mutex mutex_;
  std::set<std::string> unpriced_;  // providers and models that were warned about
};

}  // namespace weir::proxy
