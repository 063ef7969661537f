#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "app/command_line.h"
#include "app/commands.h"
#include "app/descriptor_limit.h"
#include "weir/time/thread_timer.h"

namespace weir::app {
namespace {

constexpr std::string_view kTryNext = R"(
Weir runs with its built-in example providers. The page: http://{0}/
Try, in another terminal:
  curl -d '{{"resource":"demo"}}' http://{0}/v1/acquire        # the third is refused: 429
  weir acquire demo --wait 30s                               # waits for its turn instead
  weir exec anthropic --tokens 1200 -- echo "under a permit"
  weir status
Your own limits: weir start --provider-dir DIR   (weir check FILE explains them)

)";

// Blocked in every thread, to be waited for in this one.
sigset_t block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return signals;
}

// The directory for the state of a program that was not told where to keep it; empty if there is
// none.
std::string state_directory() {
  const auto from = [](const char* variable, const char* below) -> std::string {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') return {};
    const std::string_view all{value};
    return std::string{all.substr(0, all.find(':'))} + below;  // systemd may name several
  };
  for (const auto& [variable, below] : {std::pair{"STATE_DIRECTORY", ""},
                                        {"XDG_STATE_HOME", "/weir"},
                                        {"HOME", "/.local/state/weir"}}) {
    if (auto directory = from(variable, below); !directory.empty()) return directory;
  }
  return {};
}

template <class Choice>
std::optional<Choice> chosen(const std::string& text,
                             std::initializer_list<std::pair<std::string_view, Choice>> choices) {
  for (const auto& [name, choice] : choices) {
    if (text == name) return choice;
  }
  return {};
}

}  // namespace

int start(const StartOptions& options) {
  std::optional<Listen> listen;
  if (!options.listen.empty()) {
    const auto parsed = parse_listen(options.listen);
    if (!parsed) {
      fmt::print(stderr, "weir: --listen: {}\n", parsed.error().message);
      return kUsage;
    }
    listen = *parsed;
  }
  umask(077);
  raise_descriptor_limit();
  const sigset_t signals = block_signals();

  const bool people = isatty(STDERR_FILENO) != 0;
  const bool json = options.log.empty() ? !people : options.log == "json";
  const TimeSource time = TimeSource::since_boot();
  server::Log log{STDERR_FILENO, json ? server::Log::Format::kJson : server::Log::Format::kText,
                  time.clock};
  Daemon::Options daemon_options{.files = options.files, .listen = listen};
  if (!options.store.empty()) daemon_options.store = Secret{options.store};
  daemon_options.durability =
      chosen<Durability>(options.durability, {{"exact", Durability::kExact},
                                              {"snapshot", Durability::kSnapshot},
                                              {"none", Durability::kNone}});
  daemon_options.sync =
      chosen<Sync>(options.sync, {{"process", Sync::kProcess}, {"power", Sync::kPower}});
  daemon_options.state_directory = state_directory();
  daemon_options.threads = options.threads;
  ThreadTimer watching{time.clock};
  daemon_options.watching = &watching;
  auto daemon = Daemon::start(std::move(daemon_options), time, log);
  if (!daemon) {
    for (const std::string& line : daemon.error().lines) fmt::print(stderr, "weir: {}\n", line);
    return daemon.error().exit_code;
  }
  if (options.files.empty()) {
    fmt::print(kTryNext, fmt::format("127.0.0.1:{}", (*daemon)->port()));
    std::fflush(stdout);
  }

  for (;;) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0) continue;
    if (signal == SIGHUP) {
      (void)(*daemon)->reload();  // says in the log what it did
      continue;
    }
    // A second one does not wait for the first.
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    (*daemon)->stop();
    return kDone;
  }
}

}  // namespace weir::app
