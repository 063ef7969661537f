// Real threads on overlapping paths: no deadlock, all or none, everything given back.
#include <gtest/gtest.h>

#include <array>

#include "gate/gate_for_test.h"
#include "gate/real_time_for_test.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr Unit kTokens = Unit::kTokens;

struct PathThreadsTest : testing::Test {
  static constexpr Amount kSlots = 2;

  PathThreadsTest() {
    for (int i = 0; i < 3; ++i) {
      gates.push_back(
          real.gate({.name = std::to_string(i),
                     .limits = {LimitSpec::concurrency(kSlots),
                                LimitSpec::token_bucket(kTokens, {1'000'000, 1s}, 1'000)}}));
    }
  }
  void expect_all_given_back() {
    for (const auto& gate : gates) {
      const GateMetrics metrics = gate->metrics();
      EXPECT_EQ(metrics.waiting, 0U);
      EXPECT_EQ(metrics.limits[0].available, kSlots);
    }
  }

  // Every order of overlap.
  const std::vector<std::vector<std::size_t>> routes{{0, 1},    {1, 0},    {0, 1, 2}, {2, 0},
                                                     {1, 2, 0}, {2, 1, 0}, {1},       {2, 1}};
  Path route(std::size_t which) {
    std::vector<Gate*> along;
    for (std::size_t i : routes[which % routes.size()]) along.push_back(gates[i].get());
    return Path::create(along).value();
  }

  RealTime<> real;
  std::vector<std::unique_ptr<Gate>> gates;
};

TEST_F(PathThreadsTest, OverlappingPathsInOppositeOrdersAllGetThrough) {
  std::array<Occupancy, 3> occupancy;
  std::array<std::atomic<Amount>, 3> used{};
  const Instant start = real.clock.now();
  in_threads(4, [&](int thread) {
    const std::string agent = std::to_string(thread);
    for (std::size_t i = 0; i < 400; ++i) {
      const std::size_t which = i + static_cast<std::size_t>(thread) * 3;
      const Request request{.cost = Cost::call(1 + static_cast<Amount>(i % 5)), .agent = agent};
      Permit permit;
      if (i % 4 == 0) {
        auto tried = route(which).try_acquire(request);
        if (!tried) continue;
        permit = std::move(*tried);
      } else {
        auto waited = route(which).acquire(request);
        ASSERT_TRUE(waited);
        permit = std::move(*waited);
      }
      for (std::size_t gate : routes[which % routes.size()]) {
        occupancy[gate].enter();
        used[gate] += permit.cost()[kTokens];
      }
      if (i % 3 == 0) {
        ASSERT_TRUE(permit.settle(Cost::of(kTokens, 1)));
        for (std::size_t gate : routes[which % routes.size()]) {
          used[gate] -= permit.cost()[kTokens] - 1;
        }
      }
      for (std::size_t gate : routes[which % routes.size()]) occupancy[gate].leave();
    }
  });
  const Amount earned = (real.clock.now() - start) / 1us + 1;
  for (std::size_t gate = 0; gate < 3; ++gate) {
    EXPECT_LE(occupancy[gate].most(), kSlots);
    EXPECT_LE(used[gate], 1'000 + earned);
  }
  expect_all_given_back();
}

TEST_F(PathThreadsTest, CancellationsAndDeadlinesRacingWithGrantsEndEachWaitOnce) {
  constexpr std::size_t kEach = 500;
  Tally tally{3 * kEach};
  in_threads(3, [&](int thread) {
    std::vector<Ticket> tickets;
    for (std::size_t i = 0; i < kEach; ++i) {
      const std::size_t id = static_cast<std::size_t>(thread) * kEach + i;
      tickets.push_back(
          route(id).acquire_async({.cost = Cost::call(1), .agent = i % 2 == 0 ? "a" : "b"},
                                  i % 3 == 0 ? real.clock.now() + 30us : kEndOfTime,
                                  [&, id](Result<Permit> outcome) { tally.note(id, outcome); }));
      if (i % 2 == 0) tickets[i / 2].cancel();
    }
  });
  tally.wait_for_all();
  tally.expect_each_once();
  expect_all_given_back();
}

TEST_F(PathThreadsTest, ClosingOneGateEndsTheWaitsOfAllPathsThroughIt) {
  constexpr std::size_t kEach = 300;
  Tally tally{3 * kEach};
  std::vector<Permit> held;
  for (int i = 0; i < kSlots; ++i) held.push_back(gates[1]->try_acquire(slots("x")).value());
  in_threads(4, [&](int thread) {
    if (thread == 3) {
      while (tally.done() + gates[1]->metrics().waiting < kEach) std::this_thread::yield();
      return gates[0]->close(Errc::kResourceUnknown);
    }
    for (std::size_t i = 0; i < kEach; ++i) {
      const std::size_t id = static_cast<std::size_t>(thread) * kEach + i;
      route(id).acquire_async({.cost = Cost::call(1), .agent = "a"}, kEndOfTime,
                              [&, id](Result<Permit> outcome) {
                                if (!outcome) {
                                  EXPECT_EQ(outcome.error(), Errc::kResourceUnknown);
                                }
                                tally.note(id, outcome);
                              });
    }
  });
  held.clear();
  tally.wait_for_all();
  tally.expect_each_once();
  EXPECT_GE(tally.admitted(), 3 * kEach / 4) << "two routes in eight do not pass it";
  expect_all_given_back();
}

TEST_F(PathThreadsTest, ChangingLimitsOfOneGateLosesNobodyOnItsPaths) {
  std::atomic<int> working = 3;
  in_threads(4, [&](int thread) {
    if (thread == 3) {
      for (int i = 0; working > 0; ++i) {
        ASSERT_TRUE(
            gates[1]->set_limits({LimitSpec::concurrency(kSlots - i % 2),
                                  LimitSpec::token_bucket(kTokens, {1'000'000, 1s}, 1'000)}));
        std::this_thread::yield();
      }
      return;
    }
    for (std::size_t i = 0; i < 300; ++i) {
      ASSERT_TRUE(route(i + static_cast<std::size_t>(thread)).acquire({.cost = Cost::call(1)}));
    }
    --working;
  });
  ASSERT_TRUE(gates[1]->set_limits({LimitSpec::concurrency(kSlots)}));
  expect_all_given_back();
}

}  // namespace
}  // namespace weir
