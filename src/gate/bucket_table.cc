#include "weir/gate/bucket_table.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <random>
#include <string>
#include <thread>

namespace weir {
namespace {

__extension__ using UInt128 = unsigned __int128;

constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kLineSlots = 2;
// Where a resource may lie: in kWindows places of the table, in kWindowSlots slots from the start
// of a line each. At capacity, three quarters full, a look-up sees 1.5 lines in the mean, one
// resource in 20 lies outside its first window, each further window leaves a fifth of those, and
// one in 10^11 finds no slot.
constexpr std::size_t kWindowSlots = 8;
constexpr std::size_t kWindows = 16;

// How far a batch fetches ahead: more lines than a core can have under way.
constexpr std::size_t kAhead = 16;

template <class T>
std::atomic_ref<T> atomic(T& value) {
  return std::atomic_ref<T>(value);
}

template <class Atomic, class T>
void raise(Atomic&& atomic, T least) {
  T seen = atomic.load(std::memory_order_relaxed);
  while (seen < least && !atomic.compare_exchange_weak(seen, least, std::memory_order_acq_rel,
                                                       std::memory_order_relaxed)) {
  }
}

std::uint64_t random_word() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

// The rounds of SipHash (Aumasson, Bernstein 2012).
struct Sip {
  std::uint64_t v0;
  std::uint64_t v1;
  std::uint64_t v2;
  std::uint64_t v3;

  explicit Sip(detail::SipKey key)
      : v0(key.low ^ 0x736f6d6570736575),
        v1(key.high ^ 0x646f72616e646f6d),
        v2(key.low ^ 0x6c7967656e657261),
        v3(key.high ^ 0x7465646279746573) {}

  template <int kRounds>
  void rounds() {
    for (int i = 0; i < kRounds; ++i) {
      v0 += v1;
      v1 = std::rotl(v1, 13) ^ v0;
      v0 = std::rotl(v0, 32);
      v2 += v3;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 += v3;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 += v1;
      v1 = std::rotl(v1, 17) ^ v2;
      v2 = std::rotl(v2, 32);
    }
  }
  template <int kRounds>
  void absorb(std::uint64_t word) {
    v3 ^= word;
    rounds<kRounds>();
    v0 ^= word;
  }
  std::uint64_t result() const { return v0 ^ v1 ^ v2 ^ v3; }
};

// The first eight bytes, or all there are.
std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t word = 0;
  bytes.copy(reinterpret_cast<char*>(&word), sizeof(word));
  return std::endian::native == std::endian::little ? word : __builtin_bswap64(word);
}

}  // namespace

ResourceKey detail::siphash_2_4_128(std::string_view bytes, SipKey key) {
  Sip sip{key};
  sip.v1 ^= 0xee;
  const std::uint64_t length = bytes.size();
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    sip.absorb<2>(little_endian(bytes));
  }
  sip.absorb<2>(little_endian(bytes) | length << 56);
  sip.v2 ^= 0xee;
  sip.rounds<4>();
  const std::uint64_t low = sip.result();
  sip.v1 ^= 0xdd;
  sip.rounds<4>();
  return {.low = low, .high = sip.result()};
}

ResourceKey ResourceKey::of(std::string_view name) {
  // The last byte tells a name of up to 15 bytes, whose length it is, from a hash.
  constexpr std::uint64_t kHashed = std::uint64_t{0xff} << 56;
  if (name.size() <= 15) {
    return {.low = little_endian(name),
            .high = little_endian(name.substr(std::min<std::size_t>(name.size(), 8))) |
                    std::uint64_t{name.size()} << 56};
  }
  static const detail::SipKey secret{.low = random_word(), .high = random_word()};
  ResourceKey key = detail::siphash_2_4_128(name, secret);
  key.high |= kHashed;
  return key;
}

