// The same agents at the same quota twice, with real sockets: at a fake provider, then through a
// daemon.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "app/command_line.h"
#include "app/commands.h"
#include "app/descriptor_limit.h"
#include "app/progress_bar.h"
#include "app/table.h"
#include "server/limit_spec.h"
#include "workload/fake_provider.h"
#include "workload/fleet_run.h"

namespace weir::app {
namespace {

using workload::FakeProvider;
using workload::FleetRun;
using workload::Plan;
using workload::Quota;

constexpr Nanos kLatency = std::chrono::milliseconds{500};
constexpr Nanos kLatencyPerToken = std::chrono::milliseconds{5};
constexpr Nanos kLateMax = std::chrono::seconds{1};  // what is measured is seconds, too
constexpr std::string_view kTryHold =
    "  weir demo --hold      goes on until Ctrl-C, so that you can look at the page\n";
constexpr std::string_view kTryNext =
    R"(  weir simulate --help  the same for your own numbers, in simulated time
  weir start            the daemon; then OPENAI_BASE_URL=http://127.0.0.1:9347/proxy/openai/v1
)";

// SIGINT, SIGTERM and SIGHUP ask for an end. A second one does not wait for it.
class Interruption {
 public:
  Interruption() {
    boost::system::error_code error;
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) signals_.add(signal, error);
    signals_.async_wait([this](const boost::system::error_code& failed, int signal) {
      if (failed) return;
      signal_ = signal;
      boost::system::error_code ignored;
      signals_.clear(ignored);
      source_.request_stop();
    });
    thread_ = std::thread{[this] { io_.run(); }};
  }
  ~Interruption() {
    io_.stop();
    thread_.join();
  }
  std::stop_token token() const { return source_.get_token(); }
  // 0: none yet.
  int signal() const { return signal_; }

 private:
  boost::asio::io_context io_{1};
  boost::asio::signal_set signals_{io_};
  std::stop_source source_;
  std::atomic<int> signal_ = 0;
  std::thread thread_;
};

// A directory with one file for the daemon to read, gone with the object.
class TemporaryFile {
 public:
  static Result<std::unique_ptr<TemporaryFile>> create(std::string_view text) {
    std::error_code error;
    std::string directory =
        (std::filesystem::temp_directory_path(error) / "weir-demo-XXXXXX").string();
    if (error || mkdtemp(directory.data()) == nullptr) {
      return fail(Errc::kUnavailable, "no temporary directory could be made");
    }
    std::unique_ptr<TemporaryFile> file{new TemporaryFile(std::move(directory))};
    std::ofstream out{file->path()};
    out << text << std::flush;
    if (!out) return fail(Errc::kUnavailable, file->path() + " could not be written");
    return file;
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  std::string path() const { return directory_ + "/demo.yaml"; }

 private:
  explicit TemporaryFile(std::string directory) : directory_(std::move(directory)) {}
  const std::string directory_;
};

std::string provider_file(const Quota& quota, const FakeProvider& provider) {
  std::string text = fmt::format(
      "name: demo\ndomain: demo.example\nupstream: {}\nprofile: openai\n", provider.url());
  text += fmt::format("max_concurrency: {}\nlimits:\n", quota.slots);
  for (const LimitSpec& limit : quota.limits(Quota::kSafeBurst)) {
    if (limit.unit == Unit::kSlots) continue;
    text +=
        fmt::format("  - {{unit: {}, amount: {}, per: 1m, burst: {}, algorithm: token_bucket}}\n",
                    name(limit.unit), limit.amount, limit.burst);
  }
  return text;
}

class Demo {
 public:
  Demo(const DemoOptions& options, const Interruption& interruption)
      : options_(options),
        interruption_(interruption),
        plan_(
            Plan::draw(workload::sample_trace(), {.agents = options.agents,
                                                  .lasting = std::chrono::seconds{options.seconds},
                                                  .latency = kLatency,
                                                  .latency_per_token = kLatencyPerToken})),
        quota_(Quota::for_plan(plan_)) {}

