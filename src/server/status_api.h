// What the daemon shows of itself: status, metrics, resources, health; and what operators change.
//
// Handlers for the Router; safe on any loop. Nothing here is on the path of a decision.
#pragma once

#include <functional>
#include <string>

#include "config/load.h"
#include "provider/fleet_signals.h"
#include "server/events.h"
#include "server/listener.h"
#include "server/live_view.h"
#include "server/log.h"
#include "server/permit_table.h"
#include "server/router.h"
#include "store/journal.h"
#include "weir/bus/message_bus.h"
#include "weir/fleet/shared_quota.h"

namespace weir::server {

class JsonText;

// The body of a 400 that lists what is wrong with a configuration.
std::string mistakes_body(const Mistakes& mistakes);

class StatusApi {
 public:
  struct Parts {
    Resources& resources;
    PermitTable& permits;
    EventHub& events;
    Log& log;
    const Clock& clock;
    // Reads the files again, on another thread, and calls back from there. A bad configuration is
    // refused whole, with every mistake in it.
    std::function<void(std::function<void(std::expected<void, Mistakes>)>)> reload;
    std::function<HttpCounts()> http;
    std::string version;
    const store::Journal* journal = nullptr;  // null: state is in memory alone
    std::string durability = "none";
    const SharedQuota* quota = nullptr;  // null: this daemon's quota is its own
    const MessageBus* bus = nullptr;
    const FleetSignals* signals = nullptr;  // what goes over the bus
    std::string node = {};                  // of the fleet
    std::function<SourceSummary()> sources = [] { return SourceSummary{}; };
    std::function<std::string()> more_metrics = [] { return std::string{}; };
  };

  explicit StatusApi(Parts parts) : parts_(std::move(parts)), started_(parts_.clock.now()) {}

  void add_routes(Router& router);
  // Until then /readyz says no.
  void set_ready(bool ready) { ready_ = ready; }

 private:
  std::string status() const;
  std::string metrics() const;
  std::string resources() const;
  void add_resource(JsonText& json, Resource& resource, bool details) const;
  void add_accounts(JsonText& json, const Resource& resource) const;
  // `limits`: as configured; each that has its name there is told in these words, too.
  void add_gate(JsonText& json, const Gate& gate,
                const std::vector<LimitConfig>& limits = {}) const;
  void add_store(JsonText& json) const;
  void add_share(JsonText& json, const std::string& gate) const;
  void add_fleet(JsonText& json) const;

  void get_resource(const HttpRequest& http, Responder& responder);
  void put_resource(const HttpRequest& http, Responder& responder);
  void delete_resource(const HttpRequest& http, Responder& responder);
  // pause, resume, drain
  void operate(const HttpRequest& http, Responder& responder);
  void reload(const HttpRequest& http, Responder& responder);

  // What an operator has done: for the log and for who watches, or for these alone.
  void note(std::string_view client, std::string_view what, std::string_view resource);
  void tell(std::string_view client, std::string_view what, std::string_view resource);
  void note_limits(std::string_view client, std::string_view resource,
                   const std::vector<LimitConfig>& before, const std::vector<LimitConfig>& after);

  Parts parts_;
  const Instant started_;
  std::atomic<bool> ready_{false};
};

}  // namespace weir::server
