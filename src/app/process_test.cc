// The program itself, as a process: exit codes, signals, what it prints where.
#include "app/daemon_for_test.h"
#include "app/process_for_test.h"

namespace weir::app {
namespace {

class ProcessTest : public ::testing::Test {
 protected:
  ProcessTest() { setenv("XDG_STATE_HOME", directory_.path("state").c_str(), 1); }

  struct Ended {
    int code;
    std::string out;
    std::string err;
  };
  std::unique_ptr<Process> launch(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), WEIR_PROGRAM);
    return std::make_unique<Process>(std::move(arguments),
                                     directory_.path("process" + std::to_string(++launched_)));
  }
  Ended run(std::vector<std::string> arguments) {
    const auto process = launch(std::move(arguments));
    const int code = process->wait();
    return {code, process->out(), process->err()};
  }

  // Starts a daemon with one provider of one slot and one of two requests an hour.
  void start_daemon() {
    directory_.write("providers/slot.yaml", "name: slot\ndomain: s.example\nmax_concurrency: 1\n");
    directory_.write("providers/two.yaml", "name: two\ndomain: t.example\nlimit: 2\nperiod: 1h\n");
    daemon_ = launch(
        {"start", "--listen", "127.0.0.1:0", "--provider-dir", directory_.path("providers")});
    server_ = "127.0.0.1:" + std::to_string(await_port());
  }
  std::uint16_t await_port() {
    const std::string before = "\"address\":\"127.0.0.1:";
    for (;;) {
      const std::string log = daemon_->err();
      const std::size_t at = log.find(before);
      if (at != std::string::npos && log.find('\n', at) != std::string::npos) {
        port_ = static_cast<std::uint16_t>(std::stoi(log.substr(at + before.size())));
        return port_;
      }
      nap();
    }
  }
  std::string active() {
    net::HttpClient http{{.port = port_}};
    const auto status = http.get("/api/status");
    if (!status) return "unreachable";
    return boost::json::serialize(
        boost::json::parse(status->body).at("rate_limits").at("slot").at("active_requests"));
  }
  void until(const std::function<bool()>& condition) {
    while (!condition()) nap();
  }

  TemporaryDirectory directory_;
  std::unique_ptr<Process> daemon_;
  std::string server_;
  std::uint16_t port_ = 0;
  int launched_ = 0;
};

TEST_F(ProcessTest, WrongUsageIsTwoAndSaysWhatIsWrong) {
  for (const auto& [arguments, said] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{}, "command"},
           {{"bogus"}, "bogus"},
           {{"start", "--nonsense"}, "--nonsense"},
           {{"start", "--listen", "nowhere:port"}, "nowhere:port"},
           {{"start", "--durability", "perhaps"}, "perhaps"},
           {{"start", "--config", "/does/not/exist.yaml"}, "/does/not/exist.yaml"},
           {{"start", "--listen", "0.0.0.0:0"}, "token"},
           {{"acquire"}, "RESOURCE"},
           {{"exec", "x"}, "COMMAND"},
           {{"check", "/does/not/exist.yaml"}, "/does/not/exist.yaml"}}) {
    const Ended ended = run(arguments);
    EXPECT_EQ(ended.code, 2) << said;
    EXPECT_NE(ended.err.find(said), std::string::npos) << ended.err;
    EXPECT_EQ(ended.out, "") << said;
  }
}

TEST_F(ProcessTest, EveryCommandHasHelpWithAnExample) {
  for (const char* command : {"start", "check", "status", "resources", "acquire", "exec", "reload",
                              "completion", "version"}) {
    const Ended ended = run({command, "--help"});
    EXPECT_EQ(ended.code, 0);
    EXPECT_NE(ended.out.find("Example:\n  "), std::string::npos) << command;
  }
}

