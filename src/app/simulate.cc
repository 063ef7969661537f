#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "app/command_line.h"
#include "app/commands.h"
#include "app/progress_bar.h"
#include "app/table.h"
#include "server/limit_spec.h"
#include "server/text.h"
#include "workload/feed.h"
#include "workload/model_provider.h"
#include "workload/report.h"

namespace weir::app {
namespace {

using workload::SimulationOptions;
using workload::Sizes;
using workload::Tally;
using workload::Trace;

// Where the fleet comes from is not said: the quota is 1/1.6 of what fifty agents ask for.
constexpr Amount kDefaultRpm = 500;
constexpr Amount kDefaultTpm = 250'000;
constexpr std::uint32_t kDefaultAgents = 50;
constexpr Nanos kDefaultGap = std::chrono::seconds{10};
constexpr std::string_view kDefaultModel = "gpt-4o";
constexpr std::uint32_t kRetriesMax = 100;

struct Setting {
  SimulationOptions options;
  Trace trace;  // of a file or made; else the options point to the built-in one
  std::string sizes;
  bool feed = false;  // how many agents there are is the question
};

std::unexpected<std::string> wrong(std::string_view option, std::string_view why) {
  return std::unexpected(fmt::format("weir: {}: {}\n", option, why));
}

template <class T>
using Parsed = std::expected<T, std::string>;

Parsed<Nanos> period(std::string_view option, const std::string& text) {
  const auto parsed = parse_period(text);
  if (!parsed) return wrong(option, parsed.error().message);
  return *parsed;
}

// A period, or none at all.
Parsed<Nanos> delay(std::string_view option, const std::string& text) {
  if (text == "0" || text == "0ms" || text == "0s") return Nanos{0};
  return period(option, text);
}

Parsed<std::int64_t> within(std::string_view option, std::int64_t value, std::int64_t least,
                            std::int64_t most) {
  if (value >= least && value <= most) return value;
  return wrong(option, fmt::format("from {} to {}, not {}", least, workload::count_text(most),
                                   workload::count_text(value)));
}

// "200-4000", or "300".
Parsed<Sizes> sizes(std::string_view option, std::string_view text) {
  Sizes sizes;
  const char* const end = text.data() + text.size();
  auto read = std::from_chars(text.data(), end, sizes.smallest);
  sizes.largest = sizes.smallest;
  if (read.ec == std::errc{} && read.ptr != end && *read.ptr == '-') {
    read = std::from_chars(read.ptr + 1, end, sizes.largest);
  }
  if (read.ec != std::errc{} || read.ptr != end || sizes.smallest < 0 ||
      sizes.largest < sizes.smallest || sizes.largest > workload::kTraceTokensMax) {
    return wrong(option,
                 fmt::format("\"{}\" is not a number of tokens; write 300 or 200-4000", text));
  }
  return sizes;
}

// The gap between two calls of "6/m".
Parsed<Nanos> gap_of(std::string_view text) {
  double count = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, count);
  const std::string_view unit{read.ptr, end};
  const double seconds = unit == "/s" ? 1 : unit == "/m" ? 60 : unit == "/h" ? 3600 : 0;
  // Up to a call each microsecond, down to one a year.
  if (read.ec != std::errc{} || seconds == 0 || !(count / seconds <= 1e6) ||
      !(count / seconds >= 1 / 3.2e7)) {
    return wrong("--rate", fmt::format("\"{}\" is not a rate; write 2/s, 6/m or 30/h", text));
  }
  return Nanos{static_cast<std::int64_t>(seconds / count * 1e9)};
}

std::string all_of(const Mistakes& mistakes) {
  std::string text;
  for (const Mistake& mistake : mistakes) text += mistake.text() + "\n";
  return text;
}

Parsed<Trace> read_trace(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);  // of a regular file only
  if (error) return wrong("--trace", fmt::format("{}: {}", path, error.message()));
  if (size > workload::kTraceBytesMax) {
    return wrong("--trace", fmt::format("{} has {} bytes, more than {}", path, size,
                                        workload::kTraceBytesMax));
  }
  std::string text(size, '\0');
  std::ifstream file{path, std::ios::binary};
  file.read(text.data(), static_cast<std::streamsize>(size));
  if (!file) return wrong("--trace", path + " cannot be read");
  auto trace = workload::parse_csv(text, path);
  if (!trace) return std::unexpected(all_of(trace.error()));
  return std::move(*trace);
}

