// A source's definition: refused with its place, or one that is read again as it was.
#include <cstdint>
#include <string_view>

#include "config/load.h"
#include "fuzz/require.h"
#include "source/definition.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto source =
      weir::parse_source({reinterpret_cast<const char*>(data), size}, "fuzz.yaml", "fuzz");
  if (!source) {
    require(!source.error().empty());
    return 0;
  }
  const auto again = weir::parse_source(weir::source::definition_text(*source), "again.yaml");
  require(again && *again == *source);
  return 0;
}
