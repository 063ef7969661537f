#include "workload/fleet_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/json.hpp>
#include <charconv>
#include <optional>

#include "net/upstream.h"
#include "provider/prices.h"
#include "workload/sdk_retry.h"

namespace weir::workload {
namespace {

namespace asio = boost::asio;

constexpr std::string_view kModel = "gpt-4o";
constexpr Nanos kTick = std::chrono::milliseconds{200};
constexpr std::size_t kAnswerBytesMax = 64 * 1024;
// Tokens of a prompt that are not its words: three for the message, three for the answer.
constexpr Amount kAround = 6;

// Calls `woken` on the loop at an instant.
class Wake final : private Alarm {
 public:
  Wake(asio::io_context& io, Timer& timer, std::function<void()> woken)
      : io_(io), timer_(timer), woken_(std::move(woken)) {}
  ~Wake() { timer_.disarm(*this); }
  void at(Instant instant) { timer_.arm(*this, instant); }

 private:
  void ring(Instant) override { asio::post(io_, woken_); }

  asio::io_context& io_;
  Timer& timer_;
  const std::function<void()> woken_;
};

// As many words, each of which is one token of every encoding.
std::string prompt(Amount words) {
  static constexpr std::array<std::string_view, 8> kWords{" water", " flows", " over",  " the",
                                                          " stone", " and",   " stays", " clear"};
  std::string text;
  for (Amount i = 0; i < words; ++i) text += kWords[static_cast<std::size_t>(i) % kWords.size()];
  return text;
}

std::string body_of(const PlannedCall& call) {
  return fmt::format(R"({{"model":"{}","max_tokens":{},"metadata":{{"output_tokens":"{}"}},)"
                     R"("messages":[{{"role":"user","content":"{}"}}]}})",
                     kModel, call.max_output(), call.output, prompt(call.input - kAround));
}

std::optional<double> number(std::optional<std::string_view> text) {
  if (!text) return {};
  double value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc{} || end != text->data() + text->size()) return {};
  return value;
}

Nanos milliseconds(double ms) {
  return std::chrono::duration_cast<Nanos>(std::chrono::duration<double, std::milli>{ms});
}

std::optional<Usage> usage_in(const std::string& body) {
  boost::system::error_code error;
  const boost::json::value answer = boost::json::parse(body, error);
  if (error) return {};
  const auto tokens = [&](const char* pointer) -> Amount {
    const boost::json::value* value = answer.find_pointer(pointer, error);
    return value == nullptr || !value->is_int64() ? -1 : value->get_int64();
  };
  const Usage usage{.input = tokens("/usage/prompt_tokens"),
                    .output = tokens("/usage/completion_tokens")};
  if (usage.input < 0 || usage.output < 0) return {};
  return usage;
}

}  // namespace

struct FleetRun::Agents {
  class Worker;

  Agents(const Plan& the_plan, Options the_options, net::Origin the_origin, TimeSource the_time)
      : plan(the_plan),
        options(std::move(the_options)),
        origin(std::move(the_origin)),
        time(the_time) {
    outcome.shares.resize(plan.agents.size());
    for (std::size_t i = 0; i < plan.agents.size(); ++i) {
      outcome.shares[i].wanted = static_cast<double>(plan.demand[i].tokens);
      outcome.tally.wanted += plan.demand[i].calls;
    }
  }

  Outcome run(std::stop_token stop);
  void tick();
  void worker_done() {
    if (--working == 0) io.stop();
  }

  const Plan& plan;
  const Options options;
  const net::Origin origin;
  const TimeSource time;
  const std::optional<Price> price = price_of(ProviderConfig{}, kModel);
  asio::io_context io{1};
  net::UpstreamPool pool{io, time.clock, nullptr, {}};
  Wake ticker{io, time.timer, [this] { tick(); }};
  Instant begin{};
  Instant end{};
  Instant next_tick{};
  bool over = false;
  std::size_t working = 0;
  Outcome outcome;
};

// Makes the calls of one lane.
class FleetRun::Agents::Worker final : private net::UpstreamReceiver {
 public:
  Worker(Agents& agents, const Lane& lane, std::uint64_t seed)
      : agents_(agents), lane_(lane), random_(seed) {
    pause(planned().pause);
  }

 private:
  const PlannedCall& planned() const { return lane_.calls[next_ % lane_.calls.size()]; }

  void pause(Nanos span) {
    const Instant until = agents_.time.clock.now() + span;
    if (until >= agents_.end) return agents_.worker_done();
    wake_.at(until);
  }
  void woken() {
    if (attempt_ == 0) {
      asked_at_ = agents_.time.clock.now();
      ++agents_.outcome.tally.asked;
    }
    send();
  }
  void send() {
    ++attempt_;
    status_ = 0;
    said_ = {};
    body_.clear();
    std::string body = body_of(planned());
    std::string head = fmt::format(
        "POST {}/v1/chat/completions HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n"
        "X-Weir-Agent: {}\r\nContent-Length: {}\r\n\r\n",
        agents_.origin.base, agents_.origin.authority, agents_.plan.agents[lane_.agent],
        body.size());
    call_ = agents_.pool.call(agents_.origin,
                              {.method = "POST", .head = std::move(head), .body = std::move(body)},
                              *this);
  }

