// A PostgreSQL server of the test's own: a temporary directory, a socket in it, no port.
//
// Made in about a second, so one for each test process: PostgresqlForTest::shared(). Ends with the
// process. Its methods throw if PostgreSQL is missing or fails: a test must not pass without it.
#pragma once

#include <libpq-fe.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "time/eventually_for_test.h"

namespace weir::store {

class PostgresqlForTest {
 public:
  static PostgresqlForTest& shared() {
    static PostgresqlForTest server;
    return server;
  }

  // `settings` are lines of postgresql.conf.
  explicit PostgresqlForTest(const std::string& settings = "fsync = off\n") {
    std::string pattern = (std::filesystem::temp_directory_path() / "weir-pg-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error{"no temporary directory"};
    directory_ = pattern;
    if (geteuid() == 0) {  // PostgreSQL refuses to be run by the superuser
      const passwd* user = getpwnam("postgres");
      if (user == nullptr) user = getpwnam("nobody");
      if (user == nullptr) throw std::runtime_error{"no user to run PostgreSQL as"};
      user_ = user->pw_uid;
      group_ = user->pw_gid;
      if (chown(directory_.c_str(), user_, group_) != 0) throw std::runtime_error{"chown failed"};
    }
    const pid_t maker = spawn({"initdb", "-D", data(), "-U", "weir", "-A", "trust", "-E", "UTF8",
                               "--locale=C", "--no-sync", "--no-instructions"});
    int status = 0;
    waitpid(maker, &status, 0);
    if (status != 0) throw std::runtime_error{"initdb failed:\n" + log()};
    std::ofstream{data() + "/postgresql.conf", std::ios::app}
        << "listen_addresses = ''\nunix_socket_directories = '" << directory_ << "'\n"
        << "shared_buffers = 64MB\nmax_connections = 40\nautovacuum = off\n"
        << "wal_level = minimal\nmax_wal_senders = 0\nfull_page_writes = off\n"
        << settings;
    start();
  }
  ~PostgresqlForTest() {
    if (pid_ > 0) stop();
    std::error_code error;
    std::filesystem::remove_all(directory_, error);
  }
  PostgresqlForTest(const PostgresqlForTest&) = delete;
  PostgresqlForTest& operator=(const PostgresqlForTest&) = delete;

  // Returns when it answers.
  void start() {
    pid_ = spawn({"postgres", "-D", data()});
    while (PQping(url("postgres").c_str()) != PQPING_OK) {
      if (waitpid(pid_, nullptr, WNOHANG) != 0) {
        pid_ = -1;
        throw std::runtime_error{"PostgreSQL does not start:\n" + log()};
      }
      nap();
    }
  }

  // As by a shutdown of the machine: everybody is thrown out, all is written.
  void stop() { end(SIGINT); }

  // Kills all of its processes at once.
  void kill9() {
    const auto children = processes();
    kill(pid_, SIGKILL);
    for (const pid_t child : children) kill(child, SIGKILL);
    end(SIGKILL);
    // A new one refuses to start beside what is left of the old one.
    for (const pid_t child : children) {
      while (kill(child, 0) == 0) nap();
    }
  }

  // Not one of its processes runs on; connections stay open.
  void freeze() { signal_all(SIGSTOP); }
  void thaw() { signal_all(SIGCONT); }

  // postgresql://…; of a user without a password.
  std::string url(const std::string& database) const {
    return "postgresql:///" + database + "?host=" + directory_ + "&user=weir";
  }

  // Makes an empty database and returns its URL.
  std::string make_database() {
    const std::string name = "test" + std::to_string(++databases_);
    run(url("postgres"), "CREATE DATABASE " + name + " STRATEGY FILE_COPY");  // it is the faster
    return url(name);
  }

  // Runs statements on a connection of its own. Returns the first value of the last answer.
  static std::string run(const std::string& url, const std::string& sql) {
    const std::unique_ptr<PGconn, decltype(&PQfinish)> connection{PQconnectdb(url.c_str()),
                                                                  &PQfinish};
    const std::unique_ptr<PGresult, decltype(&PQclear)> result{
        PQexec(connection.get(), sql.c_str()), &PQclear};
    const auto status = PQresultStatus(result.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
      throw std::runtime_error{sql + ": " + PQerrorMessage(connection.get())};
    }
    return PQntuples(result.get()) == 0 ? "" : PQgetvalue(result.get(), 0, 0);
  }

  pid_t pid() const { return pid_; }
  std::string log() const {
    std::ifstream file{directory_ + "/log"};
    return {std::istreambuf_iterator<char>{file}, {}};
  }

 private:
  std::string data() const { return directory_ + "/data"; }

  static std::string program(const std::string& name) {
    std::error_code error;
    for (const auto& version : std::filesystem::directory_iterator{"/usr/lib/postgresql", error}) {
      const auto path = version.path() / "bin" / name;
      if (std::filesystem::exists(path)) return path.string();
    }
    throw std::runtime_error{name + " is missing: install postgresql"};
  }

  pid_t spawn(std::vector<std::string> arguments) const {
    arguments.front() = program(arguments.front());
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const std::string output = directory_ + "/log";
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child != 0) return child;
    if (user_ != 0 && (setgid(group_) != 0 || setuid(user_) != 0)) _exit(98);
    prctl(PR_SET_PDEATHSIG, SIGQUIT);
    if (getppid() != parent || chdir(directory_.c_str()) != 0 ||
        freopen(output.c_str(), "a", stdout) == nullptr || dup2(STDOUT_FILENO, STDERR_FILENO) < 0) {
      _exit(98);
    }
    execv(argv[0], argv.data());
    _exit(99);
  }

  void end(int number) {
    kill(pid_, number);
    waitpid(std::exchange(pid_, -1), nullptr, 0);
  }

  // Those that the server has started.
  std::vector<pid_t> processes() const {
    std::vector<pid_t> found;
    std::ifstream file{"/proc/" + std::to_string(pid_) + "/task/" + std::to_string(pid_) +
                       "/children"};
    for (pid_t child = 0; file >> child;) found.push_back(child);
    return found;
  }

  void signal_all(int number) const {
    kill(pid_, number);
    for (const pid_t child : processes()) kill(child, number);
  }

  std::string directory_;
  uid_t user_ = 0;
  gid_t group_ = 0;
  pid_t pid_ = -1;
  int databases_ = 0;
};

}  // namespace weir::store