// What the calls are like, and how often they come.
Parsed<void> set_demand(const SimulateOptions& asked, Setting& setting) {
  SimulationOptions& options = setting.options;
  options.mean_gap = kDefaultGap;
  if (!asked.trace.empty()) {
    auto trace = read_trace(asked.trace);
    if (!trace) return std::unexpected(trace.error());
    setting.trace = std::move(*trace);
    options.trace = &setting.trace;
    setting.sizes = "sizes and rhythm of " + asked.trace;
    const auto named = static_cast<std::uint32_t>(setting.trace.agents.size());
    if (named != 0 && !asked.agents) options.agents = named;
    // All together they call as often as the trace does.
    const std::int64_t agents = std::max(named != 0 ? named : options.agents, 1U);
    options.mean_gap = std::min(setting.trace.mean_gap(), Nanos::max() / agents) * agents;
  } else if (!asked.tokens.empty() || !asked.output_tokens.empty()) {
    const std::string input_text = asked.tokens.empty() ? "200-4000" : asked.tokens;
    const std::string output_text = asked.output_tokens.empty() ? "50-800" : asked.output_tokens;
    const auto input = sizes("--tokens", input_text);
    if (!input) return std::unexpected(input.error());
    const auto output = sizes("--output-tokens", output_text);
    if (!output) return std::unexpected(output.error());
    setting.trace = workload::synthetic_trace(*input, *output, asked.seed);
    options.trace = &setting.trace;
    setting.sizes = fmt::format("prompts of {} tokens, answers of {}", input_text, output_text);
  } else {
    options.trace = &workload::sample_trace();
    setting.sizes = "sizes and rhythm of the Azure LLM inference trace 2023";
  }
  if (!asked.rate.empty()) {
    const auto gap = gap_of(asked.rate);
    if (!gap) return std::unexpected(gap.error());
    options.mean_gap = *gap;
  }
  options.mean_gap = std::max(options.mean_gap, Nanos{1000});
  return {};
}

Parsed<ProviderConfig> provider_of(const SimulateOptions& asked) {
  if (!asked.provider.empty()) {
    const auto model = load({.provider_files = {asked.provider}});
    if (!model) return std::unexpected(all_of(model.error()));
    if (model->providers.size() != 1) {
      return wrong("--provider", fmt::format("{} has {} providers, and one is simulated",
                                             asked.provider, model->providers.size()));
    }
    return model->providers.front();
  }
  ProviderConfig config;
  config.name = "provider";
  const bool none = !asked.rpm && !asked.tpm && !asked.max_concurrency;
  const auto amount = [&](std::string_view option, std::optional<std::int64_t> given,
                          Amount by_default) -> Parsed<Amount> {
    if (!given) return none ? by_default : 0;
    return within(option, *given, 1, kAmountMax);
  };
  const auto rpm = amount("--rpm", asked.rpm, kDefaultRpm);
  if (!rpm) return std::unexpected(rpm.error());
  const auto tpm = amount("--tpm", asked.tpm, kDefaultTpm);
  if (!tpm) return std::unexpected(tpm.error());
  const auto slots = amount("--max-concurrency", asked.max_concurrency, 0);
  if (!slots) return std::unexpected(slots.error());
  constexpr std::chrono::minutes kMinute{1};
  const auto add = [&](LimitSpec spec, std::string name) {
    spec.name = std::move(name);
    config.limits.push_back({.spec = std::move(spec)});
  };
  if (*rpm != 0) add(LimitSpec::token_bucket(Unit::kRequests, {*rpm, kMinute}), "requests per 1m");
  if (*tpm != 0) add(LimitSpec::token_bucket(Unit::kTokens, {*tpm, kMinute}), "tokens per 1m");
  if (*slots != 0) add(LimitSpec::concurrency(*slots), "slots");
  return config;
}

