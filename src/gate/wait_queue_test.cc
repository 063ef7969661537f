// The order of a queue by itself, without limits and time.
#include "gate/wait_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gate/gate_for_test.h"

namespace weir {
namespace {

constexpr std::int64_t kWhole = std::int64_t{1} << 32;  // the share of a whole limit

struct WaitQueueTest : GateTest {
  struct Wish {
    std::string agent;
    std::int64_t share = kWhole;
    std::uint32_t weight = 1;
    int priority = 0;
  };

  Waiter& waiter(const Wish& wish) {
    const Request request{.agent = wish.agent, .priority = wish.priority, .weight = wish.weight};
    waiters_.push_back(std::make_shared<Waiter>(
        Path{gate_}, request, time.now(), kEndOfTime, [](const Result<Permit>&) {},
        waiters_.size()));
    waiters_.back()->share = wish.share;
    return *waiters_.back();
  }
  Waiter& push(const Wish& wish) {
    Waiter& next = waiter(wish);
    queue.push(next);
    return next;
  }
  std::string serve_one() {
    Waiter* head = queue.head();
    if (head == nullptr) return "";
    queue.serve(*head);
    return head->agent;
  }
  // The agents in the order in which they are served.
  std::string serve(int count) {
    std::string order;
    for (int i = 0; i < count; ++i) order += serve_one();
    return order;
  }
  std::string foreseen() const {
    std::string order;
    queue.for_each([&](const Waiter& w) {
      order += w.agent;
      return true;
    });
    return order;
  }

  WaitQueue queue;

 private:
  Gate& gate_ = open({a_token_a_second(1)});
  std::vector<std::shared_ptr<Waiter>> waiters_;
};

TEST_F(WaitQueueTest, AgentsWithTurnsOfOneSizeAlternate) {
  for (int i = 0; i < 3; ++i) push({"a"});
  for (int i = 0; i < 3; ++i) push({"b"});
  const std::string expected = foreseen();
  const std::string order = serve(6);
  EXPECT_EQ(order, expected);
  EXPECT_TRUE(order == "ababab" || order == "bababa") << order;
  EXPECT_TRUE(queue.empty());
}

TEST_F(WaitQueueTest, ALargeTurnComesWhenTheOthersHaveHadAsMuch) {
  push({"L", kWhole});
  for (int i = 0; i < 9; ++i) push({"s", kWhole / 4});
  const std::string expected = foreseen();
  const std::string order = serve(10);
  EXPECT_EQ(order, expected);
  EXPECT_TRUE(order.starts_with("sss")) << order;
  EXPECT_LE(order.find('L'), 4U) << order;
}

TEST_F(WaitQueueTest, WeightsDivideTheTurns) {
  for (int i = 0; i < 12; ++i) {
    push({"a", kWhole, 1});
    push({"b", kWhole, 3});
  }
  const std::string first = serve(8);
  EXPECT_EQ(std::ranges::count(first, 'b'), 6);
}

TEST_F(WaitQueueTest, AWeightOfNothingCountsAsOne) {
  for (int i = 0; i < 4; ++i) {
    push({"a", kWhole, 0});
    push({"b", kWhole, 1});
  }
  EXPECT_EQ(std::ranges::count(serve(4), 'a'), 2);
}

TEST_F(WaitQueueTest, WhoWasIdleHasSavedNothingUp) {
  for (int i = 0; i < 20; ++i) push({"a"});
  serve(10);
  for (int i = 0; i < 10; ++i) push({"b"});
  EXPECT_LE(std::ranges::count(serve(10), 'b'), 6);
}

TEST_F(WaitQueueTest, WhoHasHadItsTurnElsewhereGoesFirstInOrderOfArrival) {
  Waiter& early = waiter({"x"});
  push({"a"});
  Waiter& late = waiter({"y"});
  queue.push_first(late);
  queue.push_first(early);
  EXPECT_EQ(foreseen(), "xya");
  EXPECT_EQ(serve(3), "xya");
}

TEST_F(WaitQueueTest, WhoHasHadItsTurnElsewhereStillYieldsToAHigherPriority) {
  queue.push_first(waiter({"x"}));
  push({"a", kWhole, 1, 1});
  EXPECT_EQ(queue.top_priority(), 1);
  EXPECT_EQ(foreseen(), "ax");
  EXPECT_EQ(serve(2), "ax");
  EXPECT_EQ(queue.top_priority(), std::nullopt);
}

TEST_F(WaitQueueTest, LeavingWithoutATurnCostsNothing) {
  Waiter& leaves = push({"a", 100 * kWhole});
  push({"b", 2 * kWhole});
  push({"a", kWhole});
  queue.remove(leaves);
  EXPECT_EQ(serve(2), "ab");
}

TEST_F(WaitQueueTest, ACorrectionMovesTheNextTurn) {
  for (int i = 0; i < 4; ++i) {
    push({"a"});
    push({"b"});
  }
  const std::string first = serve(2);
  EXPECT_TRUE(first == "ab" || first == "ba");
  const std::uint64_t a = std::hash<std::string_view>{}("a") | 1U;
  queue.correct(0, a, 2 * kWhole);  // its turn has cost three times as much
  EXPECT_EQ(foreseen().substr(0, 2), "bb");
  EXPECT_EQ(serve(2), "bb");
  queue.correct(0, a, -3 * kWhole);
  EXPECT_EQ(serve(2), "aa");
  queue.correct(7, a, kWhole);  // no such priority, no such agent: nothing to correct
  queue.correct(0, 1, kWhole);
}

TEST_F(WaitQueueTest, RandomQueuesAreServedAsForeseen) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::minstd_rand dice{seed};
    for (int i = 0; i < 40; ++i) {
      push({.agent = std::string(1, static_cast<char>('a' + dice() % 5)),
            .share = static_cast<std::int64_t>(dice() % 1000 + 1) * (kWhole / 500),
            .weight = static_cast<std::uint32_t>(dice() % 4),
            .priority = static_cast<int>(dice() % 3)});
      if (dice() % 3 == 0) serve_one();
    }
    const std::string expected = foreseen();
    ASSERT_EQ(serve(static_cast<int>(queue.size())), expected);
    ASSERT_TRUE(queue.empty());
  }
}

}  // namespace
}  // namespace weir
