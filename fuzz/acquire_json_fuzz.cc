// Any bytes as the body of an acquire or a settlement: refused with a sentence, or its cost is
// valid, its times are in range and its texts lie in the value they were read from.
#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <cstdint>
#include <string_view>

#include "fuzz/require.h"
#include "server/acquire_call.h"

namespace {

using namespace weir;
using namespace weir::server;

void require_inside(std::string_view view, const boost::json::object& object, const char* key) {
  if (view.empty()) return;
  const boost::json::value* value = object.if_contains(key);
  require(value != nullptr && value->is_string());
  const boost::json::string& text = value->get_string();
  require(view.data() == text.data() && view.size() == text.size());
  require(view.find('\0') == std::string_view::npos);
}

void check(const AcquireCall& call, const boost::json::object& object) {
  require(call.resource.empty() != call.url.empty());
  require_inside(call.resource, object, "resource");
  require_inside(call.url, object, "url");
  require_inside(call.agent, object, "agent");
  require_inside(call.model, object, "model");
  require(std::max({call.resource.size(), call.agent.size(), call.model.size()}) <= kNameBytesMax);
  require(call.url.size() <= kUrlBytesMax);
  require(call.cost.valid());
  require(call.wait >= Nanos{0} && call.wait <= kWaitMax);
  require(!call.hold || (*call.hold > Nanos{0} && *call.hold <= kHoldMax));
  require(!call.priority || (*call.priority >= -100 && *call.priority <= 100));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto json = parse_json({reinterpret_cast<const char*>(data), size});
  if (!json) {
    require(!json.error().empty());
    return 0;
  }
  if (const auto call = read_acquire(*json)) {
    check(*call, json->get_object());
  } else {
    require(!call.error().empty());
  }
  const auto cost = read_settlement(*json);
  require(cost ? cost->valid() : !cost.error().empty());
  return 0;
}
