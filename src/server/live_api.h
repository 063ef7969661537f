// What the page reads: GET /v1/live, the same each second as event `live`, GET /v1/history/{name}.
//
// Handlers for the Router; safe on any loop. Nothing here is on the path of a decision, nor on the
// timer that wakes waiters if it is given another; nothing is put together each second unless
// somebody watches.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "server/events.h"
#include "server/history.h"
#include "server/live_view.h"
#include "server/router.h"
#include "store/journal.h"
#include "weir/bus/message_bus.h"
#include "weir/fleet/shared_quota.h"

namespace weir::server {

class LiveApi final : private Alarm {
 public:
  struct Parts {
    Resources& resources;
    EventHub& events;
    TimeSource time;
    std::string version;
    const store::Journal* journal = nullptr;  // null: state is in memory alone
    std::string durability = "none";
    const SharedQuota* quota = nullptr;  // null: this daemon's quota is its own
    const MessageBus* bus = nullptr;
    std::string node = {};  // of the fleet
    // Nothing: there are no sources.
    std::function<std::optional<SourceSummary>()> sources = [] { return std::nullopt; };
  };
  static constexpr Nanos kEvery = std::chrono::seconds{1};

  explicit LiveApi(Parts parts);
  ~LiveApi();

  void add_routes(Router& router);

 private:
  void ring(Instant now) override;
  LiveView look() const;
  std::vector<std::shared_ptr<Resource>> busiest(Instant now) const;
  void forecast(ResourceView& resource) const;

  const Parts parts_;
  const Instant started_;
  History history_;
};

}  // namespace weir::server
