// A program as a child of the test: what it says is in files, and it ends with the object.
#pragma once

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace weir::app {

class Process {
 public:
  // `command` is a path and its arguments; the output goes to `files` + ".out" and ".err".
  Process(std::vector<std::string> command, std::string files) : files_(std::move(files)) {
    std::vector<char*> argv;
    for (std::string& word : command) argv.push_back(word.data());
    argv.push_back(nullptr);
    // Made here: nobody is to read what an earlier process has left in them.
    const int out = create(files_ + ".out");
    const int err = create(files_ + ".err");
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(99);
      dup2(out, STDOUT_FILENO);
      dup2(err, STDERR_FILENO);
      execv(argv[0], argv.data());
      _exit(99);
    }
    close(out);
    close(err);
  }
  ~Process() {
    if (pid_ <= 0) return;
    signal(SIGKILL);
    wait();
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void signal(int number) const { kill(pid_, number); }
  // Its exit code, or 1000 plus the signal that ended it.
  int wait() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  // Has ended, whether or not somebody has waited for it.
  bool ended() const {
    siginfo_t info{};
    return pid_ <= 0 ||
           waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid != 0;
  }

  std::string out() const { return read(files_ + ".out"); }
  std::string err() const { return read(files_ + ".err"); }
  pid_t pid() const { return pid_; }

 private:
  static int create(const std::string& path) {
    return ::open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
  }
  static std::string read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream{path}.rdbuf();
    return text.str();
  }

  const std::string files_;
  pid_t pid_ = -1;
};

}  // namespace weir::app
