#include "weir/gate/bucket_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "weir/time/simulated_time.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr BucketSpec kFiveASecond{.rate = {5, 1s}, .burst = 5};
// The fewest slots that a table has, whatever its capacity.
constexpr std::size_t kSlotsMin = 8;

ResourceKey numbered(std::uint64_t i) { return {.low = i, .high = 0}; }

struct BucketTableTest : testing::Test {
  std::unique_ptr<BucketTable> make(BucketSpec limit, std::size_t capacity = 1000) {
    return BucketTable::create({.limit = limit, .capacity = capacity}, time).value();
  }

  // Spends 1 on new resources, numbered from `first`, until 100 in a row find no place. The ones
  // that did.
  std::vector<ResourceKey> fill(BucketTable& table, std::uint64_t first) {
    std::vector<ResourceKey> admitted;
    for (int refused = 0; refused < 100; ++first) {
      const bool placed = table.try_acquire(numbered(first)).admitted();
      refused = placed ? 0 : refused + 1;
      if (placed) admitted.push_back(numbered(first));
    }
    return admitted;
  }

  SimulatedTime time;
};

TEST(ResourceKeyTest, ShortNamesAreToldApart) {
  const std::string_view kLetters = "abcdefghijklmno";
  std::vector<std::string> names;
  for (std::size_t n = 0; n <= kLetters.size(); ++n) {
    names.emplace_back(kLetters.substr(0, n));
    names.emplace_back(n, '\0');
    names.emplace_back(n, '\xff');
    for (std::size_t i = 0; i < n; ++i) {
      names.emplace_back(kLetters.substr(0, n)).at(i) = '\0';
    }
  }
  const std::set<std::string> distinct(names.begin(), names.end());
  std::set<std::pair<std::uint64_t, std::uint64_t>> keys;
  for (const std::string& name : distinct) {
    const ResourceKey key = ResourceKey::of(name);
    EXPECT_EQ(key, ResourceKey::of(std::string(name)));
    keys.emplace(key.low, key.high);
  }
  EXPECT_EQ(keys.size(), distinct.size());
}

TEST(ResourceKeyTest, ALongNameIsNoShortOne) {
  std::set<std::pair<std::uint64_t, std::uint64_t>> keys;
  for (std::size_t n = 16; n < 1016; ++n) {
    const ResourceKey key = ResourceKey::of(std::string(n, 'x'));
    EXPECT_EQ(key, ResourceKey::of(std::string(n, 'x')));
    EXPECT_GT(key.high >> 56, 15U) << "the last byte of a short name's key is its length";
    keys.emplace(key.low, key.high);
  }
  EXPECT_EQ(keys.size(), 1000U);
}

// The vectors of the authors' reference implementation: key 00 01 … 0f, message 00 01 …
TEST(SipHashTest, GivesThePublishedResults) {
  const struct {
    std::size_t length;
    ResourceKey result;
  } kVectors[] = {
      {0, {0xe6a825ba047f81a3, 0x930255c71472f66d}}, {1, {0x44af996bd8c187da, 0x45fc229b11597634}},
      {2, {0xc75da4a48d227781, 0xe4ff0af6de8ba3fc}}, {7, {0x53c1dbd8beebf1a1, 0x3982f01fa64ab8c0}},
      {8, {0x61f55862baa9623b, 0xb49714f364e2830f}}, {15, {0x11a8b03399e99354, 0xd9c3cf970fec087e}},
  };
  std::string message;
  for (const auto& [length, result] : kVectors) {
    while (message.size() < length) message.push_back(static_cast<char>(message.size()));
    const ResourceKey hash =
        detail::siphash_2_4_128(message, {.low = 0x0706050403020100, .high = 0x0f0e0d0c0b0a0908});
    EXPECT_EQ(hash, result) << length;
  }
}

