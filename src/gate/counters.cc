#include "weir/gate/counters.h"

#include <bit>

namespace weir::detail {
namespace {

// Bit i: slot i is owned by a thread alive. The shared slot is nobody's.
std::atomic<std::uint32_t> owned_slots{0};

// The acquire/release pair on owned_slots hands a dead thread's last plain stores to the next
// owner of its slot.
struct SlotOwner {
  int slot = kSharedSlot;

  SlotOwner() {
    std::uint32_t owned = owned_slots.load(std::memory_order_relaxed);
    while (true) {
      const int free = std::countr_one(owned);
      if (free >= kSharedSlot) return;
      if (owned_slots.compare_exchange_weak(owned, owned | 1U << free, std::memory_order_acquire,
                                            std::memory_order_relaxed)) {
        slot = free;
        return;
      }
    }
  }
  ~SlotOwner() {
    counter_slot = kSharedSlot;  // for counting in destructors that run after this one
    if (slot != kSharedSlot) owned_slots.fetch_and(~(1U << slot), std::memory_order_release);
  }
};

}  // namespace

int claim_counter_slot() {
  thread_local const SlotOwner owner;
  if (counter_slot < 0) counter_slot = owner.slot;
  return counter_slot;
}

}  // namespace weir::detail
