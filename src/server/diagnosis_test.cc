// From figures to sentences: each cause alone, and what must not be said.
#include "server/diagnosis.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "store/journal.h"

namespace weir::server {
namespace {

using namespace std::chrono_literals;
using Severity = Warning::Severity;

LimitView limit(std::string name, Unit unit, double used) {
  return {.name = std::move(name),
          .unit = unit,
          .scope = "provider",
          .amount = 100,
          .period = unit == Unit::kSlots ? 0s : Nanos{1min},
          .capacity = 100,
          .available = static_cast<Amount>(100 * (1 - used)),
          .used = used,
          .configured = 100};
}

struct DiagnosisTest : testing::Test {
  DiagnosisTest() {
    live.now = Instant{10h};
    live.resources.push_back({.name = "api", .domain = "api.com"});
  }
  ResourceView& api() { return live.resources[0]; }
  void waits(Nanos wait, Nanos upstream, std::uint64_t calls = 10) {
    api().activity.wait = {.count = calls, .mean = wait, .p50 = wait, .p99 = wait, .max = wait};
    api().activity.upstream = {
        .count = calls, .mean = upstream, .p50 = upstream, .p99 = upstream, .max = upstream};
  }
  void binds(LimitView view) {
    api().limits.push_back(std::move(view));
    api().binding = api().limits.size() - 1;
  }
  // "code, code": those there are.
  std::string codes() const {
    std::string all;
    for (const Warning& warning : diagnose(live)) {
      all += (all.empty() ? "" : ", ") + std::string{warning.code};
    }
    return all;
  }
  Warning only() const {
    const auto warnings = diagnose(live);
    EXPECT_EQ(warnings.size(), 1U) << codes();
    return warnings.empty() ? Warning{} : warnings[0];
  }

