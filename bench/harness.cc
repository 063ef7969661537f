#include "harness.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <fstream>

extern char** environ;

namespace weir::bench {
namespace {

// Odd, so that the median is a sample; a sample of 60 ms spans several scheduler slices.
constexpr int kRounds = 15;
constexpr double kSampleNs = 60e6;
// Enough for a JIT to settle: HotSpot's last tier starts after some 10,000 calls.
constexpr double kWarmUpNs = 500e6;
constexpr std::int64_t kOpsMin = 1024;  // each of two threads does whole batches of up to 512

void check(Expect expect, const Contestant& contestant, const Sample& sample, std::int64_t ops) {
  const bool good = expect == Expect::kRefused
                        ? sample.admitted == 0
                        : static_cast<double>(sample.admitted) >= 0.999 * static_cast<double>(ops);
  if (!good) {
    die(contestant.name + " admitted " + std::to_string(sample.admitted) + " of " +
        std::to_string(ops) + "; expected " + (expect == Expect::kRefused ? "none" : "all"));
  }
}

// Runs for kWarmUpNs and returns how many operations take about kSampleNs.
std::int64_t warm_up(Expect expect, const Contestant& contestant) {
  std::int64_t ops = kOpsMin;
  for (double total = 0; total < kWarmUpNs;) {
    const Sample sample = contestant.run(ops);
    check(expect, contestant, sample, ops);
    total += sample.ns;
    const double growth = std::clamp(kSampleNs / sample.ns, 0.5, 8.0);
    ops = std::max(
        kOpsMin, static_cast<std::int64_t>(static_cast<double>(ops) * growth) / kOpsMin * kOpsMin);
  }
  return ops;
}

}  // namespace

void die(const std::string& message) {
  std::fprintf(stderr, "\nbench: %s\n", message.c_str());
  std::exit(1);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<Timing> compare(std::string_view title, Expect expect,
                            const std::vector<Contestant>& contestants) {
  std::fprintf(stderr, "%.*s: warming up", static_cast<int>(title.size()), title.data());
  std::vector<std::int64_t> ops;
  for (const Contestant& contestant : contestants) {
    std::fputc('.', stderr);
    ops.push_back(warm_up(expect, contestant));
  }
  std::fputs(" rounds", stderr);
  std::vector<std::vector<double>> ns_per_op(contestants.size());
  for (int round = 0; round < kRounds; ++round) {
    std::fputc('.', stderr);
    for (std::size_t i = 0; i < contestants.size(); ++i) {
      const Sample sample = contestants[i].run(ops[i]);
      check(expect, contestants[i], sample, ops[i]);
      ns_per_op[i].push_back(sample.ns / static_cast<double>(ops[i]));
    }
  }
  std::vector<Timing> timings;
  for (std::size_t i = 0; i < contestants.size(); ++i) {
    timings.push_back({.name = contestants[i].name, .ns_per_op = median(ns_per_op[i])});
    std::fprintf(stderr, "%s %s %.1f", i == 0 ? "" : ",", contestants[i].name.c_str(),
                 timings.back().ns_per_op);
  }
  std::fputs(" ns\n", stderr);
  return timings;
}

const Timing& best(const std::vector<Timing>& timings, std::size_t from) {
  return *std::ranges::min_element(timings.begin() + static_cast<std::ptrdiff_t>(from),
                                   timings.end(), {}, &Timing::ns_per_op);
}

Peer::Peer(std::string name, const std::string& shell_command) : name_(std::move(name)) {
  std::array<int, 2> to_peer{};
  std::array<int, 2> from_peer{};
  // A later peer must not inherit our ends of these pipes: close-on-exec, and dup2 clears it.
  if (pipe2(to_peer.data(), O_CLOEXEC) != 0 || pipe2(from_peer.data(), O_CLOEXEC) != 0) {
    die(std::string("pipe: ") + std::strerror(errno));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to_peer[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from_peer[1], STDOUT_FILENO);
  std::string command = "exec " + shell_command;
  std::string shell = "sh";
  std::string flag = "-c";
  std::array<char*, 4> argv{shell.data(), flag.data(), command.data(), nullptr};
  const int error = posix_spawnp(&pid_, "sh", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) die(name_ + ": " + std::strerror(error));
  close(to_peer[0]);
  close(from_peer[1]);
  requests_ = fdopen(to_peer[1], "w");
  answers_ = fdopen(from_peer[0], "r");
}

Peer::~Peer() {
  std::fclose(requests_);  // the end of its input ends a peer
  std::fclose(answers_);
  waitpid(pid_, nullptr, 0);
}

Sample Peer::ask(std::string_view workload, int threads, std::int64_t ops) {
  std::fprintf(requests_, "%.*s %d %" PRId64 "\n", static_cast<int>(workload.size()),
               workload.data(), threads, ops);
  std::fflush(requests_);
  Sample sample;
  if (std::fscanf(answers_, "%lf %" SCNd64, &sample.ns, &sample.admitted) != 2) {
    die("peer " + name_ + " gave no answer");
  }
  return sample;
}

double resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  double size_pages = 0;
  double resident_pages = 0;
  if (!(statm >> size_pages >> resident_pages)) die("cannot read /proc/self/statm");
  return resident_pages * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double in_child(const std::function<double()>& measure) {
  std::array<int, 2> figure{};
  if (pipe(figure.data()) != 0) die(std::string("pipe: ") + std::strerror(errno));
  const pid_t child = fork();
  if (child < 0) die(std::string("fork: ") + std::strerror(errno));
  if (child == 0) {
    // A huge page under each thread's stack would flatter whoever is compared with threads.
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    const double value = measure();
    const bool sent = write(figure[1], &value, sizeof value) == sizeof value;
    _exit(sent ? 0 : 1);  // without joining what is blocked
  }
  close(figure[1]);
  double value = 0;
  const bool received = read(figure[0], &value, sizeof value) == sizeof value;
  close(figure[0]);
  waitpid(child, nullptr, 0);
  if (!received) die("a measurement of memory ended without a figure");
  return value;
}

void print(const std::vector<Row>& rows, Format format) {
  if (format == Format::kJson) {
    for (const Row& row : rows) {
      std::printf(R"({"name":"%s","ours":%.4g,"peer":%.4g,"unit":"%s","ratio":%.3f,)",
                  row.name.c_str(), row.ours, row.peer, row.unit.c_str(), row.ratio);
      if (row.target > 0) std::printf(R"("target":%.4g,)", row.target);
      std::printf(R"("against":"%s")", row.against.c_str());
      for (const auto& [key, value] : row.more) std::printf(R"(,"%s":%.6g)", key.c_str(), value);
      std::puts("}");
    }
    return;
  }
  std::printf("%-16s %10s %10s  %-7s %7s %7s  %s\n", "row", "ours", "peer", "unit", "ratio",
              "target", "against");
  for (const Row& row : rows) {
    std::printf("%-16s %10.1f %10.1f  %-7s %7.2f ", row.name.c_str(), row.ours, row.peer,
                row.unit.c_str(), row.ratio);
    if (row.target > 0) {
      std::printf("%7.2f", row.target);
    } else {
      std::printf("%7s", "");
    }
    std::printf("  %s%s\n", row.against.c_str(), row.ratio < row.target ? "  (below)" : "");
  }
}

}  // namespace weir::bench