// The slots are plain memory and zero at first, so that the system need not provide what nobody
// uses; all access is by atomic_ref.
//
// A resource never moves. `word` is its bucket's full_at, in ticks, or one of:
//   kEmpty    never used; no resource lies beyond it in a probe that passes here.
//   kErased   its resource was erased.
//   kBusy     some thread is about to write the key, or to put the former word back.
//
// Why a thread that has read a word and a key charges the resource that it means, by comparing and
// setting the word alone: no word that a slot had under one key comes back under another. All
// words that it ever had are at most the larger of `word` and `highest`. It changes hands at an
// instant later than both; the new words begin after that instant and never fall below it, because
// it is in forgotten_at_, where refunds end.
struct BucketTable::Slot {
  std::uint64_t low;
  std::uint64_t high;
  std::int64_t word;
  // What `word` was before it was lowered by a refund or hidden by an erasure, the highest of them.
  std::int64_t highest;

  static constexpr std::int64_t kEmpty = 0;
  static constexpr std::int64_t kErased = -1;
  static constexpr std::int64_t kBusy = -2;
};

// A slot and what was in it at one instant.
struct BucketTable::Sight {
  Slot* slot;
  std::int64_t word;

  explicit operator bool() const { return slot != nullptr; }
  bool replace_by(std::int64_t next) const {
    std::int64_t expected = word;
    return atomic(slot->word)
        .compare_exchange_strong(expected, next, std::memory_order_acq_rel,
                                 std::memory_order_relaxed);
  }
};

// What to make of a busy slot: it may belong to the resource sought.
enum class BucketTable::Unsettled : std::uint8_t { kSkip, kAwait };
enum class BucketTable::Step : std::uint8_t { kOn, kHere, kNowhere };

Result<std::unique_ptr<BucketTable>> BucketTable::create(BucketTableSpec spec, const Clock& clock) {
  static_assert(sizeof(Slot) * kLineSlots == kLineBytes);
  auto bucket = TokenBucket::create(spec.limit);
  if (!bucket) return std::unexpected(std::move(bucket.error()));
  if (spec.capacity == 0 || spec.capacity > kCapacityMax) {
    return fail(Errc::kInvalidCapacity, "capacity must be from 1 to " +
                                            std::to_string(kCapacityMax) + ": " +
                                            std::to_string(spec.capacity));
  }
  // Three quarters full at capacity.
  const std::size_t lines = std::max(spec.capacity * 2 / 3 + 1, kWindowSlots / kLineSlots);
  const std::size_t bytes = lines * kLineBytes;
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(Errc::kInvalidCapacity,
                "no memory for a capacity of " + std::to_string(spec.capacity));
  }
#ifdef MADV_HUGEPAGE
  // A wish: random access to a million resources is a fifth quicker.
  madvise(memory, bytes, MADV_HUGEPAGE);
#endif
  return std::unique_ptr<BucketTable>(
      new BucketTable(*bucket, Slots(static_cast<Slot*>(memory), Unmap{bytes}), clock));
}

void BucketTable::Unmap::operator()(Slot* slots) const { munmap(slots, bytes); }

BucketTable::BucketTable(TokenBucket bucket, Slots slots, const Clock& clock)
    : clock_(clock),
      bucket_(bucket),
      secret_{random_word(), random_word(), random_word(), random_word()},
      slots_(std::move(slots)),
      windows_((slots_.get_deleter().bytes / sizeof(Slot) - kWindowSlots) / kLineSlots + 1) {}

// Twice the universal hash NH (Black et al. 1999), folded: two keys chosen without knowing the
// secret meet by chance only.
std::uint64_t BucketTable::hash(ResourceKey key) const {
  const UInt128 first = static_cast<UInt128>(key.low + secret_[0]) * (key.high + secret_[1]);
  const UInt128 second = static_cast<UInt128>(static_cast<std::uint64_t>(first) + secret_[2]) *
                         (static_cast<std::uint64_t>(first >> 64) + secret_[3]);
  return static_cast<std::uint64_t>(second) ^ static_cast<std::uint64_t>(second >> 64);
}

BucketTable::Slot* BucketTable::window(std::uint64_t hash) const {
  return &slots_[static_cast<std::size_t>(static_cast<UInt128>(hash) * windows_ >> 64) *
                 kLineSlots];
}

