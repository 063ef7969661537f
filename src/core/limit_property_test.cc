// The promises of algorithm.h, for every algorithm at once: random walks of a Limit beside the
// naive model of reference_model.h.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "core/random_limit.h"
#include "core/reference_model.h"
#include "core/sanitized_for_test.h"
#include "core/timeline.h"

namespace weir {
namespace {

using reference::Dice;
using reference::Model;

class ConcurrencyModel : public Model {
 public:
  explicit ConcurrencyModel(Amount max) : free_(max) {}
  Amount available(Instant /*now*/) const override { return free_; }
  void charge(Amount cost, Instant /*now*/) override { free_ -= cost; }
  void refund(Amount amount, Instant /*charged_at*/, Instant /*now*/) override { free_ += amount; }

 private:
  Amount free_;
};

// A log above kEntriesMax gathers charges and is late by design: sliding_log_test.cc.
bool exact(const Limit& limit) {
  return limit.spec().algorithm != LimitSpec::Algorithm::kSlidingLog ||
         limit.capacity() <= static_cast<Amount>(SlidingLog::kEntriesMax);
}

class Walk {
 public:
  enum class ClockRuns { kForwards, kAnywhere };

  Walk(LimitSpec::Algorithm algorithm, std::uint64_t seed, ClockRuns clock_runs)
      : Walk(seed, clock_runs, [=](Dice& dice, Instant now) {
          return reference::random_limit(algorithm, dice, now);
        }) {}
  template <class MakeLimit>
  Walk(std::uint64_t seed, ClockRuns clock_runs, MakeLimit make_limit)
      : dice_(seed),
        clock_runs_(clock_runs),
        now_(dice_.instant()),
        limit_(make_limit(dice_, now_)),
        model_(limit_.borrowed() ? std::make_unique<ConcurrencyModel>(limit_.capacity())
                                 : reference::model_of(limit_, now_)) {
    if (!exact(limit_)) model_ = nullptr;
  }

  void run(int steps) {
    const LimitSpec& spec = limit_.spec();
    SCOPED_TRACE(testing::Message()
                 << spec.amount << " per " << spec.period.count() << " ns, burst " << spec.burst
                 << ", warm-up " << spec.warm_up.count() << " ns");
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      SCOPED_TRACE(testing::Message() << "step " << i);
      move_clock();
      const auto act = dice_.between(1, 10);
      if (act <= 7) {
        spend(random_cost());
      } else if (act <= 9) {
        refund();
      } else {
        owe();
      }
      expect_available();
    }
  }

 private:
  struct Charge {
    Instant at;
    Amount amount;
  };

  void move_clock() {
    const Nanos scale = std::max(limit_.spec().period, Nanos{1});
    const Nanos back = clock_runs_ == ClockRuns::kAnywhere ? Nanos{-1} : Nanos{1};
    switch (dice_.between(0, 8)) {
      case 0:
      case 1: break;
      case 2: now_ += Nanos{1}; break;
      case 3:
      case 4: now_ = std::max(now_, due_ + Nanos{dice_.between(-1, 1)}); break;
      case 5: now_ += scale; break;
      case 6: now_ += Nanos{dice_.magnitude(scale.count())}; break;
      case 7: now_ += Nanos{dice_.magnitude(kPeriodMax.count())}; break;
      case 8: now_ += back * dice_.magnitude(2 * scale.count()); break;
    }
    now_ = clamp_instant(now_);
  }

  Amount random_cost() {
    const Amount available = limit_.available(now_);
    const Amount cost =
        dice_.pick<Amount>({1, available, available + 1, limit_.capacity(), limit_.capacity() + 1,
                            limit_.capacity() / 2, dice_.magnitude(limit_.capacity())});
    return std::clamp<Amount>(cost, 1, kAmountMax);
  }

  void spend(Amount cost) {
    const Decision decision = limit_.check(cost, now_);
    EXPECT_EQ(decision.kind == Decision::Kind::kNever, cost > limit_.capacity());
    if (model_) {
      EXPECT_EQ(decision.admitted(), cost <= model_->available(now_)) << "cost " << cost;
    }
    if (decision.admitted()) return charge(cost);
    if (decision.kind == Decision::Kind::kWait && decision.exact) {
      expect_first_instant(cost, decision.retry_after);
    }
  }

