// Whole fleets in simulated time, by thousands of seeds: crashes, pauses, lost, late and doubled
// messages, clocks that drift, servers that restart with less than they knew. After each, what was
// admitted is held against the limit.
#include <gtest/gtest.h>

#include "core/sanitized_for_test.h"
#include "fleet/mirror.h"
#include "fleet/simulated_fleet_for_test.h"
#include "weir/core/int128.h"

namespace weir::fleet {
namespace {

using namespace std::chrono_literals;
using Algorithm = LimitSpec::Algorithm;

constexpr int kSeedsAPart = kSanitized ? 10 : 1000;
constexpr int kParts = 10;
constexpr Nanos kTimeout = std::chrono::milliseconds{50};

struct Admission {
  Instant at;
  Amount units;
};

// Holds what was admitted against a limit.
class Judge {
 public:
  explicit Judge(LimitSpec spec) : spec_(std::move(spec)) {}

  void admitted(Instant at, Amount units) { admissions_.push_back({at, units}); }
  Amount total() const {
    Amount total = 0;
    for (const Admission& each : admissions_) total += each.units;
    return total;
  }

  // How many units too many were admitted, at the worst instant. `marks`: the ends of all windows,
  // or the starts of those of a counter.
  Amount over(const std::set<Instant>& marks) const {
    switch (spec_.algorithm) {
      case Algorithm::kTokenBucket: return over_bucket(spec_.burst + late());
      // Of steps on an unknown grid one more may be crossed.
      case Algorithm::kStepped: return over_bucket(spec_.burst + spec_.amount);
      case Algorithm::kSlidingLog: return over_any_period();
      case Algorithm::kFixedWindow: return over_windows(marks);
      case Algorithm::kSlidingWindow: return over_counter(marks);
      default: return kAmountMax;
    }
  }

 private:
  // A bucket that is asked for each admission counts it when the book grants it; it comes into
  // effect up to a time-out later.
  Amount late() const {
    if (!terms_of(spec_, kTimeout, false)->single) return 0;
    return static_cast<Amount>(Int128{spec_.amount} * kTimeout.count() / spec_.period.count()) + 1;
  }

  // burst + rate · t in every interval.
  Amount over_bucket(Amount burst) const {
    Int128 level = 0;  // in units × period
    Int128 worst = 0;
    Instant last{};
    const Int128 period = spec_.period.count();
    for (const auto& [at, units] : admissions_) {
      level = std::max<Int128>(level - Int128{(at - last).count()} * spec_.amount, 0);
      level += units * period;
      last = at;
      worst = std::max(worst, level - burst * period);
    }
    return static_cast<Amount>((worst + period - 1) / period);
  }

  Amount over_any_period() const {
    Amount sum = 0;
    Amount worst = 0;
    std::size_t first = 0;
    for (const auto& [at, units] : admissions_) {
      sum += units;
      while (at - admissions_[first].at >= spec_.period) sum -= admissions_[first++].units;
      worst = std::max(worst, sum - spec_.amount);
    }
    return worst;
  }

  Amount over_windows(const std::set<Instant>& ends) const {
    std::map<Instant, Amount> used;
    for (const auto& [at, units] : admissions_) {
      const auto end = ends.upper_bound(at);
      if (end == ends.end() || *end - spec_.period > at) return kAmountMax;  // in no window
      used[*end] += units;
    }
    Amount worst = 0;
    for (const auto& [end, sum] : used) worst = std::max(worst, sum - spec_.amount);
    return worst;
  }

  Amount over_counter(const std::set<Instant>& starts) const {
    std::map<Instant, Amount> used;
    Amount worst = 0;
    for (const auto& [at, units] : admissions_) {
      const auto after = starts.upper_bound(at);
      if (after == starts.begin()) return kAmountMax;
      const Instant seen = *std::prev(after);
      const Instant start = seen + (at - seen) / spec_.period * spec_.period;
      used[start] += units;
      const Nanos overlap = spec_.period - (at - start);
      const auto before = used.find(start - spec_.period);
      const Int128 faded = Int128{before == used.end() ? 0 : before->second} * overlap.count() /
                           spec_.period.count();
      worst = std::max(worst, used[start] + static_cast<Amount>(faded) - spec_.amount);
    }
    return worst;
  }

  const LimitSpec spec_;
  std::vector<Admission> admissions_;
};

class Trial {
 public:
  explicit Trial(std::uint64_t seed) : random_(seed) {
    spec_ = pick_spec();
    const auto nodes = static_cast<std::size_t>(number(1, 5));
    for (std::size_t i = 0; i < nodes; ++i) nodes_.push_back(start_node());
    faulty_ = chance(0.8);
    crashes_ = faulty_ && chance(0.5);
    loses_data_ = faulty_ && !crashes_ && chance(0.7);
    judge_.emplace(spec_);
  }

  // How far it went over.
  Amount run() {
    const Nanos end = Nanos{number(2'000, 12'000)} * 1'000'000;
    const Instant until = time_.now() + end;
    const Nanos between{number(4'000'000, 40'000'000)};
    while (time_.now() < until) {
      time_.advance(Nanos{number(1, 2 * between.count())});
      attempt(*nodes_[index(nodes_.size())]);
      if (chance(0.02)) server_.save();
      if (faulty_ && chance(0.01)) fault();
    }
    std::set<Instant> marks;
    for (const Micros mark : server_.marks) {
      marks.insert(SimulatedTime::kStart +
                   (CalendarTime{std::chrono::microseconds{mark}} - SimulatedTime::kWallStart));
    }
    return judge_->over(marks);
  }
  const LimitSpec& spec() const { return spec_; }
  Amount total() const { return judge_->total(); }

