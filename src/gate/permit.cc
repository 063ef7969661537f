#include "weir/gate/permit.h"

#include "gate/waiter.h"
#include "weir/gate/gate.h"

namespace weir {

template <class F>
void Permit::for_each_share(F&& f) const {
  f(*gate_, slot_);
  if (rest_ == nullptr) return;
  for (std::size_t i = 0; i < rest_->count; ++i) f(*rest_->shares[i].gate, rest_->shares[i].slot);
}

Result<void> Permit::settle(const Cost& actual) {
  if (gate_ == nullptr) return {};
  if (!actual.valid()) return fail(Errc::kInvalidCost, "an amount is negative or too large");
  if (settled_) return fail(Errc::kInvalidCost, "settled before");
  settled_ = true;
  const Instant now = gate_->clock().now();
  Effects effects;
  std::uint8_t turns = turns_;
  for_each_share([&](Gate& gate, Slot) {
    gate.settle(*this, (turns & 1U) != 0 ? turn_ : 0, actual, now, effects);
    turns >>= 1;
  });
  effects.run();
  return {};
}

void Permit::release() {
  if (!held_) return;
  held_ = false;
  for_each_share([](Gate& gate, Slot slot) {
    if (slot.generation != 0) gate.release(slot);
  });
}

}  // namespace weir
