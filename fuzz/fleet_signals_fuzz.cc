// Any bytes as what another daemon says of a provider: a hold is refused, or all in range and the
// same when it is passed on; a node that hears it on either subject stays as it is.
#include <cstdint>
#include <string_view>

#include "fuzz/require.h"
#include "provider/fleet_signals.h"
#include "weir/bus/in_process_bus.h"
#include "weir/time/simulated_time.h"

namespace {

using namespace weir;

struct Node {
  Node() {
    ProviderConfig api;
    api.name = "api";
    require(resources.apply({api}).has_value());
  }

  SimulatedTime time;
  Resources resources{time.source()};
  std::shared_ptr<InProcessBus> bus = make_in_process_bus();
  FleetSignals signals{bus, "here", resources, time};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > MessageBus::kPayloadMax) return 0;
  const std::string_view bytes{reinterpret_cast<const char*>(data), size};
  if (const auto hold = parse_hold(bytes)) {
    const bool exhausted = hold->kind == Signals::Kind::kExhausted;
    require(size <= FleetSignals::kMessageBytesMax);
    require(exhausted || hold->remaining.has_value());
    require(!hold->remaining || *hold->remaining >= std::chrono::milliseconds{1});
    require(!hold->remaining ||
            *hold->remaining <= (exhausted ? Signals::kResetMax : Signals::kRetryAfterMax));
    const auto text = format_hold(*hold);
    require(!text || parse_hold(*text) == hold);  // escapes may make it too long
  }
  static Node& node = *new Node;  // OpenSSL would end before its threads
  require(node.bus->publish(kHoldSubject, bytes).has_value());
  require(node.bus->publish(fleet::kCapacitySubject, bytes).has_value());
  node.bus->settle();
  const FleetSignalsStatus status = node.signals.status();
  require(status.told == 0 && status.untold == 0);
  require(node.resources.find("api")->accounts().size() <= Accounts::kAccountsMax + 1);
  return 0;
}
