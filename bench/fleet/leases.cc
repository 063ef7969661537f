#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
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

  std::int64_t of(int i) const { return (*admitted_)[i]; }
  std::int64_t admitted() const {
    std::int64_t sum = 0;
    for (const auto& count : *admitted_) sum += count.load();
    return sum;
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
      die(limit_.name + ": " + std::to_string(admitted) + " admitted, where at most " +
          std::to_string(most) + " are allowed");
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
  const auto pass = [&](seconds length) {
    for (auto left = length / kLook; left > 0; --left) {
      watch.look(demand);
      std::this_thread::sleep_for(kLook);
    }
  };
  struct Seen {
    double at;
    std::int64_t admitted;
    std::int64_t trips;
  };
  const auto see = [&] {
    return Seen{Watch::now(), demand.admitted(), round_trips(settings, redis)};
  };
  pass(kWarmUp);
  const Seen begin = see();
  pass(time);
  const Seen end = see();
  const auto admitted = static_cast<double>(end.admitted - begin.admitted);
  const Figures figures{
      .per_trip = admitted / static_cast<double>(end.trips - begin.trips),
      .use = 100 * admitted / (static_cast<double>(kPerSecond) * (end.at - begin.at))};
  for (int i=0;i<4;++i) note(std::to_string(demand.of(i)));
  note("leases: " + std::to_string(end.admitted - begin.admitted) + " admitted in " +
       std::to_string(end.at - begin.at) + " s, " + std::to_string(figures.use) +
       "% of the quota, " + std::to_string(figures.per_trip) + " a round trip; none over");
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
