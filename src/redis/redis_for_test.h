// A redis-server of the test's own: a free port, a temporary directory, no persistence.
//
// Ends with the object, and with the thread that has started it. Its methods throw if Redis is
// missing or fails: a test must not pass without it.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <memory>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/temporary_directory_for_test.h"
#include "time/eventually_for_test.h"

namespace weir::redis {

// Whether nobody listens on it at 127.0.0.1.
inline bool is_free(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool free = ::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  ::close(socket);
  return free;
}

// A port that is free, as is the one of a cluster's bus, 10,000 above; nobody else takes it before
// the end of this. Below those that connections are given: while a server is away nobody's
// connection takes its port, not even a client's that looks for it there, which would be connected
// to itself.
class Port {
 public:
  Port() {
    std::random_device random;
    for (std::uniform_int_distribution ports{10'000, 19'999};; ::close(claim_)) {
      number_ = ports(random);
      claim_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (claimed() && is_free(number_) && is_free(number_ + 10'000)) return;
    }
  }
  ~Port() { ::close(claim_); }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  int number() const { return number_; }

 private:
  // By an abstract name, which one socket alone can have and which ends with it.
  bool claimed() const {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    ("weir_test_port_" + std::to_string(number_))
        .copy(name.sun_path + 1, sizeof(name.sun_path) - 1);
    return ::bind(claim_, reinterpret_cast<sockaddr*>(&name), sizeof(name)) == 0;
  }

  int number_ = 0;
  int claim_ = -1;
};

// Runs a program to its end and returns what it has said. Throws if it fails.
inline std::string output_of(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    line += '\'';
    for (const char c : word) line += c == '\'' ? std::string{"'\\''"} : std::string{c};
    line += "' ";
  }
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe{::popen((line + "2>&1").c_str(), "r"),
                                                   [](FILE*) { return 0; }};
  std::string said;
  std::array<char, 4096> piece;
  while (const std::size_t got = std::fread(piece.data(), 1, piece.size(), pipe.get())) {
    said.append(piece.data(), got);
  }
  if (::pclose(pipe.get()) != 0) throw std::runtime_error{line + ": " + said};
  while (said.ends_with('\n')) said.pop_back();
  return said;
}

// An authority in `directory` (ca.crt), and a certificate that it has signed (NAME.crt, NAME.key)
// for `names`: "DNS:localhost,IP:127.0.0.1".
inline void make_authority(const std::string& directory) {
  output_of({"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-nodes", "-days", "2", "-subj", "/CN=weir test authority", "-keyout",
             directory + "/ca.key", "-out", directory + "/ca.crt"});
}
inline void make_certificate(const std::string& directory, const std::string& name,
                             const std::string& names) {
  const std::string files = directory + "/" + name;
  output_of({"openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
             "-subj", "/CN=" + name, "-addext", "subjectAltName=" + names, "-keyout",
             files + ".key", "-out", files + ".csr"});
  output_of({"openssl", "x509", "-req", "-days", "2", "-in", files + ".csr", "-CA",
             directory + "/ca.crt", "-CAkey", directory + "/ca.key", "-CAcreateserial",
             "-copy_extensions", "copy", "-out", files + ".crt"});
}

class RedisServer {
 public:
  // `options` as on the command line: {"--requirepass", "secret"}.
  explicit RedisServer(std::vector<std::string> options = {}) : options_(std::move(options)) {
    start();
  }
  ~RedisServer() { kill(); }
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  // One that speaks TLS alone, with a certificate for `names` signed by ca_file().
  static std::unique_ptr<RedisServer> with_tls(const std::string& names) {
    auto directory = std::make_unique<TemporaryDirectory>();
    make_authority(directory->path());
    make_certificate(directory->path(), "redis", names);
    return std::unique_ptr<RedisServer>{new RedisServer{std::move(directory)}};
  }
  std::string ca_file() const { return directory("ca.crt"); }

  int port() const { return port_.number(); }
  std::string url() const {
    return (tls_ ? "rediss://127.0.0.1:" : "redis://127.0.0.1:") + std::to_string(port());
  }
  std::string directory() const { return directory_->path(); }
  std::string directory(const std::string& name) const { return directory_->path(name); }
  std::string socket() const { return directory("socket"); }  // always there
  pid_t pid() const { return pid_; }
  std::string log() const { return directory_->read("log"); }

  void freeze() const { ::kill(pid_, SIGSTOP); }
  void thaw() const { ::kill(pid_, SIGCONT); }
  void kill() { end(SIGKILL); }
  void stop() { end(SIGTERM); }

