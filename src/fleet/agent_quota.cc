#include "fleet/agent_quota.h"

#include <fmt/format.h>

#include <algorithm>

#include "weir/core/time.h"

namespace weir::fleet {
namespace {

constexpr double kRateMax = 1e9;
constexpr std::size_t kAgentBytesMax = 200;

bool may_name_an_agent(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view{"-_.:@/"}.contains(c);
}

}  // namespace

Result<void> check_quota(Amount capacity, double refill_rate, QuotaNames names) {
  if (capacity < 1 || capacity > kAmountMax) {
    return fail(Errc::kInvalidConfig,
                fmt::format("{} must be from 1 to {}: {}", names.capacity, kAmountMax, capacity));
  }
  if (!(refill_rate > 0 && refill_rate <= kRateMax)) {
    return fail(Errc::kInvalidConfig,
                fmt::format("{} must be above 0 and at most {:.0f} tokens a second: {}",
                            names.refill_rate, kRateMax, refill_rate));
  }
  constexpr double kFillMax = std::chrono::duration<double>(kPeriodMax).count();
  if (static_cast<double>(capacity) > refill_rate * kFillMax) {
    return fail(Errc::kInvalidConfig,
                fmt::format("{} must fill a {} of {} within 400 days: {}", names.refill_rate,
                            names.capacity, capacity, refill_rate));
  }
  return {};
}

Result<void> check_agent(std::string_view agent) {
  if (agent.empty()) return fail(Errc::kInvalidConfig, "the agent's id is empty");
  if (agent.size() > kAgentBytesMax) {
    return fail(Errc::kInvalidConfig, fmt::format("the agent's id has {} bytes, more than {}",
                                                  agent.size(), kAgentBytesMax));
  }
  const auto bad = std::ranges::find_if_not(agent, may_name_an_agent);
  if (bad != agent.end()) {
    return fail(Errc::kInvalidConfig,
                fmt::format("the agent's id has the byte 0x{:02x} at {}; letters, digits and "
                            "-_.:@/ may be in it",
                            static_cast<unsigned char>(*bad), bad - agent.begin()));
  }
  return {};
}

Result<void> check_request(std::string_view agent, Amount tokens, Amount capacity) {
  if (auto good = check_agent(agent); !good) return good;
  if (tokens < 1) {
    return fail(Errc::kInvalidCost, fmt::format("tokens must be at least 1: {}", tokens));
  }
  if (tokens > capacity) {
    return fail(Errc::kNeverFits,
                fmt::format("{} tokens are more than the bucket holds, {}", tokens, capacity));
  }
  return {};
}

}  // namespace weir::fleet
