// What algorithm.h promises of the raw steps: a refusal leaves every bit of the state alone.
#include "weir/core/algorithm.h"

#include <gtest/gtest.h>

#include <cstring>
#include <type_traits>

#include "core/random_limit.h"
#include "core/timeline.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using reference::Dice;

template <class State>
bool same(const State& a, const State& b) {
  static_assert(std::has_unique_object_representations_v<State>);
  return std::memcmp(&a, &b, sizeof(State)) == 0;
}
bool same(const SlidingLog::State& a, const SlidingLog::State& b) {
  if (a.first != b.first || a.size != b.size || a.used != b.used) return false;
  for (std::size_t i = 0; i < a.size; ++i) {
    if (a[i].at != b[i].at || a[i].amount != b[i].amount || a[i].opened != b[i].opened) {
      return false;
    }
  }
  return true;
}

template <class A>
A sample() {
  constexpr Rate kRate{7, 11s};
  if constexpr (requires { A::create(BucketSpec{kRate, 5}); }) {
    return A::create(BucketSpec{kRate, 5}).value();
  } else if constexpr (requires { A::create(SteppedSpec{5, 2, 3s}); }) {
    return A::create(SteppedSpec{5, 2, 3s}).value();
  } else if constexpr (requires { A::create(WarmUpSpec{kRate, 5s}); }) {
    return A::create(WarmUpSpec{kRate, 5s}).value();
  } else if constexpr (requires { A::create(kRate); }) {
    return A::create(kRate).value();
  } else {
    return A::create(5).value();
  }
}

template <class A>
class EveryAlgorithm : public testing::Test {};
using Algorithms = testing::Types<TokenBucket, WideTokenBucket, SteppedBucket, FixedWindow,
                                  SlidingWindow, SlidingLog, Concurrency, WarmUp>;
TYPED_TEST_SUITE(EveryAlgorithm, Algorithms);

TYPED_TEST(EveryAlgorithm, LeavesNoTraceOfARefusedRequest) {
  const TypeParam algorithm = sample<TypeParam>();
  Dice dice{2};
  Instant now{5s};
  auto state = algorithm.start(now);
  int refused = 0;
  for (int i = 0; i < 2'000; ++i) {
    now += Nanos{dice.between(-2'000'000'000, 4'000'000'000)};
    const auto before = state;
    const Decision decision = spend(algorithm, state, dice.between(1, 9), now);
    ASSERT_NE(decision.admitted(), same(before, state)) << "step " << i;
    refused += decision.admitted() ? 0 : 1;
  }
  EXPECT_GT(refused, 100);
}

TYPED_TEST(EveryAlgorithm, StartsWithItsWholeCapacity) {
  const TypeParam algorithm = sample<TypeParam>();
  for (Instant now : {Instant::min(), Instant{}, Instant{1h}, kInstantMax, Instant::max()}) {
    const auto state = algorithm.start(now);
    EXPECT_TRUE(algorithm.check(state, algorithm.capacity(), now).admitted());
    if constexpr (!std::is_same_v<TypeParam, WarmUp>) {  // which says 1: the next, of any size
      EXPECT_EQ(algorithm.available(state, now), algorithm.capacity());
    }
  }
}

TYPED_TEST(EveryAlgorithm, SpendsByCheckAndTake) {
  const TypeParam algorithm = sample<TypeParam>();
  auto spent = algorithm.start(Instant{});
  auto taken = algorithm.start(Instant{});
  EXPECT_TRUE(spend(algorithm, spent, 3, Instant{1s}).admitted());
  algorithm.take(taken, 3, Instant{1s});
  EXPECT_TRUE(same(spent, taken));
}

}  // namespace
}  // namespace weir
