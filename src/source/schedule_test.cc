// The scheduler of seed 004 in stepped time: peeks and turns (S4.8).
#include <algorithm>
#include <list>

#include "provider/account.h"
#include "provider/signals.h"
#include "source/schedule_for_test.h"

namespace weir::source {
namespace {

// S4.8, S4.9: scenario 2 of seed 004.
TEST_F(ScheduleTest, QueuesAsManyAsTheLimitHasLeftAndTheRestInTheNextWindow) {
  limit("fmp.com", 300, 1min);
  use("fmp.com", 295);
  put_many(10, "fmp.com");
  schedule.cycle();
  EXPECT_EQ(schedule.summary().queued, 5U);
  EXPECT_EQ(schedule.summary().due, 5U);
  EXPECT_EQ(run(), (std::vector<std::string>{"s00000", "s00001", "s00002", "s00003", "s00004"}));
  EXPECT_EQ(state("s00005"), "held_back");
  for (int second = 0; second < 59; ++second) {
    time.advance(1s);
    EXPECT_TRUE(cycle().empty());
  }
  time.advance(1s);
  const auto next = cycle();
  EXPECT_EQ(std::vector<std::string>(next.begin(), next.begin() + 5),
            (std::vector<std::string>{"s00005", "s00006", "s00007", "s00008", "s00009"}));
}

// S4.8: the peek counts what is queued and has not asked yet.
TEST_F(ScheduleTest, ASecondCycleCountsWhatTheFirstHasQueued) {
  limit("fmp.com", 5, 1min);
  put_many(10, "fmp.com");
  schedule.cycle();
  schedule.cycle();
  EXPECT_EQ(schedule.summary().queued, 5U);
  std::vector<Task> asking;
  for (int i = 0; i < 3; ++i) asking.push_back(std::move(*schedule.take()));
  schedule.cycle();
  EXPECT_EQ(schedule.summary().queued, 2U);
  EXPECT_EQ(schedule.summary().running, 3U);
  for (Task& task : asking) EXPECT_EQ(work(task), kFetched);
  schedule.cycle();
  EXPECT_EQ(schedule.summary().queued, 2U);
  for (Task& task : asking) end(std::move(task), kFetched);
}

// A late source takes its place in the gate's queue, as where agents wait at all times the peek
// never says yes.
TEST_F(ScheduleTest, ALateSourceTakesItsPlaceAmongThoseWhoWait) {
  limit("fmp.com", 2, 1min);
  use("fmp.com", 2);
  put_many(3, "fmp.com");
  time.advance(Schedule::kTooLate - 1ns);
  schedule.cycle();
  EXPECT_FALSE(schedule.take()) << "not late yet";
  time.advance(1ns);
  EXPECT_EQ(schedule.summary().overdue, Schedule::kTooLate);
  EXPECT_EQ(schedule.summary().overdue_domain, "fmp.com");
  Gate& gate = resources.find("fmp.com")->gate();
  Ticket agent = gate.acquire_async({.agent = "agent"}, kEndOfTime, [](Result<Permit>) {});
  schedule.cycle();
  auto task = schedule.take();
  ASSERT_TRUE(task);
  EXPECT_EQ(task->source->config.name, "s00000");
  EXPECT_TRUE(task->source->in_line);
  EXPECT_EQ(state("s00000"), "held_back");
  schedule.cycle();
  EXPECT_FALSE(schedule.take()) << "one at a time";
  end(std::move(*task), kRateLimitExceeded);
  EXPECT_FALSE(schedule.find("s00000")->in_line);
  agent.cancel();
}

// They never wait, so nobody is in line but the source.
TEST_F(ScheduleTest, ThoseWhoTakeAllAtTheInstantTheWindowOpensDoNotKeepASourceOut) {
  limit("fmp.com", 5, 1min);
  const auto resource = resources.find("fmp.com");
  auto route = resource->route(caller_of(*resource->config())).value();
  const auto take_all = [&] {
    while (resource->gate().try_acquire({.agent = "greedy"})) continue;
  };
  take_all();
  put("late", "fmp.com");
  std::optional<Task> task;
  bool fetched = false;
  for (int second = 0; second < 120 && !fetched; ++second) {
    time.advance(1s);
    take_all();  // before any cycle looks
    schedule.cycle();
    if (task) continue;
    auto next = schedule.take();
    if (!next) continue;
    task.emplace(std::move(*next));
    route.path.acquire_async({.agent = kAgent}, time.now() + Schedule::kLinePatience,
                             [&](Result<Permit> permit) { fetched = permit.has_value(); });
  }
  ASSERT_TRUE(fetched);
  schedule.admit(*task);
  end(std::move(*task), kFetched);
  EXPECT_EQ(schedule.summary().running + schedule.summary().due, 0U);
}

TEST_F(ScheduleTest, WhoStandsInLineHasNoWorker) {
  limit("fmp.com", 1, 1min);
  use("fmp.com", 1);
  put("late", "fmp.com", 1h);
  time.advance(Schedule::kTooLate);
  schedule.cycle();
  auto late = schedule.take();
  ASSERT_TRUE(late && late->source->in_line);
  EXPECT_EQ(schedule.summary().running, 0U);
  EXPECT_EQ(schedule.summary().due, 1U);
  EXPECT_EQ(schedule.summary().overdue, Schedule::kTooLate);
  EXPECT_EQ(schedule.summary().overdue_domain, "fmp.com");
  for (int host = 0; host < 20; ++host) {
    for (int i = 0; i < 4; ++i) put(fmt::format("{}-{}", host, i), fmt::format("h{}.org", host));
  }
  schedule.cycle();
  std::list<Task> tasks;
  while (auto task = schedule.take()) tasks.push_back(std::move(*task));
  EXPECT_EQ(tasks.size(), Schedule::kWorkers);
  schedule.admit(*late);
  EXPECT_EQ(schedule.summary().running, Schedule::kWorkers + 1);
  EXPECT_EQ(state("late"), "running");
  end(std::move(*late), kFetched);
  for (Task& task : tasks) end(std::move(task), kFetched);
  EXPECT_EQ(schedule.summary().running, 0U);
}

// Nor one that is held, as a provider asked for it.
TEST_F(ScheduleTest, NobodyStandsInLineWhereItIsKnownToBeInVain) {
  limit("fmp.com", 1, 1h);
  use("fmp.com", 1);
  put("late", "fmp.com");
  time.advance(1h - Schedule::kLinePatience - 1ns);
  schedule.cycle();
  EXPECT_FALSE(schedule.take());
  time.advance(1ns);
  resources.find("fmp.com")->gate().hold_until(time.now() + 1s);
  schedule.cycle();
  EXPECT_FALSE(schedule.take());
  time.advance(1s);
  schedule.cycle();
  EXPECT_TRUE(schedule.take());
}

TEST_F(ScheduleTest, ACycleSaysAfterHowLongThereIsMoreToBeHad) {
  put("free", "free.org");
  EXPECT_EQ(schedule.cycle(), Nanos::max());
  limit("slow.com", 1, 1min);
  limit("fast.com", 1, 1s);
  for (const char* host : {"slow.com", "fast.com"}) {
    put(fmt::format("{}-1", host), host, 1h);
    put(fmt::format("{}-2", host), host, 1h);
  }
  EXPECT_EQ(cycle().size(), 3U);
  time.advance(100ms);
  EXPECT_EQ(schedule.cycle(), 900ms);
}

TEST_F(ScheduleTest, HostsOfOneProviderShareItsPeek) {
  limit("x.com", 4, 1min);
  put("a1", "a.x.com");
  put("b1", "b.x.com");
  put("a2", "a.x.com");
  put("b2", "b.x.com");
  put("a3", "a.x.com");
  put("free", "other.org");
  EXPECT_EQ(cycle().size(), 5U);
  EXPECT_EQ(state("a3"), "held_back");
}

TEST_F(ScheduleTest, ThePeekSeesEveryGateOfTheWay) {
  ProviderConfig config = provider(
      "x", {named("window", requests_each(100, 1min))}, {},
      {{.pattern = std::string{kAgent}, .limits = {named("own", requests_each(2, 1min))}}});
  ASSERT_TRUE(resources.apply({config}));
  put_many(5, "x.com");
  EXPECT_EQ(cycle().size(), 2U);
}

TEST_F(ScheduleTest, NoMoreAreQueuedThanThereAreSlots) {
  ProviderConfig config =
      provider("x", {{.spec = LimitSpec::concurrency(3)}, named("w", requests_each(100, 1min))});
  ASSERT_TRUE(resources.apply({config}));
  put_many(10, "x.com");
  schedule.cycle();
  EXPECT_EQ(schedule.summary().queued, 3U);
}

// S4.8: refused between queue and request: back with its old due time, and not a failure.
TEST_F(ScheduleTest, RateLimitExceededIsQueuedAgainAndIsNoFailure) {
  limit("fmp.com", 3, 1min);
  put_many(3, "fmp.com");
  schedule.cycle();
  use("fmp.com", 3);  // somebody else was faster
  EXPECT_TRUE(run().empty());
  const View view = schedule.view(*schedule.find("s00000"));
  EXPECT_EQ(view.state, "held_back");
  EXPECT_EQ(view.failures, 0);
  EXPECT_EQ(view.rate_limited, 1U);
  EXPECT_EQ(view.due_in, 0s);
  EXPECT_FALSE(view.last);
  // One refusal answers for those behind it.
  EXPECT_EQ(schedule.view(*schedule.find("s00001")).state, "held_back");
  EXPECT_EQ(schedule.summary().failing, 0U);
  time.advance(1min);
  EXPECT_EQ(cycle(), (std::vector<std::string>{"s00000", "s00001", "s00002"}));
}

// S4.8
TEST_F(ScheduleTest, TenThousandSourcesOfOneDomainHaveTheirTurnsInOrder) {
  limit("fmp.com", 300, 1min);
  put_many(10'000, "fmp.com");
  std::map<std::string, int> turns;
  int fetched = 0;
  for (int minute = 0; minute < 67; ++minute) {
    int within = 0;
    for (int second = 0; second < 60; ++second) {
      for (const std::string& name : cycle()) {
        ++turns[name];
        ++within;
      }
      time.advance(1s);
    }
    EXPECT_LE(within, 300) << minute;
    fetched += within;
  }
  EXPECT_EQ(fetched, 67 * 300);
  EXPECT_EQ(turns.size(), 10'000U);
  for (const auto& [name, count] : turns) EXPECT_TRUE(count == 2 || count == 3) << name << count;
}

TEST_F(ScheduleTest, AnEagerSourceDoesNotStarveAPatientOne) {
  limit("fmp.com", 1, 10s);
  put("eager", "fmp.com", 1s);
  put("patient", "fmp.com", 1min);
  std::map<std::string, int> turns;
  for (int second = 0; second < 600; ++second) {
    for (const std::string& name : cycle()) ++turns[name];
    time.advance(1s);
  }
  EXPECT_GE(turns["patient"], 8);
  EXPECT_EQ(turns["patient"] + turns["eager"], 60);
}

TEST_F(ScheduleTest, ADomainThatIsLimitedCostsTheOthersNothing) {
  limit("slow.com", 1, 1h);
  put_many(2'000, "slow.com");
  put("other", "free.org", 1s);
  EXPECT_EQ(cycle().size(), 2U);
  for (int second = 0; second < 100; ++second) {
    time.advance(1s);
    EXPECT_EQ(cycle(), (std::vector<std::string>{"other"}));
  }
}

TEST_F(ScheduleTest, ASourceStaysOnItsGrid) {
  put("a", "free.org", 10s);
  EXPECT_EQ(cycle().size(), 1U);
  for (int round = 0; round < 5; ++round) {
    time.advance(9s);
    EXPECT_TRUE(cycle().empty());
    time.advance(1s + 100ms);  // a cycle that comes late
    EXPECT_EQ(cycle().size(), 1U);
  }
}

TEST_F(ScheduleTest, WorkersAreBoundedInAllAndForEachHost) {
  for (int host = 0; host < 20; ++host) {
    for (int i = 0; i < 20; ++i) put(fmt::format("{}-{}", host, i), fmt::format("h{}.org", host));
  }
  schedule.cycle();
  std::map<std::string, std::size_t> running;
  std::list<Task> tasks;
  while (auto task = schedule.take()) {
    ++running[task->source->domain->host];
    tasks.push_back(std::move(*task));
  }
  EXPECT_EQ(tasks.size(), Schedule::kWorkers);
  EXPECT_EQ(running.size(), 20U);  // each host has its turn
  for (const auto& [host, count] : running) EXPECT_LE(count, Schedule::kUnlimitedAtOnce);
  end(std::move(tasks.front()), kFetched);
  tasks.pop_front();
  EXPECT_TRUE(schedule.take());
}

TEST_F(ScheduleTest, AHostIsForgottenWithTheLastSourceOfItAndTheLastTask) {
  const auto open = [&] { return schedule.summary().breakers_open.size(); };
  put_many(Schedule::kFailuresMax + 1, "down.org", 1s);
  schedule.cycle();
  auto kept = schedule.take();
  ASSERT_TRUE(kept);
  while (auto task = schedule.take()) end(std::move(*task), kFailed);
  ASSERT_EQ(open(), 1U);
  for (int i = 0; i <= Schedule::kFailuresMax; ++i) schedule.remove(fmt::format("s{:05}", i));
  EXPECT_EQ(open(), 1U);
  end(std::move(*kept), kStopped);
  EXPECT_EQ(open(), 0U);

  put_many(Schedule::kFailuresMax, "down.org", 1s);
  schedule.cycle();
  while (auto task = schedule.take()) end(std::move(*task), kFailed);
  ASSERT_EQ(open(), 1U);
  for (int i = 0; i < Schedule::kFailuresMax; ++i) schedule.remove(fmt::format("s{:05}", i));
  EXPECT_EQ(open(), 0U);
}

TEST_F(ScheduleTest, AnAccountThatIsHeldHoldsTheSourcesBack) {
  limit("fmp.com", 300, 1min);
  put_many(3, "fmp.com");
  auto route = resources.find("fmp.com")->route({.account = Resource::kOwnAccount}).value();
  Signals signals;
  signals.kind = Signals::Kind::kLimited;
  signals.retry_after = 30s;
  route.account->answered(signals, Cost::call(), time.now());
  EXPECT_TRUE(cycle().empty());
  EXPECT_EQ(state("s00000"), "held_back");
  EXPECT_EQ(schedule.view(*schedule.find("s00000")).rate_limited, 1U);
  time.advance(31s);
  EXPECT_FALSE(cycle().empty());
}

TEST_F(ScheduleTest, ADueTimeAtWhichALimitMadeItWaitIsCountedOnce) {
  limit("fmp.com", 1, 1min);
  put_many(2, "fmp.com", 1h);
  const auto times = [&](const char* name) {
    return schedule.view(*schedule.find(name)).rate_limited;
  };
  EXPECT_EQ(cycle(), std::vector<std::string>{"s00000"});
  EXPECT_EQ(times("s00001"), 1U) << "while it waits";
  for (int i = 0; i < 3; ++i) {
    time.advance(10s);
    EXPECT_TRUE(cycle().empty());
  }
  time.advance(30s);
  schedule.cycle();
  use("fmp.com", 1);  // somebody else was faster
  EXPECT_TRUE(run().empty());
  time.advance(1min);
  EXPECT_EQ(cycle(), std::vector<std::string>{"s00001"});
  EXPECT_EQ(times("s00001"), 1U) << "it was one due time";
  EXPECT_EQ(times("s00000"), 0U);
  time.advance(1h);
  EXPECT_EQ(cycle().size(), 1U);
  EXPECT_EQ(times("s00000") + times("s00001"), 2U) << "the next one counts again";
}

TEST_F(ScheduleTest, ReplacingKeepsTheLastResultAndStartsAnew) {
  put("a", "free.org", 1h);
  EXPECT_EQ(cycle().size(), 1U);
  EXPECT_TRUE(cycle().empty());
  EXPECT_EQ(schedule.put({.name = "a", .url = "https://else.org/"}), Schedule::Added::kReplaced);
  EXPECT_EQ(schedule.view(*schedule.find("a")).last->status, 200);
  EXPECT_EQ(schedule.summary().total, 1U);
  EXPECT_EQ(cycle().size(), 1U);
}

TEST_F(ScheduleTest, WhatIsRemovedWhileItRunsIsNotPutBack) {
  put_many(3, "free.org");
  schedule.cycle();
  auto task = schedule.take();
  for (const char* name : {"s00000", "s00001", "s00002"}) EXPECT_TRUE(schedule.remove(name));
  EXPECT_FALSE(schedule.remove("s00000"));
  EXPECT_FALSE(end(std::move(*task), kFailed).kept);
  EXPECT_FALSE(schedule.take());
  const Summary summary = schedule.summary();
  EXPECT_EQ(summary.total + summary.due + summary.queued + summary.running + summary.failing, 0U);
  time.advance(1h);
  EXPECT_TRUE(cycle().empty());
}

TEST_F(ScheduleTest, WhatWasKeptGoesOnWhereItStopped) {
  put("a", "free.org", 1h);
  put("b", "free.org", 1h);
  schedule.cycle();
  end(std::move(*schedule.take()), kFetched);
  end(std::move(*schedule.take()), kFailed);
  Schedule later{resources, time};
  for (const char* name : {"a", "b"}) {
    const auto source = schedule.find(name);
    later.restore(source->config, schedule.row(*source));
    EXPECT_EQ(later.view(*later.find(name)).due_in, schedule.view(*source).due_in);
  }
  EXPECT_EQ(later.view(*later.find("b")).failures, 1);
  EXPECT_EQ(later.summary().failing, 1U);
  EXPECT_EQ(later.view(*later.find("a")).last->status, 200);
  // A wall that was set back does not put it off for years.
  store::SourceRow row = schedule.row(*schedule.find("a"));
  row.due += std::chrono::years{1};
  Schedule odd{resources, time};
  odd.restore(schedule.find("a")->config, row);
  EXPECT_LE(odd.view(*odd.find("a")).due_in, 1h);
  odd.restore({.name = "fast", .url = "https://free.org/x", .every = 5s}, row);
  EXPECT_EQ(odd.view(*odd.find("fast")).due_in, 5s);
  row.failures = 1;  // its server may have said an hour
  odd.restore({.name = "failing", .url = "https://free.org/x", .every = 5s}, row);
  EXPECT_EQ(odd.view(*odd.find("failing")).due_in, 1h);
}

TEST_F(ScheduleTest, ListsByNameInPages) {
  put_many(5, "free.org");
  const auto page = schedule.list("s00001", 2);
  ASSERT_EQ(page.size(), 2U);
  EXPECT_EQ(page[0].config.name, "s00002");
  EXPECT_EQ(page[1].config.name, "s00003");
}

TEST_F(ScheduleTest, WhatWasRemovedStillCountsWhileItRuns) {
  std::vector<Task> running;
  for (int round = 0; round < 3; ++round) {
    put_many(10, "api.com");
    schedule.cycle();
    while (auto task = schedule.take()) running.push_back(std::move(*task));
    for (int i = 0; i < 10; ++i) schedule.remove(fmt::format("s{:05}", i));
  }
  EXPECT_EQ(running.size(), Schedule::kUnlimitedAtOnce);
  for (Task& task : running) end(std::move(task), kStopped);
  put_many(10, "api.com");
  schedule.cycle();
  EXPECT_TRUE(schedule.take());
}

}  // namespace
}  // namespace weir::source
