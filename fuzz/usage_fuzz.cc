// Any bytes as an answer: however they are cut, the same usage is read, and it can be charged.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "fuzz/require.h"
#include "provider/prices.h"
#include "provider/usage.h"

using namespace weir;

// The first byte says what kind of an answer it is, the second how it is cut.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::array<std::string_view, 3> kTypes{"application/json", "text/event-stream",
                                                   "application/vnd.amazon.eventstream"};
  if (size < 2) return 0;
  const std::string_view type = kTypes[data[0] % kTypes.size()];
  const std::size_t step = data[1] % 16U + 1;
  const std::string_view body{reinterpret_cast<const char*>(data) + 2, size - 2};

  UsageReader whole{type};
  whole.read(body);
  UsageReader cut{type};
  for (std::size_t i = 0; i < body.size(); i += step) cut.read(body.substr(i, step));
  const auto usage = whole.usage();
  require(usage == cut.usage());
  require(whole.visible_output() == cut.visible_output());
  require(whole.error() == cut.error());

  require(whole.visible_output() >= 0 &&
          whole.visible_output() <= static_cast<Amount>(body.size()));
  if (!usage) return 0;
  for (const Amount amount : {usage->input, usage->cached_input, usage->cache_write,
                              usage->cache_write_1h, usage->output}) {
    require(amount >= 0);
  }
  require(Cost::of(Unit::kTokens, usage->all_input() + 5 * usage->output).valid());
  const Price price{999'999'999'999'989, 7, 11, 13, 17};
  require(Cost::of(Unit::kMicroUsd, micro_usd(price, *usage, Profile::kOpenai)).valid());
  return 0;
}
