// Whole swarms in simulated time: who gets how much of a gate when everybody wants more.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "weir/gate/gate.h"
#include "weir/time/simulated_time.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

// An agent that always wants more: as soon as a call is done it asks for the next one.
class Agent final : public Alarm {
 public:
  struct Habits {
    std::string name = {};
    std::uint32_t weight = 1;
    Amount smallest = 1;
    Amount largest = 1;
    double estimate = 1;  // how many times what a call uses it asks for
    Nanos latency = 0s;   // how long a call holds its slot
    int at_once = 1;      // calls it has under way or waiting
  };

  Agent(Gate& gate, SimulatedTime& time, Habits habits, std::uint64_t seed)
      : gate_(gate), time_(time), habits_(std::move(habits)), random_(seed) {}
  ~Agent() { time_.disarm(*this); }

  void start() {
    for (int i = 0; i < habits_.at_once; ++i) ask();
  }
  double used() const { return static_cast<double>(used_); }
  Nanos longest_wait() const { return longest_wait_; }

  void ring(Instant /*now*/) override {
    // All calls of an agent take equally long: what is due is the oldest.
    running_.erase(running_.begin());
    if (!running_.empty()) time_.arm(*this, running_.front().charged_at() + habits_.latency);
    ask();
  }

 private:
  void ask() {
    const Amount actual = std::uniform_int_distribution{habits_.smallest, habits_.largest}(random_);
    const auto estimate = static_cast<Amount>(static_cast<double>(actual) * habits_.estimate);
    const Instant asked = time_.now();
    gate_.acquire_async(
        {.cost = Cost::call(estimate), .agent = habits_.name, .weight = habits_.weight}, kEndOfTime,
        [this, actual, asked](Result<Permit> permit) {
          if (!permit) return;  // the gate has closed
          used_ += actual;
          longest_wait_ = std::max(longest_wait_, time_.now() - asked);
          if (habits_.estimate != 1) {
            ASSERT_TRUE(permit->settle(Cost::of(Unit::kTokens, actual)));
          }
          if (running_.empty()) time_.arm(*this, time_.now() + habits_.latency);
          running_.push_back(std::move(*permit));
        });
  }

  Gate& gate_;
  SimulatedTime& time_;
  Habits habits_;
  std::mt19937_64 random_;
  Amount used_ = 0;
  Nanos longest_wait_{0};
  std::vector<Permit> running_;
};

class FairnessTest : public testing::Test {
 protected:
  void gate_of(std::vector<LimitSpec> limits) {
    gate_ = *Gate::create({.name = "provider", .limits = std::move(limits)}, time_.source());
  }
  Agent& agent(Agent::Habits habits) {
    if (habits.name.empty()) habits.name = "agent-" + std::to_string(agents_.size());
    agents_.push_back(std::make_unique<Agent>(*gate_, time_, std::move(habits), agents_.size()));
    return *agents_.back();
  }
  void run(Nanos span) {
    for (const auto& agent : agents_) agent->start();
    time_.advance(span);
  }
  void TearDown() override {
    if (gate_) gate_->close();
    agents_.clear();
  }
  double total() const {
    double sum = 0;
    for (const auto& agent : agents_) sum += agent->used();
    return sum;
  }
  // 1: all got the same; 1/n: one got all.
  double jain() const {
    double squares = 0;
    for (const auto& agent : agents_) squares += agent->used() * agent->used();
    return total() * total() / (static_cast<double>(agents_.size()) * squares);
  }

  SimulatedTime time_;
  std::unique_ptr<Gate> gate_;
  std::vector<std::unique_ptr<Agent>> agents_;
};