TEST_F(ProcessTest, ItsVersionIsPrintedByWhicheverWord) {
  const Ended ended = run({"--version"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out, run({"version"}).out);
}

TEST_F(ProcessTest, CheckExplainsOrShowsEveryMistakeOfEveryFile) {
  const std::string good =
      directory_.write("good.yaml", "domain: a.example\nlimit: 5\nperiod: 1s\n");
  const std::string bad = directory_.write("bad.yaml", "domain: b.example\nlimit: 0\nperiod: 1y\n");
  const std::string worse = directory_.write("worse.yaml", "domane: c.example\n");
  const Ended fine = run({"check", good});
  EXPECT_EQ(fine.code, 0) << fine.err;
  EXPECT_NE(fine.out.find("at most 5 requests in each window of 1s"), std::string::npos)
      << fine.out;
  const Ended wrong = run({"check", good, bad, worse});
  EXPECT_EQ(wrong.code, 2);
  for (const char* said : {"bad.yaml:2:8: limit: ", "bad.yaml:3:9: period: ", "worse.yaml:1:1: "}) {
    EXPECT_NE(wrong.err.find(said), std::string::npos) << wrong.err;
  }
}

TEST_F(ProcessTest, AcquireSaysByItsExitCodeWhetherToGoOn) {
  EXPECT_EQ(run({"acquire", "two", "--server", "127.0.0.1:1"}).code, 69);
  start_daemon();
  EXPECT_EQ(run({"acquire", "two", "--wait", "20s", "--server", server_}).code, 0);
  EXPECT_EQ(run({"acquire", "https://t.example/x", "--wait", "20s", "--server", server_}).code, 0);
  const Ended refused = run({"acquire", "two", "--server", server_});
  EXPECT_EQ(refused.code, 75);
  EXPECT_NE(refused.err.find("requests per 1h"), std::string::npos);
  const Ended json = run({"acquire", "two", "--server", server_, "--json"});
  EXPECT_EQ(json.code, 75);
  EXPECT_EQ(boost::json::parse(json.out).at("error").as_string(), "rate_limited");
  const Ended unknown = run({"acquire", "three", "--server", server_});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_EQ(unknown.err, "weir: no resource is called \"three\"; `weir resources` lists them\n");
}

TEST_F(ProcessTest, StatusAndResourcesAreTablesOrJson) {
  start_daemon();
  const Ended table = run({"status", "--server", server_});
  EXPECT_EQ(table.code, 0);
  EXPECT_NE(table.out.find("RESOURCE"), std::string::npos);
  EXPECT_EQ(table.out.find('\x1b'), std::string::npos) << "colours are for terminals";
  EXPECT_TRUE(boost::json::parse(run({"status", "--json", "--server", server_}).out)
                  .as_object()
                  .contains("rate_limits"));
  EXPECT_NE(run({"resources", "--server", server_}).out.find("s.example"), std::string::npos);
}

TEST_F(ProcessTest, ExecRunsUnderAPermitAndPassesTheExitCodeOn) {
  start_daemon();
  const Ended ended = run({"exec", "slot", "--server", server_, "--", "sh", "-c",
                           "echo to stdout; echo to stderr >&2; exit 7"});
  EXPECT_EQ(ended.code, 7);
  EXPECT_EQ(ended.out, "to stdout\n");
  EXPECT_EQ(ended.err, "to stderr\n");
  EXPECT_EQ(active(), "0");
  EXPECT_EQ(run({"exec", "slot", "--server", server_, "--", "/does/not/exist"}).code, 127);
  EXPECT_EQ(run({"exec", "slot", "--server", server_, "--", "/etc/passwd"}).code, 126);
  EXPECT_EQ(active(), "0");
  EXPECT_EQ(run({"exec", "slot", "--server", server_, "--", "sh", "-c", "kill -9 $$"}).code,
            128 + SIGKILL);
  EXPECT_EQ(active(), "0") << "released even when the command is killed";
}

TEST_F(ProcessTest, ExecForwardsSignalsAndIsRefusedWhileTheSlotIsTaken) {
  start_daemon();
  const auto first =
      launch({"exec", "slot", "--server", server_, "--", "sh", "-c",
              "trap 'echo got it; exit 3' TERM; echo ready; while :; do read x; done"});
  until([&] { return first->out() == "ready\n"; });
  EXPECT_EQ(active(), "1");
  const Ended refused = run({"exec", "slot", "--server", server_, "--", "true"});
  EXPECT_EQ(refused.code, 75);
  first->signal(SIGTERM);
  EXPECT_EQ(first->wait(), 3);
  EXPECT_EQ(first->out(), "ready\ngot it\n");
  EXPECT_EQ(active(), "0");
}

TEST_F(ProcessTest, ACommandDoesNotOutliveAKilledExec) {
  start_daemon();
  const auto killed =
      launch({"exec", "slot", "--server", server_, "--", "sh", "-c",
              "trap 'echo ended; exit' TERM; echo ready; while :; do read x; done"});
  until([&] { return killed->out() == "ready\n"; });
  killed->signal(SIGKILL);
  EXPECT_EQ(killed->wait(), 1000 + SIGKILL);
  until([&] { return killed->out() == "ready\nended\n"; });
}

TEST_F(ProcessTest, TheDaemonReloadsOnHangupAndEndsOnTermination) {
  start_daemon();
  directory_.write("providers/three.yaml",
                   "name: three\ndomain: h.example\nlimit: 1\nperiod: 1h\n");
  daemon_->signal(SIGHUP);
  until([&] { return daemon_->err().find("\"message\":\"reloaded\"") != std::string::npos; });
  EXPECT_EQ(run({"acquire", "three", "--wait", "20s", "--server", server_}).code, 0);
  const Ended reloaded = run({"reload", "--server", server_});
  EXPECT_EQ(reloaded.code, 0);
  EXPECT_EQ(reloaded.out, "reloaded: 3 resources\n");
  directory_.write("providers/three.yaml", "limit: 1\n");
  const Ended refused = run({"reload", "--server", server_});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("three.yaml:"), std::string::npos) << refused.err;
  daemon_->signal(SIGTERM);
  EXPECT_EQ(daemon_->wait(), 0);
}

