#include "weir/fleet/shared_quota.h"

#include <fmt/format.h>

#include <random>

#include "fleet/leases.h"
#include "fleet/redis_book.h"

namespace weir {

std::string_view name(SharedQuotaStatus::State state) {
  switch (state) {
    case SharedQuotaStatus::State::kStarting: return "starting";
    case SharedQuotaStatus::State::kShared: return "shared";
    case SharedQuotaStatus::State::kQuarantine: return "quarantine";
    case SharedQuotaStatus::State::kAway: return "away";
  }
  return "unknown";
}

struct SharedQuota::Parts {
  Parts(Config config, std::shared_ptr<redis::Client> connection, TimeSource time)
      : client(std::move(connection)),
        book(client),
        calendar(time.clock),
        leases({.node = std::move(config.node),
                .fallback = config.fallback,
                .timeout = config.timeout,
                .breaker = std::move(config.breaker),
                .told = [this, told = std::move(config.told)](
                            const SharedQuotaStatus& status) { told(completed(status)); }},
               book, calendar, time) {}

  // With what the connection knows.
  SharedQuotaStatus completed(SharedQuotaStatus status) const {
    const redis::Status known = client->status();
    status.connected = known.up;
    status.connects = known.connects;
    if (!known.up && !known.failure.empty()) status.failure = known.failure;
    if (known.up && !known.cluster && client->server({}).run_id.empty()) {
      status.failure = "Redis does not tell its run id: its user needs the right to INFO";
    }
    return status;
  }

  std::shared_ptr<redis::Client> client;
  fleet::RedisBook book;
  Calendar calendar;
  fleet::Leases leases;
};

SharedQuota::SharedQuota(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

SharedQuota::~SharedQuota() {
  close();
  parts_->client->close();
}

Result<std::unique_ptr<SharedQuota>> SharedQuota::create(Config config, TimeSource time) {
  if (config.timeout <= Nanos{0}) {
    return fail(Errc::kInvalidConfig,
                fmt::format("the time-out must be positive: {} ns", config.timeout.count()));
  }
  if (auto breaker = CircuitBreaker::create(config.breaker, time.clock); !breaker) {
    return std::unexpected(std::move(breaker.error()));
  }
  auto client = redis::Client::create({.url = config.redis_url, .ca_file = config.ca_file}, time);
  if (!client) return std::unexpected(std::move(client.error()));
  // Two processes of one name, or one that is started again, are two nodes.
  config.node += fmt::format("#{:08x}", std::random_device{}());
  auto parts = std::make_unique<Parts>(std::move(config), std::move(*client), time);
  parts->client->on_change([leases = &parts->leases] { leases->look_again(); });
  return std::unique_ptr<SharedQuota>{new SharedQuota(std::move(parts))};
}

std::shared_ptr<Backing> SharedQuota::open(const GateConfig& config, const std::string& domain) {
  return parts_->leases.open(config, domain);
}

void SharedQuota::close() { parts_->leases.close(); }

SharedQuotaStatus SharedQuota::status() const { return parts_->completed(parts_->leases.status()); }

std::optional<QuotaShare> SharedQuota::share(const std::string& gate) const {
  return parts_->leases.share(gate);
}

}  // namespace weir
