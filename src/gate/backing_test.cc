// A gate with a backing behind it: it admits what was granted, and not a unit more.
#include "weir/gate/backing.h"

#include <gtest/gtest.h>

#include "core/random_limit.h"
#include "gate/block_backing_for_test.h"
#include "gate/gate_for_test.h"
#include "gate/recorder_for_test.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using reference::Dice;

constexpr Unit kTokens = Unit::kTokens;

struct BackingTest : GateTest {
  Gate& backed(BlockBacking& behind, std::vector<LimitSpec> limits = {a_token_a_second(100)}) {
    return open({.name = "gate", .limits = std::move(limits), .backing = &behind});
  }

  BlockBacking backing;
};

TEST_F(BackingTest, ABlockIsAllThatIsAdmitted) {
  Gate& gate = backed(backing);
  backing.grant(0, 10);
  EXPECT_TRUE(gate.try_acquire(tokens(4)));
  EXPECT_TRUE(gate.try_spend(6));
  const auto refused = gate.try_acquire(tokens(1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, Refusal::Kind::kWait);
  EXPECT_FALSE(refused.error().exact);
  EXPECT_EQ(available(gate), 90);  // the refused one cost nothing
  EXPECT_EQ(backing.ledger().drawn, 10);
  backing.grant(0, 10);
  EXPECT_TRUE(gate.try_acquire(tokens(1)));
}

TEST_F(BackingTest, IsNotAskedForWhatTheLimitsRefuse) {
  Gate& gate = backed(backing, {a_token_a_second(5)});
  backing.grant(0, 100);
  EXPECT_TRUE(gate.try_acquire(tokens(5)));
  EXPECT_FALSE(gate.try_acquire(tokens(1)));
  EXPECT_FALSE(gate.try_acquire(tokens(6)));
  EXPECT_EQ(backing.asked(), 1);
}

TEST_F(BackingTest, WhatALimitPromisesIsNotExactWithABackingBehindIt) {
  Gate& gate = backed(backing, {a_token_a_second(5)});
  backing.grant(0, 5);
  EXPECT_TRUE(gate.try_acquire(tokens(5)));
  const auto refused = gate.try_acquire(tokens(2));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().retry_after, 2s);
  EXPECT_FALSE(refused.error().exact);
  EXPECT_FALSE(gate.forecast(Cost::of(kTokens, 2), time.now()).exact);
}

TEST_F(BackingTest, AsksForTheUnitsThatHaveALimitSlotsAsWell) {
  Gate& gate = backed(backing, {LimitSpec::concurrency(5), a_token_a_second(100),
                                LimitSpec::fixed_window(kTokens, {50, 60s})});
  for (std::size_t limit : {0U, 1U, 2U}) backing.grant(limit, 40);
  const auto permit = gate.try_acquire({.cost = Cost::call(30).with(Unit::kMicroUsd, 1'000'000)});
  EXPECT_TRUE(permit);
  EXPECT_EQ(backing.ledger(0).drawn, 1);
  EXPECT_EQ(backing.ledger(1).drawn, 30);
  EXPECT_EQ(backing.ledger(2).drawn, 30);
}

TEST_F(BackingTest, AWaiterForABlockIsServedWhenReconsidered) {
  Gate& gate = backed(backing);
  ask(gate, tokens("a", 5));
  ask(gate, tokens("a", 3));
  time.advance(1h);
  EXPECT_EQ(ended_now(), Endings{});
  backing.grant(0, 6);
  EXPECT_EQ(ended_now(), Endings{});
  gate.reconsider();
  EXPECT_EQ(ended_now(), (Endings{{"a", 1h}}));
  backing.grant(0, 2);
  gate.reconsider();
  EXPECT_EQ(ended_now(), (Endings{{"a", 1h}}));
  EXPECT_EQ(backing.left(), 0);
}

TEST_F(BackingTest, AWaiterForABlockKeepsItsDeadline) {
  Gate& gate = backed(backing);
  ask(gate, tokens("a", 5), at(7s));
  time.advance(1h);
  EXPECT_EQ(ended_now(), (Endings{{"a", 7s, Errc::kDeadlineExceeded}}));
  EXPECT_EQ(backing.ledger().drawn, 0);
}