Parsed<void> read(const SimulateOptions& asked, Setting& setting) {
  SimulationOptions& options = setting.options;
  options.agents = asked.agents.value_or(kDefaultAgents);
  if (auto set = set_demand(asked, setting); !set) return set;
  if (asked.feed && asked.greedy > 0) {
    return wrong("--greedy", "with --feed all agents are alike; leave one of the two out");
  }
  // A trace that names no agents may be of so many.
  if (asked.feed && asked.agents && (asked.trace.empty() || !setting.trace.agents.empty())) {
    return wrong("--agents", "--feed finds out how many; leave one of the two out");
  }
  for (const auto& checked : {within("--agents", options.agents, 1, SimulationOptions::kAgentsMax),
                              within("--greedy", asked.greedy, 0, options.agents),
                              within("--retries", asked.retries, 0, kRetriesMax)}) {
    if (!checked) return std::unexpected(checked.error());
  }
  auto provider = provider_of(asked);
  if (!provider) return std::unexpected(provider.error());
  options.provider = std::move(*provider);
  options.model = asked.model.value_or(asked.provider.empty() ? std::string{kDefaultModel} : "");
  for (const auto& [parsed, into] :
       {std::pair{period("--duration", asked.duration), &options.duration},
        {delay("--latency", asked.latency), &options.latency},
        {delay("--token-latency", asked.token_latency), &options.latency_per_token},
        {period("--patience", asked.patience), &options.patience}}) {
    if (!parsed) return std::unexpected(parsed.error());
    *into = *parsed;
  }
  options.greedy = asked.greedy;
  options.retries = asked.retries;
  options.hint =
      asked.retry_after ? SimulationOptions::Hint::kRetryAfter : SimulationOptions::Hint::kNone;
  options.seed = asked.seed;
  setting.feed = asked.feed;
  return {};
}

std::string rate_text(Nanos gap) {
  const double a_minute = 6e10 / static_cast<double>(gap.count());
  return a_minute >= 1 ? fmt::format("{:.3g} calls a minute", a_minute)
                       : fmt::format("{:.3g} calls an hour", a_minute * 60);
}

std::string limits_text(const SimulationOptions& options) {
  std::string text;
  for (const LimitConfig& limit : workload::limits_of(options.provider, options.model)) {
    const LimitSpec& spec = limit.spec;
    const std::string amount =
        spec.unit == Unit::kMicroUsd
            ? workload::usd_text(spec.amount)
            : workload::count_text(spec.amount) + " " + std::string{name(spec.unit)};
    if (!text.empty()) text += ", ";
    text += amount;
    if (spec.unit != Unit::kSlots) text += " each " + server::span_text(spec.period);
  }
  return text.empty() ? "no limits" : text;
}

std::vector<std::string> assumptions(const Setting& setting) {
  const SimulationOptions& options = setting.options;
  std::string fleet = "agents";
  if (!setting.feed) fleet = workload::count_text(options.agents) + " agents";
  if (!setting.feed && options.greedy > 0) {
    fleet += fmt::format(", {} of them greedy,", workload::count_text(options.greedy));
  }
  return {
      fmt::format("{} that would each make {} for {}; {}", fleet, rate_text(options.mean_gap),
                  server::span_text(options.duration), setting.sizes),
      fmt::format("quota: {}", limits_text(options)),
      fmt::format("an answer takes {} and {} a token; a call waits {} at most; seed {}",
                  server::span_text(options.latency), server::span_text(options.latency_per_token),
                  server::span_text(options.patience), options.seed),
  };
}