TEST_F(BucketTableTest, CreationNamesWhatIsOutOfRange) {
  const auto error = [&](BucketSpec limit, std::size_t capacity) {
    return BucketTable::create({.limit = limit, .capacity = capacity}, time).error();
  };
  EXPECT_EQ(error(kFiveASecond, 0), Errc::kInvalidCapacity);
  const Error huge = error(kFiveASecond, BucketTable::kCapacityMax + 1);
  EXPECT_EQ(huge, Errc::kInvalidCapacity);
  EXPECT_NE(huge.message.find("1073741825"), std::string::npos) << huge.message;

  EXPECT_EQ(error({.rate = {5, 1s}, .burst = 0}, 10), Errc::kInvalidLimit);
  const Error awkward = error({.rate = {999'999'937, 1s}, .burst = 5}, 10);
  EXPECT_EQ(awkward, Errc::kInvalidLimit);
  EXPECT_NE(awkward.message.find("999999937"), std::string::npos) << awkward.message;
}

TEST_F(BucketTableTest, RefusesTheSixthOfABurstOfFiveAndSaysWhen) {
  const auto table = make(kFiveASecond);
  const ResourceKey agent = ResourceKey::of("agent-1");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(table->try_acquire(agent), Decision::admit());
  EXPECT_EQ(table->try_acquire(agent), Decision::wait(200ms));
  EXPECT_EQ(table->try_acquire(agent, 5), Decision::wait(1s));
  time.advance(200ms - 1ns);
  EXPECT_EQ(table->try_acquire(agent), Decision::wait(1ns));
  EXPECT_EQ(table->try_acquire(agent, 1, time.now() + 1ns), Decision::admit());

  EXPECT_EQ(table->try_acquire(ResourceKey::of("agent-2"), 5), Decision::admit())
      << "every resource has a bucket of its own";
  EXPECT_EQ(table->metrics().admitted, 7U);
  EXPECT_EQ(table->metrics().refused, 3U);
}

TEST_F(BucketTableTest, SaysNeverToWhatCannotFitAndRemembersNothingOfIt) {
  const auto table = make(kFiveASecond);
  EXPECT_EQ(table->try_acquire(numbered(1), 6), Decision::never());
  EXPECT_EQ(table->try_acquire(numbered(1), -1), Decision::never());
  EXPECT_EQ(table->try_acquire(numbered(1), 0), Decision::admit());
  EXPECT_EQ(table->size(), 0U);
  EXPECT_EQ(table->available(numbered(1)), std::nullopt);

  EXPECT_EQ(table->try_acquire(numbered(1), 5), Decision::admit());
  EXPECT_EQ(table->try_acquire(numbered(1), 0), Decision::admit());
  EXPECT_EQ(table->available(numbered(1)), 0);
}

TEST_F(BucketTableTest, ARefundIsNeverPastTheBurst) {
  const auto table = make(kFiveASecond);
  table->refund(numbered(1), 3);
  EXPECT_EQ(table->size(), 0U);
  EXPECT_EQ(table->try_acquire(numbered(1), 5), Decision::admit());
  table->refund(numbered(1), 2);
  EXPECT_EQ(table->available(numbered(1)), 2);
  table->refund(numbered(1), 0);
  table->refund(numbered(1), -2);
  EXPECT_EQ(table->available(numbered(1)), 2);
  table->refund(numbered(1), kAmountMax);
  EXPECT_EQ(table->available(numbered(1)), 5);
  EXPECT_EQ(table->try_acquire(numbered(1), 5), Decision::admit());
  EXPECT_EQ(table->try_acquire(numbered(1)), Decision::wait(200ms));
}

TEST_F(BucketTableTest, WorksFromTheFirstInstantOn) {
  const auto table = make(kFiveASecond, 1);
  EXPECT_EQ(table->try_acquire(numbered(1), 5, Instant{}), Decision::admit());
  table->refund(numbered(1), 5);
  EXPECT_EQ(table->available(numbered(1), Instant{}), 4) << "tick 0 is not a state";
  EXPECT_EQ(table->try_acquire(numbered(2), 5, Instant{-1s}), Decision::admit());
  EXPECT_EQ(table->try_acquire(numbered(2), 1, Instant{}), Decision::wait(200ms));
}

