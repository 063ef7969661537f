// Counters that threads raise without writing a line in common.
//
// Each of the first kSlots - 1 threads alive owns a cache line and raises it with a plain load and
// store; threads beyond share the last one with an atomic addition. Reading sums up the lines.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weir {

namespace detail {

inline constexpr int kCounterSlots = 16;
inline constexpr int kSharedSlot = kCounterSlots - 1;

// This thread's slot; -1 until it has asked for one.
inline thread_local int counter_slot = -1;
int claim_counter_slot();

}  // namespace detail

template <std::size_t N>
class Counters {
  static_assert(N * sizeof(std::uint64_t) <= 64);

 public:
  void add_one(std::size_t which) {
    int slot = detail::counter_slot;
    if (slot < 0) [[unlikely]]
      slot = detail::claim_counter_slot();
    auto& value = lines_[static_cast<std::size_t>(slot)].values[which];
    if (slot == detail::kSharedSlot) [[unlikely]] {
      value.fetch_add(1, std::memory_order_relaxed);
    } else {
      value.store(value.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
  }

  std::uint64_t total(std::size_t which) const {
    std::uint64_t sum = 0;
    for (const Line& line : lines_) sum += line.values[which].load(std::memory_order_relaxed);
    return sum;
  }

 private:
  struct alignas(64) Line {
    std::array<std::atomic<std::uint64_t>, N> values{};
  };

  std::array<Line, detail::kCounterSlots> lines_{};
};

}  // namespace weir
