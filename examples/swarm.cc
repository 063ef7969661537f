// A swarm of agents against one provider's quotas, in simulated time: first each for itself, with
// the back-off of an ordinary SDK, then through one Weir gate.
//
//   swarm [--agents 40] [--minutes 30] [--seed 1] [--json]
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "weir/gate/gate.h"
#include "weir/time/simulated_time.h"

namespace {

using namespace weir;
using namespace std::chrono_literals;

struct Options {
  int agents = 40;
  int minutes = 30;
  unsigned seed = 1;
  bool json = false;
};

// What the provider sells: 200 requests and 400,000 tokens a minute, 20 calls at once.
constexpr Amount kTokensPerMinute = 400'000;
std::vector<LimitSpec> quotas() {
  return {LimitSpec::token_bucket(Unit::kRequests, {200, 1min}, 20),
          LimitSpec::token_bucket(Unit::kTokens, {kTokensPerMinute, 1min}, 40'000),
          LimitSpec::concurrency(20)};
}

struct Outcome {
  long completed = 0;
  long given_up = 0;
  long answers_429 = 0;
  Amount tokens = 0;
  std::vector<double> waits;            // seconds from wanting a call to its start
  std::vector<double> tokens_by_agent;  // of those that always want more
};

// The far side. It keeps its own books and answers 429 to whatever is over them.
class Provider {
 public:
  explicit Provider(SimulatedTime& time)
      : books_(*Gate::create({.name = "provider", .limits = quotas()}, time.source())) {}

  std::expected<Permit, Refusal> call(const Cost& cost) {
    return books_->try_acquire({.cost = cost});
  }

 private:
  std::unique_ptr<Gate> books_;
};

// Thinks, wants a call of some size, makes it, waits for the answer, and so on.
class Agent final : public Alarm {
 public:
  struct World {
    SimulatedTime& time;
    Provider& provider;
    Gate* weir;  // null: every agent for itself
    Outcome& outcome;
  };

  Agent(World world, int number, unsigned seed)
      : world_(world),
        name_("agent-" + std::to_string(number)),
        // A few have big prompts, a few little to do; most always want more.
        largest_(number % 4 == 0 ? 16'000 : 4'000),
        think_seconds_(number % 5 == 0 ? 20.0 : 0.0),
        random_(seed + static_cast<unsigned>(number)) {
    sleep(uniform(0, 1));
  }
  ~Agent() { world_.time.disarm(*this); }

  bool always_wants_more() const { return think_seconds_ == 0; }
  double tokens() const { return static_cast<double>(tokens_); }

  void ring(Instant /*now*/) override {
    if (call_) return finish();
    if (cost_ == Cost{}) want();
    if (world_.weir == nullptr) return attempt();
    world_.weir->acquire_async({.cost = cost_, .agent = name_}, kEndOfTime,
                               [this](Result<Permit> permit) {
                                 if (!permit) return;  // the simulation is over
                                 permit_ = std::move(*permit);
                                 attempt();
                               });
  }

 private:
  void want() {
    cost_ = Cost::call(static_cast<Amount>(uniform(500, static_cast<double>(largest_))));
    wanted_ = world_.time.now();
  }

  void attempt() {
    ++attempts_;
    auto call = world_.provider.call(cost_);
    if (!call) {
      ++world_.outcome.answers_429;
      // What SDKs do: half a second, doubled, with jitter; after the third answer they give up.
      if (attempts_ < 3) return sleep(uniform(0.75, 1) * 0.5 * (1 << attempts_));
      // The work does not go away: the agent comes back with it later.
      ++world_.outcome.given_up;
      attempts_ = 0;
      return sleep(uniform(5, 15));
    }
    call_ = std::make_unique<Permit>(std::move(*call));
    world_.outcome.waits.push_back(
        std::chrono::duration<double>(world_.time.now() - wanted_).count());
    sleep(1 + static_cast<double>(cost_[Unit::kTokens]) / 2'000);
  }

  void finish() {
    call_.reset();
    permit_.release();
    attempts_ = 0;
    ++world_.outcome.completed;
    tokens_ += cost_[Unit::kTokens];
    world_.outcome.tokens += cost_[Unit::kTokens];
    cost_ = {};
    sleep(uniform(0.5, 1.5) * think_seconds_ + 0.01);
  }

  double uniform(double low, double high) {
    return std::uniform_real_distribution{low, high}(random_);
  }
  void sleep(double seconds) {
    world_.time.arm(*this, world_.time.now() + Nanos{static_cast<std::int64_t>(seconds * 1e9)});
  }

  World world_;
  std::string name_;
  Amount largest_;
  double think_seconds_;
  std::mt19937_64 random_;
  Cost cost_;
  Instant wanted_{};
  int attempts_ = 0;
  Amount tokens_ = 0;
  Permit permit_;
  std::unique_ptr<Permit> call_;
};

void show_progress(const char* label, int done, int all) {
  if (isatty(STDERR_FILENO) == 0) return;
  constexpr int kWidth = 32;
  const int filled = all == 0 ? kWidth : done * kWidth / all;
  std::fprintf(stderr, "\r  %-13s [%.*s%*s] %3d%%", label, filled,
               "################################", kWidth - filled, "", done * 100 / all);
  if (done == all) std::fprintf(stderr, "\r%60s\r", "");
}

Outcome simulate(const Options& options, const char* label, bool with_weir) {
  Outcome outcome;
  SimulatedTime time;
  Provider provider{time};
  std::unique_ptr<Gate> gate;
  if (with_weir) gate = *Gate::create({.name = "provider", .limits = quotas()}, time.source());
  std::vector<std::unique_ptr<Agent>> agents;
  for (int i = 0; i < options.agents; ++i) {
    agents.push_back(std::make_unique<Agent>(Agent::World{time, provider, gate.get(), outcome}, i,
                                             options.seed));
  }
  for (int minute = 0; minute < options.minutes; ++minute) {
    show_progress(label, minute, options.minutes);
    time.advance(1min);
  }
  show_progress(label, options.minutes, options.minutes);
  for (const auto& agent : agents) {
    if (agent->always_wants_more()) outcome.tokens_by_agent.push_back(agent->tokens());
  }
  if (gate) gate->close();
  return outcome;
}

// 1: all got the same; 1/n: one got all.
double jain(const std::vector<double>& shares) {
  double sum = 0;
  double squares = 0;
  for (double share : shares) {
    sum += share;
    squares += share * share;
  }
  return squares == 0 ? 1 : sum * sum / (static_cast<double>(shares.size()) * squares);
}

double percentile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  const auto at =
      values.begin() + static_cast<std::ptrdiff_t>(part * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

struct Row {
  const char* key;
  const char* label;
  int decimals;
  double without;
  double with;
};

std::vector<Row> compare(const Options& options, const Outcome& without, const Outcome& with) {
  const auto used = [&](const Outcome& o) {
    return 100.0 * static_cast<double>(o.tokens) /
           static_cast<double>(kTokensPerMinute * options.minutes);
  };
  const auto row = [&](const char* key, const char* label, int decimals, auto figure) {
    return Row{key, label, decimals, static_cast<double>(figure(without)),
               static_cast<double>(figure(with))};
  };
  return {
      row("answers_429", "answers of 429", 0, [](const Outcome& o) { return o.answers_429; }),
      row("given_up", "calls given up", 0, [](const Outcome& o) { return o.given_up; }),
      row("completed", "calls completed", 0, [](const Outcome& o) { return o.completed; }),
      row("quota_used_percent", "token quota used, %", 1, used),
      row("fairness", "fairness (Jain's index)", 3,
          [](const Outcome& o) { return jain(o.tokens_by_agent); }),
      row("wait_p50_s", "wait for a call, median, s", 1,
          [](const Outcome& o) { return percentile(o.waits, 0.5); }),
      row("wait_max_s", "wait for a call, longest, s", 1,
          [](const Outcome& o) { return percentile(o.waits, 1); }),
  };
}

void print(const Options& options, const std::vector<Row>& rows) {
  if (options.json) {
    std::printf("{");
    for (const Row& row : rows) {
      std::printf("%s\"%s\":{\"without\":%.*f,\"with\":%.*f}", &row == rows.data() ? "" : ",",
                  row.key, row.decimals, row.without, row.decimals, row.with);
    }
    std::printf("}\n");
    return;
  }
  std::printf("%d agents share 200 requests/min, %lld tokens/min and 20 slots for %d minutes\n\n",
              options.agents, static_cast<long long>(kTokensPerMinute), options.minutes);
  std::printf("  %-28s %12s %12s\n", "", "without Weir", "with Weir");
  for (const Row& row : rows) {
    std::printf("  %-28s %12.*f %12.*f\n", row.label, row.decimals, row.without, row.decimals,
                row.with);
  }
}

int usage(std::FILE* out, int code) {
  std::fprintf(
      out,
      "swarm [--agents N] [--minutes N] [--seed N] [--json]\n\n"
      "A swarm of agents against one provider's quotas, in simulated time: each for itself\n"
      "with an SDK's back-off, then through one Weir gate.\n\n"
      "  --agents N    how many agents, 1 to 10000 (40)\n"
      "  --minutes N   simulated minutes, 1 to 1440 (30)\n"
      "  --seed N      of the agents' randomness (1)\n"
      "  --json        one JSON object instead of a table\n\n"
      "  example: swarm --agents 200 --minutes 60\n");
  return code;
}

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      options.json = true;
      continue;
    }
    struct Number {
      const char* flag;
      int low, high;
      int value = 0;
    };
    Number numbers[] = {{"--agents", 1, 10'000}, {"--minutes", 1, 1'440}, {"--seed", 0, 1 << 30}};
    const auto number = std::ranges::find_if(
        numbers, [&](const Number& n) { return std::strcmp(argv[i], n.flag) == 0; });
    if (number == std::end(numbers)) {
      std::fprintf(stderr, "swarm: unknown argument: %s\n", argv[i]);
      return false;
    }
    const char* text = i + 1 < argc ? argv[++i] : "";
    const char* end = text + std::strlen(text);
    const auto parsed = std::from_chars(text, end, number->value);
    if (parsed.ec != std::errc{} || parsed.ptr != end || number->value < number->low ||
        number->value > number->high) {
      std::fprintf(stderr, "swarm: %s wants a number from %d to %d: \"%s\"\n", number->flag,
                   number->low, number->high, text);
      return false;
    }
    if (number == &numbers[0]) options.agents = number->value;
    if (number == &numbers[1]) options.minutes = number->value;
    if (number == &numbers[2]) options.seed = static_cast<unsigned>(number->value);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--help") == 0) return usage(stdout, 0);
  Options options;
  if (!parse(argc, argv, options)) return usage(stderr, 2);
  const Outcome without = simulate(options, "without Weir", false);
  const Outcome with = simulate(options, "with Weir", true);
  print(options, compare(options, without, with));
}
