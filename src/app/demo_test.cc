// The demo: its fleet through a daemon in this process, and the command itself. In real time.
#include <fmt/format.h>
#include <sys/resource.h>

#include "app/daemon_for_test.h"
#include "app/process_for_test.h"
#include "app/progress_bar.h"
#include "core/sanitized_for_test.h"
#include "workload/fake_provider.h"
#include "workload/fleet_run.h"

namespace weir::app {
namespace {

using namespace std::chrono_literals;

// A fleet in real time that comes late does not fill a quota, or comes all at once: then it comes
// again, but for sanitizers, which are always late.
constexpr bool kTooSlow = kSanitized;
bool too_late(Nanos late) { return !kTooSlow && late > 250ms; }

struct Ran {
  workload::FleetRun::Outcome outcome = {};
  workload::FakeProvider::Truth in_time = {};
  workload::FakeProvider::Truth truth = {};
};

void run_through_a_daemon(Ran& ran) {
  using namespace workload;
  const TimeSource time = TimeSource::system();
  server::Log log{-1, server::Log::Format::kText, time.clock};
  const Plan plan = Plan::draw(
      sample_trace(), {.agents = 6, .lasting = 2s, .latency = 100ms, .latency_per_token = 1ms});
  const Quota quota = Quota::for_plan(plan);
  // A bucket that forgives a machine that is busy with other tests.
  auto provider = FakeProvider::start(
      {.limits = quota.limits(10s), .latency = 100ms, .latency_per_token = 1ms}, time, log);
  ASSERT_TRUE(provider) << provider.error().message;

  const TemporaryDirectory directory;
  const std::string file = directory.write(
      "demo.yaml",
      fmt::format("name: demo\ndomain: demo.example\nupstream: {}\nprofile: openai\nlimits:\n"
                  "  - {{unit: tokens, amount: {}, per: 1m, burst: {}}}\n",
                  (*provider)->url(), quota.tokens_per_minute,
                  quota.limits(Quota::kSafeBurst)[1].burst));
  auto daemon = Daemon::start({.files = {.provider_files = {file}},
                               .listen = Listen{.host = "127.0.0.1", .port = 0},
                               .durability = Durability::kNone},
                              time, log);
  ASSERT_TRUE(daemon) << daemon.error().lines.front();

  auto fleet =
      FleetRun::create(plan,
                       {.url = fmt::format("http://127.0.0.1:{}/proxy/demo", (*daemon)->port()),
                        .told = {},
                        .time_over = [&] { ran.in_time = (*provider)->truth(); }},
                       time);
  ASSERT_TRUE(fleet);
  ran.outcome = (*fleet)->run({});
  ran.truth = (*provider)->truth();
}

TEST(DemoFleetTest, ThroughADaemonThatKnowsTheQuotaNobodyIsRefused) {
  Ran ran;
  do run_through_a_daemon(ran);
  while (!HasFatalFailure() && too_late(ran.outcome.late));
  const auto& [outcome, in_time, truth] = ran;
  EXPECT_LE(truth.refused, kTooSlow ? 20U : 0U);
  EXPECT_EQ(outcome.tally.given_up, 0U);
  EXPECT_GT(outcome.tally.done, kTooSlow ? 0U : 10U);
  EXPECT_EQ(outcome.tally.asked, truth.answered);
  // Those that waited when the time was over do not count: by the provider's clock, to a
  // millisecond, in which it may take a few.
  EXPECT_LT(outcome.tally.done, outcome.tally.asked);
  EXPECT_LE(outcome.tally.done, in_time.admitted + 3);
  EXPECT_LT(outcome.tally.tokens, truth.input + truth.output);
  // They had to wait: the quota is smaller than the demand.
  EXPECT_GT(outcome.tally.waits.spread().p99, 10ms);
}

TEST(ProgressLineTest, FitsIntoATerminalOf80Columns) {
  const std::string counters = "1/2 without Weir  40 s  done 9999  given up 9999  429s 9999";
  EXPECT_EQ(progress_line(0.5, counters), "[########        ] " + counters);
  EXPECT_LE(progress_line(1, counters).size(), 79U);
  EXPECT_EQ(progress_line(7, std::string(200, 'x')), "[################] " + std::string(60, 'x'));
}

class DemoTest : public ::testing::Test {
 protected:
  DemoTest() {
    std::filesystem::create_directories(directory_.path("tmp"));
    setenv("TMPDIR", directory_.path("tmp").c_str(), 1);
  }
  ~DemoTest() override { unsetenv("TMPDIR"); }

  std::unique_ptr<Process> launch(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {WEIR_PROGRAM, "demo"});
    return std::make_unique<Process>(std::move(arguments),
                                     directory_.path("demo" + std::to_string(++launched_)));
  }
  static void until_said(const Process& process, std::string_view text) {
    while (!process.err().contains(text)) {
      ASSERT_FALSE(process.ended()) << process.err();
      nap();
    }
  }
  bool nothing_left() const { return std::filesystem::is_empty(directory_.path("tmp")); }

  TemporaryDirectory directory_;

