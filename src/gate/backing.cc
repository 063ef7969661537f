#include "weir/gate/backing.h"

#include "weir/gate/gate.h"

namespace weir {

Result<std::shared_ptr<Gate>> create_gate(GateConfig config, TimeSource time, Backer* backer,
                                          const std::string& domain) {
  if (backer == nullptr) return Gate::create(std::move(config), time);
  struct Backed {
    std::shared_ptr<Backing> backing;
    std::unique_ptr<Gate> gate;  // goes first
  };
  const auto backed = std::make_shared<Backed>();
  backed->backing = backer->open(config, domain);
  config.backing = backed->backing.get();
  auto gate = Gate::create(std::move(config), time);
  if (!gate) return std::unexpected(gate.error());
  backed->gate = std::move(*gate);
  std::shared_ptr<Gate> shared{backed, backed->gate.get()};
  backed->backing->bind(shared);
  return shared;
}

}  // namespace weir
