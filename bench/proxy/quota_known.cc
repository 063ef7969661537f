// The row quota_known: how much of a known quota agents get through the provider room, in simulated
// time.
#include <algorithm>
#include <cmath>
#include <deque>
#include <fstream>
#include <memory>
#include <random>
#include <string>

#include "net/http_head.h"
#include "provider/calibration.h"
#include "provider/charge.h"
#include "provider/resources.h"
#include "provider/signals.h"
#include "proxy/rows.h"
#include "weir/time/simulated_time.h"

namespace weir::bench {
namespace {

using namespace std::chrono_literals;
using Seconds = std::chrono::duration<double>;

constexpr int kAgents = 50;
constexpr Nanos kSpan = 1h;
constexpr double kShareMin = 0.98;
constexpr std::uint64_t kSeed = 5;

// What an account of moderate size has. Agents ask for about twice as much.
constexpr Amount kRequestsPerMinute = 300;
constexpr Amount kTokensPerMinute = 400'000;
// A call arrives later than it is admitted, and not all equally late: Weir is told a burst that is
// smaller than the provider's by what a second earns.
constexpr Amount kSecondsInMinute = 60;

constexpr Seconds kWayMin{0.005};
constexpr Seconds kWayMax{0.050};
constexpr Seconds kThinking{0.3};
constexpr Seconds kPerToken{0.02};

// What a call sends and gets, in tokens.
struct Size {
  Amount input;
  Amount output;

