#include "server/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include "weir/time/simulated_time.h"

namespace weir::server {
namespace {

using namespace std::string_literals;

// What is logged into a pipe.
struct LogTest : testing::Test {
  LogTest() { EXPECT_EQ(pipe(ends.data()), 0); }
  ~LogTest() override {
    close(ends[0]);
    if (ends[1] >= 0) close(ends[1]);
  }

  std::string read_all() {
    close(std::exchange(ends[1], -1));
    std::string text;
    std::array<char, 4096> bytes;
    for (ssize_t got; (got = read(ends[0], bytes.data(), bytes.size())) > 0;) {
      text.append(bytes.data(), static_cast<std::size_t>(got));
    }
    return text;
  }

  SimulatedTime time;
  std::array<int, 2> ends{};
};

TEST_F(LogTest, WritesTextForPeople) {
  Log log{ends[1], Log::Format::kText, time};
  log.info("listening", {{"address", "127.0.0.1:9347"}, {"threads", 4}});
  log.warning("slow", {{"reason", "two words"}, {"nothing", ""}});
  log.error("broken");
  EXPECT_EQ(read_all(),
            "2025-01-01 00:00:00.000 info    listening address=127.0.0.1:9347 threads=4\n"
            "2025-01-01 00:00:00.000 warning slow reason=\"two words\" nothing=\"\"\n"
            "2025-01-01 00:00:00.000 error   broken\n");
}

TEST_F(LogTest, WritesJsonForPrograms) {
  Log log{ends[1], Log::Format::kJson, time};
  log.info("listening", {{"address", "127.0.0.1:9347"}, {"threads", -4}});
  EXPECT_EQ(read_all(),
            R"({"time":"2025-01-01T00:00:00.000Z","level":"info","message":"listening",)"
            R"("address":"127.0.0.1:9347","threads":-4})"
            "\n");
}

// Whoever chooses an agent's name does not write lines of our log.
TEST_F(LogTest, AValueCannotForgeALineOrAField) {
  const std::string forged =
      "x\n2025-01-01 00:00:00.000 error broken\r\n level=\"a\" \x1b[31m\0\x9b"s;
  {
    Log text{ends[1], Log::Format::kText, time};
    text.info("agent", {{"name", forged}, {"other", "a=b"}});
    Log json{ends[1], Log::Format::kJson, time};
    json.info("agent", {{"name", forged}});
  }
  const std::string escaped =
      R"("x\n2025-01-01 00:00:00.000 error broken\u000d\n level=\"a\" \u001b[31m\u0000)"
      "\xEF\xBF\xBD\"";
  EXPECT_EQ(read_all(), "2025-01-01 00:00:00.000 info    agent name=" + escaped +
                            " other=\"a=b\"\n"
                            R"({"time":"2025-01-01T00:00:00.000Z","level":"info",)"
                            R"("message":"agent","name":)" +
                            escaped + "}\n");
}

TEST_F(LogTest, ThreadsDoNotMixTheirLines) {
  Log log{ends[1], Log::Format::kText, time};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < 100; ++n) log.info("line", {{"of", "some length"}});
      });
    }
  }
  const std::string line = "2025-01-01 00:00:00.000 info    line of=\"some length\"\n";
  std::string all;
  for (int i = 0; i < 400; ++i) all += line;
  EXPECT_EQ(read_all(), all);
}

TEST(Log, NobodyReadingIsNoReasonToStop) {
  SimulatedTime time;
  Log log{-1, Log::Format::kText, time};
  log.error("unheard");
}

}  // namespace
}  // namespace weir::server
