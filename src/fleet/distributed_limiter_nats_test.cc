// Agents in processes of their own on a real NATS server, and one whose server is frozen or gone.
// The bus runs in real time, the limiters in simulated time.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "bus/bus_for_test.h"
#include "bus/nats_for_test.h"
#include "weir/fleet/distributed_limiter.h"
#include "weir/time/simulated_time.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr const char* kAgentId = "WEIR_TEST_AGENT_ID";
constexpr const char* kBusUrl = "WEIR_TEST_BUS_URL";

// An agent with a bus of its own and a resource "api" of 100 a minute.
struct Agent {
  Agent(const std::string& url, const std::string& agent_id)
      : bus(connect_bus({.url = url, .name = agent_id, .ca_file = {}}).value()),
        limiter(
            DistributedLimiter::create({.bus = bus, .agent_id = agent_id}, time.source()).value()) {
    EXPECT_TRUE(limiter->set_capacity("api", 100, 1min));
  }
  Amount total() const { return limiter->capacity("api").value().total; }

  // Obeys one command of AgentProcess.
  Amount obey(const std::string& command, Amount argument) {
    if (command == "ready") return bus::is_ready(*bus) ? 1 : 0;
    if (command == "announce") limiter->announce_reduced("api", "429");
    if (command == "await") eventually([&] { return total() == argument; });
    if (command == "await_own") {
      eventually([&] { return limiter->status().own == static_cast<std::uint64_t>(argument); });
    }
    if (command == "advance") time.advance(std::chrono::seconds{argument});
    return total();
  }

  SimulatedTime time;
  std::shared_ptr<MessageBus> bus;
  std::unique_ptr<DistributedLimiter> limiter;
};

// In a process that AgentProcess has started, the agent runs instead of the tests.
class AgentMain final : public testing::Environment {
  void SetUp() override {
    if (getenv(kAgentId) == nullptr) return;
    {
      Agent agent{getenv(kBusUrl), getenv(kAgentId)};
      std::FILE* commands = fdopen(STDIN_FILENO, "r");
      char command[32] = {};
      long long argument = 0;
      while (std::fscanf(commands, "%31s %lld", command, &argument) == 2) {
        dprintf(STDIN_FILENO, "%lld\n", static_cast<long long>(agent.obey(command, argument)));
      }
    }
    _exit(0);
  }
};
const testing::Environment* const agent_main = testing::AddGlobalTestEnvironment(new AgentMain);

// This program once more, as an agent; its standard input is a socket for commands and answers.
class AgentProcess {
 public:
  AgentProcess(const std::string& url, const std::string& agent_id) {
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
      throw std::runtime_error{"no socket pair"};
    }
    const std::string id = kAgentId + ('=' + agent_id);
    const std::string bus = kBusUrl + ('=' + url);
    std::vector<char*> environment{const_cast<char*>(id.c_str()), const_cast<char*>(bus.c_str())};
    for (char** variable = environ; *variable != nullptr; ++variable) {
      environment.push_back(*variable);
    }
    environment.push_back(nullptr);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(99);
      dup2(sockets[1], STDIN_FILENO);
      const char* arguments[] = {"agent", "--gtest_brief=1", nullptr};
      execve("/proc/self/exe", const_cast<char**>(arguments), environment.data());
      _exit(99);
    }
    close(sockets[1]);
    answers_ = fdopen(sockets[0], "r");
  }
  ~AgentProcess() {
    if (answers_ != nullptr) stop();
  }
  AgentProcess(const AgentProcess&) = delete;
  AgentProcess& operator=(const AgentProcess&) = delete;

  // What it answers; -1 if it has ended.
  Amount ask(const std::string& command, Amount argument = 0) {
    const std::string line = command + ' ' + std::to_string(argument) + '\n';
    send(fileno(answers_), line.data(), line.size(), MSG_NOSIGNAL);
    long long answer = 0;
    return std::fscanf(answers_, "%lld", &answer) == 1 ? answer : -1;
  }
  int stop() {
    std::fclose(std::exchange(answers_, nullptr));
    int status = 0;
    waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = -1;
  std::FILE* answers_ = nullptr;
};

