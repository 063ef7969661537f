#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <numeric>
#include <ranges>
#include <thread>

#include "fleet/rows.h"
#include "weir/fleet/shared_quota.h"
#include "weir/gate/gate.h"

namespace weir::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kProcesses = 4;
constexpr int kAsksPerMs = 3;  // of each process: 12,000 a second in all
constexpr Amount kPerSecond = 10'000;
constexpr milliseconds kLook{10};
// Longer than a new Redis is distrusted and than the burst lasts.
constexpr seconds kWarmUp{10};
constexpr double kTripsMin = 200;
constexpr double kUseMin = 98;  // per cent

// Processes that demand more than there is, whatever the answers, while it lives.
class Demand {
 public:
  Demand(const std::string& url, const LimitSpec& limit) {
    void* const shared =
        mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) die("no memory to share");
    admitted_ = new (shared) Counts{};
    const pid_t driver = getpid();
    for (std::size_t i = 0; i < kProcesses; ++i) {
      pids_[i] = fork();
      if (pids_[i] < 0) die("no process to demand");
      if (pids_[i] > 0) continue;
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() == driver) demand(url, limit, (*admitted_)[i]);
      _exit(1);
    }
  }
  ~Demand() {
    for (const pid_t pid : pids_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    munmap(admitted_, sizeof(Counts));
  }
  Demand(const Demand&) = delete;
  Demand& operator=(const Demand&) = delete;

  std::int64_t admitted() const {
    return std::accumulate(admitted_->begin(), admitted_->end(), std::int64_t{0});
  }
  // Of the process that was admitted least.
  std::int64_t least_admitted() const {
    return std::ranges::min(*admitted_ |
                            std::views::transform([](const auto& count) { return count.load(); }));
  }

 private:
  using Counts = std::array<std::atomic<std::int64_t>, kProcesses>;

  [[noreturn]] static void demand(const std::string& url, const LimitSpec& limit,
                                  std::atomic<std::int64_t>& admitted) {
    const auto quota =
        must(SharedQuota::create({.redis_url = url, .ca_file = {}, .node = "bench"}));
    const auto gate = must(
        create_gate({.name = "bench", .limits = {limit}}, TimeSource::since_boot(), quota.get()));
    for (auto next = SteadyClock::now();; next += milliseconds{1}) {
      std::this_thread::sleep_until(next);
      for (int i = 0; i < kAsksPerMs; ++i) admitted += gate->try_spend(1) ? 1 : 0;
    }
  }

  Counts* admitted_ = nullptr;
  std::array<pid_t, kProcesses> pids_{};
};

// Whether what has been admitted conforms to the limit, as far as the counts are looked at.
class Watch {
 public:
  explicit Watch(const LimitSpec& limit) : limit_(limit) {}

  void look(const Demand& demand) {
    const double before = now();
    const std::int64_t admitted = demand.admitted();
    const double after = now();
    const double period = std::chrono::duration<double>(limit_.period).count();
    if (admitted == 0) first_ = before;
    double most = 0;
    if (limit_.algorithm == LimitSpec::Algorithm::kTokenBucket) {
      // In any time: the burst, and what is earned meanwhile.
      const double per_second = static_cast<double>(limit_.amount) / period;
      lowest_ = std::min(lowest_, static_cast<double>(admitted) - per_second * before);
      most = lowest_ + per_second * after + static_cast<double>(limit_.burst);
    } else {
      // The first window was opened by a grant, a little before what it granted was spent.
      const double since = after - first_ + kGrantAhead;
      most = static_cast<double>(limit_.amount) * (1 + std::floor(since / period));
    }
    if (static_cast<double>(admitted) > most) {
      die("over: " + std::to_string(admitted) + " admitted, where at most " + round(most) +
          " are allowed");
    }
  }

  static double now() {
    return std::chrono::duration<double>(SteadyClock::now().time_since_epoch()).count();
  }

 private:
  static constexpr double kGrantAhead = 0.5;  // seconds

  const LimitSpec limit_;
  double first_ = 0;
  double lowest_ = INFINITY;
};

std::int64_t round_trips(const Settings& settings, const Server& redis) {
  const std::string text = redis_cli(settings, redis, "info commandstats");
  const std::string key = "cmdstat_evalsha:calls=";
  const auto at = text.find(key);
  if (at == text.npos) die("Redis was not asked: " + text);
  return std::stoll(text.substr(at + key.size()));
}

struct Figures {
  double per_trip = 0;
  double use = 0;  // per cent
};

Figures run(const Settings& settings, const LimitSpec& limit, seconds time) {
  const Server redis = start_redis(settings);
  Watch watch{limit};
  const Demand demand{redis_url(redis), limit};
  const auto pass = [&](SteadyClock::time_point until) {
    for (auto next = SteadyClock::now(); next < until; next += kLook) {
      watch.look(demand);
      std::this_thread::sleep_until(std::min(next + kLook, until));
    }
  };
  pass(SteadyClock::now() + kWarmUp);
  const std::int64_t trips_before = round_trips(settings, redis);
  const double begin = Watch::now();
  const std::int64_t admitted_before = demand.admitted();
  pass(SteadyClock::now() + time);
  const double elapsed = Watch::now() - begin;
  const auto admitted = static_cast<double>(demand.admitted() - admitted_before);
  const std::int64_t trips = round_trips(settings, redis) - trips_before;
  const Figures figures{.per_trip = admitted / static_cast<double>(trips),
                        .use = 100 * admitted / (static_cast<double>(kPerSecond) * elapsed)};
  note("leases: " + round(admitted) + " admitted in " + round(1000 * elapsed) + " ms, " +
       std::to_string(figures.use) + "% of the quota, " + round(figures.per_trip) +
       " a round trip; none over; the least of four had " +
       round(100 * static_cast<double>(demand.least_admitted()) /
             static_cast<double>(demand.admitted())) +
       "%");
  return figures;
}

}  // namespace

std::vector<Row> leases(const Settings& settings) {
  const Figures bucket =
      run(settings,
          LimitSpec::token_bucket(Unit::kRequests, {60 * kPerSecond, seconds{60}}, kPerSecond),
          seconds{20});
  // Three whole windows, wherever they begin.
  const Figures window =
      run(settings, LimitSpec::fixed_window(Unit::kRequests, {6 * kPerSecond, seconds{6}}),
          seconds{18});
  Row trips =
      larger_is_better("lease_trips", bucket.per_trip, kTripsMin, "admits", 1, "200 a round trip");
  trips.more.emplace_back("fixed_window", window.per_trip);
  Row use = larger_is_better("lease_use", bucket.use, kUseMin, "%", 1, "98% of the quota");
  use.more.emplace_back("fixed_window", window.use);
  return {trips, use};
}

}  // namespace weir::bench
