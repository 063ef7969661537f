// Whatever stands in a file or in a PUT: it is read or refused, never a crash or an endless walk.
//   clang++ -std=c++23 -fsanitize=fuzzer,address,undefined ...; ./fuzz corpus/provider_yaml
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "config/load.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  if (const auto provider = weir::parse_provider(text, "provider.yaml")) weir::explain(*provider);
  (void)weir::parse_main(text, "weir.yaml");
  (void)weir::parse_limits(text, "");
  return 0;
}
