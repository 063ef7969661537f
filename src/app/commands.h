// The commands, each with what it was told and its exit code (command_line.h) as the result.
//
// Results go to stdout; what concerns the person at the terminal goes to stderr.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "app/daemon.h"

namespace CLI {
class App;
}

namespace weir::app {

struct StartOptions {
  ConfigFiles files;
  std::string listen;  // empty: the main file's
  std::string store;
  std::string durability;
  std::string sync;
  std::string log;  // text or json; empty: text on a terminal
  unsigned threads = 0;
};
int start(const StartOptions& options);

int check(const std::vector<std::string>& files);

// Where the daemon is; empty: WEIR_SERVER, then 127.0.0.1:9347.
struct ServerOptions {
  std::string server;
};

int reload(const ServerOptions& server);

enum class Output : std::uint8_t { kTable, kJson };
struct StatusOptions {
  ServerOptions server;
  Output output = Output::kTable;
  bool watch = false;
};
int status(const StatusOptions& options);
int resources(const StatusOptions& options);

struct AcquireOptions {
  ServerOptions server;
  std::string resource;  // a name, or a URL
  std::optional<std::int64_t> tokens;
  std::string agent;
  std::string model;
  std::optional<int> priority;
  std::string wait;  // "30s"; empty: not at all
  Output output = Output::kTable;
  std::vector<std::string> command;  // of exec
};
int acquire(const AcquireOptions& options);
int exec(const AcquireOptions& options);

// The script that teaches a shell the commands and options of `program`.
std::string completion(const CLI::App& program, const std::string& shell);

}  // namespace weir::app