  // A round figure that people set, large enough.
  Amount max_output() const {
    Amount most = 256;
    while (most < output) most *= 2;
    return most;
  }
};

// TIMESTAMP,ContextTokens,GeneratedTokens
std::vector<Size> read_trace(const std::string& path) {
  std::ifstream file{path};
  std::vector<Size> sizes;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    Size size{};
    const auto comma = line.find(',');
    if (comma == line.npos ||
        std::sscanf(line.c_str() + comma, ",%ld,%ld", &size.input, &size.output) != 2) {
      die(path + ": not a line of a trace: " + line);
    }
    sizes.push_back(size);
  }
  if (sizes.empty()) die("no trace in " + path);
  return sizes;
}

// With the medians of a public trace of conversations (Azure, 2023).
std::vector<Size> make_trace() {
  std::mt19937_64 random{kSeed};
  std::lognormal_distribution<double> input{std::log(1020.0), 0.7};
  std::lognormal_distribution<double> output{std::log(129.0), 0.9};
  std::vector<Size> sizes(20'000);
  for (Size& size : sizes) {
    size.input = static_cast<Amount>(std::clamp(input(random), 3.0, 14'000.0));
    size.output = static_cast<Amount>(std::clamp(output(random), 1.0, 1'000.0));
  }
  return sizes;
}

// The provider's own bucket, which shares no code with ours.
class Bucket {
 public:
  explicit Bucket(Amount per_minute)
      : burst_(static_cast<double>(per_minute)), per_second_(burst_ / 60), level_(burst_) {}

  double level(Instant now) {
    level_ = std::min(burst_, level_ + Seconds{now - at_}.count() * per_second_);
    at_ = now;
    return level_;
  }
  void take(Amount amount) { level_ -= static_cast<double>(amount); }
  Instant when(Amount amount, Instant now) {
    const double missing = static_cast<double>(amount) - level(now);
    if (missing <= 0) return now;
    return now + Nanos{static_cast<std::int64_t>(std::ceil(missing / per_second_ * 1e9))};
  }
  Seconds full_in(Instant now) { return Seconds{(burst_ - level(now)) / per_second_}; }

 private:
  double burst_;
  double per_second_;
  double level_;
  Instant at_ = SimulatedTime::kStart;
};

// How a provider charges: openai the larger of prompt and max_tokens when the call comes; anthropic
// the prompt when it comes, the output when it is there.
struct Charging {
  Profile profile;
  Amount first(const Size& size) const {
    return profile == Profile::kOpenai ? std::max(size.max_output(), size.input) : size.input;
  }
  Amount later(const Size& size) const { return profile == Profile::kOpenai ? 0 : size.output; }
};

struct Served {
  Amount calls = 0;
  Amount tokens = 0;
};

class Provider {
 public:
  explicit Provider(Charging charging) : charging_(charging) {}

  bool admits(const Size& size, Instant now) {
    const Amount tokens = charging_.first(size);
    if (when(size, now) > now) {
      ++refused_;
      return false;
    }
    requests_.take(1);
    tokens_.take(tokens);
    ++served_.calls;
    served_.tokens += tokens + charging_.later(size);
    return true;
  }
  void has_generated(const Size& size) { tokens_.take(charging_.later(size)); }
  Instant when(const Size& size, Instant now) {
    return std::max(requests_.when(1, now), tokens_.when(charging_.first(size), now));
  }

  // The fields of rate limits, as they are now.
  std::string fields(Instant now) {
    return charging_.profile == Profile::kOpenai
               ? quota("requests", requests_, kRequestsPerMinute, now) +
                     quota("tokens", tokens_, kTokensPerMinute, now)
               : "";
  }
  const Served& served() const { return served_; }
  Amount refused() const { return refused_; }

 private:
  static std::string quota(const std::string& unit, Bucket& bucket, Amount limit, Instant now) {
    const double left = std::max(0.0, std::floor(bucket.level(now)));
    const auto full_ms = static_cast<Amount>(bucket.full_in(now).count() * 1e3);
    return "x-ratelimit-limit-" + unit + ": " + std::to_string(limit) +
           "\r\nx-ratelimit-remaining-" + unit + ": " + round(left) + "\r\nx-ratelimit-reset-" +
           unit + ": " + std::to_string(full_ms) + "ms\r\n";
  }

  const Charging charging_;
  Bucket requests_{kRequestsPerMinute};
  Bucket tokens_{kTokensPerMinute};
  Served served_;
  Amount refused_ = 0;
};

// Sends each call the instant that the provider admits it. The output of a call counts at once: it
// has to be paid for sooner or later.
Served greedy(const Charging& charging, const std::vector<Size>& trace) {
  Provider provider{charging};
  Instant now = SimulatedTime::kStart;
  for (std::size_t i = 0;; ++i) {
    const Size& size = trace[i % trace.size()];
    now = provider.when(size, now);
    if (now > SimulatedTime::kStart + kSpan) return provider.served();
    provider.admits(size, now);
    provider.has_generated(size);
  }
}

LimitConfig bucket(Unit unit, Amount per_minute) {
  return {.spec = LimitSpec::token_bucket(unit, {per_minute, 1min},
                                          per_minute - per_minute / kSecondsInMinute)};
}

// All that the agents share.
struct World {
  World(const Charging& charging, const std::vector<Size>& sizes)
      : provider(charging), trace(sizes) {
    config.name = "provider";
    config.domain = "provider.example";
    config.profile = charging.profile;
    config.limits = {bucket(Unit::kRequests, kRequestsPerMinute),
                     bucket(Unit::kTokens, kTokensPerMinute)};
    if (const auto applied = resources.apply({config}); !applied) die(applied.error().message);
    resource = resources.find(config.name);
  }

  const Size& next_size() { return trace[next++ % trace.size()]; }
  Nanos way() {
    return std::chrono::duration_cast<Nanos>(
        Seconds{std::uniform_real_distribution{kWayMin.count(), kWayMax.count()}(random)});
  }

  // What our tokenizer makes of the prompt: it is OpenAI's; Claude's finds a quarter more, of some
  // texts less and of others more.
  Amount counted(const Size& size) {
    if (config.profile == Profile::kOpenai) return size.input;
    const double factor = std::uniform_real_distribution{1.15, 1.35}(random);
    return static_cast<Amount>(static_cast<double>(size.input) / factor) + 1;
  }

  SimulatedTime time;
  Resources resources{time.source()};
  ProviderConfig config;
  std::shared_ptr<Resource> resource;
  Calibration calibration;
  Provider provider;
  const std::vector<Size>& trace;
  std::size_t next = 0;
  std::mt19937_64 random{kSeed};
};

// Always has a call waiting or under way; does what an Exchange of the proxy does.
class Agent final : public Alarm {
 public:
  Agent(World& world, int number) : world_(world), name_("agent-" + std::to_string(number)) {}
  ~Agent() { world_.time.disarm(*this); }

  void begin() {
    size_ = world_.next_size();
    facts_ = {.api = world_.config.profile == Profile::kOpenai ? Api::kChat : Api::kMessages,
              .model = world_.config.profile == Profile::kOpenai ? "gpt-4o" : "claude-opus-4-8",
              .max_output = size_.max_output(),
              .input_tokens = world_.counted(size_)};
    charge_ = charge(world_.config, facts_, world_.calibration);
    route_ = *world_.resource->route(
        {.agent = name_, .model = facts_.model, .account = Resource::kOwnAccount});
    wait();
  }

 private:
  enum class State { kOnTheWay, kAnswering };

  void wait() {
    route_->path.acquire_async({.cost = charge_.cost, .agent = name_}, kEndOfTime,
                               [this](Result<Permit> permit) {
                                 if (!permit) return;  // the hour is over
                                 permit_ = std::move(*permit);
                                 go(State::kOnTheWay, world_.way());
                               });
  }
  void go(State state, Nanos takes) {
    state_ = state;
    world_.time.arm(*this, world_.time.now() + takes);
  }
  void ring(Instant now) override {
    if (state_ == State::kAnswering) return answered(now);
    admitted_ = world_.provider.admits(size_, now);
    fields_ = world_.provider.fields(now);
    const Seconds work = kThinking + kPerToken * static_cast<double>(size_.output);
    go(State::kAnswering,
       world_.way() + (admitted_ ? std::chrono::duration_cast<Nanos>(work) : Nanos{0}));
  }
  void answered(Instant now) {
    if (admitted_) world_.provider.has_generated(size_);
    const std::string text =
        (admitted_ ? "HTTP/1.1 200 OK\r\n" : "HTTP/1.1 429 Too Many Requests\r\n") + fields_ +
        "content-type: application/json\r\ncontent-length: 0\r\n\r\n";
    const auto head = net::parse_response_head(text, "POST");
    if (!head) die("a head that is none: " + text);
    route_->account->answered(read_signals(world_.config.profile, *head, {}, world_.time.wall()),
                              charge_.cost, now);
    UsageReader usage{"application/json"};
    if (admitted_) usage.read(usage_text());
    const Ending ending = admitted_ ? Ending::kAnswered : Ending::kRefused;
    if (!permit_.settle(settlement(world_.config, facts_, charge_, ending, &usage))) {
      die("a permit was not to be settled");
    }
    permit_ = {};
    if (!admitted_) return wait();
    if (!usage.usage()) die("usage was not read");
    world_.calibration.learn(facts_, *usage.usage());
    begin();
  }
  std::string usage_text() const {
    const bool openai = world_.config.profile == Profile::kOpenai;
    return std::string{R"({"usage":{")"} + (openai ? "prompt" : "input") + R"(_tokens":)" +
           std::to_string(size_.input) + ",\"" + (openai ? "completion" : "output") +
           R"(_tokens":)" + std::to_string(size_.output) + "}}";
  }

  World& world_;
  const std::string name_;
  Size size_{};
  CallFacts facts_;
  Charge charge_;
  std::optional<Resource::Route> route_;
  Permit permit_;
  State state_ = State::kOnTheWay;
  bool admitted_ = false;
  std::string fields_;
};

struct Outcome {
  double share;
  Amount refused;
};

Outcome run(const Charging& charging, const std::vector<Size>& trace) {
  const Served most = greedy(charging, trace);
  World world{charging, trace};
  std::deque<Agent> agents;
  for (int i = 0; i < kAgents; ++i) agents.emplace_back(world, i).begin();
  world.time.advance(kSpan);
  const Served got = world.provider.served();
  world.resources.close(Errc::kClosed);

  const auto share = [](Amount ours, Amount all) {
    return static_cast<double>(ours) / static_cast<double>(all);
  };
  const Outcome outcome{std::min(share(got.calls, most.calls), share(got.tokens, most.tokens)),
                        world.provider.refused()};
  note("known quota, charged as by " + std::string{name(charging.profile)} + ": " +
       std::to_string(got.calls) + " of " + std::to_string(most.calls) + " calls, " +
       std::to_string(got.tokens) + " of " + std::to_string(most.tokens) + " tokens, " +
       std::to_string(outcome.refused) + " answers of 429");
  return outcome;
}

}  // namespace

Row quota_known(const Settings& settings) {
  const auto path = settings.find("trace");
  const std::vector<Size> trace =
      path == settings.end() || path->second.empty() ? make_trace() : read_trace(path->second);
  double share = 1;
  Amount refused = 0;
  for (const Profile profile : {Profile::kOpenai, Profile::kAnthropic}) {
    const Outcome outcome = run({profile}, trace);
    share = std::min(share, outcome.share);
    refused += outcome.refused;
  }
  Row row =
      larger_is_better("quota_known", 100 * share, 100 * kShareMin, "%", 1, "98% of a known quota");
  if (refused > 0) row.ratio = 0;
  row.more = {{"answers_429", static_cast<double>(refused)}};
  return row;
}

}  // namespace weir::bench