TEST_F(ProcessTest, AnAddressThatAReloadCannotChangeIsWarnedAbout) {
  const std::string main_file = directory_.write("weir.yaml", "listen: 127.0.0.1:0\n");
  daemon_ = launch({"start", "--config", main_file});
  await_port();
  directory_.write("weir.yaml", "listen: 127.0.0.1:1\n");
  daemon_->signal(SIGHUP);
  until([&] { return daemon_->err().find("\"message\":\"reloaded\"") != std::string::npos; });
  EXPECT_NE(daemon_->err().find("takes effect at the next start"), std::string::npos);
}

TEST_F(ProcessTest, APortInUseIsOneLine) {
  start_daemon();
  const Ended second = run({"start", "--listen", server_});
  EXPECT_EQ(second.code, 1);
  EXPECT_EQ(second.err, "weir: cannot listen on " + server_ + ": the port is in use\n");
}

TEST_F(ProcessTest, CompletionsAreScriptsThatTheShellTakes) {
  const std::string script = directory_.write("completion.bash", run({"completion", "bash"}).out);
  const std::string completes =
      ". " + script + "; COMP_WORDS=(weir st); COMP_CWORD=1; _weir; echo ${COMPREPLY[*]} > " +
      directory_.path("completed");
  EXPECT_EQ(std::system(("bash -c '" + completes + "'").c_str()), 0);
  EXPECT_EQ(directory_.read("completed"), "start status\n");
  EXPECT_NE(run({"completion", "fish"}).out.find("-l provider-dir"), std::string::npos);
  EXPECT_EQ(run({"completion", "zsh"}).out.rfind("#compdef weir\n", 0), 0U);
}

}  // namespace
}  // namespace weir::app
