// WaitHistogram: how long many waits were, in buckets a sixteenth of their size apart.
//
// A plain value without a lock or a clock, of 1.7 KiB. Percentiles are within 3.2% for waits from
// 1.6 ms to 29 h, and within 0.1 ms below.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "weir/core/time.h"

namespace weir {

class WaitHistogram {
 public:
  struct Spread {
    std::uint64_t count = 0;
    Nanos mean{0};
    Nanos p50{0};
    Nanos p99{0};
    Nanos max{0};
  };

  void add(Nanos wait) {
    wait = std::max(wait, Nanos{0});
    ++buckets_[bucket_of(wait)];
    ++count_;
    sum_ += std::min(wait, Nanos::max() - sum_);
    max_ = std::max(max_, wait);
  }

  WaitHistogram& operator+=(const WaitHistogram& other) {
    for (std::size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
    count_ += other.count_;
    sum_ += std::min(other.sum_, Nanos::max() - sum_);
    max_ = std::max(max_, other.max_);
    return *this;
  }

  Spread spread() const {
    if (count_ == 0) return {};
    return {.count = count_,
            .mean = sum_ / static_cast<std::int64_t>(count_),
            .p50 = percentile(50),
            .p99 = percentile(99),
            .max = max_};
  }

 private:
  static constexpr Nanos kUnit = std::chrono::microseconds{100};
  static constexpr int kSubBits = 4;  // 16 buckets for each doubling
  static constexpr int kBitsMax = 30;
  static constexpr std::size_t kBuckets = (kBitsMax - kSubBits + 1) << kSubBits;

  static std::size_t bucket_of(Nanos wait) {
    const auto value = static_cast<std::uint64_t>(
        std::min<std::int64_t>(wait / kUnit, (std::int64_t{1} << kBitsMax) - 1));
    const int shift = std::max(static_cast<int>(std::bit_width(value)) - kSubBits - 1, 0);
    return (static_cast<std::size_t>(shift) << kSubBits) + static_cast<std::size_t>(value >> shift);
  }
  // Its middle; the first bucket is for those who did not wait.
  static Nanos value_of(std::size_t bucket) {
    if (bucket == 0) return Nanos{0};
    const std::size_t shift = bucket < (2U << kSubBits) ? 0 : (bucket >> kSubBits) - 1;
    const std::size_t lowest = (bucket - (shift << kSubBits)) << shift;
    return kUnit * static_cast<std::int64_t>(2 * lowest + (std::size_t{1} << shift)) / 2;
  }

  // The wait that so many of a hundred did not exceed.
  Nanos percentile(std::uint64_t of_hundred) const {
    std::uint64_t left = (count_ * of_hundred + 99) / 100;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      if (left <= buckets_[i]) return std::min(value_of(i), max_);
      left -= buckets_[i];
    }
    return max_;
  }

  std::array<std::uint32_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0;
  Nanos sum_{0};
  Nanos max_{0};
};

}  // namespace weir
