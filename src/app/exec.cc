#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "app/acquire.h"
#include "app/command_line.h"

namespace weir::app {
namespace {

// A permit that is not renewed for this long is taken back: so it does not outlive us by much, even
// if we are killed in a way that nobody can catch.
constexpr Nanos kHold = std::chrono::seconds{30};
constexpr timespec kRenewEvery{.tv_sec = 10, .tv_nsec = 0};

constexpr int kNotFound = 127;  // as shells have it
constexpr int kNotExecutable = 126;

sigset_t forwarded_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH}) {
    sigaddset(&signals, signal);
  }
  return signals;
}

// Runs in the child; returns only if the command cannot be run.
void become(const std::vector<std::string>& command, pid_t parent, const sigset_t& mask) {
  // Who loses its permit must not go on calling.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(kFailed);
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
}

// Starts the command; nothing, with errno set, if it cannot be run.
std::optional<pid_t> spawn(const std::vector<std::string>& command, const sigset_t& mask) {
  int failure[2];
  if (pipe2(failure, O_CLOEXEC) != 0) return {};
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    become(command, parent, mask);
    const int reason = errno;
    (void)!write(failure[1], &reason, sizeof reason);
    _exit(kNotFound);
  }
  close(failure[1]);
  int reason = errno;
  const bool failed = child < 0 || read(failure[0], &reason, sizeof reason) == sizeof reason;
  close(failure[0]);
  if (!failed) return child;
  if (child > 0) waitpid(child, nullptr, 0);
  errno = reason;
  return {};
}

// Passes signals on and renews the permit until the command has ended.
int attend(pid_t child, Client& client, const std::string& permit, sigset_t signals) {
  sigaddset(&signals, SIGCHLD);
  for (;;) {
    siginfo_t info{};
    const int signal = sigtimedwait(&signals, &info, &kRenewEvery);
    if (signal < 0 && errno == EAGAIN && !permit.empty()) {
      const int status =
          client.status_of({.method = "POST", .target = "/v1/permits/" + permit + "/renew"});
      if (status == 404) {
        fmt::print(stderr, "weir: the daemon no longer knows our permit; the command goes on\n");
      }
    } else if (signal == SIGCHLD) {
      int status = 0;
      if (waitpid(child, &status, WNOHANG) != child) continue;
      return WIFSIGNALED(status) ? kKilledBy + WTERMSIG(status) : WEXITSTATUS(status);
    } else if (signal > 0 && info.si_code <= 0) {
      // Sent to us alone; what the terminal sends, the command has got as well.
      kill(child, signal);
    }
  }
}

}  // namespace

int exec(const AcquireOptions& options) {
  auto client = Client::create(options.server);
  if (!client) return client.error();
  const auto admission = ask(*client, options, kHold);
  if (!admission) return admission.error();
  if (!admission->admitted) {
    fmt::print(stderr, "weir: refused: {}\n", admission->message);
    return kRefused;
  }

  const sigset_t signals = forwarded_signals();
  sigset_t blocked = signals;
  sigaddset(&blocked, SIGCHLD);
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &blocked, &before);

  int code;
  if (const auto child = spawn(options.command, before)) {
    code = attend(*child, *client, admission->permit, signals);
  } else {
    const int reason = errno;
    fmt::print(stderr, "weir: cannot run {}: {}\n", options.command[0], std::strerror(reason));
    code = reason == ENOENT ? kNotFound : kNotExecutable;
  }
  if (!admission->permit.empty()) {
    client->status_of({.method = "DELETE", .target = "/v1/permits/" + admission->permit});
  }
  return code;
}

}  // namespace weir::app
