#include "workload/trace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace weir::workload {
namespace {

using namespace std::chrono_literals;

std::string mistakes_of(std::string_view text) {
  const auto trace = parse_csv(text, "t.csv");
  std::string all;
  if (!trace) {
    for (const Mistake& mistake : trace.error()) all += mistake.text() + "\n";
  }
  return all;
}

TEST(TraceTest, ReadsWhatAzurePublishes) {
  const auto trace = parse_csv(
      "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
      "2023-11-16 18:15:46.6805900,374,44\r\n"
      "2023-11-16 18:15:50.9951690,396,109\r\n"
      "2023-11-17 00:00:00.0000000,1,2",
      "t.csv");
  ASSERT_TRUE(trace);
  ASSERT_EQ(trace->calls.size(), 3U);
  EXPECT_EQ(trace->calls[0].at, 0s);
  EXPECT_EQ(trace->calls[0].input_tokens, 374);
  EXPECT_EQ(trace->calls[0].output_tokens, 44);
  EXPECT_EQ(trace->calls[1].at, 4'314'579us);
  EXPECT_EQ(trace->calls[2].at, 5h + 44min + 13s + 319'410us);
  EXPECT_TRUE(trace->agents.empty());
}

TEST(TraceTest, ReadsTheZoneOfAzuresTraceOf2024) {
  const auto trace = parse_csv(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n"
      "2024-05-10 00:00:00.009930+00:00,2162,5\n"
      "2024-05-10T00:00:01Z,2399,6\n"
      "2024-05-10 00:00:02+00:00,1,2\n",
      "t.csv");
  ASSERT_TRUE(trace) << trace.error()[0].text();
  EXPECT_EQ(trace->calls[1].at, 990'070us);
  EXPECT_EQ(trace->span(), 1'990'070us);
  EXPECT_EQ(mistakes_of("timestamp,prompt_tokens,completion_tokens\n"
                        "2024-05-10 00:00:00+02:00,1,1\n"),
            "t.csv:2:1: timestamp: \"2024-05-10 00:00:00+02:00\" is not a time\n");
}

TEST(TraceTest, TheLastFieldMayBeEmptyWhicheverEndALineHas) {
  for (const std::string end : {"\n", "\r\n"}) {
    const auto trace = parse_csv("time_s,input_tokens,output_tokens,note" + end + "0,1,2," + end +
                                     "1,3,4,x" + end + "2,5,6,",
                                 "t.csv");
    ASSERT_TRUE(trace) << trace.error()[0].text();
    EXPECT_EQ(trace->calls.size(), 3U);
    EXPECT_EQ(mistakes_of("time_s,input_tokens,output_tokens" + end + "0,1," + end),
              "t.csv:2:5: output_tokens: \"\" is not a number of tokens from 0 to 100000000\n");
    EXPECT_EQ(mistakes_of("time_s,input_tokens,output_tokens" + end + "0,1,2," + end),
              "t.csv:2:7: more fields than the header has\n");
  }
}

TEST(TraceTest, ACommaInsideQuotesEndsNoField) {
  const auto trace = parse_csv(
      "agent,time_s,\"input_tokens\",output_tokens,note\n"
      "\"a, b\",0,1,2,\"c, \"\"d, e\"\"\"\n"
      " \"a, b\" ,1,3,4,5\" wide\n",
      "t.csv");
  ASSERT_TRUE(trace) << trace.error()[0].text();
  EXPECT_EQ(trace->agents, std::vector<std::string>{"a, b"});
  EXPECT_EQ(trace->calls[1].output_tokens, 4);
  EXPECT_EQ(mistakes_of("time_s,input_tokens,output_tokens\n\"0,1,2\n"),
            "t.csv:2:1: time_s: \"\"0,1,2\" is not a time\n"
            "t.csv:2:1: 1 fields where the header has 3\n");
}

TEST(TraceTest, ReadsMillisecondsAndAgentsInAnyOrder) {
  const auto trace = parse_csv(
      "# a comment\n"
      "agent, output_tokens ,note,time_ms,input_tokens\n"
      "b,5,x,1500.5,10\n"
      "\n"
      "\"a\",6,,500,11\n"
      "b,7,,2500,12\n",
      "t.csv");
  ASSERT_TRUE(trace) << trace.error()[0].text();
  ASSERT_EQ(trace->calls.size(), 3U);
  EXPECT_EQ(trace->agents, (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(trace->calls[0].agent, 1U);
  EXPECT_EQ(trace->calls[0].input_tokens, 11);
  EXPECT_EQ(trace->calls[1].at, 1'000'500us);
  EXPECT_EQ(trace->span(), 2s);
  EXPECT_EQ(trace->mean_gap(), 1s);
  EXPECT_DOUBLE_EQ(trace->mean_tokens(), 17);
}

TEST(TraceTest, NamesEveryMistakeByItsLine) {
  EXPECT_EQ(mistakes_of("time_s,input_tokens,output_tokens\n"
                        "0,1,1\n"
                        "one,2,2\n"
                        "2,-3,3\n"
                        "3,4\n"
                        "4,5,5,5\n"
                        "5,6,1.5\n"
                        "nan,1,999999999999\n"),
            "t.csv:3:1: time_s: \"one\" is not a time\n"
            "t.csv:4:3: input_tokens: \"-3\" is not a number of tokens from 0 to 100000000\n"
            "t.csv:5:3: 2 fields where the header has 3\n"
            "t.csv:6:7: more fields than the header has\n"
            "t.csv:7:5: output_tokens: \"1.5\" is not a number of tokens from 0 to 100000000\n"
            "t.csv:8:1: time_s: \"nan\" is not a time\n"
            "t.csv:8:7: output_tokens: \"999999999999\" is not a number of tokens from 0 to "
            "100000000\n");
  EXPECT_EQ(mistakes_of("timestamp,prompt_tokens,completion_tokens\n2023-02-30 10:00:00,1,1\n"),
            "t.csv:2:1: timestamp: \"2023-02-30 10:00:00\" is not a time\n");
}

TEST(TraceTest, RefusesWhatIsNoTrace) {
  const std::string none = "t.csv: a trace has at least two calls at different times\n";
  EXPECT_EQ(mistakes_of(""), none);
  EXPECT_EQ(mistakes_of("time_s,input_tokens,output_tokens\n1,1,1\n"), none);
  EXPECT_EQ(mistakes_of("time_s,input_tokens,output_tokens\n1,1,1\n1,1,1\n"), none);
  EXPECT_EQ(mistakes_of("\nwhen,input_tokens,output_tokens\n1,1,1\n"),
            "t.csv:2:1: the header names no column for the time; write "
            "time_ms,input_tokens,output_tokens\n");
  EXPECT_EQ(mistakes_of("time_s,time_ms,input_tokens,output_tokens\n"),
            "t.csv:1:8: time_ms: a second column of this kind\n");
}

TEST(TraceTest, HostileFilesAreBounded) {
  std::string many = "time_s,input_tokens,output_tokens\n";
  for (int i = 0; i < 1000; ++i) many += "x,y\n";
  EXPECT_EQ(parse_csv(many, "t.csv").error().size(), 20U);
  EXPECT_FALSE(parse_csv(std::string(100'000, ','), "t.csv"));
  EXPECT_FALSE(parse_csv(std::string(100'000, '\n') + std::string(1000, '\0'), "t.csv"));
  // No bytes of the file reach a terminal as they are.
  EXPECT_EQ(mistakes_of("time_s,input_tokens,output_tokens\n\x1b[31m,1,1\n"),
            "t.csv:2:1: time_s: \"?[31m\" is not a time\n");
}

TEST(TraceTest, TheSampleHasTheShapeOfTheOriginal) {
  const Trace& trace = sample_trace();
  EXPECT_EQ(trace.calls.size(), 1500U);
  // The original: a call each 181 ms, of 1,155 and 211 tokens.
  EXPECT_NEAR(static_cast<double>(trace.mean_gap().count()) / 1e6, 181, 10);
  EXPECT_NEAR(trace.mean_tokens(), 1366, 50);
}

TEST(SamplerTest, DrawsWithTheWishedGapAndTheSizesOfTheTrace) {
  Sampler sampler{sample_trace(), 10s, 7};
  double gaps = 0;
  double squares = 0;
  double tokens = 0;
  constexpr int kDraws = 200'000;
  for (int i = 0; i < kDraws; ++i) {
    const auto draw = sampler.next();
    const double gap = static_cast<double>(draw.gap.count()) / 1e9;
    gaps += gap;
    squares += gap * gap;
    const TracedCall& call = sample_trace().calls.at(draw.call);
    tokens += static_cast<double>(call.input_tokens + call.output_tokens);
  }
  EXPECT_NEAR(gaps / kDraws, 10, 0.2);
  EXPECT_NEAR(tokens / kDraws, sample_trace().mean_tokens(), 20);
  // Burstier than even gaps, whose variation is 0: the original's is 1.09.
  EXPECT_NEAR(std::sqrt(squares / kDraws - 100) / 10, 1.05, 0.1);
}

TEST(SamplerTest, TheSameSeedGivesTheSameCalls) {
  Sampler one{sample_trace(), 1s, 3};
  Sampler same{sample_trace(), 1s, 3};
  Sampler other{sample_trace(), 1s, 4};
  int different = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto draw = one.next();
    const auto again = same.next();
    ASSERT_EQ(draw.gap, again.gap);
    ASSERT_EQ(draw.call, again.call);
    different += draw.call == other.next().call ? 0 : 1;
  }
  EXPECT_GT(different, 900);
}

TEST(SamplerTest, ACallOfASyntheticTraceLiesBetweenTheEnds) {
  const Trace trace = synthetic_trace({200, 4000}, {50, 50}, 1);
  Amount smallest = 4000;
  Amount largest = 0;
  for (const TracedCall& call : trace.calls) {
    smallest = std::min(smallest, call.input_tokens);
    largest = std::max(largest, call.input_tokens);
    ASSERT_EQ(call.output_tokens, 50);
  }
  EXPECT_GE(smallest, 200);
  EXPECT_LT(smallest, 210);
  EXPECT_LE(largest, 4000);
  EXPECT_GT(largest, 3990);
  EXPECT_NEAR(trace.mean_tokens(), 2150, 50);
}

}  // namespace
}  // namespace weir::workload