 private:
  std::int64_t number(std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>{from, to}(random_);
  }
  bool chance(double of) { return std::bernoulli_distribution{of}(random_); }
  std::size_t index(std::size_t size) {
    return static_cast<std::size_t>(number(0, static_cast<std::int64_t>(size) - 1));
  }

  LimitSpec pick_spec() {
    const Rate rate{number(1, 500), Nanos{number(200, 10'000)} * 1'000'000};
    switch (number(0, 4)) {
      case 0: return LimitSpec::fixed_window(Unit::kRequests, rate);
      case 1: return LimitSpec::sliding_window(Unit::kRequests, rate);
      case 2: return LimitSpec::sliding_log(Unit::kRequests, rate);
      case 3:
        return LimitSpec::stepped(Unit::kRequests,
                                  {number(1, 300), number(1, 60), rate.period / 10});
      default: return LimitSpec::token_bucket(Unit::kRequests, rate, number(1, 1000));
    }
  }

  std::unique_ptr<SimulatedNode> start_node() {
    auto node = std::make_unique<SimulatedNode>(
        server_, time_, agenda_, random_, number(-300, 300),
        Leases::Config{.node = "node-" + std::to_string(++started_),
                       .fallback = chance(0.5) ? Fallback::kReserve : Fallback::kDeny,
                       .timeout = kTimeout,
                       .breaker = {.open_for = 1s}},
        GateConfig{.name = "api", .limits = {spec_}});
    if (chance(0.5)) {
      node->book.weather = {.delay_max = Nanos{number(100'000, 20'000'000)},
                            .lost = chance(0.5) ? 0.1 : 0,
                            .duplicated = chance(0.5) ? 0.1 : 0,
                            .slow = chance(0.5) ? 0.1 : 0};
    }
    return node;
  }

  void attempt(SimulatedNode& node) {
    if (node.clock.paused()) return;
    const Amount units = chance(0.8) ? 1 : number(1, 50);
    for (std::int64_t i = number(1, 8); i > 0; --i) {
      if (chance(0.98)) {
        if (node.gate->try_spend(units)) judge_->admitted(time_.now(), units);
      } else {
        node.gate->acquire_async({.cost = Cost::of(Unit::kRequests, units)}, node.clock.now() + 2s,
                                 [this, units](const Result<Permit>& permit) {
                                   if (permit) judge_->admitted(time_.now(), units);
                                 });
      }
    }
  }

  // Who is away for longer than a quarantine bears no witness in it: with a server that forgets,
  // that is the double fault which no protocol survives.
  Nanos away() { return Nanos{number(1, loses_data_ ? 1'500 : 5'000)} * 1'000'000; }

  void fault() {
    const std::size_t who = index(nodes_.size());
    SimulatedNode& node = *nodes_[who];
    switch (number(0, 4)) {
      case 0:
        if (!node.clock.paused()) {
          node.pause();
          agenda_.after(away(), [&node] { node.resume(); });
        }
        break;
      case 1:
        node.book.reachable = false;
        node.book.disconnect();
        agenda_.after(away(), [&node] { node.book.reachable = true; });
        break;
      case 2:
        if (!crashes_) break;
        node.crash();
        gone_.push_back(std::move(nodes_[who]));
        nodes_[who] = start_node();
        break;
      case 3:
        if (!server_.up()) break;
        if (!loses_data_) server_.save();
        server_.stop();
        agenda_.after(Nanos{number(1, 2'000)} * 1'000'000, [this, again = chance(0.5)] {
          if (again) {
            server_.restart();
          } else {
            server_.fail_over();
          }
        });
        break;
      default: node.book.disconnect(); break;
    }
  }

  std::mt19937_64 random_;
  SimulatedTime time_;
  Agenda agenda_{time_};
  SimulatedServer server_{time_};
  LimitSpec spec_;
  std::optional<Judge> judge_;
  std::vector<std::unique_ptr<SimulatedNode>> gone_;
  std::vector<std::unique_ptr<SimulatedNode>> nodes_;
  int started_ = 0;
  bool faulty_ = false;
  bool crashes_ = false;
  bool loses_data_ = false;
};

class LeaseSimulation : public testing::TestWithParam<int> {};

TEST_P(LeaseSimulation, NoFleetIsEverOver) {
  for (int i = 0; i < kSeedsAPart; ++i) {
    const auto seed = static_cast<std::uint64_t>(GetParam() * kSeedsAPart + i);
    Trial trial{seed};
    ASSERT_EQ(trial.run(), 0) << "seed " << seed << ", algorithm "
                              << static_cast<int>(trial.spec().algorithm) << ", amount "
                              << trial.spec().amount << ", period " << trial.spec().period.count()
                              << ", burst " << trial.spec().burst;
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, LeaseSimulation, testing::Range(0, kParts));

}  // namespace
}  // namespace weir::fleet
