#include "bus/nats_bus.h"
#include "bus/redis_bus.h"

namespace weir {

Result<std::shared_ptr<MessageBus>> connect_bus(const BusConfig& config, TimeSource time) {
  const std::string_view url = config.url;
  const std::string_view scheme = url.substr(0, url.find("://"));
  if (scheme == "nats" || scheme == "tls") return bus::NatsBus::create(config, time);
  if (scheme == "redis" || scheme == "rediss" || scheme == "unix") {
    return bus::RedisBus::create(config, time);
  }
  return fail(Errc::kInvalidConfig,
              "the URL of the bus begins with none of nats:// tls:// redis:// rediss:// unix://");
}

}  // namespace weir
