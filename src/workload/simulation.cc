#include "workload/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <queue>
#include <ranges>

#include "provider/charge.h"
#include "provider/prices.h"
#include "provider/resources.h"
#include "weir/time/simulated_time.h"
#include "workload/model_provider.h"

namespace weir::workload {
namespace {

// A refusal comes without a model behind it.
constexpr Nanos kRefusalLatency = std::chrono::milliseconds{50};
// How much answers differ: the deviation of the logarithm.
constexpr double kJitter = 0.25;

struct CallCost {
  Cost cost;
  Nanos latency;  // on average
  Amount tokens;
};

CallCost cost_of(const SimulationOptions& options, const std::optional<Price>& price,
                 const TracedCall& call) {
  const Amount output = call.output_tokens;
  constexpr auto kLatencyMax = static_cast<double>(kPeriodMax.count());
  const double latency =
      static_cast<double>(options.latency.count()) +
      static_cast<double>(options.latency_per_token.count()) * static_cast<double>(output);
  return {.cost = reserved(options.provider.profile, options.model, price,
                           {.input = call.input_tokens, .output = output, .max_output = output}),
          .latency = Nanos{static_cast<std::int64_t>(std::min(latency, kLatencyMax))},
          .tokens = call.input_tokens + output};
}

class Simulation final : private Alarm {
 public:
  Simulation(const SimulationOptions& options, Mode mode) : options_(options), mode_(mode) {}
  ~Simulation() {
    resources_.close(Errc::kClosed);
    time_.disarm(*this);
  }

  Result<void> prepare();
  Outcome run(const std::function<void(double)>& progress, std::optional<std::size_t> limit);

 private:
  enum class State : std::uint8_t { kIdle, kWaiting, kRunning };

  struct Agent {
    std::string name;
    Sampler demand;
    std::uint64_t random;  // for what happens to it, apart from what it wants
    Instant due;           // its next call, or the one under way
    std::size_t call = 0;  // index into the trace
    State state = State::kIdle;
    Instant asked_at{};
    std::uint32_t attempts = 0;
    std::uint32_t task_calls = 0;
    Amount task_tokens = 0;
    Amount task_micro_usd = 0;
    std::optional<Resource::Route> route = {};  // outlives the permit
    Permit permit = {};
    Share share = {};
  };

  // An agent has one event at a time, or none while it waits in a gate.
  struct Event {
    Instant at;
    std::uint64_t order;
    std::uint32_t agent;
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };

  void ring(Instant now) override;
  void schedule(std::uint32_t agent, Instant at);
  void draw(Agent& agent);
  void begin(std::uint32_t index);    // waits until the agent's next call is due
  void ask(std::uint32_t index);      // of a gate, or of the provider
  void attempt(std::uint32_t index);  // of the provider
  void taken(Agent& agent);
  void refused(std::uint32_t index, Nanos retry_after);
  void answered(std::uint32_t index);
  void give_up(std::uint32_t index, Errc why);
  Nanos answer_time(Agent& agent);
  void change_waiting(int by);
  void count(std::uint64_t Interval::* what) {
    ++(outcome_.intervals[interval_index(time_.now())].*what);
  }
  std::size_t interval_index(Instant at) const {
    const auto index = static_cast<std::size_t>((at - start_) / interval_);
    return std::min(index, Outcome::kIntervals - 1);
  }
  const CallCost& cost(const Agent& agent) const { return costs_[agent.call]; }
  void end_interval(std::size_t index);
  void finish(std::optional<std::size_t> limit);

  const SimulationOptions& options_;
  const Mode mode_;
  SimulatedTime time_;
  const Instant start_ = time_.now();
  Instant end_{};
  Nanos interval_{1};
  Resources resources_{time_.source()};
  std::shared_ptr<Resource> resource_;
  std::optional<ModelProvider> provider_;
  std::vector<CallCost> costs_;  // by the trace's calls
  std::vector<Agent> agents_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t order_ = 0;
  bool ringing_ = false;