// S0.7, S0.9, S0.10
TEST(DistributedLimiterNatsTest, ThreeProcessesHalveTogetherAndRecover) {
  bus::NatsServer server;
  AgentProcess a{server.url(), "a"};
  AgentProcess b{server.url(), "b"};
  AgentProcess c{server.url(), "c"};
  for (AgentProcess* each : {&a, &b, &c}) ASSERT_EQ(each->ask("ready"), 1);
  EXPECT_EQ(a.ask("announce"), 50);
  EXPECT_EQ(a.ask("await_own", 1), 50);
  EXPECT_EQ(b.ask("await", 50), 50);
  EXPECT_EQ(c.ask("await", 50), 50);
  EXPECT_EQ(b.ask("announce"), 50) << "the same event";
  for (const Amount expected : {55, 60, 66}) {
    for (AgentProcess* each : {&a, &b, &c}) EXPECT_EQ(each->ask("advance", 30), expected);
  }
  EXPECT_EQ(c.ask("announce"), 33);
  for (AgentProcess* each : {&a, &b}) EXPECT_EQ(each->ask("await", 33), 33);
  for (AgentProcess* each : {&a, &b, &c}) EXPECT_EQ(each->ask("advance", 600), 100);
  for (AgentProcess* each : {&a, &b, &c}) EXPECT_EQ(each->stop(), 0);
}

TEST(DistributedLimiterNatsTest, ACutMadeWhileTheServerWasGoneIsToldWhenItIsBack) {
  bus::NatsServer server;
  Agent a{server.url(), "a"};
  Agent b{server.url(), "b"};
  ASSERT_TRUE(bus::is_ready(*a.bus) && bus::is_ready(*b.bus));
  server.kill();
  ASSERT_TRUE(eventually([&] { return !a.bus->status().connected; }));
  a.limiter->announce_reduced("api", "429");
  EXPECT_EQ(a.total(), 50);
  EXPECT_EQ(a.limiter->status().publish_failed, 1U);
  ASSERT_TRUE(eventually([&] { return !b.bus->status().connected; }));
  server.start();
  ASSERT_TRUE(bus::is_ready(*a.bus) && bus::is_ready(*b.bus));
  a.time.advance(30s);
  EXPECT_EQ(a.limiter->status().published, 1U);
  EXPECT_TRUE(eventually([&] { return b.total() == 55; }));
}

// S0.10: nothing here returns before the server runs again if it waits for the server.
TEST(DistributedLimiterNatsTest, NobodyWaitsForAServerThatIsFrozenOrGone) {
  bus::NatsServer server;
  Agent a{server.url(), "a"};
  ASSERT_TRUE(bus::is_ready(*a.bus));
  ASSERT_TRUE(a.limiter->set_capacity("fast", kAmountMax, 1s));
  ASSERT_TRUE(a.limiter->set_capacity("cut", kAmountMax, 1ns));
  const std::string reason(500, 'x');
  constexpr int kAcquires = 50'000;
  constexpr int kAnnouncements = 10'000;  // 6 MB, more than a socket takes
  const auto use = [&] {
    const DistributedLimiterStatus before = a.limiter->status();
    std::atomic<int> admitted = 0;
    {
      const std::jthread thread{[&] {
        for (int i = 0; i < kAcquires; ++i) {
          admitted += a.limiter->try_acquire("fast") ? 1 : 0;
          admitted += a.limiter->acquire("fast") ? 1 : 0;
        }
      }};
      for (int i = 0; i < kAnnouncements; ++i) {
        a.limiter->announce_reduced("cut", reason);
        a.time.advance(1ns);
      }
    }
    EXPECT_EQ(admitted, 2 * kAcquires);
    const DistributedLimiterStatus after = a.limiter->status();
    EXPECT_EQ(after.published + after.publish_failed - before.published - before.publish_failed,
              static_cast<std::uint64_t>(kAnnouncements));
    return after.publish_failed - before.publish_failed;
  };
  server.freeze();
  EXPECT_GT(use(), 0U) << "what the server does not take is not kept for ever";
  server.thaw();
  server.kill();
  ASSERT_TRUE(eventually([&] { return !a.bus->status().connected; }));
  EXPECT_EQ(use(), static_cast<std::uint64_t>(kAnnouncements));
}

}  // namespace
}  // namespace weir
