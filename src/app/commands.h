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

int add_sources(const ServerOptions& server, const std::vector<std::string>& files);

struct SourcesOptions {
  ServerOptions server;
  std::string name;  // empty: all of them
  Output output = Output::kTable;
  bool body = false;  // the latest, as it came
};
int sources(const SourcesOptions& options);
int remove_source(const ServerOptions& server, const std::string& name);

struct DemoOptions {
  std::string listen;  // empty: 127.0.0.1:9347, or another port if it is taken
  unsigned seconds = 40;
  unsigned agents = 24;
  Output output = Output::kTable;
  bool page = true;   // say where it is
  bool hold = false;  // go on until interrupted
};
int demo(const DemoOptions& options);

struct SimulateOptions {
  std::optional<std::uint32_t> agents;  // default 50, or as many as the trace names
  std::uint32_t greedy = 0;
  std::string duration = "1h";
  std::string trace;  // a CSV file; empty: sizes as below, else the built-in trace
  std::string tokens;
  std::string output_tokens;
  std::string rate;      // of one agent; empty: the trace's, else 6/m
  std::string provider;  // a file; empty: the limits below, else 500 and 250,000 a minute
  std::optional<std::int64_t> rpm;
  std::optional<std::int64_t> tpm;
  std::optional<std::int64_t> max_concurrency;
  std::optional<std::string> model;
  std::string latency = "800ms";
  std::string token_latency = "10ms";
  std::string patience = "1m";
  std::uint32_t retries = 2;
  bool retry_after = true;
  std::uint64_t seed = 1;
  std::string report;  // an HTML file to write
  bool feed = false;
  std::string wait_p99 = "10s";
  Output output = Output::kTable;
};
int simulate(const SimulateOptions& options);

// The script that teaches a shell the commands and options of `program`.
std::string completion(const CLI::App& program, const std::string& shell);

}  // namespace weir::app
