// A table of resources that all have the same limit, each with a token bucket of its own: one for
// every agent, user or address of millions, in flat memory of fixed size.
//
// Safe to use from any thread. A resource that the table knows is decided without a lock, by one
// compare-and-set; a new one takes a short lock that few others share. A refusal writes nothing
// but the calling thread's own counters.
//
// A resource that the table does not know has a full bucket. So one whose bucket is full again may
// be forgotten, and is, when a new one needs its place; one whose bucket is not full never is.
// Where every place for a new resource is taken by such ones, the table is full and refuses it.
//
// Names may come from strangers: where a resource lies depends on a secret of the table, so that
// nobody can choose names that lie in each other's way. Does not wait, and knows one limit only:
// that is what a Gate is for.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>

#include "weir/core/token_bucket.h"
#include "weir/gate/counters.h"
#include "weir/time/clock.h"

namespace weir {

// The name of a resource. Any 16 bytes will do, for instance a UUID.
struct ResourceKey {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  // Up to 15 bytes are the key themselves. Longer names are hashed with a secret of the process:
  // a key is not to be stored or sent, and two names share one with a chance of 2^-120.
  static ResourceKey of(std::string_view name);

  friend constexpr bool operator==(const ResourceKey&, const ResourceKey&) = default;
};

namespace detail {

struct SipKey {
  std::uint64_t low;
  std::uint64_t high;
};

// SipHash-2-4 with a result of 128 bits (Aumasson, Bernstein 2012): what longer names go through.
ResourceKey siphash_2_4_128(std::string_view bytes, SipKey key);

}  // namespace detail

struct BucketTableSpec {
  BucketSpec limit;
  // For how many resources there is room, whatever their names. Some more fit, with luck.
  std::size_t capacity = std::size_t{1} << 20;
};

struct BucketTableMetrics {
  std::uint64_t admitted = 0;
  std::uint64_t refused = 0;  // by the limit
  std::uint64_t full = 0;     // refused for want of a place
  std::uint64_t evicted = 0;  // forgotten in favour of another
};

class BucketTable {
 public:
  static constexpr std::size_t kCapacityMax = std::size_t{1} << 30;

  // Takes 43 bytes for each resource of the capacity, which the system provides as they are used,
  // in large pages. Fails with kInvalidLimit if the limit is out of range or its rate does not fit
  // one word (TokenBucket), and with kInvalidCapacity if the capacity is not in [1, kCapacityMax]
  // or there is no memory for it. The clock must outlive the table.
  static Result<std::unique_ptr<BucketTable>> create(BucketTableSpec spec, const Clock& clock);

  // Tries to spend `cost`.
  //   admit  the resource has the cost spent.
  //   wait   exact: the call succeeds after retry_after if nobody spends first.
  //          Not exact: the resource is new and the table full; retry_after is a suggestion.
  //   never  the cost is above the burst, or negative.
  // A cost of 0 is admitted and leaves no trace. A new resource counts as charged no earlier than
  // the latest eviction, so that a `now` that runs backwards mints nothing.
  Decision try_acquire(ResourceKey key, Amount cost = 1) {
    return try_acquire(key, cost, clock_.now());
  }
  Decision try_acquire(ResourceKey key, Amount cost, Instant now);

  // Decides each key by itself, in order, all at one `now`: out[i] is the answer to keys[i].
  // Quicker than one by one, because memory is fetched ahead. `costs` and `out` are as long as
  // `keys`.
  void try_acquire_batch(std::span<const ResourceKey> keys, std::span<Decision> out,
                         Amount cost = 1);
  void try_acquire_batch(std::span<const ResourceKey> keys, std::span<const Amount> costs,
                         std::span<Decision> out);

  // The largest cost that would be admitted now; nothing for a resource that the table does not
  // know, which could spend the whole burst. Negative only while the clock is behind.
  std::optional<Amount> available(ResourceKey key) const { return available(key, clock_.now()); }
  std::optional<Amount> available(ResourceKey key, Instant now) const;

  // Gives back `amount` > 0, never past the burst.
  void refund(ResourceKey key, Amount amount);

  // Forgets a resource, which is as good as filling its bucket; says whether the table knew it. Its
  // place serves another as soon as the bucket would have been full by itself.
  bool erase(ResourceKey key);

  std::size_t size() const;          // resources known; approximate while others write
  std::size_t memory_bytes() const;  // reserved
  BucketTableMetrics metrics() const;

 private:
  struct Slot;
  struct Sight;
  enum class Unsettled : std::uint8_t;
  enum class Step : std::uint8_t;
  enum Counter : std::size_t { kAdmitted, kRefused, kFull, kInserted, kEvicted, kErased };
  struct Unmap {
    std::size_t bytes;
    void operator()(Slot* slots) const;
  };
  using Slots = std::unique_ptr<Slot[], Unmap>;
  static constexpr std::size_t kStripes = 256;

  BucketTable(TokenBucket bucket, Slots slots, const Clock& clock);

  std::uint64_t hash(ResourceKey key) const;
  Slot* window(std::uint64_t hash) const;
  template <class Visit>
  Slot* probe(std::uint64_t hash, std::size_t windows, Visit&& visit) const;
  Sight find(ResourceKey key, std::uint64_t hash, Unsettled unsettled) const;
  Slot* claim(std::uint64_t hash, std::int64_t now);
  Decision decide(ResourceKey key, std::uint64_t hash, Amount cost, std::int64_t now);
  std::optional<Decision> insert(ResourceKey key, std::uint64_t hash, Amount cost,
                                 std::int64_t now);
  template <class CostOf>
  void decide_all(std::span<const ResourceKey> keys, std::span<Decision> out, CostOf&& cost_of);
  Decision count(Counter counter, Decision decision);

  const Clock& clock_;
  const TokenBucket bucket_;
  const std::array<std::uint64_t, 4> secret_;
  const Slots slots_;
  const std::uint64_t windows_;  // how many of them begin in slots_

  // How many windows of a resource may hold it: what was needed so far, so that a new one is known
  // to be new without a look at all.
  std::atomic<std::size_t> reach_{0};

  // The latest instant at which a slot changed hands.
  alignas(64) std::atomic<std::int64_t> forgotten_at_{0};
  std::array<std::mutex, kStripes> stripes_;
  Counters<6> counters_;
};

}  // namespace weir