void add_assumed(server::JsonText& json, const Setting& setting) {
  const SimulationOptions& options = setting.options;
  json.key("assumed").open('{');
  if (!setting.feed) {
    json.key("agents").number(options.agents).key("greedy").number(options.greedy);
  }
  json.key("duration_ms").number(server::ceil_ms(options.duration)).key("quota").open('[');
  for (const LimitConfig& limit : workload::limits_of(options.provider, options.model)) {
    server::add_limit_spec(json, limit);
  }
  json.close(']').key("model").text(options.model);
  json.key("calls").text(setting.sizes).key("calls_per_minute");
  json.raw(fmt::format("{:.6g}", 6e10 / static_cast<double>(options.mean_gap.count())));
  json.key("latency_ms").number(server::ceil_ms(options.latency));
  json.key("token_latency_ms").number(server::ceil_ms(options.latency_per_token));
  json.key("patience_ms").number(server::ceil_ms(options.patience));
  json.key("retries").number(options.retries);
  json.key("retry_after").boolean(options.hint == SimulationOptions::Hint::kRetryAfter);
  json.key("seed").number(options.seed).close('}');
}

Cell heading(const char* text) { return {text, Colour::kFaint, true}; }
Cell right(std::string text, Colour colour = Colour::kPlain) {
  return {std::move(text), colour, true};
}

int print_failure(const Error& error) {
  fmt::print(stderr, "weir: {}\n", error.message);
  return kUsage;
}

void show(ProgressBar& bar, double done, std::string_view what) {
  bar.show(done, fmt::format("{:3.0f}%  {}", 100 * done, what));
}

int print_unwritten(const std::string& report, int code) {
  fmt::print(stderr, "weir: --report: {}: {}\n", report, std::strerror(errno));
  return code;
}

int compare(const SimulateOptions& asked, const Setting& setting) {
  const SimulationOptions& options = setting.options;
  std::ofstream report;
  if (!asked.report.empty()) {
    report.open(asked.report, std::ios::binary);
    if (!report) return print_unwritten(asked.report, kUsage);
  }
  Result<workload::Outcome> direct;
  Result<workload::Outcome> weir;
  {
    ProgressBar bar;
    weir = workload::simulate(options, workload::Mode::kWeir,
                              [&](double done) { show(bar, done / 2, "with Weir"); });
    if (!weir) return print_failure(weir.error());
    direct = workload::simulate(
        options, workload::Mode::kDirect,
        [&](double done) { show(bar, 0.5 + done / 2, "without Weir"); }, weir->limit_index);
    if (!direct) return print_failure(direct.error());
  }
  const std::vector<std::string> given = assumptions(setting);
  if (report.is_open()) {
    report << workload::html_report({"Weir simulation", given}, options, *direct, *weir)
           << std::flush;
    if (!report) return print_unwritten(asked.report, kFailed);
  }
  if (asked.output == Output::kJson) {
    server::JsonText json;
    json.open('{').key("without").open('{');
    append_json(json, direct->tally);
    json.close('}').key("with").open('{');
    append_json(json, weir->tally);
    json.close('}').key("limit").text(weir->limit);
    add_assumed(json, setting);
    json.close('}');
    fmt::print("{}\n", json.str());
    return kDone;
  }
  fmt::print("{}\n", fmt::join(given, "\n"));
  std::vector<std::vector<Cell>> rows{{{}, heading("WITHOUT WEIR"), heading("WITH WEIR")}};
  const Tally* both[] = {&direct->tally, &weir->tally};
  for (auto& line : workload::lines(both)) {
    rows.push_back({{line.label}, right(line.values[0]), right(line.values[1])});
  }
  fmt::print("\n{}", table(rows, isatty(STDOUT_FILENO) != 0));
  std::vector<std::string> closing = workload::remarks(weir->tally, options.patience);
  if (!weir->limit.empty()) closing.insert(closing.begin(), "What binds is " + weir->limit + ".");
  if (!asked.report.empty()) closing.push_back("Plots are in " + asked.report + ".");
  if (!closing.empty()) fmt::print("\n{}\n", fmt::join(closing, "\n"));
  return kDone;
}

