// Any bytes as the answer of any provider: the first byte is the profile, then a head and a body.
// Nothing throws, and whatever is learnt lies within its bounds.
#include <cstdint>
#include <string_view>

#include "fuzz/require.h"
#include "net/http_head.h"
#include "provider/signals.h"

namespace {

using namespace weir;

constexpr CalendarTime kWall{std::chrono::sys_days{std::chrono::year{2026} / 11 / 16}};
constexpr int kProfiles = 8;

template <class T>
void require_within(const std::optional<T>& value, T min, T max) {
  require(!value || (*value >= min && *value <= max));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto profile = static_cast<Profile>(data[0] % kProfiles);
  const std::string_view bytes{reinterpret_cast<const char*>(data + 1), size - 1};
  const auto end = net::find_head_end(bytes);
  if (!end) return 0;
  const auto head = net::parse_response_head(bytes.substr(0, *end), "POST");
  if (!head) return 0;
  const Signals signals = read_signals(profile, *head, bytes.substr(*end), kWall);

  require((signals.kind == Signals::Kind::kServed) == (head->status < 400));
  require(signals.reason.size() <= Signals::kReasonBytesMax);
  for (const char c : signals.reason) require(c >= ' ' && c <= '~');
  const bool waits =
      signals.kind == Signals::Kind::kLimited || signals.kind == Signals::Kind::kOverloaded;
  require(waits || !signals.retry_after);
  require(signals.kind == Signals::Kind::kExhausted || !signals.resets_in);
  require_within(signals.retry_after, Nanos{1}, Signals::kRetryAfterMax);
  require_within(signals.resets_in, Nanos{1}, Signals::kResetMax);
  for (const Quota& quota : signals.quotas()) {
    require(quota.period >= Nanos{0} && quota.period <= kPeriodMax);
    require_within(quota.limit, Amount{1}, kAmountMax);
    require_within(quota.remaining, Amount{0}, kAmountMax);
    require_within(quota.reset_in, Nanos{0}, kPeriodMax);
  }
  return 0;
}
