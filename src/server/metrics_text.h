// The text of /metrics, for Prometheus.
#pragma once

#include <string>

#include "provider/resources.h"
#include "server/listener.h"
#include "store/journal.h"
#include "weir/bus/message_bus.h"
#include "weir/fleet/shared_quota.h"

namespace weir::server {

struct DaemonCounts {
  std::string version;
  Nanos uptime{0};
  HttpCounts http;
  std::size_t permits = 0;
  std::uint64_t permits_expired = 0;
  std::optional<store::JournalStatus> store = {};
  std::optional<SharedQuotaStatus> quota = {};
  std::optional<BusStatus> bus = {};
};

std::string metrics_text(const Resources& resources, const DaemonCounts& daemon);

}  // namespace weir::server
