#include <array>
#include <memory>
#include <string>

#include "library_sides.h"
#include "weir/gate/bucket_table.h"
#include "weir/gate/gate.h"
#include "weir/limiter/rate_limiter.h"
#include "weir/time/cached_clock.h"

namespace weir::bench::ours {
namespace {

using std::chrono::seconds;

constexpr std::int64_t kBatch = 64;

template <class T>
T must(Result<T> result) {
  if (!result) die(result.error().message);
  return *std::move(result);
}

constexpr Rate kAdmitRate{kAdmitPerSecond, seconds{1}};

// With all resources in it.
std::shared_ptr<BucketTable> full_table() {
  std::shared_ptr<BucketTable> table = must(BucketTable::create(
      {.limit = kResourceLimit, .capacity = kResources}, TimeSource::system().clock));
  for (std::uint64_t i = 0; i < kResources; ++i) {
    if (!table->try_acquire(resource_key(i)).admitted()) die("the table has no room for them all");
  }
  if (table->size() != kResources) die("the table forgot some of them");
  return table;
}

Contestant try_acquire(std::string name, int threads, std::shared_ptr<RateLimiter> limiter) {
  return {std::move(name), [threads, limiter](auto ops) {
            return timed_calls(threads, ops,
                               [&limiter = *limiter] { return limiter.try_acquire(); });
          }};
}

}  // namespace

Contestant admit(int threads) {
  return try_acquire(
      "weir", threads,
      std::make_shared<RateLimiter>(must(RateLimiter::with_burst(kAdmitPerSecond, kAdmitBurst))));
}

Contestant admit_cached() {
  struct Cached {
    TimeSource system = TimeSource::system();
    CachedClock clock{system.clock};
    RateLimiter limiter =
        must(RateLimiter::with_burst(kAdmitPerSecond, kAdmitBurst, {clock, system.timer}));
  };
  const auto cached = std::make_shared<Cached>();
  return try_acquire("weir cached", 1, {cached, &cached->limiter});
}

Contestant refuse() {
  const double per_second = 1.0 / static_cast<double>(seconds{kRefusePeriod}.count());
  auto limiter = std::make_shared<RateLimiter>(must(RateLimiter::with_burst(per_second, 1)));
  if (!limiter->try_acquire()) die("a new limiter is not full");
  return try_acquire("weir", 1, std::move(limiter));
}

Contestant gate_3() {
  GateConfig config{.name = "provider",
                    .limits = {LimitSpec::token_bucket(Unit::kRequests, kAdmitRate, kAdmitBurst),
                               LimitSpec::token_bucket(Unit::kTokens, kAdmitRate, kAdmitBurst),
                               LimitSpec::concurrency(64)}};
  std::shared_ptr<Gate> gate = must(Gate::create(std::move(config)));
  return {"weir", [gate](auto ops) {
            return timed_calls(1, ops, [&gate = *gate] {
              auto permit = gate.try_acquire({.cost = Cost::call(/*tokens=*/10)});
              if (permit) permit->release();
              return permit.has_value();
            });
          }};
}

Contestant keyed(int threads) {
  return {"weir", [threads, table = full_table()](auto ops) {
            return timed(threads, ops, [&table = *table](int, std::int64_t n) {
              RandomResources resources;
              std::int64_t admitted = 0;
              for (std::int64_t i = 0; i < n; ++i) {
                admitted += table.try_acquire(resources.next()).admitted();
              }
              return admitted;
            });
          }};
}

Contestant keyed_batch(int threads) {
  return {"weir batch", [threads, table = full_table()](auto ops) {
            return timed(threads, ops, [&table = *table](int, std::int64_t n) {
              RandomResources resources;
              std::array<ResourceKey, kBatch> keys;
              std::array<Decision, kBatch> decisions;
              std::int64_t admitted = 0;
              for (std::int64_t i = 0; i < n; i += kBatch) {
                for (ResourceKey& key : keys) key = resources.next();
                table.try_acquire_batch(keys, decisions);
                admitted += std::ranges::count_if(decisions, &Decision::admitted);
              }
              return admitted;
            });
          }};
}

double bytes_a_resource() {
  const double before = resident_bytes();
  const auto table = full_table();
  const double grown = resident_bytes() - before;
  return std::max(grown, static_cast<double>(table->memory_bytes())) / kResources;
}

double bytes_a_waiter() {
  // Neither is destroyed: that would end the waits, in a child that ends right after this.
  Gate& gate =
      *must(Gate::create({.name = "provider", .limits = {LimitSpec::concurrency(1)}})).release();
  new auto(gate.try_acquire({.cost = Cost::call()}));
  const double before = resident_bytes();
  for (int i = 0; i < kWaiters; ++i) {
    const std::string agent = "agent-" + std::to_string(i % 100);
    gate.acquire_async({.cost = Cost::call(), .agent = agent}, kEndOfTime,
                       [](Result<Permit>) { die("nobody was to be admitted"); });
  }
  if (gate.metrics().waiting != kWaiters) die("not all wait");
  return (resident_bytes() - before) / kWaiters;
}

}  // namespace weir::bench::ours