TEST_F(BucketTableTest, ErasingForgets) {
  const auto table = make(kFiveASecond);
  EXPECT_FALSE(table->erase(numbered(1)));
  EXPECT_EQ(table->try_acquire(numbered(1), 5), Decision::admit());
  EXPECT_EQ(table->try_acquire(numbered(2), 5), Decision::admit());
  EXPECT_EQ(table->size(), 2U);
  EXPECT_TRUE(table->erase(numbered(1)));
  EXPECT_FALSE(table->erase(numbered(1)));
  EXPECT_EQ(table->size(), 1U);
  EXPECT_EQ(table->available(numbered(1)), std::nullopt);
  EXPECT_EQ(table->available(numbered(2)), 0);
  EXPECT_EQ(table->try_acquire(numbered(1), 5), Decision::admit());
  EXPECT_EQ(table->try_acquire(numbered(1)), Decision::wait(200ms));
  EXPECT_EQ(table->size(), 2U);
}

// Against a map that forgets nothing: forgetting what is idle and full changes no answer.
TEST_F(BucketTableTest, AnswersAsAMapOfBucketsWould) {
  constexpr std::uint64_t kResources = 300;
  const BucketSpec kLimits[] = {kFiveASecond,
                                {.rate = {1, 3s}, .burst = 7},
                                {.rate = {7, 11min}, .burst = 3},
                                {.rate = {99'991, 1min}, .burst = 20}};
  for (const BucketSpec& limit : kLimits) {
    const auto bucket = TokenBucket::create(limit).value();
    const auto table = make(limit, kResources);
    std::map<std::uint64_t, TokenBucket::State> states;
    std::mt19937_64 random(static_cast<std::uint64_t>(limit.burst));
    const auto below = [&](std::uint64_t n) { return random() % n; };
    const Nanos unit = limit.rate.period / limit.rate.amount;
    for (int step = 0; step < 50'000; ++step) {
      time.advance(below(20) == 0 ? unit * static_cast<int>(below(10)) : unit / 100);
      const std::uint64_t name = below(10) == 0 ? below(kResources) : below(20);
      const ResourceKey key = numbered(name);
      const auto amount = static_cast<Amount>(1 + below(static_cast<std::uint64_t>(limit.burst)));
      TokenBucket::State& state = states.try_emplace(name, bucket.start(time.now())).first->second;
      switch (below(20)) {
        case 0:
          table->refund(key, amount);
          bucket.refund(state, amount, time.now(), time.now());
          break;
        case 1:
          table->erase(key);
          state = bucket.start(time.now());
          break;
        default:
          ASSERT_EQ(table->try_acquire(key, amount), spend(bucket, state, amount, time.now()))
              << "step " << step;
      }
      ASSERT_EQ(table->available(key).value_or(limit.burst), bucket.available(state, time.now()))
          << "step " << step;
    }
    EXPECT_EQ(table->metrics().full, 0U);
    EXPECT_GT(table->metrics().evicted, 0U);
    EXPECT_LE(table->size(), kResources);
  }
}

TEST_F(BucketTableTest, ABatchAnswersAsOneByOne) {
  const auto one_by_one = make(kFiveASecond);
  const auto batch = make(kFiveASecond);
  const auto batch_of_costs = make(kFiveASecond);
  std::mt19937_64 random(1);
  for (const std::size_t n : std::vector<std::size_t>{0, 1, 2, 15, 16, 17, 31, 33, 256, 1000}) {
    std::vector<ResourceKey> keys(n);
    for (ResourceKey& key : keys) key = numbered(random() % 100);  // some come twice
    std::vector<Amount> costs(n);
    for (Amount& cost : costs) cost = static_cast<Amount>(random() % 7);
    std::vector<Decision> expected(n);
    std::vector<Decision> decisions(n);

    for (std::size_t i = 0; i < n; ++i) expected[i] = one_by_one->try_acquire(keys[i], 2);
    batch->try_acquire_batch(keys, decisions, 2);
    EXPECT_EQ(decisions, expected);
    batch_of_costs->try_acquire_batch(keys, std::vector<Amount>(n, 2), decisions);
    EXPECT_EQ(decisions, expected);

    for (std::size_t i = 0; i < n; ++i) expected[i] = one_by_one->try_acquire(keys[i], costs[i]);
    batch_of_costs->try_acquire_batch(keys, costs, decisions);
    EXPECT_EQ(decisions, expected);
    for (std::size_t i = 0; i < n; ++i) batch->try_acquire(keys[i], costs[i]);
    time.advance(100ms);
  }
}

TEST_F(BucketTableTest, AFullTableRefusesNewResourcesServesKnownOnesAndCounts) {
  const auto table = make(kFiveASecond, 30);
  const auto known = fill(*table, 0);
  EXPECT_GE(known.size(), 30U);
  EXPECT_EQ(table->size(), known.size());
  EXPECT_GE(table->metrics().full, 100U);

  const Decision refusal = table->try_acquire(numbered(1'000'000));
  EXPECT_EQ(refusal.kind, Decision::Kind::kWait);
  EXPECT_FALSE(refusal.exact);
  EXPECT_GT(refusal.retry_after, 0s);
  EXPECT_EQ(table->metrics().refused, 0U);
  for (const ResourceKey key : known) {
    EXPECT_EQ(table->available(key), 4);
    EXPECT_EQ(table->try_acquire(key, 4), Decision::admit());
  }
}

TEST_F(BucketTableTest, EvictsNothingBeforeItsBucketIsFull) {
  const auto table = make(kFiveASecond, 30);
  const auto known = fill(*table, 0);
  time.advance(200ms);  // full again at this very instant
  EXPECT_TRUE(fill(*table, 1000).empty());
  EXPECT_EQ(table->metrics().evicted, 0U);
  for (const ResourceKey key : known) EXPECT_EQ(table->available(key), 5);

  EXPECT_EQ(table->try_acquire(known[0], 5), Decision::admit());
  EXPECT_EQ(table->try_acquire(known[1], 1), Decision::admit());
  time.advance(1ns);
  const auto later = fill(*table, 2000);
  EXPECT_GE(later.size() + 2, 30U);
  EXPECT_EQ(table->metrics().evicted, later.size());
  EXPECT_EQ(table->available(known[0]), 0);
  EXPECT_EQ(table->available(known[1]), 4);
}

// A thread that has read a slot and sleeps must not find the same word under another name.
TEST_F(BucketTableTest, ARefundedOrErasedResourceKeepsItsPlaceUntilItWouldHaveBeenFull) {
  const auto table = make(kFiveASecond, 30);
  const auto known = fill(*table, 0);
  for (std::size_t i = 0; i < known.size(); ++i) {
    EXPECT_EQ(table->try_acquire(known[i], 4), Decision::admit());
    if (i % 2 == 0) {
      table->refund(known[i], 5);
      EXPECT_EQ(table->available(known[i]), 5);
    } else {
      EXPECT_TRUE(table->erase(known[i]));
    }
  }
  time.advance(1s);
  EXPECT_TRUE(fill(*table, 1000).empty());
  time.advance(1ns);
  EXPECT_GE(fill(*table, 2000).size(), 30U);
}

TEST_F(BucketTableTest, AClockThatRunsBackwardsMintsNothing) {
  const auto table = make(kFiveASecond, 1);
  EXPECT_EQ(table->try_acquire(numbered(0), 5), Decision::admit());
  time.advance(2s);
  // Full since a second; new resources drive it out.
  for (std::uint64_t i = 1; table->available(numbered(0)).has_value(); ++i) {
    ASSERT_LT(i, 100 * kSlotsMin);
    table->try_acquire(numbered(i), 5);
  }
  time.step_back(1900ms);
  EXPECT_EQ(table->try_acquire(numbered(0), 5), Decision::admit()) << "as of 2 s";
  EXPECT_EQ(table->try_acquire(numbered(0)), Decision::wait(2100ms));
  table->refund(numbered(0), kAmountMax);
  EXPECT_EQ(table->try_acquire(numbered(0), 5), Decision::wait(1900ms)) << "full at 2 s";
}

TEST_F(BucketTableTest, HasRoomForItsCapacityHoweverNamesAreChosen) {
  constexpr std::size_t kCapacity = 20'000;
  using Name = ResourceKey (*)(std::uint64_t);
  const Name kNames[] = {
      [](std::uint64_t i) -> ResourceKey { return {i, 0}; },
      [](std::uint64_t i) -> ResourceKey { return {0, i}; },
      [](std::uint64_t i) -> ResourceKey { return {i << 44, ~i << 44}; },
      [](std::uint64_t i) -> ResourceKey { return {i << 32, i << 32}; },
      [](std::uint64_t i) -> ResourceKey { return {i, ~i}; },
      [](std::uint64_t i) -> ResourceKey { return {i % 150, i / 150}; },
      [](std::uint64_t i) {
        return ResourceKey::of("10.0." + std::to_string(i / 256) + '.' + std::to_string(i % 256));
      },
      [](std::uint64_t i) {
        return ResourceKey::of("an agent with a long name " + std::to_string(i));
      },
  };
  for (const Name name : kNames) {
    const auto table = make(kFiveASecond, kCapacity);
    for (std::uint64_t i = 0; i < kCapacity; ++i) table->try_acquire(name(i), 3);
    EXPECT_EQ(table->size(), kCapacity);
    EXPECT_EQ(table->metrics().full, 0U);
    for (std::uint64_t i = 0; i < kCapacity; ++i) ASSERT_EQ(table->available(name(i)), 2);
  }
}

TEST_F(BucketTableTest, TakesLessThan43BytesForEachOfAMillion) {
  const auto table = make(kFiveASecond, 1'000'000);
  EXPECT_LT(table->memory_bytes(), 43'000'000U);
}

// Real threads from here on.
struct BucketTableThreadsTest : BucketTableTest {
  static constexpr std::size_t kThreads = 4;

  // Runs body(thread) on all threads.
  template <class Body>
  static void in_parallel(Body&& body) {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) threads.emplace_back([&body, i] { body(i); });
  }
};

TEST_F(BucketTableThreadsTest, AdmitExactlyTheBurstOfEachWhoeverInsertsIt) {
  constexpr std::uint64_t kResources = 5000;
  const auto table = make(kFiveASecond, kResources);
  std::vector<std::vector<int>> admitted(kThreads, std::vector<int>(kResources));
  in_parallel([&](std::size_t thread) {
    std::vector<std::uint64_t> order(kResources);
    std::mt19937_64 random(thread / 2);  // two and two in the same order
    for (int round = 0; round < 3; ++round) {
      for (std::uint64_t i = 0; i < kResources; ++i) order[i] = i;
      std::ranges::shuffle(order, random);
      for (const std::uint64_t i : order) {
        // A grid of names, so that halves of two make a third.
        admitted[thread][i] += table->try_acquire({.low = i % 70, .high = i / 70}).admitted();
      }
    }
  });
  for (std::uint64_t i = 0; i < kResources; ++i) {
    int total = 0;
    for (const auto& counts : admitted) total += counts[i];
    ASSERT_EQ(total, 5) << i;
  }
  EXPECT_EQ(table->size(), kResources) << "none twice";
  EXPECT_EQ(table->metrics().admitted, 5 * kResources);
  EXPECT_EQ(table->metrics().refused, 7 * kResources);
}

// Rounds at a standing clock. In each one all threads ask a random part of the resources for more
// than they have, and for names that never come again and drive out whatever is idle, some of
// which are erased or refunded meanwhile.
TEST_F(BucketTableThreadsTest, AdmitExactlyWhatABucketWouldWhileOthersEvictEraseAndRefund) {
  constexpr std::uint64_t kResources = 100;
  constexpr int kRounds = 200;
  constexpr std::uint64_t kPassers = 50;  // a round and thread
  const BucketSpec limit{.rate = {1, 1s}, .burst = 3};
  const auto bucket = TokenBucket::create(limit).value();
  const auto table = make(limit, 1200);
  std::vector<TokenBucket::State> states(kResources, bucket.start(time.now()));
  std::vector<std::atomic<int>> admitted(kResources);

  int round = 0;
  std::uint64_t wanted = ~0ULL;
  const auto is_wanted = [&](std::uint64_t i) { return (wanted >> (i % 64) & 1) != 0; };
  std::mt19937_64 choices(7);
  std::barrier barrier(kThreads, [&]() noexcept {
    for (std::uint64_t i = 0; i < kResources; ++i) {
      int expected = 0;
      while (is_wanted(i) && spend(bucket, states[i], 1, time.now()).admitted()) ++expected;
      EXPECT_EQ(admitted[i].exchange(0), expected) << "resource " << i << " in round " << round;
    }
    time.advance(1500ms);
    wanted = choices() & choices() & choices();
    ++round;
  });
  in_parallel([&](std::size_t thread) {
    std::mt19937_64 random(thread);
    while (round < kRounds) {
      for (std::uint64_t i = 0; i < kPassers; ++i) {
        // A passer's name shares a half with those of the resources.
        const ResourceKey passer{.low = i, .high = random() | 1};
        EXPECT_TRUE(table->try_acquire(passer).admitted());
        if (i % 5 == 0) table->refund(passer, 1);
        if (i % 5 == 1) table->erase(passer);
        for (std::uint64_t j = 0; j < 4; ++j) {
          const std::uint64_t wish = (i * 4 + j * (thread + 1)) % kResources;
          if (is_wanted(wish)) admitted[wish] += table->try_acquire({.low = wish}).admitted();
        }
      }
      for (std::uint64_t i = 0; i < kResources; ++i) {
        if (is_wanted(i)) admitted[i] += table->try_acquire({.low = i}).admitted();
      }
      barrier.arrive_and_wait();
    }
  });
  EXPECT_EQ(table->metrics().full, 0U);
  EXPECT_GT(table->metrics().evicted, kRounds * kPassers);
}

// Rounds at a standing clock, each of which begins with all that the table knows idle: threads race
// for the slots of a table that is too small, and for resources that others are driving out.
TEST_F(BucketTableThreadsTest, ChargeEveryAdmissionToItsOwnResource) {
  constexpr std::uint64_t kResources = 3 * kSlotsMin;
  constexpr int kRounds = 1000;
  constexpr Amount kBurst = 1000;
  const auto table = make({.rate = {1, 1s}, .burst = kBurst}, 1);
  const auto name = [](std::uint64_t i) -> ResourceKey { return {.low = i / 7, .high = i % 7}; };
  std::vector<std::atomic<Amount>> spent(kResources);
  int round = 0;
  std::barrier barrier(kThreads, [&]() noexcept {
    for (std::uint64_t i = 0; i < kResources; ++i) {
      EXPECT_EQ(table->available(name(i)).value_or(kBurst), kBurst - spent[i].exchange(0))
          << "resource " << i << " in round " << round;
    }
    time.advance(kBurst * 1s + 1ns);
    ++round;
  });
  in_parallel([&](std::size_t thread) {
    std::mt19937_64 random(thread);
    while (round < kRounds) {
      for (int i = 0; i < 40; ++i) {
        const std::uint64_t resource = random() % kResources;
        const auto cost = static_cast<Amount>(1 + random() % 3);
        if (!table->try_acquire(name(resource), cost).admitted()) continue;
        spent[resource] += cost;
        if (random() % 4 == 0) {
          table->refund(name(resource), 1);
          --spent[resource];
        }
      }
      barrier.arrive_and_wait();
    }
  });
  EXPECT_GT(table->metrics().evicted, static_cast<std::uint64_t>(kRounds));
  EXPECT_GT(table->metrics().full, 0U);
}

// All on a handful of names, in a table that has no room for them.
TEST_F(BucketTableThreadsTest, AdmitNoMoreThanGrantedInAFullTable) {
  constexpr std::uint64_t kResources = 3 * kSlotsMin;
  constexpr int kAttempts = 5000;
  const auto table = make(kFiveASecond, 1);
  std::vector<std::atomic<Amount>> held(kResources);  // admitted less refunded
  std::vector<std::atomic<Amount>> erasures(kResources);
  in_parallel([&](std::size_t thread) {
    std::mt19937_64 random(thread);
    for (int i = 0; i < kAttempts; ++i) {
      const std::uint64_t resource = random() % kResources;
      const ResourceKey key = numbered(resource);
      const auto cost = static_cast<Amount>(1 + random() % 3);
      if (table->try_acquire(key, cost).admitted()) {
        held[resource] += cost;
        if (random() % 2 == 0) {
          held[resource] -= cost;
          table->refund(key, cost);
        }
      }
      if (random() % 1000 == 0 && table->erase(key)) ++erasures[resource];
    }
  });
  for (std::uint64_t i = 0; i < kResources; ++i) {
    EXPECT_LE(held[i], 5 * (1 + erasures[i])) << i;
  }
  const BucketTableMetrics metrics = table->metrics();
  EXPECT_EQ(metrics.admitted + metrics.refused + metrics.full, kThreads * kAttempts);
  EXPECT_EQ(metrics.evicted, 0U);
  EXPECT_LE(table->size(), kSlotsMin);
}

}  // namespace
}  // namespace weir
