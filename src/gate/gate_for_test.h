// Gates in simulated time, and what became of those who waited at them: for tests.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "weir/gate/gate.h"
#include "weir/time/simulated_time.h"

namespace weir {

// How one request ended, `at` after the start.
struct Ended {
  std::string who;
  Nanos at{0};
  std::optional<Errc> why = {};  // nothing: it was admitted

  friend bool operator==(const Ended&, const Ended&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Ended& ended) {
    return out << ended.who << " " << (ended.why ? name(*ended.why) : "admitted") << " at "
               << ended.at.count() << " ns";
  }
};

inline std::ostream& operator<<(std::ostream& out, Refusal::Kind kind) {
  switch (kind) {
    case Refusal::Kind::kWait: return out << "wait";
    case Refusal::Kind::kNever: return out << "never";
    case Refusal::Kind::kEnded: return out << "ended";
  }
  return out;
}

inline Request tokens(Amount amount) { return {.cost = Cost::of(Unit::kTokens, amount)}; }
inline Request tokens(std::string_view agent, Amount amount, int priority = 0) {
  return {.cost = Cost::of(Unit::kTokens, amount), .agent = agent, .priority = priority};
}
inline Request slots(std::string_view agent, Amount amount = 1, int priority = 0) {
  return {.cost = Cost::of(Unit::kSlots, amount), .agent = agent, .priority = priority};
}

// One token each second, and `burst` at once.
inline LimitSpec a_token_a_second(Amount burst) {
  return LimitSpec::token_bucket(Unit::kTokens, {1, std::chrono::seconds{1}}, burst);
}

class GateTest : public testing::Test {
 protected:
  using Endings = std::vector<Ended>;

  Gate& open(GateConfig config) {
    auto gate = Gate::create(std::move(config), time.source());
    if (!gate) ADD_FAILURE() << gate.error().message;
    return *gates_.emplace_back(std::move(gate).value());
  }
  Gate& open(std::vector<LimitSpec> limits) {
    return open({.name = "gate", .limits = std::move(limits)});
  }
  static Path path(std::vector<Gate*> gates) { return Path::create(gates).value(); }

  // Asks without blocking; the outcome goes to `ended`, a permit to `permits[who]`. Who it is need
  // not be the agent.
  template <class GateOrPath>
  Ticket ask(const std::string& who, GateOrPath&& where, const Request& request,
             Instant deadline = kEndOfTime) {
    return where.acquire_async(request, deadline, [this, who](Result<Permit> outcome) {
      ended.push_back(
          {who, elapsed(), outcome ? std::nullopt : std::optional{outcome.error().code}});
      if (outcome) permits[who] = std::move(*outcome);
    });
  }
  template <class GateOrPath>
  Ticket ask(GateOrPath&& where, const Request& request, Instant deadline = kEndOfTime) {
    return ask(std::string{request.agent}, where, request, deadline);
  }

  // Destroys a permit, which may bring others.
  void give_up(const std::string& who) { permits.extract(who); }

  // What ended since this was called last.
  Endings ended_now() { return std::exchange(ended, {}); }

  Nanos elapsed() const { return time.now() - SimulatedTime::kStart; }
  static Instant at(Nanos since_start) { return SimulatedTime::kStart + since_start; }
  static Amount available(const Gate& gate, std::size_t limit = 0) {
    return gate.metrics().limits.at(limit).available;
  }
  static std::size_t waiting(const Gate& gate) { return gate.metrics().waiting; }

  // Whatever a waiter is due has happened: looking again changes nothing.
  void expect_nobody_forgotten() {
    const std::size_t before = ended.size();
    for (const auto& gate : gates_) gate->reconsider();
    EXPECT_EQ(ended.size(), before) << "somebody waited though it fitted";
  }

  void TearDown() override {
    for (const auto& gate : gates_) gate->close();
    permits.clear();
  }

  SimulatedTime time;

 private:
  std::vector<std::unique_ptr<Gate>> gates_;

 protected:
  Endings ended;
  std::map<std::string, Permit> permits;
};

}  // namespace weir