  LiveView live;
};

TEST_F(DiagnosisTest, WhereAllIsWellNothingIsSaid) {
  waits(20ms, 1'400ms);
  binds(limit("tokens per 1m", Unit::kTokens, 0.99));
  EXPECT_EQ(codes(), "");
}

// S3.9
TEST_F(DiagnosisTest, OurOwnCongestionIsToldWithTheLimitThatBinds) {
  waits(4'200ms, 1'100ms);
  api().activity.waiting = 5;
  binds(limit("tokens per 1m", Unit::kTokens, 0.996));
  const Warning warning = only();
  EXPECT_EQ(warning.code, "congestion");
  EXPECT_EQ(warning.severity, Severity::kWarning);
  EXPECT_EQ(warning.resource, "api");
  EXPECT_EQ(warning.text,
            "Calls wait 4.2 s for quota and 1.1 s for the API; 5 calls wait now. The limit that "
            "binds is \"tokens per 1m\", 100% used.");
  EXPECT_EQ(warning.advice,
            "Run fewer agents, or ask the provider for a higher quota and raise \"tokens per 1m\" "
            "here.");
}

// S3.9
TEST_F(DiagnosisTest, TheApisSlownessIsNotOurs) {
  waits(30ms, 5s);
  api().upstream_usual = 2s;
  const Warning warning = only();
  EXPECT_EQ(warning.code, "api_slow");
  EXPECT_EQ(warning.text,
            "The API takes 5 s, 2.5 times as long as in the last hour (2 s). Calls wait 30 ms "
            "for quota: it is not us.");
}

// S3.9
TEST_F(DiagnosisTest, TellsTheTwoApart) {
  struct Row {
    Nanos wait, upstream, usual;
    const char* code;
  };
  for (const Row& row :
       {Row{999ms, 1ms, 1ms, ""}, Row{1s, 1ms, 1ms, "congestion"}, Row{1s, 1s, 1s, "congestion"},
        Row{2s, 3s, 3s, ""}, Row{2s, 6s, 3s, "api_slow"}, Row{0s, 5'999ms, 3s, ""},
        Row{0s, 900ms, 100ms, ""}, Row{20s, 10s, 1s, "congestion"}}) {
    waits(row.wait, row.upstream);
    api().upstream_usual = row.usual;
    EXPECT_EQ(codes(), row.code) << row.wait / 1ms << " " << row.upstream / 1ms;
  }
}

// S3.9
TEST_F(DiagnosisTest, WhoWaitsForTheSlotsOfASlowApiDoesNotWaitForUs) {
  waits(20s, 10s);
  api().upstream_usual = 1s;
  binds(limit("slots", Unit::kSlots, 1));
  EXPECT_EQ(only().code, "api_slow");
  EXPECT_EQ(only().text,
            "The API takes 10 s, 10.0 times as long as in the last hour (1 s). Slots stay taken "
            "for as long, so calls wait 20 s for one: it is not us.");
  api().upstream_usual = 6s;
  EXPECT_EQ(codes(), "congestion") << "it is as slow as ever";
}

// S3.9
TEST_F(DiagnosisTest, AnApiThatHangsIsSlowThoughNoCallEnds) {
  api().upstream_usual = 2s;
  api().activity.in_flight = 4;
  api().activity.in_flight_age = 90s;
  EXPECT_EQ(only().code, "api_slow");
  EXPECT_EQ(
      only().text,
      "Calls have been under way for 1 min 30 s on average, 45.0 times as long as in the last "
      "hour (2 s), and hardly one has ended in the last minute. Calls wait 0 ms for quota: "
      "it is not us.");
  binds(limit("slots", Unit::kSlots, 1));
  api().activity.waiting = 3;
  api().activity.queue.push_back({.agent = "a", .model = "", .cost = {}, .since = live.now - 95s});
  EXPECT_EQ(codes(), "api_slow") << "and not our congestion";
  api().activity.in_flight = 2;
  api().activity.queue.clear();
  EXPECT_EQ(codes(), "") << "two calls tell nothing";
}

TEST_F(DiagnosisTest, LongCallsUnderWayAreNothingWhereOthersEnd) {
  waits(0s, 2s);
  api().upstream_usual = 2s;
  api().activity.in_flight = 10;
  api().activity.in_flight_age = 90s;
  EXPECT_EQ(codes(), "");
}

TEST_F(DiagnosisTest, WarningsStayInPlaceHoweverBusyEachProviderIs) {
  waits(4s, 1s);
  live.resources.push_back(api());
  live.resources[1].name = "b";
  const auto resources = [&] {
    std::string names;
    for (const Warning& warning : diagnose(live)) names += warning.resource + " ";
    return names;
  };
  EXPECT_EQ(resources(), "api b ");
  std::swap(live.resources[0], live.resources[1]);
  EXPECT_EQ(resources(), "api b ");
}

TEST_F(DiagnosisTest, OneKeyThatIsHeldIsNoStandstill) {
  waits(4s, 1s);
  api().held_in_part = 40s;
  EXPECT_EQ(codes(), "congestion, held_in_part");
  api().held_in_part = 4s;
  EXPECT_EQ(codes(), "congestion");
}

TEST_F(DiagnosisTest, AFewCallsTellNothingOfTheApi) {
  waits(0s, 10s, 2);
  api().upstream_usual = 1s;
  EXPECT_EQ(codes(), "");
}

TEST_F(DiagnosisTest, AQueueThatNobodyLeavesIsCongestionToo) {
  api().activity.waiting = 2;
  api().activity.queue.push_back(
      {.agent = "a", .model = "", .cost = Cost::call(), .since = live.now - 30s});
  binds(limit("slots", Unit::kSlots, 1));
  const Warning warning = only();
  EXPECT_EQ(warning.code, "congestion");
  EXPECT_EQ(warning.severity, Severity::kCritical);
  EXPECT_EQ(warning.text,
            "2 calls wait now, the longest for 30 s. The limit that binds is \"slots\", 100% "
            "used.");
}

// S3.9
TEST_F(DiagnosisTest, CallsThatDoNotWaitButAreRefusedAreCongestionToo) {
  waits(0s, 0s);
  binds(limit("requests per 1m", Unit::kRequests, 1));
  api().activity.minute.arrived = 20;
  api().activity.minute.refused = 9;
  EXPECT_EQ(codes(), "");
  api().activity.minute.refused = 10;
  EXPECT_EQ(only().text,
            "In the last minute 10 of 20 calls were refused for lack of quota. The limit that "
            "binds is \"requests per 1m\", 100% used.");
  api().activity.minute.arrived = 21;
  EXPECT_EQ(codes(), "");
}

TEST_F(DiagnosisTest, TheAdviceIsOfTheLimitThatBinds) {
  struct Row {
    LimitView binding;
    Amount estimated, settled;
    const char* advice;
  };
  LimitView lowered = limit("pace", Unit::kRequests, 1);
  lowered.amount = 40;
  for (const Row& row :
       {Row{limit("slots", Unit::kSlots, 1), 0, 0, "raise max_concurrency"},
        Row{limit("tokens per 1m", Unit::kTokens, 1), 1'000, 490, "lower max_tokens"},
        Row{limit("tokens per 1m", Unit::kTokens, 1), 1'000, 510, "Run fewer agents"},
        Row{limit("requests per 1m", Unit::kRequests, 1), 1'000, 10, "Run fewer agents"},
        Row{lowered, 0, 0, "lowered after answers of 429"},
        Row{limit("budget", Unit::kMicroUsd, 1), 0, 0, "The budget is used up"}}) {
    waits(5s, 1s);
    api().limits.clear();
    binds(row.binding);
    api().activity.minute.estimated = row.estimated;
    api().activity.minute.settled = row.settled;
    const auto warnings = diagnose(live);
    const auto found = std::ranges::find(warnings, "congestion", &Warning::code);
    ASSERT_NE(found, warnings.end());
    EXPECT_NE(found->advice.find(row.advice), std::string::npos) << found->advice;
  }
}

TEST_F(DiagnosisTest, ALoweredRateSaysHowFarAndHowItComesBack) {
  LimitView pace = limit("pace", Unit::kRequests, 0.2);
  pace.scope = "learned";
  pace.amount = 40;
  api().limits.push_back(pace);
  EXPECT_EQ(only().code, "limit_lowered");
  EXPECT_EQ(only().text,
            "The rate is lowered to 40% of 100 requests a minute after answers of 429; it grows "
            "back by a tenth every 30 s.");
}

TEST_F(DiagnosisTest, AHoldAPauseAndAnExhaustionAreEachOneCause) {
  waits(30s, 1s);
  api().activity.waiting = 1;
  api().state = ResourceView::State::kHeld;
  api().held_for = 20s;
  EXPECT_EQ(only().text, "The provider has asked to wait 20 s more; 1 call waits.");
  api().state = ResourceView::State::kPaused;
  EXPECT_EQ(codes(), "paused");
  EXPECT_EQ(only().severity, Severity::kWarning);
  api().activity.waiting = 0;
  EXPECT_EQ(only().severity, Severity::kInfo);
  api().state = ResourceView::State::kExhausted;
  api().reason = "anthropic: enforced_spend_limit_reached";
  api().reason_for = 5min;
  EXPECT_EQ(only().code, "exhausted");
  EXPECT_EQ(only().severity, Severity::kCritical);
  EXPECT_EQ(only().text,
            "The provider says that the quota is used up (anthropic: "
            "enforced_spend_limit_reached). It is asked again in 5 min.");
  api().state = ResourceView::State::kOpen;
  waits(0s, 1s);
  EXPECT_EQ(only().severity, Severity::kWarning) << "others still go";
}

TEST_F(DiagnosisTest, AShortHoldThatKeepsNobodyIsEverydayLife) {
  api().state = ResourceView::State::kHeld;
  api().held_for = 2s;
  EXPECT_EQ(codes(), "");
}

TEST_F(DiagnosisTest, PermitsThatWereNeverReleasedAreToldForTenMinutes) {
  api().activity.totals.expired = 3;
  api().activity.expired_at = live.now - 2min;
  EXPECT_EQ(only().code, "permits_expired");
  EXPECT_EQ(only().text,
            "3 permits were never released and have been taken back, the last 2 min ago.");
  api().limits.push_back(limit("slots", Unit::kSlots, 0.1));
  EXPECT_EQ(only().code, "stale_slots");
  api().activity.expired_at = live.now - 11min;
  EXPECT_EQ(codes(), "");
}

TEST_F(DiagnosisTest, WhoWaitsStillCountsMoreThanThoseWhoWentThrough) {
  waits(3ms, 0ms);
  api().activity.waiting = 2;
  api().activity.queue.push_back({.agent = "a", .model = "", .cost = {}, .since = live.now - 47s});
  EXPECT_EQ(only().code, "congestion");
  EXPECT_EQ(only().text, "2 calls wait now, the longest for 47 s.");
}

TEST_F(DiagnosisTest, AnApiThatDoesNotAnswerIsNotOurFault) {
  waits(0ms, 3s);
  api().upstream_usual = 1s;
  api().activity.minute = {.arrived = 9, .admitted = 8, .failed = 4};
  EXPECT_EQ(codes(), "api_failing");  // and not slow as well
  EXPECT_EQ(only().severity, Severity::kCritical);
  EXPECT_EQ(only().text,
            "In the last minute 4 of 8 calls got no answer from the API, a broken one or an error "
            "of 5xx: it is not us.");
  api().activity.minute.failed = 11;  // tries
  EXPECT_TRUE(only().text.starts_with("In the last minute 8 of 8 calls")) << only().text;
  api().activity.minute.failed = 3;
  EXPECT_EQ(codes(), "api_slow");
  api().activity.minute = {.arrived = 2, .admitted = 2, .failed = 2};
  EXPECT_EQ(codes(), "api_slow");  // two tell nothing
}

TEST_F(DiagnosisTest, ABudgetThatEndsTooSoonIsToldBefore) {
  LimitView budget = limit("budget", Unit::kMicroUsd, 0.6);
  budget.period = 24h;
  budget.ends_in = 3h;
  budget.resets_in = 5h;
  api().limits.push_back(budget);
  EXPECT_EQ(only().code, "budget_ends");
  EXPECT_EQ(only().severity, Severity::kInfo);
  EXPECT_EQ(only().text, "At this pace \"budget\" ends in 3 h, 2 h before it resets.");
  api().limits[0].ends_in = 20min;
  EXPECT_EQ(only().severity, Severity::kWarning);
  api().limits[0].ends_in = 27'100ms;
  EXPECT_TRUE(only().text.starts_with("At this pace \"budget\" ends in 28 s")) << only().text;
}

TEST_F(DiagnosisTest, WhatIsWrongWithTheDaemonComesFirst) {
  live.store = {.state = "failed", .message = "disk I/O error"};
  live.fleet = {.state = "away", .connected = false, .breaker = "open", .message = "refused"};
  live.sources = {.total = 10,
                  .failing = 2,
                  .first_failing = "dead",
                  .breakers_open = {"example.com", "b.com"}};
  waits(4s, 1s);
  EXPECT_EQ(codes(), "store_away, fleet_away, congestion, breaker_open, sources_failing");
  EXPECT_EQ(diagnose(live)[0].resource, "");
  EXPECT_EQ(diagnose(live)[0].text, "The store does not answer (disk I/O error).");
  EXPECT_EQ(
      diagnose(live)[3].text,
      "Sources of example.com and 1 more are not fetched: their server has failed too often.");
  EXPECT_EQ(diagnose(live)[4].text, "dead and 1 more of 10 sources failed at their last fetch.");
  live.sources->failing = 1;
  EXPECT_EQ(diagnose(live)[4].text, "The source dead failed at its last fetch.");
}

TEST_F(DiagnosisTest, TheSourcesStoreIsNotTheStore) {
  live.sources = {.total = 9, .store_open = false, .store_message = "disk is full"};
  live.sources->results_given_up = 7;
  EXPECT_EQ(only().code, "store_away");
  EXPECT_EQ(only().text,
            "The sources' store does not answer (disk is full); 7 results were given up.");
}

TEST_F(DiagnosisTest, SourcesThatAreLateSayWhatToChange) {
  live.sources = {.total = 9, .due = 6, .overdue = 59s, .overdue_domain = "example.com"};
  EXPECT_EQ(codes(), "");
  live.sources->overdue = 4min;
  EXPECT_EQ(only().code, "sources_late");
  EXPECT_EQ(only().text,
            "6 of 9 sources are due and wait for quota, the longest for 4 min (example.com).");
}

TEST_F(DiagnosisTest, AStoreThatIsOpenIsNothingToSay) {
  live.store.state = name(store::JournalStatus::State::kOpen);
  EXPECT_EQ(codes(), "");
}

TEST_F(DiagnosisTest, IsBounded) {
  waits(4s, 1s);
  for (int i = 0; i < 100; ++i) live.resources.push_back(api());
  EXPECT_EQ(diagnose(live).size(), kWarningsMax);
}

}  // namespace
}  // namespace weir::server
