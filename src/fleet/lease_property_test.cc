// The twin and the script give equal answers to anything; and a fleet of honest nodes on the twin
// is never over, whatever is lost.
#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <vector>

#include "core/random_limit.h"
#include "core/sanitized_for_test.h"
#include "fleet/book_for_test.h"
#include "fleet/honest_fleet_for_test.h"
#include "fleet/script_book_for_test.h"

namespace weir::fleet {
namespace {

using reference::Dice;

constexpr Micros kSecond = 1'000'000;
constexpr Micros kStart = 1'790'000'000 * kSecond;

// Any call: of any node, with any sequence, of limits whose configuration changes, with returns of
// what was never granted and witnesses of what never was.
LeaseCall any_call(Dice& dice, Micros now) {
  const bool wide = dice.one_in(3);  // amounts and periods whose products are not exact
  const auto amount = [&] { return wide ? dice.amount() : dice.between(1, 40); };
  const auto instant = [&] { return std::max<Micros>(now + dice.between(-3, 3) * kSecond / 4, 0); };
  LeaseCall call{.gate = "any",
                 .node = dice.pick<std::string>({"n1", "n2", "n3"}),
                 .run = dice.one_in(40) ? "other" : "one",
                 .distrust = dice.one_in(3) ? dice.between(0, kSecond) : 0,
                 .member_ttl = kSecond,
                 .keep = 2 * kSecond,
                 .quarantine = dice.between(0, kSecond),
                 .expire = 1'000'000 * kSecond,
                 .asks = {}};
  for (auto asks = dice.between(0, 3); asks > 0; --asks) {
    LeaseAsk ask{.limit = dice.pick<std::string>({"x", "y", "z"}),
                 .kind = static_cast<LeaseKind>(dice.between(0, 5))};
    if (!dice.one_in(20)) ask.limit += name(ask.kind);  // else the kind changes
    ask.amount = dice.one_in(10) ? amount() : 20;
    ask.period = dice.one_in(10)
                     ? dice.pick<Micros>({1, 7, 400, 401, 5 * kSecond,
                                          1 + kPeriodMax / std::chrono::microseconds{1}})
                     : kSecond;
    ask.burst = dice.one_in(10) ? amount() : 20;
    if (ask.kind == LeaseKind::kWindow && dice.one_in(4)) {
      ask.ends = {instant(), instant(), instant()};
      std::ranges::sort(ask.ends);
    }
    ask.ttl = std::min(ask.period, dice.between(0, kSecond));
    ask.want = dice.one_in(4) ? 0 : amount();
    ask.least = dice.one_in(3) ? amount() : 1;
    if (dice.one_in(2)) ask.back = amount(), ask.back_until = instant();
    if (dice.one_in(6)) ask.owed = amount();
    ask.held = dice.one_in(2) ? dice.between(0, 9) : 0;
    ask.has_witness = dice.one_in(8);
    const std::int64_t slice = now / ((ask.period + 399) / 400);
    const bool log = ask.kind == LeaseKind::kLog;
    ask.witness = {log ? slice : instant(), amount(),
                   log ? slice + dice.between(-500, 500) : amount()};
    ask.witness[2] = std::max<std::int64_t>(ask.witness[2], 0);
    if (ask.has_witness && ask.kind == LeaseKind::kWindow) ask.witness[2] = 0;
    call.asks.push_back(std::move(ask));
  }
  return call;
}

TEST(LeaseProperty, TwinAndScriptAnswerAlike) {
  ScriptBook script;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Dice dice{seed};
    TestBook twin;
    Micros now = dice.one_in(10) ? 0 : kStart;
    std::vector<LeaseCall> calls;
    for (int i = 0; i < 80; ++i) {
      now += dice.pick<Micros>({0, 1, 997, kSecond / 10, kSecond / 3, 3 * kSecond, -kSecond / 5});
      now = std::max<Micros>(0, now);
      if (calls.empty() || !dice.one_in(5)) {
        calls.push_back(any_call(dice, now));
        calls.back().gate = std::to_string(seed);
        calls.back().sequence = i + 1;
      }
      const auto back = std::min<std::int64_t>(std::ssize(calls) - 1, dice.one_in(9) ? 4 : 0);
      const LeaseCall& call = calls[calls.size() - 1 - static_cast<std::size_t>(back)];
      const LeaseAnswer expected = twin.decide(call, now);
      const auto answer = script.decide(call, now);
      ASSERT_TRUE(answer) << answer.error().message << " seed " << seed << " call " << i;
      ASSERT_EQ(*answer, expected) << "seed " << seed << " call " << i;
    }
  }
}

// S2.1
TEST(LeaseProperty, AFleetOfHonestNodesIsNeverOver) {
  for (const LeaseKind kind : {LeaseKind::kBucket, LeaseKind::kWindow, LeaseKind::kCounter,
                               LeaseKind::kStepped, LeaseKind::kLog, LeaseKind::kSlots}) {
    std::int64_t spent = 0;
    constexpr int kFleets = kSanitized ? 30 : 300;
    for (std::uint64_t seed = 1; seed <= kFleets; ++seed) {
      HonestFleet fleet{kind, seed};
      fleet.run(250);
      ASSERT_EQ(fleet.over(), "") << name(kind) << " seed " << seed;
      spent += fleet.spent();
    }
    EXPECT_GT(spent, 20 * kFleets) << name(kind) << ": hardly tried";
  }
}

}  // namespace
}  // namespace weir::fleet
