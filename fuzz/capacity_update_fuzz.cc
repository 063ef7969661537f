// Any bytes as a message on the swarm's subject: refused, or all in range, and an agent that passes
// it on says the same.
#include <cstdint>
#include <string_view>

#include "fleet/capacity_update.h"
#include "fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir::fleet;
  auto update = parse_capacity_update({reinterpret_cast<const char*>(data), size});
  if (!update) return 0;
  require(size <= kUpdateBytesMax);
  require(!update->resource.empty());
  require(!update->agent_id.empty() && update->agent_id.size() <= kAgentIdBytesMax);
  require(update->new_capacity >= 1 && update->new_capacity <= weir::kAmountMax);
  require(update->timestamp >= weir::CalendarTime{});

  const auto text = format_capacity_update(*update);
  if (!text) return 0;  // escapes made it too long
  const auto again = parse_capacity_update(*text);
  require(again.has_value());
  require(update->reason.starts_with(again->reason));
  update->reason = again->reason;
  require(again == update);
  return 0;
}
