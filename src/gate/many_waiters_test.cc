// A hundred thousand waiters at once at one gate, without a thread for any of them.
#include <gtest/gtest.h>
#include <malloc.h>

#include <vector>

#include "core/sanitized_for_test.h"
#include "gate/gate_for_test.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

// Of the allocator of the C library; nothing is known where a sanitizer stands in for it.
std::size_t bytes_in_use() {
  if (kSanitized) return 0;
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

struct ManyWaitersTest : testing::Test {
  static constexpr std::size_t kWaiters = kSanitized ? 2'000 : 100'000;
  static constexpr std::size_t kAgents = 100;

  ManyWaitersTest() {
    for (std::size_t i = 0; i < kAgents; ++i) agents.push_back("agent-" + std::to_string(i));
    EXPECT_TRUE(gate->try_acquire(tokens(1)));
    served.reserve(kWaiters);
    tickets.reserve(kWaiters);
  }
  void ask_all() {
    for (std::size_t i = 0; i < kWaiters; ++i) {
      tickets.push_back(gate->acquire_async(tokens(agents[i % kAgents], 1), kEndOfTime,
                                            [this, i](const Result<Permit>& outcome) {
                                              if (outcome) served.push_back(i);
                                              ended += outcome ? 0 : 1;
                                            }));
    }
  }

  SimulatedTime time;
  std::unique_ptr<Gate> gate =
      Gate::create(
          {.name = "gate", .limits = {LimitSpec::token_bucket(Unit::kTokens, {1'000, 1s}, 1)}},
          time.source())
          .value();
  std::vector<std::string> agents;
  std::vector<Ticket> tickets;
  std::vector<std::size_t> served;
  std::size_t ended = 0;
};

TEST_F(ManyWaitersTest, AllAreServedInTurn) {
  ask_all();
  EXPECT_EQ(gate->metrics().waiting, kWaiters);
  time.advance(100s);
  ASSERT_EQ(served.size(), kWaiters);
  // In each round every agent has its next one served.
  std::vector<std::size_t> next(kAgents, 0);
  for (std::size_t i = 0; i < kWaiters; ++i) {
    const std::size_t agent = served[i] % kAgents;
    ASSERT_EQ(served[i] / kAgents, i / kAgents) << "round of the " << i << "th served";
    ASSERT_EQ(served[i], agent + kAgents * next[agent]++);
  }
  EXPECT_EQ(gate->metrics().waiting, 0U);
  EXPECT_EQ(gate->metrics().total_wait, Nanos{1ms} * kWaiters * (kWaiters + 1) / 2);
}

TEST_F(ManyWaitersTest, EachTakesLessThanAKibibyte) {
  const std::size_t before = bytes_in_use();
  ask_all();
  const std::size_t each = (bytes_in_use() - before) / kWaiters;
  RecordProperty("bytes_per_waiter", static_cast<int>(each));
  if (!kSanitized) {
    EXPECT_GT(each, 100U) << "not measured";
  }
  EXPECT_LT(each, 1024U);
}

TEST_F(ManyWaitersTest, AsManyAgentsAsWaitersAreServedToo) {
  for (std::size_t i = 0; i < kWaiters; ++i) {
    gate->acquire_async(tokens(std::to_string(i), 1), time.now() + 1h,
                        [this, i](const Result<Permit>&) { served.push_back(i); });
  }
  time.advance(100s);
  EXPECT_EQ(served.size(), kWaiters);
}

TEST_F(ManyWaitersTest, CancellingEverySecondServesTheOthersInHalfTheTime) {
  ask_all();
  for (std::size_t i = 0; i < kWaiters; i += 2) tickets[i].cancel();
  EXPECT_EQ(ended, kWaiters / 2);
  time.advance(50s);
  EXPECT_EQ(served.size(), kWaiters / 2);
  EXPECT_EQ(gate->metrics().waiting, 0U);
}

TEST_F(ManyWaitersTest, ClosingEndsThemAll) {
  ask_all();
  gate->close();
  EXPECT_EQ(ended, kWaiters);
  EXPECT_EQ(served.size(), 0U);
}

TEST_F(ManyWaitersTest, ARefusalBehindThemAllIsQuick) {
  ask_all();
  for (int i = 0; i < 1'000; ++i) {
    const auto refused = gate->try_acquire(tokens(1));
    ASSERT_FALSE(refused);
    ASSERT_GT(refused.error().retry_after, Nanos{1ms} * kWaiters / 2);
  }
}

}  // namespace
}  // namespace weir
