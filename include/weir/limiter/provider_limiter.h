// ProviderLimiter: tokens a minute and concurrent requests of one LLM provider, taken together
// (S3).
//
// The bucket holds 90% of tokens_per_minute, as a margin for estimates, and gets a tenth of
// tokens_per_minute every 6 seconds; there is no burst beyond it. A permit holds a slot until it is
// released or destroyed; its tokens are spent. Agents that compete are served fairly. Safe to use
// from any thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "weir/gate/gate.h"

namespace weir {

struct ProviderLimits {
  Amount tokens_per_minute = 0;
  Amount max_concurrency = 0;
  // Slots held longer than twice this are taken back when slots look full.
  Nanos request_timeout = std::chrono::minutes{3};
};

// The bucket for `tokens_per_minute`, from kTokensPerMinuteMin to kAmountMax, as said above.
LimitSpec tokens_per_minute_limit(Amount tokens_per_minute);
inline constexpr Amount kTokensPerMinuteMin = 10;  // a tenth of it must be a token

// The numbers of a provider's entry under `rate_limits` in a status report.
struct ProviderStats {
  Amount available_tokens = 0;
  Amount max_capacity = 0;
  Amount active_requests = 0;
  Amount max_concurrency = 0;
  std::uint64_t token_limit_hits = 0;  // how often a request had to wait for tokens
  std::uint64_t concurrency_hits = 0;  // how often for a slot
};

class ProviderLimiter {
 public:
  // Gets a line about each slot taken back; the default prints it to standard error.
  using Log = std::function<void(std::string_view line)>;
  static void log_to_stderr(std::string_view line);

  // Fails with kInvalidConfig and a message that names the provider and the value.
  static Result<std::unique_ptr<ProviderLimiter>> create(std::string provider,
                                                         const ProviderLimits& limits,
                                                         TimeSource time = TimeSource::system(),
                                                         Log log = log_to_stderr);
  ~ProviderLimiter();

  // Waits for the tokens and a slot together. More tokens than the bucket can ever hold:
  // kNeverFits, at once. Ends with kCancelled, or with kClosed after stop().
  Result<Permit> acquire(std::stop_token cancel, Amount tokens, std::string_view agent_id);
  std::expected<Permit, Refusal> try_acquire(Amount tokens, std::string_view agent_id);
  Ticket acquire_async(Amount tokens, std::string_view agent_id, Instant deadline, Callback done);

  ProviderStats stats() const;
  const std::string& provider() const { return gate_->name(); }

  // Ends every wait with kClosed. Permits stay valid.
  void stop() { gate_->close(); }

 private:
  class StaleSlots;

  ProviderLimiter();

  std::unique_ptr<StaleSlots> stale_slots_;
  std::unique_ptr<Gate> gate_;
};

// The limiters of several providers; each is independent of the others.
class ProviderLimiters {
 public:
  using Limits = std::map<std::string, ProviderLimits, std::less<>>;

  // anthropic, openai and openai_official as their document sets them.
  static Limits defaults();

  static Result<ProviderLimiters> create(const Limits& limits,
                                         TimeSource time = TimeSource::system(),
                                         ProviderLimiter::Log log = ProviderLimiter::log_to_stderr);

  // Null if there is none of that name.
  ProviderLimiter* find(std::string_view provider) const;
  std::map<std::string, ProviderStats> stats() const;
  void stop();

 private:
  ProviderLimiters() = default;

  std::map<std::string, std::unique_ptr<ProviderLimiter>, std::less<>> limiters_;
};

}  // namespace weir
