// InProcessBus: a MessageBus for those who share it in one process, and for tests.
//
// Always connected. Handlers run on threads of the bus; settle() makes them deterministic.
#pragma once

#include <atomic>
#include <memory>

#include "weir/bus/message_bus.h"

namespace weir {

namespace bus {
class Deliveries;
}

class InProcessBus final : public MessageBus {
 public:
  InProcessBus();
  ~InProcessBus() override;

  Result<void> publish(std::string_view subject, std::string_view payload) override;
  Result<std::unique_ptr<Subscription>> subscribe(std::string_view subject,
                                                  Handler handler) override;
  BusStatus status() const override;
  void close() override;

  // Returns when everything that was published has been delivered, with what the handlers
  // published meanwhile. Not for handlers.
  void settle();

 private:
  const std::shared_ptr<bus::Deliveries> deliveries_;
  std::atomic<std::uint64_t> published_ = 0;
};

std::shared_ptr<InProcessBus> make_in_process_bus();

}  // namespace weir
