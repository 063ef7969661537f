// What every benchmark here shares: timed samples, interleaved rounds, peers in their own
// processes, memory measured in a fresh child, and the rows of the report.
//
// For a driver's main thread. A measurement that is not what it claims to be (a refusal among
// admissions, a peer that died) ends the program with a message: a wrong figure is worse than none.
#pragma once

#include <sys/types.h>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <latch>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace weir::bench {

[[noreturn]] void die(const std::string& message);

// The middle one of `values`, which are not none: the upper of two.
double median(std::vector<double> values);

struct Sample {
  double ns = 0;              // from the common start to the end of the last thread
  std::int64_t admitted = 0;  // how many of the operations said yes
};

// Runs `loop(thread, n)`, which does n operations and returns how many were admitted, on `threads`
// threads that start together; `ops` is their sum.
template <class Loop>
Sample timed(int threads, std::int64_t ops, Loop&& loop) {
  using SteadyClock = std::chrono::steady_clock;
  std::vector<std::int64_t> admitted(static_cast<std::size_t>(threads));
  std::latch ready{threads + 1};
  std::vector<std::jthread> workers;
  for (int thread = 0; thread < threads; ++thread) {
    workers.emplace_back([&, thread] {
      ready.arrive_and_wait();
      admitted[static_cast<std::size_t>(thread)] = loop(thread, ops / threads);
    });
  }
  ready.arrive_and_wait();
  const auto begin = SteadyClock::now();
  for (auto& worker : workers) worker.join();
  const std::chrono::duration<double, std::nano> elapsed = SteadyClock::now() - begin;
  Sample sample{.ns = elapsed.count()};
  for (const std::int64_t count : admitted) sample.admitted += count;
  return sample;
}

// The usual loop: `op()` says whether it was admitted.
template <class Op>
Sample timed_calls(int threads, std::int64_t ops, Op&& op) {
  return timed(threads, ops, [&op](int, std::int64_t n) {
    std::int64_t admitted = 0;
    for (std::int64_t i = 0; i < n; ++i) admitted += op() ? 1 : 0;
    return admitted;
  });
}

enum class Expect { kAdmitted, kRefused };

struct Contestant {
  std::string name;
  std::function<Sample(std::int64_t ops)> run;
};

struct Timing {
  std::string name;
  double ns_per_op = 0;
  double million_per_second() const { return 1000 / ns_per_op; }
};

// Warms every contestant up, then gives each one sample a round; the median of the rounds, in the
// order of the contestants. Dies if a contestant's answers are not what is expected: all refused,
// or at least 99.9% admitted.
std::vector<Timing> compare(std::string_view title, Expect expect,
                            const std::vector<Contestant>& contestants);

// The quickest of timings[from...].
const Timing& best(const std::vector<Timing>& timings, std::size_t from);

// A limiter of another language in a process of its own, asked over pipes: "WORKLOAD THREADS OPS"
// is answered by "ELAPSED_NS ADMITTED". Lives as long as the object.
class Peer {
 public:
  Peer(std::string name, const std::string& shell_command);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer();

  const std::string& name() const { return name_; }
  Sample ask(std::string_view workload, int threads, std::int64_t ops);

 private:
  std::string name_;
  pid_t pid_ = -1;
  std::FILE* requests_ = nullptr;
  std::FILE* answers_ = nullptr;
};

// Resident bytes of this process.
double resident_bytes();

// Runs `measure` in a forked child, whose memory ends with it, and returns its figure. To be called
// while this process has no other threads and has freed nothing large that a child could reuse.
double in_child(const std::function<double()>& measure);

struct Row {
  std::string name;
  double ours = 0;
  double peer = 0;
  std::string unit;
  double ratio = 0;   // above 1: ours is better
  double target = 0;  // the ratio asked for; 0: none
  std::string against;
  std::vector<std::pair<std::string, double>> more = {};  // further keys of the JSON
};

inline Row smaller_is_better(std::string name, double ours, double peer, std::string unit,
                             double target, std::string against) {
  return {std::move(name), ours, peer, std::move(unit), peer / ours, target, std::move(against)};
}
inline Row larger_is_better(std::string name, double ours, double peer, std::string unit,
                            double target, std::string against) {
  return {std::move(name), ours, peer, std::move(unit), ours / peer, target, std::move(against)};
}

enum class Format { kTable, kJson };
void print(const std::vector<Row>& rows, Format format);

}  // namespace weir::bench
