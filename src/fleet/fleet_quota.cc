#include "weir/fleet/fleet_quota.h"

#include <fmt/format.h>

#include <atomic>
#include <charconv>
#include <utility>

#include "fleet/agent_quota.h"

namespace weir {
namespace {

constexpr fleet::QuotaNames kVariables{.capacity = "TOKEN_BUCKET_SIZE",
                                       .refill_rate = "TOKEN_REFILL_RATE"};

// Whatever may be a password is left out, in a URL that is malformed, too.
std::string without_secrets(std::string_view url) {
  const std::string_view shown = url.substr(0, url.find('?'));
  const std::size_t at = shown.rfind('@');
  if (at == shown.npos) return std::string{shown};
  const std::size_t scheme = shown.substr(0, at).find("://");
  return fmt::format("{}***{}", scheme == shown.npos ? "" : shown.substr(0, scheme + 3),
                     shown.substr(at));
}

// Leaves `value` as it is if the variable is not set.
template <class Number>
Result<void> read_number(const FleetQuota::Getenv& getenv, std::string_view name, Number& value) {
  const char* const text = getenv(std::string{name}.c_str());
  if (text == nullptr || *text == '\0') return {};
  const std::string_view all{text};
  const auto [end, error] = std::from_chars(all.begin(), all.end(), value);
  if (error == std::errc{} && end == all.end()) return {};
  return fail(Errc::kInvalidConfig,
              fmt::format("{} must be a {}: {}", name,
                          std::is_integral_v<Number> ? "whole number" : "number", all));
}

}  // namespace

// Kept alive by the calls under way.
class FleetQuota::Core final : public std::enable_shared_from_this<Core> {
 public:
  Core(Fallback fallback, std::unique_ptr<LocalTokenBucket> local,
       std::unique_ptr<DistributedTokenBucket> redis)
      : fallback_(fallback), local_(std::move(local)), redis_(std::move(redis)) {}

  void decide(std::string_view agent, Amount tokens, Done done) {
    if (closed_.test(std::memory_order_acquire)) return done(fail(Errc::kClosed));
    if (!redis_) return done(count(local_->acquire(agent, tokens), kAdmittedOtherwise));
    redis_->acquire_async(agent, tokens,
                          [self = shared_from_this(), agent = std::string{agent}, tokens,
                           done = std::move(done)](Result<bool> got) mutable {
                            const bool failed =
                                !got && CircuitBreaker::is_service_failure(got.error());
                            done(failed ? self->fall_back(agent, tokens, got.error())
                                        : self->count(std::move(got), kAdmittedByRedis));
                          });
  }

  Status status() const {
    Status status{.by_redis = counts(kAdmittedByRedis), .otherwise = counts(kAdmittedOtherwise)};
    if (!redis_) return status;
    status.redis = redis_->status();
    const bool reached =
        status.redis.connected && status.redis.breaker == CircuitBreaker::State::kClosed;
    status.mode = reached ? Mode::kFleet : Mode::kFallback;
    return status;
  }

  void close() {
    closed_.test_and_set(std::memory_order_release);
    if (redis_) redis_->close();
  }

 private:
  // Each is followed by the refusals.
  enum Counter : std::size_t { kAdmittedByRedis = 0, kAdmittedOtherwise = 2 };

  Result<bool> fall_back(std::string_view agent, Amount tokens, const Error& why) {
    switch (fallback_) {
      case Fallback::kLocal: return count(local_->acquire(agent, tokens), kAdmittedOtherwise);
      case Fallback::kOpen: return count(true, kAdmittedOtherwise);
      case Fallback::kDeny: break;
    }
    count(false, kAdmittedOtherwise);
    return fail(Errc::kUnavailable, why.message);
  }

  Result<bool> count(Result<bool> got, Counter admitted) {
    if (got) counters_.add_one(*got ? admitted : admitted + 1);
    return got;
  }
  Counts counts(Counter admitted) const {
    return {counters_.total(admitted), counters_.total(admitted + 1)};
  }

  const Fallback fallback_;
  const std::unique_ptr<LocalTokenBucket> local_;
  const std::unique_ptr<DistributedTokenBucket> redis_;  // null: no URL is set
  std::atomic_flag closed_;
  Counters<4> counters_;
};

Result<std::unique_ptr<FleetQuota>> FleetQuota::create(const Config& config, TimeSource time) {
  auto local = LocalTokenBucket::create({.capacity = config.bucket.capacity,
                                         .refill_rate = config.bucket.refill_rate,
                                         .scope = config.local_scope,
                                         .agents_max = config.local_agents_max},
                                        time.clock);
  if (!local) return std::unexpected(local.error());
  std::unique_ptr<DistributedTokenBucket> redis;
  if (!config.bucket.redis_url.empty()) {
    auto made = DistributedTokenBucket::create(config.bucket, time);
    if (!made) return std::unexpected(made.error());
    redis = std::move(*made);
  }
  return std::unique_ptr<FleetQuota>(
      new FleetQuota(std::make_shared<Core>(config.fallback, std::move(*local), std::move(redis))));
}

Result<std::unique_ptr<FleetQuota>> FleetQuota::from_environment(const Getenv& getenv,
                                                                 TimeSource time) {
  Config config;
  DistributedTokenBucket::Config& bucket = config.bucket;
  if (const char* url = getenv("REDIS_URL")) bucket.redis_url = url;
  if (auto read = read_number(getenv, kVariables.capacity, bucket.capacity); !read) {
    return std::unexpected(read.error());
  }
  if (auto read = read_number(getenv, kVariables.refill_rate, bucket.refill_rate); !read) {
    return std::unexpected(read.error());
  }
  if (auto good = fleet::check_quota(bucket.capacity, bucket.refill_rate, kVariables); !good) {
    return std::unexpected(good.error());
  }
  auto quota = create(config, time);
  if (!quota && !bucket.redis_url.empty()) {
    return fail(quota.error().code, fmt::format("REDIS_URL: {} ({})", quota.error().message,
                                                without_secrets(bucket.redis_url)));
  }
  return quota;
}

FleetQuota::FleetQuota(std::shared_ptr<Core> core) : core_(std::move(core)) {}

FleetQuota::~FleetQuota() { cleanup(); }

Result<bool> FleetQuota::check_and_consume(std::string_view agent, Amount tokens) {
  return fleet::await<bool>([&](auto done) { core_->decide(agent, tokens, std::move(done)); });
}

void FleetQuota::check_and_consume_async(std::string_view agent, Amount tokens, Done done) {
  core_->decide(agent, tokens, std::move(done));
}

FleetQuota::Status FleetQuota::status() const { return core_->status(); }

void FleetQuota::cleanup() { core_->close(); }

std::string_view name(FleetQuota::Mode mode) {
  switch (mode) {
    case FleetQuota::Mode::kLocal: return "local";
    case FleetQuota::Mode::kFleet: return "fleet";
    case FleetQuota::Mode::kFallback: return "fallback";
  }
  return "unknown";
}

}  // namespace weir
