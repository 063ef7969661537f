// NATS servers of the test's own: a temporary directory and a free port of 127.0.0.1 each.
//
// They end with the process. Methods throw if nats-server is missing or fails: a test must not pass
// without it.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/temporary_directory_for_test.h"
#include "redis/redis_for_test.h"

namespace weir::bus {

class NatsServer {
 public:
  // `options` of nats-server, such as {"--auth", "token"} or {"--user", "u", "--pass", "p"}.
  explicit NatsServer(std::vector<std::string> options = {}) : options_(std::move(options)) {
    start();
  }
  ~NatsServer() {
    if (pid_ > 0) end(SIGKILL);
  }
  NatsServer(const NatsServer&) = delete;
  NatsServer& operator=(const NatsServer&) = delete;

  // Returns when it answers, on the same port as before.
  void start() {
    pid_ = spawn();
    while (!answers()) {
      if (waitpid(pid_, nullptr, WNOHANG) != 0) {
        pid_ = -1;
        throw std::runtime_error{"nats-server does not start:\n" + log()};
      }
      nap();
    }
  }
  // From the next start() on.
  void set_options(std::vector<std::string> options) { options_ = std::move(options); }
  void stop() { end(SIGTERM); }
  void kill() { end(SIGKILL); }
  // It no longer runs; connections stay open, and new ones are taken by the kernel.
  void freeze() const { ::kill(pid_, SIGSTOP); }
  void thaw() const { ::kill(pid_, SIGCONT); }

  int port() const { return port_.number(); }
  pid_t pid() const { return pid_; }
  // `credentials` as in a URL: "user:password" or "token".
  std::string url(const std::string& credentials = "") const {
    return "nats://" + credentials + (credentials.empty() ? "" : "@") + address();
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port()); }
  std::string log() const { return directory_.read("log"); }

 private:
  // Servers greet with "INFO".
  bool answers() const {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    char first = 0;
    const bool greeted =
        connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
        recv(socket, &first, 1, 0) == 1 && first == 'I';
    close(socket);
    return greeted;
  }

  pid_t spawn() const {
    std::vector<std::string> arguments{"nats-server", "-a", "127.0.0.1", "-p",
                                       std::to_string(port())};
    arguments.insert(arguments.end(), options_.begin(), options_.end());
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const std::string output = directory_.path("log");
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child != 0) return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || chdir(directory_.path().c_str()) != 0 ||
        freopen(output.c_str(), "a", stdout) == nullptr || dup2(STDOUT_FILENO, STDERR_FILENO) < 0) {
      _exit(98);
    }
    execvp(argv[0], argv.data());
    _exit(99);
  }

  void end(int number) {
    thaw();
    ::kill(pid_, number);
    waitpid(std::exchange(pid_, -1), nullptr, 0);
  }

  std::vector<std::string> options_;
  const TemporaryDirectory directory_;
  const redis::Port port_;
  pid_t pid_ = -1;
};

}  // namespace weir::bus