// S3.11
TEST_F(FairnessTest, AHundredAgentsOfVeryDifferentSizesGetEqualShares) {
  gate_of({LimitSpec::token_bucket(Unit::kTokens, {1'000'000, 1min}, 100'000)});
  for (int i = 0; i < 100; ++i) {
    agent({.smallest = 1 + i * 10, .largest = 100 + i * 190, .at_once = 1 + i % 7});
  }
  run(4h);
  EXPECT_GE(jain(), 0.99);
  EXPECT_GE(total(), 0.98 * 1'000'000 * 240) << "hardly under";
}

TEST_F(FairnessTest, TheyDoSoWithSlotsAndStepsToo) {
  gate_of({LimitSpec::stepped(Unit::kTokens, {.max = 270'000, .refill = 30'000, .every = 6s}),
           LimitSpec::token_bucket(Unit::kRequests, {600, 1min}, 10), LimitSpec::concurrency(600)});
  for (int i = 0; i < 100; ++i) {
    agent({.smallest = 500, .largest = 2'000 + 50 * i, .latency = 3s, .at_once = 1 + i % 3});
  }
  run(12h);
  EXPECT_GE(jain(), 0.99);
}

// A slot of few weighs more than the tokens of any one call, but it is only borrowed.
TEST_F(FairnessTest, TheyDoSoWithFewSlots) {
  gate_of({LimitSpec::token_bucket(Unit::kTokens, {400'000, 1min}, 40'000),
           LimitSpec::token_bucket(Unit::kRequests, {200, 1min}, 20), LimitSpec::concurrency(20)});
  for (int i = 0; i < 40; ++i) {
    agent({.smallest = 2'000, .largest = 3'000 + 200 * i, .latency = 3s});
  }
  run(12h);
  EXPECT_GE(jain(), 0.99);
}

TEST_F(FairnessTest, WeightsOneTwoFourGiveSharesOneTwoFour) {
  gate_of({LimitSpec::token_bucket(Unit::kTokens, {100'000, 1min}, 20'000)});
  for (std::uint32_t weight : {1U, 2U, 4U}) {
    agent({.weight = weight, .smallest = 100, .largest = 3'000 / weight, .at_once = 4});
  }
  run(24h);
  EXPECT_NEAR(agents_[1]->used() / agents_[0]->used(), 2, 2 * 0.02);
  EXPECT_NEAR(agents_[2]->used() / agents_[0]->used(), 4, 4 * 0.02);
}

TEST_F(FairnessTest, SettlementCorrectsTheSharesOfThoseWhoEstimateTooHigh) {
  gate_of({LimitSpec::token_bucket(Unit::kTokens, {100'000, 1min}, 40'000)});
  for (int i = 0; i < 10; ++i) {
    agent({.smallest = 100,
           .largest = 2'000,
           .estimate = i % 2 == 0 ? 4.0 : 1.0,
           .at_once = 1 + i % 3});
  }
  run(24h);
  for (const auto& each : agents_) {
    EXPECT_NEAR(each->used() * 10 / total(), 1, 0.02);
  }
}

TEST_F(FairnessTest, AStreamOfNewAgentsDoesNotStarveALargeRequest) {
  gate_of({LimitSpec::token_bucket(Unit::kTokens, {1'000, 1s}, 1'000)});
  Instant served{};
  int newcomers = 0;
  const auto newcomer = [&] {
    gate_->acquire_async({.cost = Cost::call(100), .agent = "new-" + std::to_string(newcomers++)},
                         kEndOfTime, [](const Result<Permit>&) {});
  };
  for (int i = 0; i < 30; ++i) newcomer();
  const Instant asked = time_.now();
  gate_->acquire_async({.cost = Cost::call(900), .agent = "large"}, kEndOfTime,
                       [&](const Result<Permit>& permit) {
                         if (permit) served = time_.now();
                       });
  // As many newcomers as the gate can serve, without end: thirty are always waiting.
  for (int i = 0; i < 600; ++i) {
    newcomer();
    time_.advance(100ms);
  }
  gate_->close();
  ASSERT_NE(served, Instant{}) << "starved";
  // Nine rounds in which each of thirty agents gets what a newcomer asks for.
  EXPECT_LE(served - asked, 30s);
}

TEST_F(FairnessTest, ALargeRequestIsPassedOnlyUntilTheOthersHaveHadAsMuch) {
  gate_of({LimitSpec::token_bucket(Unit::kTokens, {10'000, 1s}, 10'000)});
  for (int i = 0; i < 5; ++i) agent({.smallest = 10, .largest = 10, .at_once = 50});
  Agent& large = agent({.name = "large", .smallest = 10'000, .largest = 10'000});
  run(10min);
  // Six agents, one second's tokens each: every six seconds is its turn.
  EXPECT_LE(large.longest_wait(), 8s);
  EXPECT_NEAR(large.used() * 6 / total(), 1, 0.02);
}

}  // namespace
}  // namespace weir