 private:
  int launched_ = 0;
};

TEST_F(DemoTest, ShowsWhatWeirDoesInFiguresOrHoldsUntilItIsInterrupted) {
  const auto holding =
      launch({"--seconds", "1", "--agents", "2", "--listen", "127.0.0.1:0", "--hold"});
  // Meanwhile: most of the time nothing happens in either.
  std::unique_ptr<Process> process;
  boost::json::value shown;
  const auto late = [&](const char* run) {
    return too_late(std::chrono::milliseconds{shown.at(run).at("late_ms").as_int64()});
  };
  do {
    process = launch({"--seconds", "2", "--agents", "6", "--listen", "127.0.0.1:0", "--json"});
    ASSERT_EQ(process->wait(), 0) << process->err();
    shown = boost::json::parse(process->out());
  } while (late("without") || late("with"));
  const auto figure = [&](const char* run, const char* name) {
    return shown.at(run).at(name).to_number<double>();
  };
  EXPECT_EQ(figure("without", "calls_wanted"), figure("with", "calls_wanted"));
  if (!kTooSlow) {
    EXPECT_GT(figure("without", "refusals_429"), 0);
    EXPECT_EQ(figure("with", "refusals_429"), 0);
    EXPECT_EQ(figure("with", "calls_given_up"), 0);
    EXPECT_EQ(figure("with", "usd_wasted"), 0);
  }
  for (const char* run : {"without", "with"}) {
    EXPECT_GE(figure(run, "calls_done"), kTooSlow ? 0 : 10) << run;
    EXPECT_GE(figure(run, "quota_used"), kTooSlow ? 0 : 0.4) << run;
    EXPECT_LT(figure(run, "quota_used"), 1.02) << run;
    EXPECT_GT(figure(run, "fairness"), 0.05) << run;
    EXPECT_LE(figure(run, "fairness"), 1) << run;
  }
  EXPECT_EQ(shown.at("assumed").at("agents").as_int64(), 6);
  EXPECT_EQ(shown.at("assumed").at("quota").as_array().size(), 3U);
  EXPECT_TRUE(process->err().contains("The page: http://127.0.0.1:")) << process->err();
  EXPECT_FALSE(process->err().contains('\r')) << "a progress bar in a file";

  until_said(*holding, "Ctrl-C to end");
  const std::string said = holding->err();
  const std::string before = "It goes on: http://127.0.0.1:";
  const auto port = std::stoi(said.substr(said.find(before) + before.size()));
  net::HttpClient http{{.port = static_cast<std::uint16_t>(port)}};
  const auto demo = http.get("/v1/resources/demo");
  ASSERT_TRUE(demo) << demo.error().message;
  EXPECT_EQ(demo->status, 200);
  holding->signal(SIGINT);
  EXPECT_EQ(holding->wait(), 0);
  for (const char* line :
       {"without Weir", "calls done", "429s", "quota used", "fairness", "Next:"}) {
    EXPECT_TRUE(holding->out().contains(line)) << line;
  }
  EXPECT_TRUE(holding->out().contains("where ")) << "what is fair";
  EXPECT_FALSE(holding->out().contains("weir demo --hold")) << "it does";
  EXPECT_TRUE(nothing_left());
}

TEST_F(DemoTest, AnInterruptionEndsItAndLeavesNothing) {
  struct Row {
    int signal;
    const char* seconds;
    const char* when;
  };
  for (const auto& [signal, seconds, when] :
       {Row{SIGINT, "600", "agents"}, {SIGTERM, "5", "The page"}, {SIGHUP, "600", "agents"}}) {
    const auto process =
        launch({"--seconds", seconds, "--agents", "2", "--listen", "127.0.0.1:0", "--hold"});
    until_said(*process, when);
    process->signal(signal);
    EXPECT_EQ(process->wait(), 128 + signal) << process->err();
    EXPECT_TRUE(process->err().contains("interrupted")) << process->err();
    EXPECT_EQ(process->out(), "");
    EXPECT_TRUE(nothing_left());
  }
}

TEST_F(DemoTest, EndsWhenNobodyReadsWhatItSaysAndLeavesNothing) {
  const std::string demo =
      WEIR_PROGRAM " demo --seconds 1 --agents 2 --listen 127.0.0.1:0 --hold 2>&1 >/dev/null";
  Process process{
      {"/bin/sh", "-c", "{ " + demo + "; echo $? >" + directory_.path("code") + "; } | true"},
      directory_.path("piped")};
  process.wait();
  EXPECT_EQ(directory_.read("code"), "1\n");
  EXPECT_EQ(process.err(), "");
  EXPECT_TRUE(nothing_left());
}

TEST_F(DemoTest, HasAsManyConnectionsAsTheSystemAllows) {
  Process process{
      {"/bin/sh", "-c",
       "ulimit -S -n 64; exec " WEIR_PROGRAM " demo --seconds 600 --agents 2 --listen 127.0.0.1:0"},
      directory_.path("limited")};
  until_said(process, "agents");
  rlimit limit{};
  ASSERT_EQ(prlimit(process.pid(), RLIMIT_NOFILE, nullptr, &limit), 0);
  EXPECT_EQ(limit.rlim_cur, limit.rlim_max);
  process.signal(SIGINT);
  process.wait();
}

TEST_F(DemoTest, WhatItCannotDoIsSaidBeforeItBegins) {
  for (const auto& [arguments, said] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--listen", "nowhere:port"}, "nowhere:port"},
           {{"--listen", "0.0.0.0:0"}, "token"},
           {{"--seconds", "0"}, "--seconds"},
           {{"--agents", "1"}, "--agents"},
           {{"--agents", "many"}, "many"}}) {
    const auto process = launch(arguments);
    EXPECT_EQ(process->wait(), 2) << said;
    EXPECT_TRUE(process->err().contains(said)) << process->err();
    EXPECT_FALSE(process->err().contains("greedy"));
  }
  EXPECT_TRUE(nothing_left());
}

}  // namespace
}  // namespace weir::app