  // retry_after is the first instant at which the same cost is admitted, seen from any before it.
  void expect_first_instant(Amount cost, Nanos retry_after) {
    EXPECT_GT(retry_after, Nanos{0});
    const Instant due = now_ + retry_after;
    if (due > kInstantMax) return;
    due_ = due;
    EXPECT_TRUE(limit_.check(cost, due).admitted());
    EXPECT_EQ(limit_.check(cost, due - Nanos{1}), Decision::wait(Nanos{1}));
    const Instant between = now_ + Nanos{dice_.between(0, retry_after.count() - 1)};
    EXPECT_EQ(limit_.check(cost, between), Decision::wait(due - between));
  }

  // Within what the models can follow: from a limit that is not in debt yet, up to its capacity.
  void owe() {
    if (limit_.available(now_) >= 0) charge(dice_.magnitude(limit_.capacity()));
  }

  void charge(Amount cost) {
    limit_.take(cost, now_);
    if (model_) model_->charge(cost, now_);
    charges_.push_back({now_, cost});
  }

  void refund() {
    if (charges_.empty()) return;
    Charge& charge = charges_[static_cast<std::size_t>(
        dice_.between(0, static_cast<std::int64_t>(charges_.size()) - 1))];
    if (charge.amount == 0) return;
    const Amount amount = dice_.one_in(2) ? charge.amount : dice_.magnitude(charge.amount);
    charge.amount -= amount;
    if (limit_.borrowed()) {
      limit_.give_back(amount);
    } else {
      limit_.refund(amount, charge.at, now_);
    }
    if (model_) model_->refund(amount, charge.at, now_);
  }

  void expect_available() {
    const Amount available = limit_.available(now_);
    if (model_) {
      EXPECT_EQ(available, model_->available(now_));
    }
    if (limit_.spec().algorithm == LimitSpec::Algorithm::kWarmUp) {
      EXPECT_EQ(limit_.check(random_cost(), now_).admitted(), available == 1);
      return;
    }
    EXPECT_LE(available, limit_.capacity());
    if (available < 0) return;
    EXPECT_TRUE(limit_.check(available, now_).admitted());
    EXPECT_FALSE(limit_.check(available + 1, now_).admitted());
  }

  Dice dice_;
  ClockRuns clock_runs_;
  Instant now_;
  Instant due_{};  // of the latest refusal
  Limit limit_;
  std::unique_ptr<Model> model_;
  std::vector<Charge> charges_;
};

class EveryLimit : public testing::TestWithParam<LimitSpec::Algorithm> {
 protected:
  static constexpr int kSteps = 100;
  static constexpr std::uint64_t kWalks = kSanitized ? 100 : 1'000;
  // Walks that once failed, or that a broken copy of the code failed; kept for good.
  static constexpr std::uint64_t kRegressions[] = {1005, 1018, 1271};

  static void walk(Walk::ClockRuns clock_runs, std::uint64_t seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Walk{GetParam(), seed, clock_runs}.run(kSteps);
  }
  static void walk_all(Walk::ClockRuns clock_runs) {
    for (std::uint64_t seed : kRegressions) walk(clock_runs, seed);
    for (std::uint64_t seed = 10'000; seed < 10'000 + kWalks && !HasFailure(); ++seed) {
      walk(clock_runs, seed);
    }
  }
};

TEST_P(EveryLimit, DoesWhatItsModelDoes) { walk_all(Walk::ClockRuns::kForwards); }

TEST_P(EveryLimit, DoesWhatItsModelDoesUnderAClockThatStepsBackwards) {
  walk_all(Walk::ClockRuns::kAnywhere);
}

TEST(CalendarWindows, DoWhatTheirModelDoes) {
  constexpr std::uint64_t kWalks = kSanitized ? 100 : 1'000;
  const auto make_limit = [](Dice& dice, Instant now) {
    const Limit window = reference::random_limit(LimitSpec::Algorithm::kFixedWindow, dice, now);
    const Nanos first{dice.between(0, 2 * window.spec().period.count() - 1)};
    return Limit::create(reference::on_calendar(window.spec(), first), now).value();
  };
  for (std::uint64_t seed = 1; seed <= kWalks && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Walk{seed, Walk::ClockRuns::kForwards, make_limit}.run(100);
    Walk{seed, Walk::ClockRuns::kAnywhere, make_limit}.run(100);
  }
}

INSTANTIATE_TEST_SUITE_P(Walks, EveryLimit, testing::ValuesIn(reference::kAlgorithms),
                         [](const auto& tested) { return reference::name(tested.param); });

}  // namespace
}  // namespace weir