// Visits the slots in which a resource may lie, in the order in which they are taken. The slot that
// the visitor calls kHere; null if it says kNowhere or never decides.
template <class Visit>
BucketTable::Slot* BucketTable::probe(std::uint64_t hash, std::size_t windows,
                                      Visit&& visit) const {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio
  for (std::size_t i = 0; i < windows; ++i, hash *= kOdd) {
    Slot* const slots = window(hash);
    for (std::size_t j = 0; j < kWindowSlots; ++j) {
      const Step step = visit(slots[j]);
      if (step != Step::kOn) return step == Step::kHere ? &slots[j] : nullptr;
    }
  }
  return nullptr;
}

// The slot of a resource, if the table knows it.
BucketTable::Sight BucketTable::find(ResourceKey key, std::uint64_t hash,
                                     Unsettled unsettled) const {
  std::int64_t word = 0;
  Slot* const slot = probe(hash, reach_.load(std::memory_order_relaxed), [&](Slot& candidate) {
    for (;;) {
      word = atomic(candidate.word).load(std::memory_order_acquire);
      if (word == Slot::kEmpty) return Step::kNowhere;
      if (word == Slot::kBusy && unsettled == Unsettled::kAwait) {
        std::this_thread::yield();
        continue;
      }
      // Acquired, so that whoever sees a key of later sees a word of later.
      if (word < 0 || atomic(candidate.low).load(std::memory_order_acquire) != key.low ||
          atomic(candidate.high).load(std::memory_order_acquire) != key.high) {
        return Step::kOn;
      }
      if (atomic(candidate.word).load(std::memory_order_relaxed) == word) return Step::kHere;
    }
  });
  return {slot, word};
}

Decision BucketTable::count(Counter counter, Decision decision) {
  counters_.add_one(counter);
  return decision;
}

Decision BucketTable::decide(ResourceKey key, std::uint64_t hash, Amount cost, std::int64_t now) {
  if (cost <= 0 || cost > bucket_.capacity()) [[unlikely]] {
    return cost == 0 ? count(kAdmitted, Decision::admit()) : count(kRefused, Decision::never());
  }
  for (;;) {
    const Sight sight = find(key, hash, Unsettled::kSkip);
    if (!sight) [[unlikely]] {
      if (const auto decision = insert(key, hash, cost, now)) return *decision;
      continue;
    }
    const std::int64_t late = bucket_.lateness({sight.word}, cost, now);
    if (late > 0) return count(kRefused, Decision::wait(bucket_.ticks().nanos(late)));
    if (sight.replace_by(bucket_.spent({sight.word}, cost, now).full_at)) {
      return count(kAdmitted, Decision::admit());
    }
  }
}

// Admits a new resource, or finds no place for it. Nothing if somebody else has just inserted it.
std::optional<Decision> BucketTable::insert(ResourceKey key, std::uint64_t hash, Amount cost,
                                            std::int64_t now) {
  const std::lock_guard lock(stripes_[hash % kStripes]);
  if (find(key, hash, Unsettled::kAwait)) return {};
  Slot* const slot = claim(hash, now);
  if (slot == nullptr) return count(kFull, Decision::wait_for_release());
  atomic(slot->low).store(key.low, std::memory_order_release);
  atomic(slot->high).store(key.high, std::memory_order_release);
  const TokenBucket::State start{forgotten_at_.load(std::memory_order_acquire)};
  atomic(slot->word).store(bucket_.spent(start, cost, now).full_at, std::memory_order_release);
  counters_.add_one(kInserted);
  return count(kAdmitted, Decision::admit());
}

