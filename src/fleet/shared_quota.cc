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
                .told = std::move(config.told)},
               book, calendar, time) {}

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

SharedQuotaStatus SharedQuota::status() const {
  SharedQuotaStatus status = parts_->leases.status();
  const redis::Status client = parts_->client->status();
  status.connected = client.up;
  status.connects = client.connects;
  if (!client.up && !client.failure.empty()) status.failure = client.failure;
  return status;
}

std::optional<QuotaShare> SharedQuota::share(const std::string& gate) const {
  return parts_->leases.share(gate);
}

}  // namespace weir