  // Returns when it answers.
  void start() {
    const std::string port = std::to_string(port_.number());
    std::vector<std::string> words{"redis-server",  "--bind", "127.0.0.1", "--dir", directory(),
                                   "--unixsocket",  socket(), "--save",    "",      "--logfile",
                                   directory("log")};
    if (tls_) {
      for (const auto& [option, value] : std::vector<std::pair<std::string, std::string>>{
               {"--port", "0"},
               {"--tls-port", port},
               {"--tls-cert-file", directory("redis.crt")},
               {"--tls-key-file", directory("redis.key")},
               {"--tls-ca-cert-file", ca_file()},
               {"--tls-auth-clients", "no"}}) {
        words.insert(words.end(), {option, value});
      }
    } else {
      words.insert(words.end(), {"--port", port});
    }
    words.insert(words.end(), options_.begin(), options_.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(98);
      execvp(argv[0], argv.data());
      _exit(99);
    }
    while (!answers()) {
      if (waitpid(pid_, nullptr, WNOHANG) != 0) {
        pid_ = -1;
        throw std::runtime_error{"redis-server does not start:\n" + log()};
      }
      nap();
    }
  }

  // By the Unix socket, as the default user unless `args` say otherwise. What redis-cli prints.
  std::string cli(std::vector<std::string> args) const {
    std::vector<std::string> words{"redis-cli", "-s", socket()};
    words.insert(words.end(), args.begin(), args.end());
    return output_of(words);
  }

 private:
  explicit RedisServer(std::unique_ptr<TemporaryDirectory> with_certificates)
      : directory_(std::move(with_certificates)), tls_(true) {
    start();
  }

  bool answers() const {
    const std::string said = output_of({"sh", "-c", "redis-cli -s '" + socket() + "' ping || :"});
    return said == "PONG" || said.contains("NOAUTH");
  }

  void end(int number) {
    if (pid_ <= 0) return;
    ::kill(pid_, number);
    if (number != SIGKILL) thaw();
    waitpid(std::exchange(pid_, -1), nullptr, 0);
  }

  std::unique_ptr<TemporaryDirectory> directory_ = std::make_unique<TemporaryDirectory>();
  const bool tls_ = false;
  std::vector<std::string> options_;
  const Port port_;
  pid_t pid_ = -1;
};

// Six servers, the first three of them masters; made in a few seconds. A master may be silent for
// long, and no replica takes its place unless that is let.
class RedisCluster {
 public:
  RedisCluster() {
    std::vector<std::string> create{"redis-cli", "--cluster", "create"};
    for (int i = 0; i < 6; ++i) {
      nodes_.push_back(std::make_unique<RedisServer>(
          std::vector<std::string>{"--cluster-enabled", "yes", "--cluster-node-timeout", "1000",
                                   "--cluster-replica-no-failover", "yes"}));
      create.push_back(address(i));
    }
    create.insert(create.end(), {"--cluster-replicas", "1", "--cluster-yes"});
    output_of(create);
    for (const auto& node : nodes_) {
      while (!node->cli({"CLUSTER", "INFO"}).contains("cluster_state:ok") ||
             node->cli({"CLUSTER", "NODES"}).contains("handshake")) {
        nap();
      }
    }
    configure({"cluster-node-timeout", "15000"});  // from the start it would take longer to join
  }

  // From now on a master that is silent for a second is replaced by its replica.
  void let_replicas_take_over() {
    configure({"cluster-node-timeout", "1000", "cluster-replica-no-failover", "no"});
  }

  RedisServer& node(int which) { return *nodes_.at(static_cast<std::size_t>(which)); }
  std::string url() const { return nodes_.front()->url(); }
  std::string address(int which) const {
    return "127.0.0.1:" + std::to_string(nodes_.at(static_cast<std::size_t>(which))->port());
  }
  std::string id(int which) { return node(which).cli({"CLUSTER", "MYID"}); }

  // The master of `slot`, as the node `asked` has it; -1 if there is none.
  int master_of(int slot, int asked = 0) {
    std::istringstream lines{node(asked).cli({"CLUSTER", "NODES"})};
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words{line};
      std::vector<std::string> fields;
      for (std::string word; words >> word;) fields.push_back(word);
      for (std::size_t i = 8; i < fields.size(); ++i) {
        int first = -1;
        int last = -1;
        const int read = std::sscanf(fields[i].c_str(), "%d-%d", &first, &last);
        if (read < 1 || slot < first || slot > (read == 1 ? first : last)) continue;
        for (int which = 0; which < 6; ++which) {
          if (fields[1].starts_with(address(which) + "@")) return which;
        }
      }
    }
    return -1;
  }

 private:
  void configure(const std::vector<std::string>& settings) {
    std::vector<std::string> words{"CONFIG", "SET"};
    words.insert(words.end(), settings.begin(), settings.end());
    for (const auto& node : nodes_) {
      if (const std::string said = node->cli(words); said != "OK") throw std::runtime_error{said};
    }
  }

  std::vector<std::unique_ptr<RedisServer>> nodes_;
};

}  // namespace weir::redis
