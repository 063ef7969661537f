// Amounts of what is counted.
//
// Plain values without allocation. A Cost remembers which units it names, because at settlement
// "0 tokens" and "tokens not mentioned" are different things.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weir {

using Amount = std::int64_t;

// The largest amount of any unit, in a limit or in a cost. In micro_usd: a billion dollars.
inline constexpr Amount kAmountMax = 1'000'000'000'000'000;

enum class Unit : std::uint8_t {
  kRequests,
  kTokens,
  kInputTokens,
  kOutputTokens,
  kMicroUsd,
  kSlots,  // borrowed, and given back by release; every other unit is consumed
};

inline constexpr std::size_t kUnitCount = 6;

constexpr std::string_view name(Unit unit) {
  constexpr std::array<std::string_view, kUnitCount> kNames{
      "requests", "tokens", "input_tokens", "output_tokens", "micro_usd", "slots"};
  return kNames[static_cast<std::size_t>(unit)];
}

class Cost {
 public:
  constexpr Cost() = default;

  // What an ordinary call takes: one request in one slot, and its tokens.
  static constexpr Cost call(Amount tokens = 0) {
    Cost cost = Cost{}.with(Unit::kRequests, 1).with(Unit::kSlots, 1);
    return tokens == 0 ? cost : cost.with(Unit::kTokens, tokens);
  }
  static constexpr Cost of(Unit unit, Amount amount) { return Cost{}.with(unit, amount); }

  constexpr Cost with(Unit unit, Amount amount) const {
    Cost cost = *this;
    cost.amounts_[index(unit)] = amount;
    cost.named_ |= static_cast<std::uint8_t>(1U << index(unit));
    return cost;
  }

  // Zero for a unit that is not named.
  constexpr Amount operator[](Unit unit) const { return amounts_[index(unit)]; }
  constexpr bool names(Unit unit) const { return (named_ >> index(unit) & 1U) != 0; }

  // Every amount lies in [0, kAmountMax]; anything else is refused with kInvalidCost.
  constexpr bool valid() const {
    bool good = true;
    for (Amount amount : amounts_) good &= static_cast<std::uint64_t>(amount) <= kAmountMax;
    return good;
  }

  friend constexpr bool operator==(const Cost&, const Cost&) = default;

 private:
  static constexpr std::size_t index(Unit unit) { return static_cast<std::size_t>(unit); }

  std::array<Amount, kUnitCount> amounts_{};
  std::uint8_t named_ = 0;
};

}  // namespace weir