  void on_head(const net::ResponseHead& head) override {
    status_ = head.status;
    const auto retry_ms = number(head.fields.find("retry-after-ms"));
    const auto retry_s = number(head.fields.find("retry-after"));
    if (retry_ms) {
      said_.retry_after = milliseconds(*retry_ms);
    } else if (retry_s) {
      said_.retry_after = milliseconds(*retry_s * 1000);
    }
    said_.never_again = head.fields.find("x-should-retry") == "false";
    said_.took = milliseconds(number(head.fields.find("openai-processing-ms")).value_or(0));
  }
  void on_body(std::string_view bytes) override {
    if (body_.size() + bytes.size() <= kAnswerBytesMax) body_ += bytes;
  }
  void on_end() override {
    call_.reset();
    if (status_ != 200) return failed();
    const std::optional<Usage> usage = usage_in(body_);
    return usage ? done(*usage) : failed();
  }
  void on_failure(net::UpstreamFault, std::string_view) override {
    call_.reset();
    failed();
  }

  void done(const Usage& usage) {
    const Instant taken = agents_.time.clock.now() - said_.took;
    if (taken >= agents_.end) return agents_.worker_done();
    Tally& tally = agents_.outcome.tally;
    const Amount tokens = usage.input + usage.output;
    const Amount paid =
        agents_.price ? micro_usd(*agents_.price, usage, Profile::kOpenai) : Amount{0};
    ++tally.done;
    tally.tokens += tokens;
    tally.micro_usd += paid;
    task_tokens_ += tokens;
    task_micro_usd_ += paid;
    tally.waits.add(std::max(taken - asked_at_, Nanos{0}));
    agents_.outcome.shares[lane_.agent].served += static_cast<double>(planned().charge());
    if (planned().ends_task) {
      ++tally.tasks_done;
      tally.used_tokens += std::exchange(task_tokens_, 0);
      task_micro_usd_ = 0;
    }
    proceed();
  }
  void failed() {
    if (agents_.time.clock.now() >= agents_.end) return agents_.worker_done();
    const bool may_pass =
        status_ == 0 || status_ == 408 || status_ == 409 || status_ == 429 || status_ >= 500;
    if (may_pass && !said_.never_again && attempt_ <= kSdkRetries) {
      return pause(sdk_pause(attempt_, said_.retry_after, random_));
    }
    Tally& tally = agents_.outcome.tally;
    ++tally.given_up;
    tally.wasted_tokens += std::exchange(task_tokens_, 0);
    tally.wasted_micro_usd += std::exchange(task_micro_usd_, 0);
    while (!planned().ends_task) ++next_;
    proceed();
  }
  void proceed() {
    ++next_;
    attempt_ = 0;
    pause(planned().pause);
  }

  struct Said {
    Nanos retry_after{0};
    bool never_again = false;
    Nanos took{0};  // by the provider
  };

  Agents& agents_;
  const Lane& lane_;
  std::uint64_t random_;
  Wake wake_{agents_.io, agents_.time.timer, [this] { woken(); }};
  std::unique_ptr<net::UpstreamCall> call_;
  std::size_t next_ = 0;
  std::uint32_t attempt_ = 0;
  Instant asked_at_{};
  int status_ = 0;
  Said said_;
  std::string body_;
  Amount task_tokens_ = 0;
  Amount task_micro_usd_ = 0;
};

void FleetRun::Agents::tick() {
  const Instant now = time.clock.now();
  outcome.late = std::max(outcome.late, now - next_tick);
  pool.sweep();
  if (options.told) options.told({.elapsed = now - begin, .tally = outcome.tally});
  if (!over && now >= end) {
    over = true;
    if (options.time_over) options.time_over();
  }
  next_tick = over ? now + kTick : std::min(now + kTick, end);
  ticker.at(next_tick);
}

FleetRun::Outcome FleetRun::Agents::run(std::stop_token stop) {
  const auto until_stopped = asio::make_work_guard(io);
  const std::stop_callback on_stop{stop, [this] { io.stop(); }};
  begin = time.clock.now();
  end = begin + plan.lasting;
  working = plan.lanes.size();
  std::vector<std::unique_ptr<Worker>> workers;
  for (const Lane& lane : plan.lanes) {
    workers.push_back(std::make_unique<Worker>(*this, lane, workers.size() + 1));
  }
  next_tick = begin + kTick;
  ticker.at(next_tick);
  io.run();
  if (!over && options.time_over) options.time_over();
  outcome.tally.fairness = fairness(outcome.shares);
  return outcome;
}

FleetRun::FleetRun(std::unique_ptr<Agents> agents) : agents_(std::move(agents)) {}
FleetRun::~FleetRun() = default;

Result<std::unique_ptr<FleetRun>> FleetRun::create(const Plan& plan, Options options,
                                                   TimeSource time) {
  auto origin = net::Origin::parse(options.url);
  if (!origin) return fail(Errc::kInvalidConfig, options.url + " is no URL of a server");
  return std::unique_ptr<FleetRun>{
      new FleetRun(std::make_unique<Agents>(plan, std::move(options), std::move(*origin), time))};
}

FleetRun::Outcome FleetRun::run(std::stop_token stop) { return agents_->run(std::move(stop)); }

}  // namespace weir::workload
