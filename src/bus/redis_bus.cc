#include "bus/redis_bus.h"

#include <utility>

namespace weir::bus {
namespace {

using namespace std::chrono_literals;

constexpr Nanos kAnswerTime = 1s;  // how long the server may take to confirm a message

}  // namespace

Result<std::shared_ptr<MessageBus>> RedisBus::create(const BusConfig& config, TimeSource time) {
  redis::Options options{.url = config.url, .ca_file = config.ca_file};
  if (!config.name.empty()) options.name = config.name;
  options.pending_max = kPendingMax;
  auto client = redis::Client::create(std::move(options), time);
  if (!client) return std::unexpected(client.error());
  return std::make_shared<RedisBus>(std::move(*client), time);
}

RedisBus::RedisBus(std::shared_ptr<redis::Client> client, TimeSource time)
    : client_(std::move(client)),
      time_(time),
      deliveries_(std::make_shared<Deliveries>(
          [this](const std::string& subject) { follow_interest(subject); })) {}

RedisBus::~RedisBus() {
  close();
  deliveries_->join();
}

Result<void> RedisBus::publish(std::string_view subject, std::string_view payload) {
  if (auto checked = check_message(subject, payload); !checked) return checked;
  if (deliveries_->is_closed()) return fail(Errc::kClosed, "the bus is closed");
  if (const redis::Status now = client_->status(); !now.up || now.pending >= kPendingMax) {
    ++counts_->dropped;
    return fail(Errc::kUnavailable, now.up ? "the server does not keep up" : now.failure);
  }
  client_->call({}, {"PUBLISH", std::string{subject}, std::string{payload}},
                time_.clock.now() + kAnswerTime,
                [counts = counts_](const Result<net::RespValue>& answer) {
                  ++(answer && !answer->is_error() ? counts->published : counts->dropped);
                });
  return {};
}

Result<std::unique_ptr<MessageBus::Subscription>> RedisBus::subscribe(std::string_view subject,
                                                                      Handler handler) {
  return deliveries_->subscribe(subject, std::move(handler));
}

void RedisBus::follow_interest(const std::string& subject) {
  const std::lock_guard lock{interests_mutex_};
  const auto known = interests_.find(subject);
  const bool wanted = deliveries_->is_wanted(subject);
  if (wanted && known == interests_.end()) {
    const auto subscription =
        client_->subscribe(subject, [deliveries = deliveries_, subject](std::string_view payload) {
          deliveries->deliver(subject, payload);
        });
    interests_.emplace(subject, subscription);
  } else if (!wanted && known != interests_.end()) {
    client_->unsubscribe(known->second);
    interests_.erase(known);
  }
}

BusStatus RedisBus::status() const {
  const redis::Status client = client_->status();
  const bool closed = deliveries_->is_closed();
  const bool connected = client.up && !closed;
  return {.connected = connected,
          .subscribed = connected && client_->subscribed(),
          .connects = client.connects,
          .published = counts_->published,
          .delivered = deliveries_->delivered(),
          .dropped = counts_->dropped + deliveries_->dropped(),
          .failure = connected ? ""
                     : closed  ? "closed"
                               : client.failure};
}

void RedisBus::close() {
  deliveries_->close();
  client_->close();
}

}  // namespace weir::bus
