#include "server/permit_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "provider/resources_for_test.h"

namespace weir::server {
namespace {

using namespace std::chrono_literals;

struct PermitTableTest : ResourcesTest {
  PermitTableTest() {
    LimitConfig slots{.spec = LimitSpec::concurrency(5)};
    slots.spec.name = "slots";
    EXPECT_TRUE(
        resources.apply({provider("api", {named("tokens", tokens_each(1'000, 24h)), slots})}));
  }

  // Admitted with 100 tokens and a slot; the table's from now on.
  std::string hold(Nanos lifetime = 10min, const std::string& client = "me") {
    Passage passage = pass("api", {.agent = "worker"}, 100);
    EXPECT_TRUE(passage);
    return table->add({.resource = std::move(passage.resource),
                       .route = std::move(passage.route),
                       .permit = std::move(*passage.outcome),
                       .agent = "worker",
                       .client = client,
                       .lifetime = lifetime,
                       .since = time.now()});
  }
  Amount available(std::string_view limit) {
    for (const LimitStatus& status : resources.find("api")->gate().metrics().limits) {
      if (status.name == limit) return status.available;
    }
    return -1;
  }
  // Holds nothing: for counting alone.
  PermitTable::Held empty(const std::string& client) {
    auto resource = resources.find("api");
    auto route = resource->route({}).value();
    return {.resource = std::move(resource),
            .route = std::move(route),
            .permit = {},
            .agent = {},
            .client = client,
            .lifetime = 1h,
            .since = time.now()};
  }

  struct Expired {
    std::string agent;
    Nanos age;
  };
  std::vector<Expired> expired;
  std::unique_ptr<PermitTable> table = std::make_unique<PermitTable>(
      time.source(), [this](const PermitTable::Held& held, Nanos age) {
        EXPECT_EQ(table->size(), 0U) << "called without a lock, when it has gone";
        expired.push_back({held.agent, age});
      });
};

TEST_F(PermitTableTest, IdsAre128BitsAndNeverTheSame) {
  std::set<std::string> ids;
  for (int i = 0; i < 2'000; ++i) {
    const std::string id = table->add(empty("me"));
    EXPECT_EQ(id.size(), 32U);
    EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos) << id;
    EXPECT_TRUE(ids.insert(id.substr(0, 16)).second);
    EXPECT_TRUE(ids.insert(id.substr(16)).second);
  }
  EXPECT_EQ(table->size(), 2'000U);
}

TEST_F(PermitTableTest, AReleaseGivesTheSlotBackOnceAndKeepsTheCost) {
  const std::string id = hold();
  EXPECT_EQ(available("slots"), 4);
  EXPECT_TRUE(table->release(id));
  EXPECT_EQ(available("slots"), 5);
  EXPECT_EQ(available("tokens"), 900);
  EXPECT_EQ(table->release(id).error(), Errc::kResourceUnknown);
  EXPECT_EQ(available("slots"), 5);
  EXPECT_EQ(table->size(), 0U);
}

TEST_F(PermitTableTest, WhatIsNoIdIsUnknown) {
  const std::string id = hold();
  for (const std::string& other :
       {std::string{}, id.substr(1), id + "0", "-" + id.substr(1), " " + id.substr(1),
        std::string(32, '0'), std::string(32, 'g'), id.substr(0, 15) + "x" + id.substr(16)}) {
    EXPECT_EQ(table->release(other).error(), Errc::kResourceUnknown) << other;
    EXPECT_EQ(table->renew(other).error(), Errc::kResourceUnknown) << other;
    EXPECT_EQ(table->settle(other, Cost{}).error(), Errc::kResourceUnknown) << other;
  }
  EXPECT_EQ(table->size(), 1U);
}

// S3.10
TEST_F(PermitTableTest, SettlingRefundsOnceAndKeepsTheSlot) {
  const std::string id = hold();
  EXPECT_TRUE(table->settle(id, Cost::of(Unit::kTokens, 30)));
  EXPECT_EQ(available("tokens"), 970);
  EXPECT_EQ(available("slots"), 4);
  EXPECT_EQ(table->settle(id, Cost::of(Unit::kTokens, 10)).error(), Errc::kInvalidConfig);
  EXPECT_EQ(available("tokens"), 970);
  EXPECT_TRUE(table->release(id));
  EXPECT_EQ(available("slots"), 5);
  EXPECT_EQ(available("tokens"), 970);
  EXPECT_EQ(table->settle(id, Cost::of(Unit::kTokens, 10)).error(), Errc::kResourceUnknown);
}

TEST_F(PermitTableTest, SettlingMoreThanEstimatedIsADebt) {
  const std::string id = hold();
  EXPECT_TRUE(table->settle(id, Cost::of(Unit::kTokens, 1'500)));
  EXPECT_EQ(available("tokens"), -500);
}

TEST_F(PermitTableTest, AnExpiredPermitIsReportedItsSlotComesBackAndItsCostStays) {
  const std::string id = hold(10s);
  time.advance(10s - 1ns);
  EXPECT_EQ(table->size(), 1U);
  EXPECT_TRUE(expired.empty());
  time.advance(1ns);
  ASSERT_EQ(expired.size(), 1U);
  EXPECT_EQ(expired[0].agent, "worker");
  EXPECT_EQ(expired[0].age, 10s);
  EXPECT_EQ(table->expired(), 1U);
  EXPECT_EQ(available("slots"), 5);
  EXPECT_EQ(available("tokens"), 900);
  EXPECT_FALSE(table->renew(id));
  EXPECT_FALSE(table->release(id));
  EXPECT_FALSE(table->settle(id, Cost::of(Unit::kTokens, 1)));
}

TEST_F(PermitTableTest, RenewingMovesTheEnd) {
  const std::string id = hold(10s);
  time.advance(9s);
  EXPECT_EQ(table->renew(id).value(), 10s);
  time.advance(9s);
  EXPECT_EQ(table->renew(id).value(), 10s);
  time.advance(10s - 1ns);
  EXPECT_EQ(table->size(), 1U);
  time.advance(1ns);
  ASSERT_EQ(expired.size(), 1U);
  EXPECT_EQ(expired[0].age, 28s);
}

TEST_F(PermitTableTest, EachExpiresInItsOwnTime) {
  table = std::make_unique<PermitTable>(
      time.source(),
      [this](const PermitTable::Held& held, Nanos age) { expired.push_back({held.client, age}); });
  hold(30s, "c");
  hold(10s, "a");
  hold(20s, "b");
  const std::string released = hold(5s, "never");
  EXPECT_TRUE(table->release(released));
  time.advance(1min);
  ASSERT_EQ(expired.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(expired[i].agent, std::string(1, static_cast<char>('a' + i)));
    EXPECT_EQ(expired[i].age, 10s * (i + 1));
  }
}

TEST_F(PermitTableTest, AClientMayHoldSoManyAndNoMore) {
  std::string last;
  for (std::size_t i = 0; i < PermitTable::kPermitsPerClientMax; ++i) {
    ASSERT_TRUE(table->has_room("greedy"));
    last = table->add(empty("greedy"));
  }
  EXPECT_FALSE(table->has_room("greedy"));
  EXPECT_TRUE(table->has_room("other"));
  EXPECT_TRUE(table->release(last));
  EXPECT_TRUE(table->has_room("greedy"));
}

TEST_F(PermitTableTest, ItsEndReleasesWhatIsHeld) {
  hold();
  hold(1s);
  EXPECT_EQ(available("slots"), 3);
  table.reset();
  EXPECT_EQ(available("slots"), 5);
  time.advance(1h);
  EXPECT_TRUE(expired.empty());
}

TEST_F(PermitTableTest, APermitOutlivesItsResource) {
  const std::string id = hold();
  const std::string other = hold();
  EXPECT_TRUE(resources.remove("api"));
  EXPECT_TRUE(table->settle(id, Cost::of(Unit::kTokens, 1)));
  EXPECT_TRUE(table->release(id));
  EXPECT_TRUE(table->release(other));
}

// A waiter's completion runs inside release() and settle(), and may hold what it got.
TEST_F(PermitTableTest, WhoIsWokenMayUseTheTable) {
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(hold());
  auto resource = resources.find("api");
  auto route = resource->route({}).value();
  std::string got;
  auto ticket =
      route.path.acquire_async({.cost = Cost::call(600)}, kEndOfTime, [&](Result<Permit> permit) {
        PermitTable::Held held = empty("woken");
        held.permit = std::move(permit.value());
        got = table->add(std::move(held));
      });
  EXPECT_TRUE(table->release(ids[0]));  // a slot, but only 500 tokens
  EXPECT_TRUE(got.empty());
  EXPECT_TRUE(table->settle(ids[1], Cost::of(Unit::kTokens, 0)));
  EXPECT_FALSE(got.empty());
  EXPECT_TRUE(table->release(got));
}

TEST_F(PermitTableTest, ThreadsHoldRenewSettleAndRelease) {
  table = std::make_unique<PermitTable>(time.source(), [](const PermitTable::Held&, Nanos) {});
  EXPECT_TRUE(resources.apply({provider(
      "api", {tokens_each(1'000'000'000, 24h), {.spec = LimitSpec::concurrency(1'000)}})}));
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([this, i] {
        for (int n = 0; n < 500; ++n) {
          const std::string id = hold(n % 5 == 0 ? 1ms : 1h, "client " + std::to_string(i));
          std::jthread rival;
          if (n % 10 == 1) rival = std::jthread{[&] { table->release(id); }};
          table->renew(id);
          table->settle(id, Cost::of(Unit::kTokens, 10));
          table->release(id);
        }
      });
    }
    for (int n = 0; n < 200; ++n) time.advance(1ms);
  }
  time.advance(2h);
  EXPECT_EQ(table->size(), 0U);
  const auto metrics = resources.find("api")->gate().metrics();
  EXPECT_EQ(metrics.acquired, 2'000U);
  for (const LimitStatus& limit : metrics.limits) {
    EXPECT_TRUE(limit.unit != Unit::kSlots || limit.available == 1'000) << limit.available;
  }
}

// The provider's gate lives in its resource, which a release may let go while a settlement runs.
TEST_F(PermitTableTest, ASettlementKeepsTheResourceOfAPermitReleasedMeanwhile) {
  for (int n = 0; n < 300; ++n) {
    EXPECT_TRUE(resources.put(provider("brief", {tokens_each(1'000, 24h)})));
    Passage passage = pass("brief", {}, 100);
    const std::string id = table->add({.resource = std::move(passage.resource),
                                       .route = std::move(passage.route),
                                       .permit = std::move(*passage.outcome),
                                       .agent = {},
                                       .client = "me",
                                       .lifetime = 1h,
                                       .since = time.now()});
    EXPECT_TRUE(resources.remove("brief"));
    std::atomic<bool> begun = false;
    std::jthread settling{[&] {
      begun = true;
      table->settle(id, Cost::of(Unit::kTokens, 10));
    }};
    while (!begun) std::this_thread::yield();
    table->release(id);
  }
}

}  // namespace
}  // namespace weir::server
