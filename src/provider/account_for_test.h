// Accounts in simulated time, and who passes them when: for tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "provider/account.h"
#include "provider/signals_for_test.h"
#include "weir/time/simulated_time.h"

namespace weir {

struct AccountTest : testing::Test {
  static Signals of_kind(Signals::Kind kind, std::optional<Nanos> retry_after = {}) {
    Signals signals;
    signals.kind = kind;
    signals.retry_after = retry_after;
    if (kind != Signals::Kind::kServed) signals.reason = "test";
    return signals;
  }
  static Signals limited(std::optional<Nanos> retry_after = {}) {
    return of_kind(Signals::Kind::kLimited, retry_after);
  }
  static Signals overloaded() { return of_kind(Signals::Kind::kOverloaded); }
  static Signals exhausted(std::optional<Nanos> resets_in = {}) {
    Signals signals = of_kind(Signals::Kind::kExhausted);
    signals.resets_in = resets_in;
    return signals;
  }
  static Signals stating(const Quota& quota) {
    Signals signals;
    signals.add(quota);
    return signals;
  }

  void answer(const Signals& signals = {}) { account->answered(signals, Cost::call(), time.now()); }
  bool passes(Amount tokens = 0) {
    return account->gate().try_acquire({.cost = Cost::call(tokens)}).has_value();
  }
  // Calls that wait; when they are admitted, or end, goes to `admitted` or `ended`.
  void wait(int calls) {
    for (int i = 0; i < calls; ++i) {
      account->gate().acquire_async({}, kEndOfTime, [this](const Result<Permit>& outcome) {
        if (outcome) {
          admitted.push_back(elapsed());
        } else {
          ended.push_back(outcome.error().code);
        }
      });
    }
  }
  // How many were admitted in [from, to) since the start.
  std::ptrdiff_t admitted_in(Nanos from, Nanos to) const {
    return std::ranges::count_if(admitted, [=](Nanos at) { return at >= from && at < to; });
  }
  Nanos elapsed() const { return time.now() - SimulatedTime::kStart; }
  Nanos held_for() const { return account->gate().metrics().held_for; }
  // What the limit of this name is set to; nothing if there is none.
  std::optional<LimitStatus> limit(std::string_view name) const {
    for (LimitStatus& status : account->gate().metrics().limits) {
      if (status.name == name) return std::move(status);
    }
    return std::nullopt;
  }
  // Requests a minute; 0 if there is no pace.
  Amount pace() const {
    const auto status = limit("pace");
    return status ? status->amount / 1'000 : 0;
  }

  SimulatedTime time;
  std::vector<Nanos> admitted;
  std::vector<Errc> ended;
  std::shared_ptr<Account> account = Account::create("p account m", time.source(), /*seed=*/1);
};

}  // namespace weir
