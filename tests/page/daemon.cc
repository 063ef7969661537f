// page_daemon DIRECTORY: a daemon with a day behind it, for the tests of the page.
//
// Its time is simulated: a day of traffic passes at the start, until 14:00, and from then on only
// what the test asks for. Prints "listening PORT" when the day is over; then reads "step N" for N
// seconds of traffic or "pass N" for N seconds without, and answers "done", until its input ends.
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <deque>
#include <iostream>
#include <numbers>
#include <stdexcept>
#include <string>

#include "app/daemon.h"
#include "net/http_client.h"
#include "weir/time/simulated_time.h"

namespace {

using namespace std::chrono_literals;

constexpr int kDay = 24 * 60 * 60;

// Agents whose calls last some seconds, more of them by day than by night.
class Traffic {
 public:
  Traffic(weir::SimulatedTime& time, std::uint16_t port) : time_(time), http_({.port = port}) {}

  // Some calls, and then time passes.
  void step(int seconds) {
    ask();
    second_ += seconds;
    time_.advance(seconds * 1s);
  }

  void end_all_but(std::size_t calls) {
    while (under_way_.size() > calls) {
      (void)http_.call({.method = "DELETE", .target = "/v1/permits/" + under_way_.front()});
      under_way_.pop_front();
    }
  }

 private:
  static constexpr std::size_t kUnderWay = 6;

  void ask() {
    const double day = 2 * std::numbers::pi * second_ / kDay;
    const int calls = static_cast<int>(2.5 + 2 * std::cos(day)) + second_ % 3;
    for (int i = 0; i < calls; ++i) {
      const auto answer = http_.post(
          "/v1/acquire",
          fmt::format(
              R"({{"resource":"anthropic","agent":"agent-{}","cost":{{"tokens":{},"usd":0.002}}}})",
              (second_ / 10 + i * i) % 9, 300 + (second_ * 7 + i * 911) % 2000));
      if (!answer) throw std::runtime_error{answer.error().message};
      constexpr std::string_view kBefore = "{\"permit\":\"";
      if (answer->status == 200 && answer->body.starts_with(kBefore)) {
        under_way_.push_back(answer->body.substr(kBefore.size(), 32));
      }
    }
    end_all_but(kUnderWay);
  }

  weir::SimulatedTime& time_;
  weir::net::HttpClient http_;
  std::deque<std::string> under_way_;
  int second_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: page_daemon DIRECTORY\n");
    return 2;
  }
  weir::SimulatedTime time{weir::SimulatedTime::kStart, weir::SimulatedTime::kWallStart + 14h};
  weir::server::Log log{STDERR_FILENO, weir::server::Log::Format::kText, time};
  auto daemon =
      weir::app::Daemon::start({.files = {.main_file = std::string{argv[1]} + "/weir.yaml"},
                                .listen = weir::Listen{.host = "127.0.0.1", .port = 0},
                                .threads = 1},
                               time.source(), log);
  if (!daemon) {
    for (const std::string& line : daemon.error().lines) fmt::print(stderr, "{}\n", line);
    return 1;
  }
  Traffic traffic{time, (*daemon)->port()};
  for (int second = 0; second < kDay; second += 10) traffic.step(10);
  fmt::print("listening {}\n", (*daemon)->port());
  std::fflush(stdout);
  std::string word;
  for (int steps = 0; std::cin >> word >> steps;) {
    for (int i = 0; i < steps; ++i) {
      if (word == "step") {
        traffic.step(1);
      } else {
        traffic.end_all_but(0);
        time.advance(1s);
      }
    }
    fmt::print("done\n");
    std::fflush(stdout);
  }
}
