// A trace in CSV: whatever it holds, it is refused by line or gives calls in order.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "fuzz/require.h"
#include "workload/trace.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir::workload;
  const auto trace = parse_csv({reinterpret_cast<const char*>(data), size}, "fuzz.csv");
  if (!trace) {
    require(!trace.error().empty() && trace.error().size() <= 20);
    return 0;
  }
  require(trace->calls.size() >= 2 && trace->span() > weir::Nanos{0});
  require(std::ranges::is_sorted(trace->calls, {}, &TracedCall::at));
  for (const TracedCall& call : trace->calls) {
    require(call.input_tokens >= 0 && call.input_tokens <= kTraceTokensMax);
    require(call.output_tokens >= 0 && call.output_tokens <= kTraceTokensMax);
    require(trace->agents.empty() || call.agent < trace->agents.size());
  }
  return 0;
}
