#include "weir/bus/in_process_bus.h"

#include "bus/deliveries.h"

namespace weir {

InProcessBus::InProcessBus() : deliveries_(std::make_shared<bus::Deliveries>()) {}

InProcessBus::~InProcessBus() {
  close();
  deliveries_->join();
}

Result<void> InProcessBus::publish(std::string_view subject, std::string_view payload) {
  if (auto checked = bus::check_message(subject, payload); !checked) return checked;
  if (deliveries_->is_closed()) return fail(Errc::kClosed, "the bus is closed");
  ++published_;
  deliveries_->deliver(subject, payload);
  return {};
}

Result<std::unique_ptr<MessageBus::Subscription>> InProcessBus::subscribe(std::string_view subject,
                                                                          Handler handler) {
  return deliveries_->subscribe(subject, std::move(handler));
}

BusStatus InProcessBus::status() const {
  const bool open = !deliveries_->is_closed();
  return {.connected = open,
          .subscribed = open,
          .connects = 1,
          .published = published_,
          .delivered = deliveries_->delivered(),
          .dropped = deliveries_->dropped(),
          .failure = open ? "" : "closed"};
}

void InProcessBus::close() { deliveries_->close(); }

void InProcessBus::settle() { deliveries_->settle(); }

std::shared_ptr<InProcessBus> make_in_process_bus() { return std::make_shared<InProcessBus>(); }

}  // namespace weir
