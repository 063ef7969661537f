#include "daemon/servers.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>
#include <thread>

#include "daemon/sockets.h"
#include "harness.h"

namespace weir::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr auto kStartMax = std::chrono::seconds{30};
constexpr auto kStopMax = std::chrono::seconds{10};
constexpr auto kPause = std::chrono::milliseconds{1};

cpu_set_t servers_core;

cpu_set_t only(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(core), &set);
  return set;
}

pid_t spawn(const std::string& command, int output) {
  std::istringstream in{command};
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const pid_t driver = getpid();
  const pid_t pid = fork();
  if (pid < 0) die(std::string{"fork: "} + std::strerror(errno));
  if (pid > 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != driver) _exit(1);
  sched_setaffinity(0, sizeof servers_core, &servers_core);
  dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  execvp(argv[0], argv.data());
  _exit(127);
}

std::string text_of(std::FILE* file) {
  std::rewind(file);
  std::string text(16 * 1024, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  return text;
}

}  // namespace

void take_sides() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<unsigned>(core), &allowed)) cores.push_back(core);
  }
  if (cores.size() < 2) die("a core for the servers and one for the load are needed");
  servers_core = only(cores.front());
  const cpu_set_t own = only(cores.back());
  sched_setaffinity(0, sizeof own, &own);

  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

std::string Call::http() const {
  std::string text = method + ' ' + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n";
  if (!body.empty()) {
    text +=
        "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  }
  return text + "\r\n" + body;
}

std::uint16_t free_port() {
  const Socket socket;
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (bind(socket.fd(), generic(address), size) != 0 ||
      getsockname(socket.fd(), generic(address), &size) != 0) {
    die(std::string{"no free port: "} + std::strerror(errno));
  }
  return ntohs(address.sin_port);
}

std::string output_of(const std::string& command) {
  std::FILE* output = popen(command.c_str(), "r");
  if (output == nullptr) die("cannot run " + command);
  std::string text;
  std::array<char, 512> bytes;
  while (std::fgets(bytes.data(), bytes.size(), output) != nullptr) text += bytes.data();
  if (pclose(output) != 0) die("failed: " + command + '\n' + text);
  return text;
}

std::optional<std::string> ask(std::uint16_t port, const Call& call) {
  const Socket socket;
  sockaddr_in address = loopback(port);
  if (connect(socket.fd(), generic(address), sizeof address) != 0) return {};
  const std::string request = call.http();
  if (send(socket.fd(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return {};
  Answer answer;
  std::array<char, 65536> bytes;
  while (!answer.whole()) {
    const ssize_t got = recv(socket.fd(), bytes.data(), bytes.size(), 0);
    if (got <= 0) return {};
    answer.add({bytes.data(), static_cast<std::size_t>(got)});
  }
  if (!answer.ok()) return {};
  return std::string{answer.body()};
}

Server::Server(const std::string& command, std::uint16_t port, const Call& ready)
    : Server(command, port, [&] { return ask(port, ready).has_value(); }) {}

Server::Server(const std::string& command, std::uint16_t port)
    : Server(command, port, [port] {
        const Socket socket;
        sockaddr_in address = loopback(port);
        return connect(socket.fd(), generic(address), sizeof address) == 0;
      }) {}

Server::Server(const std::string& command, std::uint16_t port, const std::function<bool()>& ready)
    : port_(port) {
  std::FILE* output = std::tmpfile();
  if (output == nullptr) die(std::string{"a temporary file: "} + std::strerror(errno));
  const auto begin = SteadyClock::now();
  pid_ = spawn(command, fileno(output));
  while (!ready()) {
    const bool ended = waitpid(pid_, nullptr, WNOHANG) != 0;
    if (ended || SteadyClock::now() - begin > kStartMax) {
      die(command + " does not start:\n" + text_of(output));
    }
    std::this_thread::sleep_for(kPause);
  }
  start_ms_ = std::chrono::duration<double, std::milli>(SteadyClock::now() - begin).count();
  std::fclose(output);
}

Server::~Server() {
  kill(pid_, SIGTERM);
  const auto until = SteadyClock::now() + kStopMax;
  while (waitpid(pid_, nullptr, WNOHANG) == 0) {
    if (SteadyClock::now() > until) kill(pid_, SIGKILL);
    std::this_thread::sleep_for(kPause);
  }
}

double Server::resident_mib() const {
  std::ifstream status{"/proc/" + std::to_string(pid_) + "/status"};
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stod(line.substr(6)) / 1024;
  }
  die("a server is gone");
}

double Server::cpu_seconds() const {
  clockid_t clock{};
  timespec spent{};
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &spent) != 0) {
    die("a server is gone");
  }
  return static_cast<double>(spent.tv_sec) + static_cast<double>(spent.tv_nsec) / 1e9;
}

Server start_weir(const std::string& program, const std::filesystem::path& providers,
                  const std::string& options) {
  const std::uint16_t port = free_port();
  const std::string option =
      std::filesystem::is_directory(providers) ? " --provider-dir " : " --provider ";
  return Server{program + " start --threads 1 --listen 127.0.0.1:" + std::to_string(port) + option +
                    providers.string() + ' ' + options,
                port, Call{"GET", "/readyz", ""}};
}

Load Wrk::run(std::uint16_t port, const Call& call) const {
  const std::string line = command + " -t1 -c" + std::to_string(connections) + " -d" +
                           std::to_string(seconds) + "s http://127.0.0.1:" + std::to_string(port) +
                           call.path + " -- " + call.method + " '" + call.body + "' " +
                           std::to_string(call.numbers);
  const std::string text = output_of(line);
  const std::string last = text.substr(text.find_last_of('\n', text.size() - 2) + 1);
  long requests = 0;
  long elapsed_us = 0;
  long errors = 0;
  Load load;
  if (std::sscanf(last.c_str(), "%ld %ld %ld %lf", &requests, &elapsed_us, &errors, &load.p99_us) !=
      4) {
    die("wrk failed: " + line);
  }
  if (errors > 0 || requests == 0) {
    die(std::to_string(errors) + " of " + std::to_string(requests) + " requests failed: " + line);
  }
  load.per_second = 1e6 * static_cast<double>(requests) / static_cast<double>(elapsed_us);
  return load;
}

}  // namespace weir::bench
