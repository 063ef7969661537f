#include "workload/tally.h"

#include <gtest/gtest.h>

namespace weir::workload {
namespace {

using namespace std::chrono_literals;

TEST(FairnessTest, EqualPartsAreFairAndOneForAllIsNot) {
  EXPECT_DOUBLE_EQ(fairness(std::vector<Share>{}), 1);
  EXPECT_DOUBLE_EQ(fairness(std::vector<Share>{{10, 0}, {10, 0}}), 1);
  EXPECT_DOUBLE_EQ(fairness(std::vector<Share>{{10, 5}, {10, 5}, {10, 5}, {10, 5}}), 1);
  EXPECT_DOUBLE_EQ(fairness(std::vector<Share>{{10, 10}, {10, 0}, {10, 0}, {10, 0}}), 0.25);
}

TEST(FairnessTest, WhoWantsLittleAndGetsItIsServedFairly) {
  // 12 shared among those who want 2, 10 and 100: 2, 5 and 5.
  EXPECT_DOUBLE_EQ(fairness(std::vector<Share>{{2, 2}, {10, 5}, {100, 5}}), 1);
  // In proportion to what they want: the greedy one takes most.
  EXPECT_LT(fairness(std::vector<Share>{{2, 0.2}, {10, 1.1}, {100, 10.7}}), 0.6);
}

TEST(TallyTest, TheTableAndTheJsonSayTheSame) {
  Tally tally{.wanted = 2'000,
              .asked = 1'900,
              .done = 1'500,
              .given_up = 400,
              .refusals = 12'345,
              .tasks_done = 250,
              .tokens = 3'000'000,
              .micro_usd = 7'500'000,
              .used_tokens = 2'700'000,
              .wasted_tokens = 100'000,
              .wasted_micro_usd = 420'000,
              .quota_used = 0.987,
              .fairness = 0.95};
  tally.waits.add(1500ms);
  const Tally* one[] = {&tally};
  std::string text;
  for (const TallyLine& line : lines(one)) text += line.label + ": " + line.values.at(0) + "\n";
  EXPECT_EQ(text,
            "calls wanted: 2,000\n"
            "calls done: 1,500 (75.0%)\n"
            "calls given up: 400 (20.0%)\n"
            "429s from the provider: 12,345\n"
            "quota used: 98.7%\n"
            "wait of calls done, median: 1.5 s\n"
            "wait of calls done, 99%: 1.5 s\n"
            "fairness (1 is best): 0.950\n"
            "tasks finished: 250\n"
            "tokens put to use: 2,700,000\n"
            "dollars wasted: $0.42 of $7.50\n");
  server::JsonText json;
  json.open('{');
  append_json(json, tally);
  json.close('}');
  EXPECT_TRUE(json.str().starts_with(
      R"({"calls_wanted":2000,"calls_asked":1900,"calls_done":1500,"calls_given_up":400,)"
      R"("calls_too_large":0,"refusals_429":12345,"quota_used":0.987000,"wait_p50_ms":1)"))
      << json.str();
  EXPECT_TRUE(
      json.str().ends_with(R"("tokens":3000000,"tokens_used":2700000,"tokens_wasted":100000,)"
                           R"("usd":7.5,"usd_wasted":0.42})"))
      << json.str();
}

TEST(TallyTest, CallsGivenUpWithWeirAreExplained) {
  Tally tally{.wanted = 1'000, .asked = 1'000, .done = 990, .given_up = 10};
  EXPECT_TRUE(remarks(tally, 1min).empty());
  tally.given_up = 104;
  ASSERT_EQ(remarks(tally, 1min).size(), 1U);
  EXPECT_TRUE(remarks(tally, 1min)[0].starts_with(
      "Even with Weir 10.4% of the calls gave up after 1 min: this quota is too small"));
  tally.too_large = 104;
  EXPECT_EQ(remarks(tally, 1min),
            std::vector<std::string>{
                "10.4% of the calls are larger than a limit and can never be made."});
  // Of calls that nobody came to ask it is not known.
  tally.wanted = 2'000;
  EXPECT_TRUE(remarks(tally, 1min)[0].starts_with("10.4% of the calls are larger"));
  tally.given_up = 208;
  EXPECT_EQ(remarks(tally, 1min).size(), 2U);
}

TEST(TallyTest, CountsAndDollarsReadWell) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1'234'567), "1,234,567");
  EXPECT_EQ(count_text(-1'000), "-1,000");
  EXPECT_EQ(usd_text(1'234'567'890), "$1,235");
}

}  // namespace
}  // namespace weir::workload
