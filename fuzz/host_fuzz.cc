// Any bytes as a URL or host: the host of a host is itself, alone and in a URL.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "net/host.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir::net;
  const auto host = host_of({reinterpret_cast<const char*>(data), size});
  if (!host) return 0;
  const bool v6 = host->contains(':');
  const auto in_url = host_of("https://u@" + (v6 ? "[" + *host + "]" : *host) + ":443/?#");
  if (host_of(*host) != host || in_url != host || (v6 && !is_address(*host))) std::abort();
  return 0;
}
