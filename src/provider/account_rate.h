// RecentRate: how many calls were served in the last minute, by slots of 10 s.
//
// A plain value without a lock or a clock.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "weir/core/cost.h"
#include "weir/core/time.h"

namespace weir {

class RecentRate {
 public:
  // `calls` in [0, kAmountMax]; counts no more than kCallsMax a slot.
  void count(Amount calls, Instant now) {
    const std::int64_t index = slot_of(now);
    Slot& slot = slots_[static_cast<std::size_t>(index) % kSlots];
    if (slot.index != index) slot = {index, 0};
    slot.calls = std::min(slot.calls + calls, kCallsMax);
  }

  // In thousandths of a call a minute, over the time since the first of them; 0 if there were none.
  Amount per_minute_milli(Instant now) const {
    Amount calls = 0;
    for (const Slot& slot : slots_) calls += counts(slot, now) ? slot.calls : 0;
    return calls * 60'000'000 / (std::max(history(now), kSlot) / std::chrono::milliseconds{1});
  }

  // The time since the first of them, a minute at most; 0 if there were none.
  Nanos history(Instant now) const {
    std::int64_t first = slot_of(now) + 1;
    for (const Slot& slot : slots_) {
      if (counts(slot, now)) first = std::min(first, slot.index);
    }
    return std::max(now.time_since_epoch() - first * kSlot, Nanos{0});
  }

  static constexpr Amount kCallsMax = 1'000'000'000;

 private:
  static constexpr Nanos kSlot = std::chrono::seconds{10};
  static constexpr std::int64_t kSlots = 7;  // the running one, and a minute

  struct Slot {
    std::int64_t index = 0;
    Amount calls = 0;
  };
  static bool counts(const Slot& slot, Instant now) {
    const std::int64_t newest = slot_of(now);
    return slot.calls != 0 && slot.index <= newest && slot.index + kSlots > newest;
  }
  static std::int64_t slot_of(Instant now) { return clamp_instant(now).time_since_epoch() / kSlot; }

  std::array<Slot, kSlots> slots_{};
};

}  // namespace weir
