#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "app/command_line.h"
#include "app/commands.h"

namespace weir::app {
namespace {

constexpr std::string_view kTryNext = R"(
Weir runs with its built-in example providers. Try, in another terminal:
  curl -d '{{"resource":"demo"}}' http://{0}/v1/acquire        # the third is refused: 429
  weir acquire demo --wait 30s                               # waits for its turn instead
  weir exec anthropic --tokens 1200 -- echo "under a permit"
  weir status
Your own limits: weir start --provider-dir DIR   (weir check FILE explains them)

)";

// As many connections as the system lets us have.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Blocked in every thread, to be waited for in this one.
sigset_t block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return signals;
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
  const TimeSource time = TimeSource::system();
  server::Log log{STDERR_FILENO, json ? server::Log::Format::kJson : server::Log::Format::kText,
                  time.clock};
  if (!options.store.empty() || options.durability == "exact" || options.durability == "snapshot") {
    log.warning("state is kept in memory by this version; --store and --durability have no effect");
  }

  auto daemon = Daemon::start(
      {.sources = options.sources, .listen = listen, .threads = options.threads}, time, log);
  if (!daemon) {
    for (const std::string& line : daemon.error().lines) fmt::print(stderr, "weir: {}\n", line);
    return daemon.error().exit_code;
  }
  const Sources& sources = options.sources;
  if (sources.main_file.empty() && sources.provider_files.empty() &&
      sources.provider_dirs.empty()) {
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