  int run() {
    Listen listen;
    if (!options_.listen.empty()) {
      const auto parsed = parse_listen(options_.listen);
      if (!parsed) return failed("--listen: " + parsed.error().message, kUsage);
      listen = *parsed;
    }
    const auto alone = fresh_provider();
    if (!alone) return failed(alone.error().message);
    const auto behind = fresh_provider();
    if (!behind) return failed(behind.error().message);
    const auto file = TemporaryFile::create(provider_file(quota_, **behind));
    if (!file) return failed(file.error().message);
    const auto daemon = start_daemon((*file)->path(), listen);
    if (!daemon) return failed(daemon.error().lines.front(), daemon.error().exit_code);
    const bool bare = !listen.host.contains(':');
    const std::string url = fmt::format(
        "http://{}:{}", bare ? listen.host : '[' + listen.host + ']', (*daemon)->port());

    say(fmt::format(
        "{} agents, one of them greedy, want {} times what a provider allows: {} tokens and {} "
        "requests a minute, {} slots.\n",
        plan_.agents.size(), Quota::kDemand, workload::count_text(quota_.tokens_per_minute),
        workload::count_text(quota_.requests_per_minute), quota_.slots));
    const auto without = phase("1/2 without Weir", (*alone)->url(), **alone);
    if (!without) return ended(without.error());
    if (options_.page) say(fmt::format("The page: {}/\n", url));
    const auto with = phase("2/2 with Weir   ", url + "/proxy/demo", **behind);
    if (!with) return ended(with.error());
    report(*without, *with);
    if (options_.hold) {
      std::fflush(stdout);
      say(fmt::format("It goes on: {}/ (Ctrl-C to end)\n", url));
      while (phase("until Ctrl-C    ", url + "/proxy/demo", **behind)) {
      }
    }
    return kDone;
  }

 private:
  // Said to the person at the terminal.
  static void say(std::string_view text) { fmt::print(stderr, "{}", text); }
  // Does not throw if nobody reads it: the exit code tells it, too.
  static int failed(std::string_view why, int code = kFailed) {
    std::fputs(fmt::format("weir: {}\n", why).c_str(), stderr);
    return code;
  }
  int ended(const Error& error) const {
    const int signal = interruption_.signal();
    return failed(error.message, signal == 0 ? kFailed : kKilledBy + signal);
  }

  Result<std::unique_ptr<FakeProvider>> fresh_provider() {
    return FakeProvider::start({.limits = quota_.limits(Quota::kBurst),
                                .latency = kLatency,
                                .latency_per_token = kLatencyPerToken},
                               time_, log_);
  }

  std::expected<std::unique_ptr<Daemon>, Daemon::Failure> start_daemon(const std::string& file,
                                                                       Listen listen) {
    const auto start = [&] {
      return Daemon::start(
          {.files = {.provider_files = {file}}, .listen = listen, .durability = Durability::kNone},
          time_, log_);
    };
    auto daemon = start();
    if (daemon || !options_.listen.empty()) return daemon;
    listen.port = 0;  // another daemon has the usual one
    return start();
  }

  Result<FleetRun::Outcome> phase(std::string_view title, const std::string& url,
                                  const FakeProvider& provider) {
    ProgressBar bar;
    const auto show = [&](const FleetRun::Progress& progress) {
      bar.show(std::chrono::duration<double>{progress.elapsed} / plan_.lasting,
               fmt::format("{}  {:>2} s  done {}  given up {}  429s {}", title,
                           progress.elapsed / std::chrono::seconds{1}, progress.tally.done,
                           progress.tally.given_up, provider.truth().refused));
    };
    FakeProvider::Truth in_time;
    auto fleet = FleetRun::create(
        plan_, {.url = url, .told = show, .time_over = [&] { in_time = provider.truth(); }}, time_);
    if (!fleet) return std::unexpected(fleet.error());
    FleetRun::Outcome outcome = (*fleet)->run(interruption_.token());
    if (interruption_.signal() != 0) return fail(Errc::kCancelled, "the demo was interrupted");
    outcome.tally.refusals = in_time.refused;
    outcome.tally.quota_used =
        static_cast<double>(in_time.tokens) / quota_.tokens_in(plan_.lasting);
    return outcome;
  }

  // `tokens` as a part of all that were served.
  static double part(const FleetRun::Outcome& outcome, double tokens) {
    double all = 0;
    for (const workload::Share& share : outcome.shares) all += share.served;
    return all == 0 ? 0 : tokens / all;
  }
  static double greedy_part(const FleetRun::Outcome& outcome) {
    return part(outcome, outcome.shares.front().served);
  }

