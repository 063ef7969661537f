// NatsBus: a MessageBus on NATS servers.
//
// libnats waits for the network inside its calls and with its locks held, so that all of them are
// made by one thread of the bus. publish() and subscribe() only leave it a note.
#pragma once

#include <memory>
#include <thread>

#include "weir/bus/message_bus.h"

namespace weir::bus {

class NatsLink;

class NatsBus final : public MessageBus {
 public:
  static Result<std::shared_ptr<MessageBus>> create(const BusConfig& config, TimeSource time);
  explicit NatsBus(std::shared_ptr<NatsLink> link);
  // Waits a second at most for a server that has ceased to answer.
  ~NatsBus() override;

  Result<void> publish(std::string_view subject, std::string_view payload) override;
  Result<std::unique_ptr<Subscription>> subscribe(std::string_view subject,
                                                  Handler handler) override;
  BusStatus status() const override;
  void close() override;

 private:
  const std::shared_ptr<NatsLink> link_;
  std::thread thread_;
};

}  // namespace weir::bus
