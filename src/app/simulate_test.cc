// `weir simulate` as a program.
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "app/process_for_test.h"
#include "core/temporary_directory_for_test.h"

namespace weir::app {
namespace {

struct SimulateTest : testing::Test {
  struct Said {
    int code;
    std::string out;
    std::string err;
  };
  Said weir(std::vector<std::string> arguments) {
    std::vector<std::string> command{WEIR_PROGRAM, "simulate"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    Process process{command, path("weir")};
    const int code = process.wait();
    return {code, process.out(), process.err()};
  }
  std::string path(const std::string& name) const { return directory.path(name); }
  std::string write(const std::string& name, const std::string& text) const {
    return directory.write(name, text);
  }

  TemporaryDirectory directory;
};

TEST_F(SimulateTest, ShowsBothSidesInATableAndIsQuietInAPipe) {
  const Said said = weir({"--duration", "10m"});
  EXPECT_EQ(said.code, 0);
  EXPECT_EQ(said.err, "");
  for (const char* text :
       {"50 agents that would each make 6 calls a minute for 10 min", "WITHOUT WEIR", "WITH WEIR",
        "calls wanted", "429s from the provider", "quota used", "fairness", "dollars wasted",
        "What binds is tokens per 1m."}) {
    EXPECT_NE(said.out.find(text), std::string::npos) << text << " in:\n" << said.out;
  }
}

TEST_F(SimulateTest, HelpHasAnExample) {
  const Said said = weir({"--help"});
  EXPECT_EQ(said.code, 0);
  EXPECT_NE(said.out.find("Example:\n  weir simulate"), std::string::npos);
  EXPECT_NE(said.out.find("(default 250000 if no limit is given)"), std::string::npos);
  EXPECT_EQ(said.out.find("Excludes"), std::string::npos);
}

TEST_F(SimulateTest, TheSameSeedGivesTheSameJson) {
  const std::vector<std::string> arguments{"--json", "--seed", "7",        "--duration", "10m",
                                           "--rpm",  "100",    "--tokens", "10-20"};
  const Said said = weir(arguments);
  EXPECT_EQ(said.code, 0);
  EXPECT_EQ(weir(arguments).out, said.out);
  const auto json = boost::json::parse(said.out);
  EXPECT_EQ(json.at("limit").as_string(), "requests per 1m");
  EXPECT_EQ(json.at("with").at("refusals_429").as_int64(), 0);
  EXPECT_GT(json.at("without").at("refusals_429").as_int64(), 0);
  EXPECT_GE(json.at("with").at("quota_used").to_number<double>(), 0.98);
  const auto& assumed = json.at("assumed");
  EXPECT_EQ(assumed.at("agents").as_int64(), 50);
  EXPECT_EQ(assumed.at("seed").as_int64(), 7);
  EXPECT_EQ(assumed.at("duration_ms").as_int64(), 600'000);
  EXPECT_EQ(assumed.at("calls_per_minute").to_number<double>(), 6);
  EXPECT_EQ(assumed.at("quota").as_array().size(), 1U);
  EXPECT_EQ(assumed.at("quota").at(0).at("amount").as_int64(), 100);
}

TEST_F(SimulateTest, SaysWhenAQuotaIsTooSmallForTheFleetOrForACall) {
  const Said slow = weir({"--duration", "10m", "--max-concurrency", "2"});
  EXPECT_NE(slow.out.find("Even with Weir "), std::string::npos) << slow.out;
  EXPECT_EQ(slow.out.find("larger than a limit"), std::string::npos) << slow.out;
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--duration", "10m", "--tpm", "100", "--tokens", "200"},
        {"--duration", "10m", "--tpm", "100", "--tokens", "200", "--feed"}}) {
    const Said never = weir(arguments);
    EXPECT_NE(never.out.find("100.0% "), std::string::npos) << never.out;
    EXPECT_NE(never.out.find("larger than a limit"), std::string::npos) << never.out;
    EXPECT_EQ(never.out.find("Even with Weir"), std::string::npos) << never.out;
  }
}

TEST_F(SimulateTest, AnswersMayTakeNoTime) {
  const Said said = weir({"--duration", "10m", "--latency", "0", "--token-latency", "0ms"});
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_NE(said.out.find("an answer takes 0 ms and 0 ms a token"), std::string::npos) << said.out;
}

TEST_F(SimulateTest, FindsOutHowManyAgentsAQuotaFeeds) {
  const Said said = weir({"--feed", "--tpm", "100000", "--duration", "30m", "--wait-p99", "5s"});
  EXPECT_EQ(said.code, 0);
  EXPECT_TRUE(said.out.starts_with("agents that would each make 6 calls a minute for 30 min"))
      << said.out;
  EXPECT_NE(said.out.find("\nquota: 100,000 tokens each 1 min\n"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("\nThis quota feeds 1"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("AGENTS"), std::string::npos);
  EXPECT_NE(said.out.find("hungry"), std::string::npos);
  const auto json = boost::json::parse(weir({"--feed", "--tpm", "100000", "--json"}).out);
  EXPECT_GT(json.at("agents").as_int64(), 5);
  EXPECT_FALSE(json.at("at_least").as_bool());
  EXPECT_GT(json.at("curve").as_array().size(), 5U);
  EXPECT_EQ(json.at("assumed").at("quota").at(0).at("amount").as_int64(), 100'000);
}

TEST_F(SimulateTest, ReadsATraceAndAProviderFile) {
  std::string trace = "time_ms,agent,input_tokens,output_tokens\n";
  for (int i = 0; i < 600; ++i) {
    trace += std::to_string(i * 1000) + (i % 2 == 0 ? ",even" : ",odd") + ",500,50\n";
  }
  const std::string provider = write("p.yaml",
                                     "name: p\n"
                                     "domain: p.example\n"
                                     "limits:\n"
                                     "  - {unit: requests, amount: 30, per: 1m}\n");
  const Said said = weir({"--trace", write("t.csv", trace), "--provider", provider, "--json",
                          "--duration", "20m", "--latency", "100ms", "--token-latency", "1ms"});
  ASSERT_EQ(said.code, 0) << said.err;
  const auto json = boost::json::parse(said.out);
  EXPECT_EQ(json.at("assumed").at("agents").as_int64(), 2);
  // A call each second, as in the trace.
  EXPECT_NEAR(json.at("with").at("calls_wanted").to_number<double>(), 1200, 5);
  EXPECT_EQ(json.at("with").at("refusals_429").as_int64(), 0);
}

TEST_F(SimulateTest, WritesAReport) {
  const std::string page = path("report.html");
  const Said said = weir({"--duration", "10m", "--report", page});
  EXPECT_EQ(said.code, 0);
  EXPECT_NE(said.out.find("Plots are in " + page), std::string::npos);
  EXPECT_TRUE(directory.read("report.html").starts_with("<!doctype html>"));
  // What cannot be opened is told before it takes its time.
  const Said said_early = weir({"--duration", "10m", "--report", path("none/report.html")});
  EXPECT_EQ(said_early.code, 2);
  EXPECT_EQ(said_early.out, "");
  EXPECT_EQ(said_early.err,
            "weir: --report: " + path("none/report.html") + ": No such file or directory\n");
  const Said full = weir({"--duration", "10m", "--report", "/dev/full"});
  EXPECT_EQ(full.code, 1);
  EXPECT_EQ(full.err, "weir: --report: /dev/full: No space left on device\n");
}

TEST_F(SimulateTest, BothSidesAndWhatBindsAreOfOneLimit) {
  // Small calls slip through without Weir, and requests would bind.
  const std::vector<std::string> arguments{"--rpm", "188", "--tpm", "250000"};
  EXPECT_NE(weir(arguments).out.find("What binds is tokens per 1m."), std::string::npos);
  const auto json = boost::json::parse(weir({"--rpm", "188", "--tpm", "250000", "--json"}).out);
  EXPECT_EQ(json.at("limit").as_string(), "tokens per 1m");
  for (const char* side : {"without", "with"}) {
    // A full bucket and an hour's worth.
    const auto tokens = json.at(side).at("tokens").to_number<double>();
    EXPECT_NEAR(json.at(side).at("quota_used").to_number<double>(), tokens / (61 * 250'000.0), 1e-6)
        << side;
  }
}

TEST_F(SimulateTest, TheQuotaIsThatOfTheModelToo) {
  const std::string provider =
      write("p.yaml",
            "name: p\n"
            "domain: p.example\n"
            "limits:\n"
            "  - {unit: requests, amount: 300, per: 1m}\n"
            "models:\n"
            "  \"small-*\": {limits: [{unit: tokens, amount: 90000, per: 1m}]}\n");
  const std::vector<std::string> arguments{"--duration", "10m",     "--provider",
                                           provider,     "--model", "small-1"};
  const Said said = weir(arguments);
  EXPECT_NE(said.out.find("\nquota: 300 requests each 1 min, 90,000 tokens each 1 min\n"),
            std::string::npos)
      << said.out;
  std::vector<std::string> as_json = arguments;
  as_json.push_back("--json");
  const auto json = boost::json::parse(weir(as_json).out);
  EXPECT_EQ(json.at("assumed").at("quota").as_array().size(), 2U);
  EXPECT_EQ(json.at("assumed").at("quota").at(1).at("amount").as_int64(), 90'000);
}

TEST_F(SimulateTest, WhatCannotBeWrittenHasFailed) {
  Process process{{"/bin/sh", "-c", WEIR_PROGRAM " simulate --duration 1m >/dev/full"},
                  path("weir")};
  EXPECT_EQ(process.wait(), 1);
  EXPECT_EQ(process.err(), "weir: cannot write: No space left on device\n");
}

TEST_F(SimulateTest, BadNumbersAreWrongUsageThatNamesThem) {
  const std::string bad_trace = write("t.csv", "time_ms,input_tokens,output_tokens\n1,2,x\n");
  const std::string bad_provider = write("p.yaml", "name: p\nlimit: many\n");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"--agents", "0"}, "weir: --agents: from 1 to 100,000, not 0"},
      {{"--agents", "-5"}, "--agents cannot be \"-5\" (see weir simulate --help)"},
      {{"--agents", "100001"}, "100,001"},
      {{"--greedy", "51"}, "--greedy: from 0 to 50, not 51"},
      {{"--duration", "1x"}, "--duration: 1x"},
      {{"--rate", "6"}, "--rate: \"6\""},
      {{"--rate", "-6/m"}, "--rate: \"-6/m\""},
      {{"--rate", "nan/m"}, "--rate: \"nan/m\""},
      {{"--rate", "1000000/s", "--duration", "1d"}, "calls are to be expected"},
      {{"--tokens", "4000-200"}, "--tokens: \"4000-200\""},
      {{"--output-tokens", "many"}, "--output-tokens: \"many\""},
      {{"--rpm", "0"}, "--rpm: from 1 to 1,000,000,000,000,000, not 0"},
      {{"--tpm", "-1"}, "--tpm: from 1 to 1,000,000,000,000,000, not -1"},
      {{"--max-concurrency", "0"}, "--max-concurrency: from 1"},
      {{"--latency", "soon"}, "--latency: soon"},
      {{"--patience", ""}, "--patience"},
      {{"--retries", "101"}, "--retries: from 0 to 100, not 101"},
      {{"--trace", path("none.csv")}, "none.csv: No such file"},
      {{"--trace", directory.path()}, "--trace"},
      {{"--trace", bad_trace}, "t.csv:2:5: output_tokens: \"x\""},
      {{"--trace", bad_trace, "--tokens", "5"}, "excludes"},
      {{"--provider", bad_provider}, "p.yaml:2:8: limit"},
      {{"--provider", bad_provider, "--rpm", "5"}, "excludes"},
      {{"--feed", "--wait-p99", "0"}, "--wait-p99: 0"},
      {{"--wait-p99", "1s"}, "requires --feed"},
      {{"--feed", "--greedy", "2"}, "--greedy: with --feed all agents are alike"},
      {{"--feed", "--agents", "10"}, "--agents: --feed finds out how many"},
  };
  for (const auto& [arguments, message] : cases) {
    const Said said = weir(arguments);
    EXPECT_EQ(said.code, 2) << arguments[0] << " " << said.out;
    EXPECT_EQ(said.out, "") << arguments[0];
    EXPECT_NE(said.err.find(message), std::string::npos) << message << " in: " << said.err;
  }
}

}  // namespace
}  // namespace weir::app