std::string feed_sentence(const workload::Feed& feed, const workload::FeedGoal& goal) {
  const std::string wait = server::span_text(goal.wait_p99);
  if (feed.agents == 0) {
    const Tally& alone = feed.curve.front().tally;
    return fmt::format(
        "Not even one agent has 99% of its calls served, 99% of them within {}{}.", wait,
        alone.too_large == 0
            ? ""
            : fmt::format("; {} are larger than a limit and can never be made",
                          workload::percent_text(workload::part_of(alone.too_large, alone.asked))));
  }
  return fmt::format("This quota feeds {}{} agent{}: 99% of their calls are served, 99% within {}.",
                     feed.all ? "at least " : "", workload::count_text(feed.agents),
                     feed.agents == 1 ? "" : "s", wait);
}

int find_feed(const SimulateOptions& asked, const Setting& setting) {
  workload::FeedGoal goal;
  const auto wait = period("--wait-p99", asked.wait_p99);
  if (!wait) {
    fmt::print(stderr, "{}", wait.error());
    return kUsage;
  }
  goal.wait_p99 = *wait;
  Result<workload::Feed> feed;
  {
    ProgressBar bar;
    feed = workload::feed(setting.options, goal, [&](std::uint32_t agents, double done) {
      show(bar, done, fmt::format("{} agents", agents));
    });
  }
  if (!feed) return print_failure(feed.error());
  if (asked.output == Output::kJson) {
    server::JsonText json;
    json.open('{').key("agents").number(feed->agents).key("at_least").boolean(feed->all);
    json.key("wait_p99_ms").number(server::ceil_ms(goal.wait_p99)).key("curve").open('[');
    for (const auto& point : feed->curve) {
      json.open('{').key("agents").number(point.agents).key("fed").boolean(point.fed);
      json.key("with").open('{');
      append_json(json, point.tally);
      json.close('}').close('}');
    }
    json.close(']');
    add_assumed(json, setting);
    json.close('}');
    fmt::print("{}\n", json.str());
    return kDone;
  }
  std::vector<std::vector<Cell>> rows{{heading("AGENTS"),
                                       heading("CALLS DONE"),
                                       heading("QUOTA USED"),
                                       heading("WAIT P50"),
                                       heading("WAIT P99"),
                                       heading("GIVEN UP"),
                                       heading("429S"),
                                       {}}};
  for (const auto& [agents, tally, fed] : feed->curve) {
    const auto part = [&](std::uint64_t count) {
      return workload::percent_text(workload::part_of(count, tally.wanted));
    };
    const WaitHistogram::Spread waits = tally.waits.spread();
    const Colour colour = fed ? Colour::kPlain : Colour::kFaint;
    rows.push_back({right(workload::count_text(agents), colour),
                    right(part(tally.done), colour),
                    right(workload::percent_text(tally.quota_used), colour),
                    right(server::span_text(waits.p50), colour),
                    right(server::span_text(waits.p99), colour),
                    right(part(tally.given_up), colour),
                    right(workload::count_text(static_cast<std::int64_t>(tally.refusals)), colour),
                    {fed ? "fed" : "hungry", colour}});
  }
  fmt::print("{}\n\n{}\n", fmt::join(assumptions(setting), "\n"), feed_sentence(*feed, goal));
  fmt::print("\n{}", table(rows, isatty(STDOUT_FILENO) != 0));
  return kDone;
}

}  // namespace

int simulate(const SimulateOptions& options) {
  Setting setting;
  if (const auto made = read(options, setting); !made) {
    fmt::print(stderr, "{}", made.error());
    return kUsage;
  }
  return options.feed ? find_feed(options, setting) : compare(options, setting);
}

}  // namespace weir::app
