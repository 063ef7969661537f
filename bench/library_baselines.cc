#include <condition_variable>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "library_sides.h"
#include "weir/core/token_bucket.h"
#include "weir/time/timer.h"

namespace weir::bench::baseline {
namespace {

std::uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

// The keys are random already, so that one of their words is the best hash there is.
struct LowWord {
  std::size_t operator()(const ResourceKey& key) const noexcept { return key.low; }
};

// The algorithm and the clock are ours; the table alone is compared.
struct GuardedMap {
  std::mutex mutex;
  std::unordered_map<ResourceKey, TokenBucket::State, LowWord> states;
  TokenBucket bucket = TokenBucket::create(kResourceLimit).value();
  Clock& clock = TimeSource::system().clock;

  GuardedMap() {
    states.reserve(kResources);
    for (std::uint64_t i = 0; i < kResources; ++i) try_acquire(resource_key(i));
  }
  bool try_acquire(const ResourceKey& key) {
    const Instant now = clock.now();
    const std::lock_guard lock(mutex);
    const auto [entry, inserted] = states.try_emplace(key, bucket.start(now));
    return spend(bucket, entry->second, 1, now).admitted();
  }
};

}  // namespace

Contestant clock_load_cas() {
  return {"clock+load+CAS", [word = std::make_shared<std::atomic<std::uint64_t>>()](auto ops) {
            return timed_calls(1, ops, [&word = *word] {
              const std::uint64_t now = ticks();
              std::uint64_t seen = word.load(std::memory_order_relaxed);
              return word.compare_exchange_strong(seen, now, std::memory_order_acq_rel);
            });
          }};
}

Contestant clock_cas() {
  return {"clock+CAS", [word = std::make_shared<std::atomic<std::uint64_t>>()](auto ops) {
            std::uint64_t seen = *word;
            return timed_calls(1, ops, [&word = *word, &seen] {
              const std::uint64_t now = ticks();
              const bool swapped = word.compare_exchange_strong(seen, now);
              seen = now;
              return swapped;
            });
          }};
}

Contestant keyed(int threads) {
  return {"mutex + unordered_map", [threads, map = std::make_shared<GuardedMap>()](auto ops) {
            return timed(threads, ops, [&map = *map](int, std::int64_t n) {
              RandomResources resources;
              std::int64_t admitted = 0;
              for (std::int64_t i = 0; i < n; ++i) admitted += map.try_acquire(resources.next());
              return admitted;
            });
          }};
}

double bytes_a_waiter() {
  // All wait for one condition: a condition each would only add to their memory. Static, because
  // destroying a condition waits for those who wait for it.
  static std::mutex mutex;
  static std::condition_variable released;
  static std::condition_variable all_wait;
  static int waiting = 0;
  const double before = resident_bytes();
  for (int i = 0; i < kWaiters; ++i) {
    std::thread([] {
      std::unique_lock lock(mutex);
      if (++waiting == kWaiters) all_wait.notify_one();
      released.wait(lock, [] { return false; });
    }).detach();
  }
  std::unique_lock lock(mutex);
  all_wait.wait(lock, [] { return waiting == kWaiters; });
  return (resident_bytes() - before) / kWaiters;
}

}  // namespace weir::bench::baseline