// Makes the first slot that is empty or may change hands busy.
BucketTable::Slot* BucketTable::claim(std::uint64_t hash, std::int64_t now) {
  const auto claimable = [now](Sight sight) {
    return sight.word == Slot::kEmpty ||
           (sight.word != Slot::kBusy && sight.word < now &&
            atomic(sight.slot->highest).load(std::memory_order_relaxed) < now);
  };
  std::size_t visited = 0;
  return probe(hash, kWindows, [&](Slot& slot) {
    const std::size_t window = visited++ / kWindowSlots;
    const Sight sight{&slot, atomic(slot.word).load(std::memory_order_acquire)};
    if (!claimable(sight)) return Step::kOn;
    // Before the resource is gone, so that whoever misses it knows.
    if (sight.word != Slot::kEmpty) raise(forgotten_at_, now);
    if (!sight.replace_by(Slot::kBusy)) return Step::kOn;
    // The word may have been higher and come back since it was read.
    if (!claimable(sight)) {
      atomic(slot.word).store(sight.word, std::memory_order_release);
      return Step::kOn;
    }
    if (sight.word > 0) counters_.add_one(kEvicted);
    raise(reach_, window + 1);
    return Step::kHere;
  });
}

Decision BucketTable::try_acquire(ResourceKey key, Amount cost, Instant now) {
  return decide(key, hash(key), cost, bucket_.ticks().at(now));
}

template <class CostOf>
void BucketTable::decide_all(std::span<const ResourceKey> keys, std::span<Decision> out,
                             CostOf&& cost_of) {
  assert(out.size() >= keys.size());
  const std::int64_t now = bucket_.ticks().at(clock_.now());
  std::array<std::uint64_t, kAhead> hashes;
  for (std::size_t i = 0; i < keys.size() + kAhead; ++i) {
    std::uint64_t& ahead = hashes[i % kAhead];
    if (i >= kAhead) out[i - kAhead] = decide(keys[i - kAhead], ahead, cost_of(i - kAhead), now);
    if (i < keys.size()) {
      ahead = hash(keys[i]);
      __builtin_prefetch(window(ahead));
      __builtin_prefetch(window(ahead) + kLineSlots);
    }
  }
}

void BucketTable::try_acquire_batch(std::span<const ResourceKey> keys, std::span<Decision> out,
                                    Amount cost) {
  decide_all(keys, out, [cost](std::size_t) { return cost; });
}

void BucketTable::try_acquire_batch(std::span<const ResourceKey> keys,
                                    std::span<const Amount> costs, std::span<Decision> out) {
  assert(costs.size() >= keys.size());
  decide_all(keys, out, [costs](std::size_t i) { return costs[i]; });
}

std::optional<Amount> BucketTable::available(ResourceKey key, Instant now) const {
  const Sight sight = find(key, hash(key), Unsettled::kAwait);
  if (!sight) return {};
  return bucket_.available({sight.word}, now);
}

void BucketTable::refund(ResourceKey key, Amount amount) {
  if (amount <= 0) return;
  const std::uint64_t hashed = hash(key);
  while (const Sight sight = find(key, hashed, Unsettled::kAwait)) {
    TokenBucket::State state{sight.word};
    bucket_.refund(state, amount, {}, {});
    // Not below the instant at which the slot last changed hands, nor to kEmpty.
    state.full_at =
        std::max({state.full_at, forgotten_at_.load(std::memory_order_acquire), Slot::kEmpty + 1});
    if (state.full_at >= sight.word) return;
    raise(atomic(sight.slot->highest), sight.word);
    if (sight.replace_by(state.full_at)) return;
  }
}

bool BucketTable::erase(ResourceKey key) {
  const std::uint64_t hashed = hash(key);
  while (const Sight sight = find(key, hashed, Unsettled::kAwait)) {
    raise(atomic(sight.slot->highest), sight.word);
    if (sight.replace_by(Slot::kErased)) {
      counters_.add_one(kErased);
      return true;
    }
  }
  return false;
}

std::size_t BucketTable::size() const {
  const std::uint64_t gone = counters_.total(kEvicted) + counters_.total(kErased);
  return std::max(counters_.total(kInserted), gone) - gone;
}

std::size_t BucketTable::memory_bytes() const { return sizeof(*this) + slots_.get_deleter().bytes; }

BucketTableMetrics BucketTable::metrics() const {
  return {.admitted = counters_.total(kAdmitted),
          .refused = counters_.total(kRefused),
          .full = counters_.total(kFull),
          .evicted = counters_.total(kEvicted)};
}

}  // namespace weir