  Outcome outcome_;
  std::vector<WaitHistogram> waits_;       // by interval
  std::vector<std::vector<double>> used_;  // by limit and interval
  std::vector<double> total_used_;         // by limit
  std::int64_t waiting_ = 0;
  double waiting_area_ = 0;  // of this interval, in nanoseconds
  Instant waiting_since_ = start_;
};

Result<void> Simulation::prepare() {
  ProviderConfig config = options_.provider;
  if (config.name.empty()) config.name = "provider";
  if (auto provider = ModelProvider::create(config, options_.model, time_); provider) {
    provider_ = std::move(*provider);
  } else {
    return std::unexpected(provider.error());
  }
  auto resource = resources_.put(config);
  if (!resource) return std::unexpected(resource.error());
  resource_ = std::move(*resource);

  end_ = start_ + options_.duration;
  interval_ = std::max(Nanos{1}, options_.duration / std::int64_t{Outcome::kIntervals});
  outcome_.intervals.resize(Outcome::kIntervals);
  waits_.resize(Outcome::kIntervals);
  used_.resize(provider_->limits(), std::vector<double>(Outcome::kIntervals));
  total_used_.resize(provider_->limits());
  const std::optional<Price> price = price_of(config, options_.model);
  costs_.reserve(options_.trace->calls.size());
  for (const TracedCall& call : options_.trace->calls) {
    costs_.push_back(cost_of(options_, price, call));
  }

  std::uint64_t seeds = options_.seed;
  agents_.reserve(options_.agents);
  for (std::uint32_t i = 0; i < options_.agents; ++i) {
    Nanos gap = options_.mean_gap;
    if (i < options_.greedy) {
      gap = Nanos{
          static_cast<std::int64_t>(static_cast<double>(gap.count()) / SimulationOptions::kGreed)};
    }
    const std::uint64_t demand_seed = next_random(seeds);
    agents_.push_back({.name = fmt::format("agent-{}", i),
                       .demand = Sampler{*options_.trace, gap, demand_seed},
                       .random = next_random(seeds),
                       .due = start_});
    // Everybody has been at it for a while.
    Agent& agent = agents_.back();
    draw(agent);
    agent.due =
        start_ + Nanos{static_cast<std::int64_t>(static_cast<double>((agent.due - start_).count()) *
                                                 next_unit(agent.random))};
    begin(i);
  }
  return {};
}

Outcome Simulation::run(const std::function<void(double)>& progress,
                        std::optional<std::size_t> limit) {
  for (std::size_t i = 0; i < Outcome::kIntervals; ++i) {
    const bool last = i + 1 == Outcome::kIntervals;
    time_.advance_to(last ? end_ : start_ + interval_ * static_cast<std::int64_t>(i + 1));
    end_interval(i);
    if (progress) progress(static_cast<double>(i + 1) / Outcome::kIntervals);
  }
  finish(limit);
  return std::move(outcome_);
}

void Simulation::ring(Instant now) {
  if (now >= end_) return;  // what happens from then on does not count
  ringing_ = true;
  while (!events_.empty() && events_.top().at <= now) {
    const std::uint32_t index = events_.top().agent;
    events_.pop();
    switch (agents_[index].state) {
      case State::kIdle: ask(index); break;
      case State::kWaiting: mode_ == Mode::kWeir ? ask(index) : attempt(index); break;
      case State::kRunning: answered(index); break;
    }
  }
  ringing_ = false;
  if (!events_.empty()) time_.arm(*this, events_.top().at);
}

void Simulation::schedule(std::uint32_t agent, Instant at) {
  const bool first = events_.empty() || at < events_.top().at;
  events_.push({at, order_++, agent});
  if (first && !ringing_) time_.arm(*this, at);
}

void Simulation::draw(Agent& agent) {
  const Sampler::Draw draw = agent.demand.next();
  agent.due += draw.gap;
  agent.call = draw.call;
}

void Simulation::begin(std::uint32_t index) {
  Agent& agent = agents_[index];
  agent.state = State::kIdle;
  agent.attempts = 0;
  schedule(index, std::max(agent.due, time_.now()));
}

void Simulation::ask(std::uint32_t index) {
  Agent& agent = agents_[index];
  const Instant now = time_.now();
  if (agent.state == State::kIdle) {
    agent.state = State::kWaiting;
    agent.asked_at = now;
    agent.share.wanted += static_cast<double>(cost(agent).tokens);
    ++outcome_.tally.wanted;
    ++outcome_.tally.asked;
    count(&Interval::asked);
    change_waiting(1);
  }
  if (mode_ == Mode::kDirect) return attempt(index);

  auto route = resource_->route({.agent = agent.name, .model = options_.model});
  if (!route) return give_up(index, route.error().code);
  agent.route = std::move(*route);
  agent.route->path.acquire_async({.cost = cost(agent).cost,
                                   .agent = agent.name,
                                   .priority = agent.route->priority,
                                   .weight = agent.route->weight},
                                  agent.asked_at + options_.patience,
                                  [this, index](Result<Permit> permit) {
                                    if (time_.now() >= end_) return;
                                    if (!permit) return give_up(index, permit.error().code);
                                    agents_[index].permit = std::move(*permit);
                                    attempt(index);
                                  });
}

void Simulation::attempt(std::uint32_t index) {
  Agent& agent = agents_[index];
  const Instant now = time_.now();
  const Decision decision = provider_->admit(cost(agent).cost, now);
  switch (decision.kind) {
    case Decision::Kind::kNever: return give_up(index, Errc::kNeverFits);
    case Decision::Kind::kWait: return refused(index, decision.retry_after);
    case Decision::Kind::kAdmit: break;
  }
  agent.state = State::kRunning;
  change_waiting(-1);
  waits_[interval_index(now)].add(now - agent.asked_at);
  taken(agent);
  schedule(index, now + answer_time(agent));
}

void Simulation::taken(Agent& agent) {
  const CallCost& call = cost(agent);
  const Amount paid = call.cost[Unit::kMicroUsd];
  Tally& tally = outcome_.tally;
  ++tally.done;
  tally.tokens += call.tokens;
  tally.micro_usd += paid;
  agent.share.served += static_cast<double>(call.tokens);
  agent.task_tokens += call.tokens;
  agent.task_micro_usd += paid;
  if (++agent.task_calls < SimulationOptions::kTaskCalls) return;
  ++tally.tasks_done;
  tally.used_tokens += std::exchange(agent.task_tokens, 0);
  agent.task_micro_usd = 0;
  agent.task_calls = 0;
}

void Simulation::refused(std::uint32_t index, Nanos retry_after) {
  Agent& agent = agents_[index];
  const Instant now = time_.now();
  agent.permit = {};
  ++outcome_.tally.refusals;
  count(&Interval::refusals);
  if (agent.attempts++ == options_.retries) return give_up(index, Errc::kCapacityExhausted);
  // The header has whole seconds.
  const bool told = options_.hint == SimulationOptions::Hint::kRetryAfter;
  const Nanos said = told ? std::chrono::ceil<std::chrono::seconds>(retry_after) : Nanos{0};
  const Nanos pause = sdk_pause(agent.attempts, said, agent.random);
  const Instant again = now + kRefusalLatency + pause;
  if (again > agent.asked_at + options_.patience) return give_up(index, Errc::kDeadlineExceeded);
  schedule(index, again);
}

void Simulation::answered(std::uint32_t index) {
  Agent& agent = agents_[index];
  provider_->answered(cost(agent).cost, time_.now());
  agent.permit = {};
  draw(agent);
  begin(index);
}

void Simulation::give_up(std::uint32_t index, Errc why) {
  Agent& agent = agents_[index];
  change_waiting(-1);
  agent.permit = {};
  ++outcome_.tally.given_up;
  if (why == Errc::kNeverFits) ++outcome_.tally.too_large;
  count(&Interval::given_up);
  outcome_.tally.wasted_tokens += std::exchange(agent.task_tokens, 0);
  outcome_.tally.wasted_micro_usd += std::exchange(agent.task_micro_usd, 0);
  agent.task_calls = 0;
  draw(agent);
  begin(index);
}

Nanos Simulation::answer_time(Agent& agent) {
  const double normal = std::sqrt(-2 * std::log(next_unit(agent.random))) *
                        std::cos(2 * std::numbers::pi * next_unit(agent.random));
  return Nanos{static_cast<std::int64_t>(static_cast<double>(cost(agent).latency.count()) *
                                         std::exp(kJitter * normal))};
}

void Simulation::change_waiting(int by) {
  const Instant now = time_.now();
  waiting_area_ += static_cast<double>(waiting_) *
                   static_cast<double>((now - std::exchange(waiting_since_, now)).count());
  waiting_ += by;
}

void Simulation::end_interval(std::size_t index) {
  change_waiting(0);
  Interval& interval = outcome_.intervals[index];
  interval.waiting = std::exchange(waiting_area_, 0) / static_cast<double>(interval_.count());
  for (std::size_t limit = 0; limit < used_.size(); ++limit) {
    const auto use = provider_->look(limit, time_.now());
    total_used_[limit] += use.used;
    used_[limit][index] = use.allowed > 0 ? use.used / use.allowed : 0;
  }
}

void Simulation::finish(std::optional<std::size_t> limit) {
  const auto part = [&](std::size_t of) {
    return total_used_[of] / provider_->allowance(of, options_.duration);
  };
  if (!used_.empty()) {
    outcome_.limit_index =
        limit.value_or(std::ranges::max(std::views::iota(std::size_t{0}, used_.size()), {}, part));
    outcome_.limit = provider_->name(outcome_.limit_index);
    outcome_.tally.quota_used = part(outcome_.limit_index);
  }
  for (std::size_t i = 0; i < Outcome::kIntervals; ++i) {
    Interval& interval = outcome_.intervals[i];
    if (!used_.empty()) interval.used = used_[outcome_.limit_index][i];
    const WaitHistogram::Spread wait = waits_[i].spread();
    interval.wait_p50 = wait.p50;
    interval.wait_p99 = wait.p99;
    outcome_.tally.waits += waits_[i];
  }
  for (Agent& agent : agents_) {
    // What it did not come to: the call that waits or runs is counted.
    if (agent.state != State::kIdle) draw(agent);
    while (agent.due < end_) {
      ++outcome_.tally.wanted;
      agent.share.wanted += static_cast<double>(cost(agent).tokens);
      draw(agent);
    }
    outcome_.shares.push_back(agent.share);
  }
  outcome_.tally.fairness = fairness(outcome_.shares);
}

}  // namespace

double SimulationOptions::expected_calls() const {
  const double calls = static_cast<double>(agents) + static_cast<double>(greedy) * (kGreed - 1);
  return calls * static_cast<double>(duration.count()) /
         static_cast<double>(std::max(mean_gap, Nanos{1}).count());
}

Result<Outcome> simulate(const SimulationOptions& options, Mode mode,
                         const std::function<void(double)>& progress,
                         std::optional<std::size_t> limit) {
  if (options.agents < 1 || options.agents > SimulationOptions::kAgentsMax) {
    return fail(Errc::kInvalidConfig, fmt::format("agents: from 1 to {}, not {}",
                                                  SimulationOptions::kAgentsMax, options.agents));
  }
  if (options.greedy > options.agents) {
    return fail(Errc::kInvalidConfig,
                fmt::format("greedy: {} of {} agents", options.greedy, options.agents));
  }
  if (options.expected_calls() > SimulationOptions::kCallsMax) {
    return fail(Errc::kInvalidConfig,
                fmt::format("{:.0f} calls are to be expected, more than {:.0f}",
                            options.expected_calls(), SimulationOptions::kCallsMax));
  }
  Simulation simulation{options, mode};
  if (auto prepared = simulation.prepare(); !prepared) return std::unexpected(prepared.error());
  return simulation.run(progress, limit);
}

}  // namespace weir::workload
