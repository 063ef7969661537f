// Any bytes as a path and a body: what is read of them is in range and can be charged.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "fuzz/require.h"
#include "provider/charge.h"

using namespace weir;

// A profile, a path up to the first line end, a body.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text{reinterpret_cast<const char*>(data) + 1, size - 1};
  const std::size_t end = std::min(text.find('\n'), text.size());
  ProviderConfig provider;
  provider.profile = static_cast<Profile>(data[0] % 8U);
  const CallFacts facts = read_call(
      provider.profile,
      {"POST", text.substr(0, end), {}, text.substr(std::min(end + 1, text.size()))}, no_tokenizer);
  require(facts.model.size() <= kModelBytesMax);
  require(facts.model.empty() == (facts.api == Api::kOther));
  require(std::ranges::all_of(facts.model, [](char c) { return c > ' ' && c <= '~'; }));
  require(facts.choices >= 1 && facts.max_output.value_or(1) >= 1);
  require(facts.input_tokens >= 0);

  const Charge reserved = charge(provider, facts, Calibration{});
  require(reserved.cost.valid());
  for (const Ending ending : {Ending::kAnswered, Ending::kCut, Ending::kRefused, Ending::kUnsent}) {
    require(settlement(provider, facts, reserved, ending, nullptr).valid());
  }
  return 0;
}