TEST_F(BackingTest, WhatCannotBeSaidIsUnavailableInEveryInterface) {
  Gate& gate = backed(backing);
  backing.grant(0, 100);
  backing.set_reachable(false);
  const auto refused = gate.try_acquire(tokens(1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, Refusal::Kind::kEnded);
  EXPECT_EQ(refused.error().code, Errc::kUnavailable);
  EXPECT_EQ(gate.acquire(tokens(1)).error(), Errc::kUnavailable);
  ask(gate, tokens("a", 1));
  EXPECT_EQ(ended_now(), (Endings{{"a", 0s, Errc::kUnavailable}}));
  EXPECT_EQ(available(gate), 100);
}

TEST_F(BackingTest, WaitersEndAsUnavailableWhenItIsTheirTurnAndTheBackingCannotSay) {
  Recorder recorder;
  Gate& gate = open({.name = "gate",
                     .limits = {a_token_a_second(10)},
                     .backing = &backing,
                     .observer = &recorder});
  backing.grant(0, 100);
  ASSERT_TRUE(gate.try_spend(10));
  ask(gate, tokens("a", 2));
  ask(gate, tokens("a", 1));
  recorder.take();
  backing.set_reachable(false);
  time.advance(1h);
  EXPECT_EQ(ended_now(), (Endings{{"a", 2s, Errc::kUnavailable}, {"a", 2s, Errc::kUnavailable}}));
  EXPECT_EQ(recorder.take(Event::Kind::kAbandoned,
                          [](const RecordedEvent& event) { return event.agent; }),
            (std::vector<std::string>{"a", "a"}));
  gate.close();  // the recorder goes first
}

TEST_F(BackingTest, SettlementGivesBackOrOverdraws) {
  Gate& gate = backed(backing);
  backing.grant(0, 30);
  Permit high = gate.try_acquire(tokens(10)).value();
  Permit low = gate.try_acquire(tokens(10)).value();
  time.advance(3s);
  ASSERT_TRUE(high.settle(tokens(4).cost));
  EXPECT_EQ(backing.ledger(), (BlockBacking::Ledger{30, 14, 0, at(0s)}));
  ASSERT_TRUE(low.settle(tokens(25).cost));
  EXPECT_EQ(backing.ledger(), (BlockBacking::Ledger{30, 14, 15, at(0s)}));
}

TEST_F(BackingTest, SettlementThatGivesBackServesWhoWaitsForABlock) {
  Gate& gate = backed(backing);
  backing.grant(0, 10);
  Permit permit = gate.try_acquire(tokens(10)).value();
  ask(gate, tokens("a", 4));
  ASSERT_TRUE(permit.settle(tokens(6).cost));
  EXPECT_EQ(ended_now(), (Endings{{"a", 0s}}));
  EXPECT_EQ(backing.left(), 0);
}

TEST_F(BackingTest, ARefusalOfTheLowerGateLeavesNothingDrawnAbove) {
  BlockBacking below;
  Gate& upper = backed(backing);
  Gate& lower = open({.name = "lower", .limits = {a_token_a_second(10)}, .backing = &below});
  const Path both = path({&upper, &lower});
  backing.grant(0, 100);
  below.grant(0, 8);
  EXPECT_TRUE(both.try_acquire(tokens(6)));
  EXPECT_FALSE(both.try_acquire(tokens(5)));  // by its limit
  EXPECT_EQ(backing.ledger().drawn, 6);
  EXPECT_FALSE(both.try_acquire(tokens(3)));  // by its backing, after the upper one drew
  EXPECT_EQ(backing.ledger().drawn, 6);
  EXPECT_EQ(backing.ledger().last_given_back, time.now());
  below.set_reachable(false);
  EXPECT_FALSE(both.try_acquire(tokens(2)));
  EXPECT_EQ(backing.ledger().drawn, 6);
  EXPECT_EQ(below.ledger().drawn, 6);
  EXPECT_EQ(available(upper), 94);
  lower.close();  // its backing goes first
}

TEST_F(BackingTest, OnAPathTheWaiterForABlockQueuesWhereTheBlockIsMissing) {
  BlockBacking below;
  Gate& upper = backed(backing);
  Gate& lower = open({.name = "lower", .limits = {a_token_a_second(10)}, .backing = &below});
  const Path both = path({&upper, &lower});
  backing.grant(0, 100);
  ask(both, tokens("a", 4));
  EXPECT_EQ(waiting(lower), 1U);
  EXPECT_EQ(backing.ledger().drawn, 0);
  upper.reconsider();
  EXPECT_EQ(ended_now(), Endings{});
  below.grant(0, 4);
  lower.reconsider();
  EXPECT_EQ(ended_now(), (Endings{{"a", 0s}}));
  EXPECT_EQ(backing.ledger().drawn, 4);
  EXPECT_EQ(below.left(), 0);
  lower.close();
}

// Whatever comes: what the gates admitted, less what was refunded, is what they drew.
TEST_F(BackingTest, AdmitsExactlyWhatItDrawsOnAnyPath) {
  for (std::uint64_t seed = 1; seed <= 200 && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Dice dice{seed};
    std::array<BlockBacking, 2> backings;
    std::vector<std::unique_ptr<Gate>> gates;
    for (BlockBacking& b : backings) {
      gates.push_back(Gate::create({.name = "g",
                                    .limits = {LimitSpec::token_bucket(kTokens, {7, 1s}, 20)},
                                    .backing = &b},
                                   time.source())
                          .value());
    }
    std::array<Amount, 2> used{};
    std::array<Amount, 2> owed{};
    struct Open {
      Permit permit;
      std::vector<std::size_t> through;
    };
    std::vector<Open> held;
    std::vector<Ticket> tickets;
    const std::vector<std::vector<std::size_t>> routes{{0}, {1}, {0, 1}, {1, 0}};
    const auto admitted = [&](Permit permit, const std::vector<std::size_t>& through) {
      for (std::size_t g : through) used[g] += permit.cost()[kTokens];
      held.push_back({std::move(permit), through});
    };
    for (int step = 0; step < 200; ++step) {
      const auto through = routes[static_cast<std::size_t>(dice.between(0, 3))];
      std::vector<Gate*> along;
      for (std::size_t g : through) along.push_back(gates[g].get());
      const Path route = path(along);
      const Request request = tokens(dice.one_in(2) ? "a" : "b", dice.between(1, 20));
      switch (dice.between(0, 7)) {
        case 0:
        case 1:
          if (auto permit = route.try_acquire(request)) admitted(std::move(*permit), through);
          break;
        case 2:
        case 3:
          tickets.push_back(route.acquire_async(
              request,
              dice.one_in(2) ? kEndOfTime : time.now() + Nanos{dice.magnitude(5'000'000'000)},
              [&, through](Result<Permit> permit) {
                if (permit) admitted(std::move(*permit), through);
              }));
          break;
        case 4: {
          const auto g = static_cast<std::size_t>(dice.between(0, 1));
          backings[g].grant(0, dice.between(0, 30));
          backings[g].set_reachable(!dice.one_in(8));
          gates[g]->reconsider();
          break;
        }
        case 5: time.advance(Nanos{dice.magnitude(3'000'000'000)}); break;
        case 6:
          if (!held.empty()) {
            // Settling may serve others, who join `held` meanwhile.
            std::swap(held.back(), held[static_cast<std::size_t>(dice.between(
                                       0, static_cast<std::int64_t>(held.size()) - 1))]);
            Open open = std::move(held.back());
            held.pop_back();
            const Amount actual = dice.between(0, 25);
            const Amount estimate = open.permit.cost()[kTokens];
            ASSERT_TRUE(open.permit.settle(Cost::of(kTokens, actual)));
            for (std::size_t g : open.through) {
              used[g] += std::min<Amount>(actual - estimate, 0);
              owed[g] += std::max<Amount>(actual - estimate, 0);
            }
          }
          break;
        case 7:
          if (!tickets.empty()) tickets[tickets.size() / 2].cancel();
          break;
      }
      for (std::size_t g : {0U, 1U}) {
        const auto ledger = backings[g].ledger();
        ASSERT_EQ(ledger.drawn, used[g]) << "gate " << g << ", step " << step;
        ASSERT_EQ(ledger.overdrawn, owed[g]) << "gate " << g << ", step " << step;
        ASSERT_LE(used[g], ledger.granted);
      }
    }
    for (const auto& gate : gates) gate->close();
    held.clear();
  }
}

}  // namespace
}  // namespace weir
