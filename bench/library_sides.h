// Both sides of `bench/run library`: what Weir does (library_ours.cc) and what it is compared with
// in C++ (library_baselines.cc). The peers of other languages stand in peers/.
//
// A side owns its limiter and keeps it from sample to sample.
#pragma once

#include <atomic>
#include <cstdint>

#include "harness.h"
#include "weir/gate/bucket_table.h"

namespace weir::bench {

// The limits of every side, peers included. Admitted: 10^9 a second with a burst of 10^9, which no
// loop can outrun. Refused: one each thousand hours, and the first is gone.
inline constexpr std::int64_t kAdmitPerSecond = 1'000'000'000;
inline constexpr std::int64_t kAdmitBurst = 1'000'000'000;
inline constexpr std::chrono::hours kRefusePeriod{1000};

inline constexpr std::int64_t kResources = 1'000'000;
inline constexpr int kWaiters = 10'000;
// A resource's limit: never short in a run, yet never full again within it, so that every one of
// the million keeps a state that matters.
inline constexpr BucketSpec kResourceLimit{.rate = {1, std::chrono::minutes{1}}, .burst = 100'000};

// SplitMix64 (Steele, Lea, Flood 2014).
constexpr std::uint64_t scramble(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// The 16-byte name of a resource, computed so that the list of names costs no cache.
constexpr ResourceKey resource_key(std::uint64_t index) {
  return {.low = scramble(index + 1), .high = scramble(~index)};
}

// Resources in random order, a new order for each sample.
class RandomResources {
 public:
  ResourceKey next() {
    state_ += 0x9e3779b97f4a7c15;
    __extension__ using Wide = unsigned __int128;
    return resource_key(static_cast<std::uint64_t>(
        static_cast<Wide>(scramble(state_)) * static_cast<std::uint64_t>(kResources) >> 64));
  }

 private:
  static inline std::atomic<std::uint64_t> orders_{0};
  std::uint64_t state_ = scramble(++orders_);
};

namespace ours {
Contestant admit(int threads);
Contestant admit_cached();  // the clock cached by a ticker
Contestant refuse();
Contestant gate_3();  // requests + tokens + slots: acquire, then release
Contestant keyed(int threads);
Contestant keyed_batch(int threads);
double bytes_a_resource();  // with kResources of them; call in_child
double bytes_a_waiter();    // with kWaiters of them; call in_child
}  // namespace ours

namespace baseline {
Contestant clock_load_cas();  // the least an admission can be: rdtsc, a load, a CAS that succeeds
Contestant clock_cas();
Contestant keyed(int threads);  // std::unordered_map behind a std::mutex
double bytes_a_waiter();        // a thread blocked in a condition variable; call in_child
}  // namespace baseline

}  // namespace weir::bench
