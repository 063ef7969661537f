// Servers in processes of their own, on a core of their own, and what asks them: one request by
// hand, wrk, and other commands.
//
// For a driver's main thread; what goes wrong ends the program, and the servers with it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::bench {

// Puts this process on the last of its cores, and servers started later on the first. Also lets it
// and them open as many files as the system allows.
void take_sides();

struct Call {
  std::string method;
  std::string path;
  std::string body;
  // Unless 0: wrk puts the numbers below it in turn in the place of @ in the body.
  int numbers = 0;

  std::string http() const;
};

// A port of 127.0.0.1 that nobody listens at now.
std::uint16_t free_port();

// What a command of the shell prints; dies if it fails.
std::string output_of(const std::string& command);

// The body of the answer to `call`, asked on a connection of its own; nothing unless it is a 200.
std::optional<std::string> ask(std::uint16_t port, const Call& call);

// Runs while the object lives, and at most as long as the driver. What it says is shown only if it
// does not start.
class Server {
 public:
  // `command` is split at spaces. Waits until `ready` is answered by a 200, at most half a minute.
  Server(const std::string& command, std::uint16_t port, const Call& ready);
  // Waits likewise until it takes a connection.
  Server(const std::string& command, std::uint16_t port);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

  std::uint16_t port() const { return port_; }
  double start_ms() const { return start_ms_; }  // from fork until the answer
  double resident_mib() const;
  double cpu_seconds() const;  // spent since its start, without children

 private:
  Server(const std::string& command, std::uint16_t port, const std::function<bool()>& ready);

  pid_t pid_ = -1;
  std::uint16_t port_;
  double start_ms_ = 0;
};

// One weir of one thread, on what `providers` holds: a file, or a directory.
Server start_weir(const std::string& program, const std::filesystem::path& providers,
                  const std::string& options);

struct Load {
  double per_second = 0;
  double p99_us = 0;
};

struct Wrk {
  std::string command;  // with the script
  int connections = 0;
  int seconds = 0;

  // One run; dies at any answer but a 200.
  Load run(std::uint16_t port, const Call& call) const;
};

}  // namespace weir::bench