  // "6.3%, where 5.9% is fair"
  static std::string greedy_sentence(const FleetRun::Outcome& outcome) {
    const double fair = part(outcome, workload::fair_parts(outcome.shares).front());
    const bool more = fair * static_cast<double>(outcome.shares.size()) > 1.5;
    return fmt::format("{}, where {} is fair{}", workload::percent_text(greedy_part(outcome)),
                       workload::percent_text(fair), more ? ": the others want less" : "");
  }

  void report(const FleetRun::Outcome& without, const FleetRun::Outcome& with) const {
    if (options_.output == Output::kJson) return report_json(without, with);
    std::vector<std::vector<Cell>> rows{
        {{""}, {"without Weir", Colour::kFaint, true}, {"with Weir", Colour::kFaint, true}}};
    const auto add = [&](std::string label, const std::vector<std::string>& values) {
      std::vector<Cell>& row = rows.emplace_back();
      row.push_back({std::move(label)});
      for (const std::string& value : values) row.push_back({value, Colour::kPlain, true});
    };
    const auto greedy = [](const FleetRun::Outcome& outcome) {
      return workload::percent_text(greedy_part(outcome));
    };
    const std::array<const workload::Tally*, 2> both{&without.tally, &with.tally};
    for (const workload::TallyLine& line : workload::lines(both)) add(line.label, line.values);
    add("the greedy agent's part", {greedy(without), greedy(with)});
    fmt::print("\n{}\n", table(rows, isatty(STDOUT_FILENO) != 0));
    const auto count = [](std::uint64_t calls) {
      return workload::count_text(static_cast<std::int64_t>(calls));
    };
    const auto lost = [](const workload::Tally& tally) {
      const auto all = static_cast<double>(std::max<Amount>(tally.tokens, 1));
      return 100 * static_cast<double>(tally.wasted_tokens) / all;
    };
    fmt::print(
        "The agents and their work were the same both times. Without Weir {} of {} calls made\n"
        "failed for good after two retries, {:.0f}% of the tokens paid for were lost with their\n"
        "tasks, and the greedy agent had {} of all. Weir knows the limits: calls wait for their\n"
        "turn instead of being refused ({} given up, {:.0f}% lost), and agents take turns,\n"
        "however many calls each has: the greedy one had {}.\n\nNext:\n{}{}",
        count(without.tally.given_up), count(without.tally.asked), lost(without.tally),
        greedy(without), count(with.tally.given_up), lost(with.tally), greedy_sentence(with),
        options_.hold ? "" : kTryHold, kTryNext);
    const Nanos late = std::max(without.late, with.late);
    if (late > kLateMax) {
      say(
          fmt::format("\nThis machine was busy: the agents woke up to {} late, and so did Weir. Do "
                      "not trust these figures.\n",
                      server::span_text(late)));
    }
  }

  static void append(server::JsonText& json, const FleetRun::Outcome& outcome) {
    json.open('{');
    append_json(json, outcome.tally);
    json.key("greedy_part").raw(fmt::format("{:.6f}", greedy_part(outcome)));
    json.key("late_ms").number(server::ceil_ms(outcome.late)).close('}');
  }

  void report_json(const FleetRun::Outcome& without, const FleetRun::Outcome& with) const {
    server::JsonText json;
    json.open('{').key("without");
    append(json, without);
    json.key("with");
    append(json, with);
    json.key("assumed").open('{').key("agents").number(plan_.agents.size());
    json.key("greedy").number(1);
    json.key("duration_ms").number(server::ceil_ms(plan_.lasting)).key("quota").open('[');
    for (LimitSpec& limit : quota_.limits(Quota::kBurst)) {
      limit.name = name(limit.unit);
      server::add_limit_spec(json, {.spec = std::move(limit)});
    }
    json.close(']').close('}').close('}');
    fmt::print("{}\n", json.str());
  }

  const DemoOptions& options_;
  const Interruption& interruption_;
  const TimeSource time_ = TimeSource::system();
  server::Log log_{-1, server::Log::Format::kText, time_.clock};
  const Plan plan_;
  const Quota quota_;
};

}  // namespace

int demo(const DemoOptions& options) {
  std::signal(SIGPIPE, SIG_IGN);
  raise_descriptor_limit();
  const Interruption interruption;
  return Demo{options, interruption}.run();
}

}  // namespace weir::app
