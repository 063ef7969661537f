#include "weir/limiter/provider_limiter.h"

#include <cstdio>

namespace weir {
namespace {

constexpr Nanos kRefillEvery = std::chrono::seconds{6};
enum Index : std::size_t { kTokens, kSlots };

Result<void> check_limits(const std::string& provider, const ProviderLimits& limits) {
  const auto invalid = [&](const std::string& rule, Amount value) {
    return fail(Errc::kInvalidConfig, provider + ": " + rule + ": " + std::to_string(value));
  };
  if (limits.tokens_per_minute < kTokensPerMinuteMin || limits.tokens_per_minute > kAmountMax) {
    return invalid("tokens_per_minute must be from " + std::to_string(kTokensPerMinuteMin) +
                       " to " + std::to_string(kAmountMax),
                   limits.tokens_per_minute);
  }
  if (limits.max_concurrency < 1 || limits.max_concurrency > kAmountMax) {
    return invalid("max_concurrency must be from 1 to " + std::to_string(kAmountMax),
                   limits.max_concurrency);
  }
  if (limits.request_timeout <= Nanos{0} || limits.request_timeout > kPeriodMax) {
    return invalid("request_timeout must be from 1 ns to 400 days, in ns",
                   limits.request_timeout.count());
  }
  return {};
}

Request request_for(Amount tokens, std::string_view agent_id) {
  return {.cost = Cost::call(tokens), .agent = agent_id};
}

}  // namespace

LimitSpec tokens_per_minute_limit(Amount tokens_per_minute) {
  LimitSpec limit =
      LimitSpec::stepped(Unit::kTokens, {.max = tokens_per_minute - (tokens_per_minute + 9) / 10,
                                         .refill = tokens_per_minute / 10,
                                         .every = kRefillEvery});
  limit.name = "tokens per minute";
  return limit;
}

class ProviderLimiter::StaleSlots final : public Observer {
 public:
  explicit StaleSlots(Log log) : log_(std::move(log)) {}

  void observe(const Event& event) noexcept override {
    if (event.kind != Event::Kind::kReclaimed) return;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(event.span).count();
    log_(std::string{event.gate} + ": took back a slot that agent \"" + std::string{event.agent} +
         "\" has held for " + std::to_string(seconds) + " s without releasing it");
  }

 private:
  Log log_;
};

ProviderLimiter::ProviderLimiter() = default;
ProviderLimiter::~ProviderLimiter() = default;

void ProviderLimiter::log_to_stderr(std::string_view line) {
  std::fprintf(stderr, "weir: %.*s\n", static_cast<int>(line.size()), line.data());
}

Result<std::unique_ptr<ProviderLimiter>> ProviderLimiter::create(std::string provider,
                                                                 const ProviderLimits& limits,
                                                                 TimeSource time, Log log) {
  if (auto good = check_limits(provider, limits); !good) return std::unexpected(good.error());
  std::unique_ptr<ProviderLimiter> limiter{new ProviderLimiter};
  limiter->stale_slots_ = std::make_unique<StaleSlots>(std::move(log));
  auto gate = Gate::create({.name = std::move(provider),
                            .limits = {tokens_per_minute_limit(limits.tokens_per_minute),
                                       LimitSpec::concurrency(limits.max_concurrency)},
                            .stale_after = 2 * limits.request_timeout,
                            .observer = limiter->stale_slots_.get()},
                           time);
  if (!gate) return std::unexpected(gate.error());
  limiter->gate_ = std::move(*gate);
  return limiter;
}

Result<Permit> ProviderLimiter::acquire(std::stop_token cancel, Amount tokens,
                                        std::string_view agent_id) {
  return gate_->acquire(request_for(tokens, agent_id), {.stop = std::move(cancel)});
}

std::expected<Permit, Refusal> ProviderLimiter::try_acquire(Amount tokens,
                                                            std::string_view agent_id) {
  return gate_->try_acquire(request_for(tokens, agent_id));
}

Ticket ProviderLimiter::acquire_async(Amount tokens, std::string_view agent_id, Instant deadline,
                                      Callback done) {
  return gate_->acquire_async(request_for(tokens, agent_id), deadline, std::move(done));
}

ProviderStats ProviderLimiter::stats() const {
  const GateMetrics metrics = gate_->metrics();
  const LimitStatus& tokens = metrics.limits[kTokens];
  const LimitStatus& slots = metrics.limits[kSlots];
  return {.available_tokens = tokens.available,
          .max_capacity = tokens.capacity,
          .active_requests = slots.capacity - slots.available,
          .max_concurrency = slots.capacity,
          .token_limit_hits = tokens.hits,
          .concurrency_hits = slots.hits};
}

ProviderLimiters::Limits ProviderLimiters::defaults() {
  return {{"anthropic", {.tokens_per_minute = 300'000, .max_concurrency = 5}},
          {"openai", {.tokens_per_minute = 100'000, .max_concurrency = 3}},
          {"openai_official", {.tokens_per_minute = 150'000, .max_concurrency = 5}}};
}

Result<ProviderLimiters> ProviderLimiters::create(const Limits& limits, TimeSource time,
                                                  ProviderLimiter::Log log) {
  ProviderLimiters limiters;
  for (const auto& [provider, numbers] : limits) {
    auto limiter = ProviderLimiter::create(provider, numbers, time, log);
    if (!limiter) return std::unexpected(limiter.error());
    limiters.limiters_.emplace(provider, std::move(*limiter));
  }
  return limiters;
}

ProviderLimiter* ProviderLimiters::find(std::string_view provider) const {
  const auto found = limiters_.find(provider);
  return found == limiters_.end() ? nullptr : found->second.get();
}

std::map<std::string, ProviderStats> ProviderLimiters::stats() const {
  std::map<std::string, ProviderStats> all;
  for (const auto& [provider, limiter] : limiters_) all.emplace(provider, limiter->stats());
  return all;
}

void ProviderLimiters::stop() {
  for (const auto& [provider, limiter] : limiters_) limiter->stop();
}

}  // namespace weir
