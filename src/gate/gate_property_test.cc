// Random walks of a gate beside the naive model of gate_model_for_test.h: never over, all or none,
// never a refusal that the model would admit, exact answers, the model's order, no lost wake-up.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <sstream>
#include <vector>

#include "core/random_limit.h"
#include "core/reference_model.h"
#include "core/sanitized_for_test.h"
#include "gate/gate_model_for_test.h"
#include "weir/gate/gate.h"
#include "weir/time/simulated_time.h"

namespace weir {
namespace {

using reference::Dice;
using reference::GateModel;
using Outcome = GateModel::Outcome;

// Small limits of like periods, so that they get in each other's way.
class RandomLimits {
 public:
  explicit RandomLimits(Dice& dice)
      : dice_(dice),
        scale_(dice.pick<Nanos>(
            {Nanos{7}, Nanos{1'000}, Nanos{999'999'937}, std::chrono::seconds{1}})) {}

  std::vector<LimitSpec> specs() {
    std::vector<LimitSpec> specs;
    const auto count = dice_.between(1, dice_.one_in(3) ? 1 : 4);
    for (std::int64_t i = 0; i < count; ++i) {
      specs.push_back(spec(reference::kAlgorithms[dice_.between(0, 6)]));
      specs.back().name = std::to_string(i);
    }
    return specs;
  }
  // Changed in part: other amounts, other algorithms, some gone, some new.
  std::vector<LimitSpec> changed(const std::vector<Limit>& now) {
    std::vector<LimitSpec> specs;
    for (const Limit& limit : now) {
      if (dice_.one_in(5)) continue;
      specs.push_back(dice_.one_in(3) ? limit.spec() : spec(limit.spec().algorithm));
      specs.back().name = limit.spec().name;
    }
    if (specs.size() < 4 && dice_.one_in(2)) {
      specs.push_back(spec(reference::kAlgorithms[dice_.between(0, 6)]));
      specs.back().name = "new " + std::to_string(dice_.between(1, 1'000'000'000));
    }
    return specs;
  }
  Nanos scale() const { return scale_; }

 private:
  LimitSpec spec(LimitSpec::Algorithm algorithm) {
    using enum LimitSpec::Algorithm;
    const Unit unit = dice_.pick({Unit::kRequests, Unit::kTokens, Unit::kTokens, Unit::kMicroUsd});
    const Rate rate{dice_.between(1, 12),
                    scale_ * dice_.between(1, 4) + Nanos{dice_.between(0, 3)}};
    LimitSpec spec;
    switch (algorithm) {
      case kTokenBucket: spec = LimitSpec::token_bucket(unit, rate, dice_.between(1, 20)); break;
      case kStepped:
        spec = LimitSpec::stepped(unit, {dice_.between(1, 20), rate.amount, rate.period});
        break;
      case kFixedWindow: spec = LimitSpec::fixed_window(unit, rate); break;
      case kSlidingWindow: spec = LimitSpec::sliding_window(unit, rate); break;
      case kSlidingLog: spec = LimitSpec::sliding_log(unit, rate); break;
      case kConcurrency: return LimitSpec::concurrency(dice_.between(1, 6));
      case kWarmUp:
        spec = LimitSpec::warm_up_rate(unit, {rate, scale_ * dice_.between(1, 5)});
        break;
    }
    if (dice_.one_in(8)) spec.oversize = LimitSpec::Oversize::kOnDebt;
    return spec;
  }

  Dice& dice_;
  Nanos scale_;
};

class Walk {
 public:
  explicit Walk(std::uint64_t seed) : dice_(seed), random_(dice_) {
    const std::vector<LimitSpec> specs = random_.specs();
    const Nanos stale_after = dice_.one_in(3) ? random_.scale() * dice_.between(1, 4) : Nanos{0};
    // One who passes those who wait may leave them with too few slots; the gate takes stale ones
    // back when it next looks at the head, which the model does at once.
    one_priority_ = stale_after > Nanos{0};
    gate_ =
        Gate::create({.name = "walk", .limits = specs, .stale_after = stale_after}, time_.source())
            .value();
    model_ = std::make_unique<GateModel>(specs, stale_after, time_.now());
    for (const Limit& limit : model_->limits()) {
      ledgers_.push_back(reference::model_of(limit, time_.now()));
    }
  }

  // Before the permits go: releasing them would serve others.
  ~Walk() { gate_->close(); }

  void run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      SCOPED_TRACE(testing::Message() << "step " << i);
      step();
      SCOPED_TRACE(what_.str());
      expect_same();
      if (dice_.one_in(8)) {
        gate_->reconsider();
        SCOPED_TRACE("looked again");
        expect_same();
      }
    }
    run_dry();
  }

 private:
  void step() {
    what_.str({});
    switch (dice_.between(0, 19)) {
      case 0:
      case 1:
      case 2:
      case 3: return attempt();
      case 4:
      case 5:
      case 6:
      case 7:
      case 8: return wait();
      case 9:
      case 10: return settle();
      case 11:
      case 12: return release();
      case 13: return cancel();
      case 18: return rare();
      default: return move_clock();
    }
  }
  void rare() {
    switch (dice_.between(0, 13)) {
      case 0:
      case 1: return change_limits();
      case 10:
      case 11: return hold();
      case 12: return resume();
      case 13:
        what_ << "end the waiters";
        gate_->end_waiters(Errc::kCancelled);
        return model_->end_waiters(Errc::kCancelled);
      case 2:
      case 3: {
        const Cost cost = random_cost();
        what_ << "refund " << cost;
        for (std::size_t i = 0; i < ledgers_.size(); ++i) {
          const Limit& limit = model_->limits()[i];
          const Amount amount = cost[limit.unit()];
          if (ledgers_[i] && amount > 0) ledgers_[i]->refund(amount, time_.now(), time_.now());
        }
        gate_->refund(cost);
        model_->refund(cost);
        return;
      }
      case 4:
        if (!dice_.one_in(4)) return;
        what_ << "close";
        gate_->close(Errc::kResourceUnknown);
        return model_->close(Errc::kResourceUnknown);
      default: {
        const Nanos back{dice_.magnitude(3 * random_.scale().count())};
        what_ << "step back by " << back.count();
        time_.step_back(back);
        return model_->step_back(back);
      }
    }
  }

  void hold() {
    const Instant until = dice_.one_in(5)
                              ? kEndOfTime
                              : time_.now() + Nanos{dice_.magnitude(4 * random_.scale().count())};
    what_ << "hold until " << until.time_since_epoch().count();
    gate_->hold_until(until);
    model_->hold_until(until);
  }
  void resume() {
    what_ << "resume";
    gate_->resume();
    model_->resume();
  }

  Cost random_cost() {
    Cost cost;
    for (const Limit& limit : model_->limits()) {
      const Amount capacity = std::min<Amount>(limit.capacity(), 20);
      const Amount left = std::clamp<Amount>(limit.available(time_.now()), 0, 20);
      const Amount amount =
          dice_.pick<Amount>({0, 1, 1, 1, 2, left, left + 1, capacity, dice_.between(0, capacity),
                              dice_.one_in(8) ? capacity + 1 : 1});
      cost = cost.with(limit.unit(), amount);
    }
    return cost;
  }
  GateModel::Ask random_ask() {
    return {.id = next_id_++,
            .cost = random_cost(),
            .agent = dice_.pick<const char*>({"a", "b", "c", "d"}),
            .priority = one_priority_ ? 0 : dice_.pick({0, 0, 0, 1, -1}),
            .weight = dice_.pick<std::uint32_t>({1, 1, 2, 4, 0})};
  }
  static Request request_of(const GateModel::Ask& ask) {
    return {.cost = ask.cost, .agent = ask.agent, .priority = ask.priority, .weight = ask.weight};
  }

  void attempt() {
    const GateModel::Ask ask = random_ask();
    what_ << "attempt " << ask;
    const std::optional<Instant> first = model_->first_success(ask);
    const bool must_be_exact = !model_->lends() && deadlines_ == 0 && !model_->paused();
    const Decision forecast = gate_->forecast(ask.cost, time_.now());
    const GateModel::Answer expected = model_->attempt(ask);
    auto permit = gate_->try_acquire(request_of(ask));
    if (ask.priority == 0 && expected != GateModel::Answer::kEnded) {
      EXPECT_EQ(forecast.admitted(), permit.has_value());
    }
    if (permit) {
      EXPECT_EQ(expected, GateModel::Answer::kAdmitted);
      return admitted(ask.id, std::move(*permit));
    }
    ++rejected_;
    const Refusal& refusal = permit.error();
    switch (refusal.kind) {
      case Refusal::Kind::kNever: EXPECT_EQ(expected, GateModel::Answer::kNever); return;
      case Refusal::Kind::kEnded: EXPECT_EQ(expected, GateModel::Answer::kEnded); return;
      case Refusal::Kind::kWait: EXPECT_EQ(expected, GateModel::Answer::kWait); break;
    }
    EXPECT_GT(refusal.retry_after, Nanos{0});
    if (must_be_exact) {
      EXPECT_TRUE(refusal.exact);
    }
    if (!refusal.exact) return;
    ASSERT_TRUE(first.has_value());
    EXPECT_EQ((*first - time_.now()).count(), refusal.retry_after.count()) << "retry_after";
    if (ask.priority == 0) {
      EXPECT_EQ(forecast.retry_after, refusal.retry_after);
    }
  }

  void wait() {
    GateModel::Ask ask = random_ask();
    if (dice_.one_in(3)) {
      ask.deadline = time_.now() + Nanos{dice_.magnitude(4 * random_.scale().count())} - Nanos{1};
    }
    what_ << "wait " << ask << " until " << ask.deadline.time_since_epoch().count();
    const std::size_t before = outcomes_.size();
    deadlines_ += ask.deadline == kEndOfTime ? 0 : 1;
    Ticket ticket =
        gate_->acquire_async(request_of(ask), ask.deadline, [this, ask](Result<Permit> outcome) {
          deadlines_ -= ask.deadline == kEndOfTime ? 0 : 1;
          if (outcome) return admitted(ask.id, std::move(*outcome));
          outcomes_.push_back({ask.id, time_.now(), outcome.error().code});
        });
    model_->wait(ask);
    if (outcomes_.size() > before && outcomes_[before].id == ask.id && outcomes_[before].why) {
      ++rejected_;
    } else {
      tickets_.emplace_back(ask.id, std::move(ticket));
    }
  }

  void admitted(int id, Permit permit) {
    EXPECT_EQ(permit.charged_at(), time_.now());
    for (std::size_t i = 0; i < ledgers_.size(); ++i) {
      if (!ledgers_[i]) continue;
      const Limit& limit = model_->limits()[i];
      const Amount cost = permit.cost()[limit.unit()];
      if (cost == 0) continue;
      const Amount oversize =
          limit.spec().oversize == LimitSpec::Oversize::kOnDebt ? limit.capacity() : kAmountMax;
      EXPECT_LE(std::min(cost, oversize), ledgers_[i]->available(time_.now()))
          << "over in limit " << i;
      ledgers_[i]->charge(cost, time_.now());
    }
    outcomes_.push_back({id, time_.now(), std::nullopt});
    permits_.emplace(id, std::move(permit));
    unsettled_.push_back(id);
    held_.push_back(id);
  }

  // Takes a random one out.
  template <class T>
  std::optional<T> draw(std::vector<T>& from) {
    if (from.empty()) return std::nullopt;
    std::swap(from.back(), from[static_cast<std::size_t>(
                               dice_.between(0, static_cast<std::int64_t>(from.size()) - 1))]);
    T drawn = std::move(from.back());
    from.pop_back();
    return drawn;
  }

  void settle() {
    const auto id = draw(unsettled_);
    if (!id) return;
    Permit& permit = permits_.at(*id);
    Cost actual;
    for (const Limit& limit : model_->limits()) {
      if (dice_.one_in(4)) continue;
      actual = actual.with(limit.unit(), dice_.pick<Amount>({0, 1, permit.cost()[limit.unit()],
                                                             dice_.between(0, 30)}));
    }
    for (std::size_t i = 0; i < ledgers_.size(); ++i) {
      const Limit& limit = model_->limits()[i];
      if (!ledgers_[i] || !actual.names(limit.unit())) continue;
      const Amount excess = actual[limit.unit()] - permit.cost()[limit.unit()];
      if (excess > 0) ledgers_[i]->charge(excess, time_.now());
      if (excess < 0) ledgers_[i]->refund(-excess, permit.charged_at(), time_.now());
    }
    what_ << "settle #" << *id << " to " << actual;
    EXPECT_TRUE(permit.settle(actual));
    EXPECT_FALSE(permit.settle(actual));
    model_->settle(*id, actual);
  }

  void release() {
    const auto id = draw(held_);
    if (!id) return;
    what_ << "release #" << *id;
    permits_.at(*id).release();
    permits_.at(*id).release();
    model_->release(*id);
  }

  void cancel() {
    auto ticket = draw(tickets_);
    if (!ticket) return;
    what_ << "cancel #" << ticket->first;
    ticket->second.cancel();
    model_->cancel(ticket->first);
  }

  void change_limits() {
    const std::vector<LimitSpec> specs = random_.changed(model_->limits());
    what_ << "change the limits";
    ledgers_.clear();  // they know nothing of changes
    ASSERT_TRUE(gate_->set_limits(specs));
    model_->set_limits(specs);
  }

  void move_clock() {
    const Instant alarm = time_.next_alarm().value_or(time_.now());
    const Instant to = dice_.pick<Instant>(
        {time_.now(), time_.now() + Nanos{1}, alarm, alarm - Nanos{1}, alarm + Nanos{1},
         time_.now() + Nanos{dice_.magnitude(4 * random_.scale().count())},
         time_.now() + Nanos{dice_.magnitude(random_.scale().count())}});
    advance_to(std::max(to, time_.now()));
  }
  void advance_to(Instant at) {
    what_ << "advance by " << (at - time_.now()).count();
    time_.advance_to(at);
    model_->advance_to(at);
  }

  void expect_same() {
    ASSERT_EQ(time_.now(), model_->now());
    const auto& expected = model_->outcomes();
    for (; compared_ < std::min(expected.size(), outcomes_.size()); ++compared_) {
      ASSERT_EQ(outcomes_[compared_], expected[compared_]);
    }
    ASSERT_EQ(outcomes_.size(), expected.size())
        << "next: " << (outcomes_.size() > compared_ ? outcomes_[compared_] : expected[compared_]);
    const GateMetrics metrics = gate_->metrics();
    EXPECT_EQ(metrics.acquired, model_->acquired());
    EXPECT_EQ(metrics.rejected, rejected_);
    EXPECT_EQ(metrics.waited, model_->waited());
    EXPECT_EQ(metrics.total_wait, model_->total_wait());
    EXPECT_EQ(metrics.reclaimed, model_->reclaimed());
    EXPECT_EQ(metrics.waiting, model_->waiting());
    ASSERT_EQ(metrics.limits.size(), model_->limits().size());
    for (std::size_t i = 0; i < metrics.limits.size(); ++i) {
      EXPECT_EQ(metrics.limits[i].available, model_->limits()[i].available(time_.now())) << i;
      if (i >= ledgers_.size() || !ledgers_[i]) continue;
      const Amount promised = ledgers_[i]->available(time_.now());
      if (model_->limits()[i].spec().algorithm == LimitSpec::Algorithm::kSlidingLog) {
        EXPECT_LE(metrics.limits[i].available, promised) << i;  // a log full of debts gathers them
      } else {
        EXPECT_EQ(metrics.limits[i].available, promised) << i;
      }
    }
  }

  // With all slots given back, everybody who waits is served in the end.
  void run_dry() {
    SCOPED_TRACE("run dry");
    resume();
    while (!testing::Test::HasFailure()) {
      while (!held_.empty()) release();
      const bool idle = !time_.next_alarm().has_value();
      if (idle && held_.empty()) break;
      if (!idle) advance_to(*time_.next_alarm());
      expect_same();
    }
    EXPECT_EQ(gate_->metrics().waiting, 0U);
  }

  Dice dice_;
  RandomLimits random_;
  bool one_priority_;
  SimulatedTime time_;
  std::unique_ptr<Gate> gate_;
  std::unique_ptr<GateModel> model_;
  std::vector<std::unique_ptr<reference::Model>> ledgers_;  // null where there is no such model
  std::map<int, Permit> permits_;
  std::vector<int> unsettled_;
  std::vector<int> held_;
  std::vector<std::pair<int, Ticket>> tickets_;
  std::vector<Outcome> outcomes_;
  std::size_t compared_ = 0;
  std::uint64_t rejected_ = 0;
  std::ostringstream what_;  // the step does
  int deadlines_ = 0;        // waiters with one
  int next_id_ = 1;
};

class GatePropertyTest : public testing::TestWithParam<int> {};

constexpr int kWalks = kSanitized ? 400 : 4'000;
constexpr int kShards = 4;

TEST_P(GatePropertyTest, DoesWhatItsModelDoes) {
  for (int seed = GetParam(); seed < kWalks && !HasFailure(); seed += kShards) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Walk{static_cast<std::uint64_t>(seed)}.run(120);
  }
}

INSTANTIATE_TEST_SUITE_P(Walks, GatePropertyTest, testing::Range(0, kShards));

}  // namespace
}  // namespace weir
