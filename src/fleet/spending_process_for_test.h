// Processes that spend one quota together, and the ledger of what they were admitted: memory that
// they share with the test, so that it outlasts whoever is killed.
//
// A process is this program run again. It ends with the test, whatever happens to it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "fleet/settled_for_test.h"
#include "time/eventually_for_test.h"
#include "weir/fleet/shared_quota.h"
#include "weir/gate/gate.h"
#include "weir/time/system_clock.h"

namespace weir::fleet {

// What each process does.
struct SpendingPlan {
  enum class Way : std::uint8_t { kTry, kWait, kHold };  // kHold: slots, for a moment

  LimitSpec::Algorithm algorithm = LimitSpec::Algorithm::kFixedWindow;
  Amount amount = 0;
  Nanos period = std::chrono::hours{1};
  Amount burst = 0;
  Fallback fallback = Fallback::kDeny;
  Way way = Way::kTry;
  int threads = 2;
  Amount rate = 0;  // attempts a second, of all threads; 0: as many as there can be
  Nanos timeout = std::chrono::seconds{20};  // generous: the machine may be busy
};

struct SpendingLedger {
  static constexpr std::size_t kProcesses = 32;
  static constexpr Nanos kBin = std::chrono::milliseconds{1};
  static constexpr std::size_t kBins = 600'000;

  struct Page {
    std::atomic<Amount> admitted;
    std::atomic<std::uint64_t> errors;  // of who waits
    std::atomic<unsigned> seen;         // one bit for each state of the quota
    std::atomic<SharedQuotaStatus::State> state;
  };

  SpendingPlan plan;
  std::array<char, 256> url;
  Instant start;
  std::atomic<bool> stop;
  std::atomic<Amount> held;  // slots
  std::atomic<Amount> most_held;
  std::array<Page, kProcesses> pages;
  std::array<std::atomic<Amount>, kBins> bins;  // admissions of all by the time of the decision

  void note(Page& page, Instant at) {
    page.admitted.fetch_add(1);
    bins.at(static_cast<std::size_t>((at - start) / kBin)).fetch_add(1);
  }
};
static_assert(std::is_trivially_copyable_v<SpendingPlan>);
static_assert(std::atomic<Amount>::is_always_lock_free);

// What a process does until it is told to stop.
class Spender {
 public:
  Spender(SpendingLedger& ledger, std::size_t which)
      : ledger_(ledger), plan_(ledger.plan), page_(ledger.pages.at(which)) {}

  void run() {
    const TimeSource time = TimeSource::since_boot();
    const auto quota =
        SharedQuota::create(
            {.redis_url = ledger_.url.data(),
             .node = "spender",
             .fallback = plan_.fallback,
             .timeout = plan_.timeout,
             .breaker = {.open_for = std::chrono::milliseconds{200}},
             .told = [this](const SharedQuotaStatus& status) { note_state(status.state); }},
            time)
            .value();
    const LimitSpec limit{
        .unit = plan_.way == SpendingPlan::Way::kHold ? Unit::kSlots : Unit::kRequests,
        .algorithm = plan_.algorithm,
        .amount = plan_.amount,
        .period = plan_.period,
        .burst = plan_.burst};
    const auto gate =
        create_gate({.name = "api", .limits = {limit}, .stale_after = std::chrono::minutes{1}},
                    time, quota.get())
            .value();
    // Who spends before it has a connection for the first time may be refused.
    while (!ledger_.stop && !quota->status().connected) nap();
    std::vector<std::jthread> threads;
    for (int i = 0; i < plan_.threads; ++i) {
      threads.emplace_back([&](const std::stop_token& stop) { spend(*gate, stop); });
    }
    while (!ledger_.stop) nap();
  }

 private:
  void note_state(SharedQuotaStatus::State state) {
    page_.seen.fetch_or(1U << std::to_underlying(state));
    page_.state = state;
  }

  void spend(Gate& gate, const std::stop_token& stop) {
    const Nanos every =
        plan_.rate == 0 ? Nanos{0} : Nanos{std::chrono::seconds{plan_.threads}} / plan_.rate;
    for (Instant due = gate.clock().now(); !stop.stop_requested(); due += every) {
      Instant now = gate.clock().now();
      due = std::max(due, now - std::chrono::milliseconds{100});  // a pause is not made up for
      for (; now < due; now = gate.clock().now()) nap();
      if (!spend_one(gate, now, stop)) nap();
    }
  }

  bool spend_one(Gate& gate, Instant now, const std::stop_token& stop) {
    if (plan_.way == SpendingPlan::Way::kTry) {
      if (!gate.try_spend(1, now)) return false;
      ledger_.note(page_, now);
      return true;
    }
    const auto permit = gate.acquire({}, {.stop = stop});
    if (!permit) {
      if (permit.error() != Errc::kCancelled) ++page_.errors;
      return false;
    }
    ledger_.note(page_, gate.clock().now());
    if (plan_.way != SpendingPlan::Way::kHold) return true;
    const Amount held = ++ledger_.held;
    Amount most = ledger_.most_held;
    while (held > most && !ledger_.most_held.compare_exchange_weak(most, held)) {
    }
    nap();
    --ledger_.held;  // before the permit goes
    return true;
  }

  SpendingLedger& ledger_;
  const SpendingPlan& plan_;
  SpendingLedger::Page& page_;
};

// What this program does when it is run again.
class SpendingProcess final : public testing::Environment {
 public:
  static constexpr const char* kVariable = "WEIR_TEST_SPENDER";  // FILE:WHICH

 private:
  void SetUp() override {
    const char* const order = std::getenv(kVariable);
    if (order == nullptr) return;
    int file = -1;
    std::size_t which = 0;
    if (std::sscanf(order, "%d:%zu", &file, &which) != 2) _exit(97);
    Spender{map(file), which}.run();
    _exit(0);
  }

 public:
  static SpendingLedger& map(int file) {
    void* const memory =
        ::mmap(nullptr, sizeof(SpendingLedger), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) throw std::runtime_error{"no memory to share"};
    return *static_cast<SpendingLedger*>(memory);
  }
};
inline const auto* const spending_process = testing::AddGlobalTestEnvironment(new SpendingProcess);

class SpendingFleet {
 public:
  using State = SharedQuotaStatus::State;

  SpendingFleet(const std::string& url, const SpendingPlan& plan)
      : file_(::memfd_create("ledger", MFD_CLOEXEC)) {
    if (::ftruncate(file_, sizeof(SpendingLedger)) != 0) throw std::runtime_error{"no memory"};
    ledger_ = new (&SpendingProcess::map(file_)) SpendingLedger{};
    ledger_->plan = plan;
    ledger_->start = BootClock{}.now();
    url.copy(ledger_->url.data(), ledger_->url.size() - 1);
  }
  ~SpendingFleet() {
    for (std::size_t which = 0; which < pids_.size(); ++which) kill(which);
    ::munmap(ledger_, sizeof(SpendingLedger));
    ::close(file_);
  }
  SpendingFleet(const SpendingFleet&) = delete;
  SpendingFleet& operator=(const SpendingFleet&) = delete;

  // One more process; they are counted from 0.
  void start() {
    const std::string order = std::string{SpendingProcess::kVariable} + "=" +
                              std::to_string(file_) + ":" + std::to_string(pids_.size());
    std::vector<const char*> environment{order.c_str()};
    for (char** entry = environ; *entry != nullptr; ++entry) environment.push_back(*entry);
    environment.push_back(nullptr);
    const std::array<const char*, 2> words{"spender", nullptr};
    const int quiet = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(98);
      ::dup2(quiet, STDOUT_FILENO);
      ::fcntl(file_, F_SETFD, 0);
      execve("/proc/self/exe", const_cast<char**>(words.data()),
             const_cast<char**>(environment.data()));
      _exit(99);
    }
    ::close(quiet);
    pids_.push_back(pid);
  }
  void start(int count) {
    for (int i = 0; i < count; ++i) start();
  }

  void kill(std::size_t which) {
    if (pids_.at(which) <= 0) return;
    ::kill(pids_[which], SIGKILL);
    waitpid(std::exchange(pids_[which], -1), nullptr, 0);
  }
  void freeze(std::size_t which) const { ::kill(pids_.at(which), SIGSTOP); }
  void thaw(std::size_t which) const { ::kill(pids_.at(which), SIGCONT); }

  // Has all give back what they have not used, and end.
  void stop() {
    ledger_->stop = true;
    for (pid_t& pid : pids_) {
      if (pid <= 0) continue;
      int status = 0;
      EXPECT_EQ(waitpid(std::exchange(pid, -1), &status, 0) > 0 ? status : -1, 0);
    }
  }

  Amount admitted() const {
    Amount sum = 0;
    for (const auto& page : ledger_->pages) sum += page.admitted;
    return sum;
  }
  Amount admitted(std::size_t which) const { return ledger_->pages.at(which).admitted; }
  // Since `after` and before `before`, by the time of the decision.
  Amount admitted_between(Instant after, Instant before) const {
    Amount sum = 0;
    for (std::size_t i = bin(after); i < bin(before); ++i) sum += ledger_->bins.at(i);
    return sum;
  }
  // The most that was admitted in any time, less what `rate` a second allows in that time.
  double largest_burst(double rate) const {
    const double earned = rate * std::chrono::duration<double>{SpendingLedger::kBin}.count();
    double level = 0;
    double most = 0;
    for (const auto& count : ledger_->bins) {
      level += static_cast<double>(count);
      most = std::max(most, level);
      level = std::max(level - earned, 0.0);
    }
    return most;
  }
  Amount most_held() const { return ledger_->most_held; }
  std::uint64_t errors() const {
    std::uint64_t sum = 0;
    for (const auto& page : ledger_->pages) sum += page.errors;
    return sum;
  }
  bool has_seen(std::size_t which, State state) const {
    return (ledger_->pages.at(which).seen & 1U << std::to_underlying(state)) != 0;
  }
  void forget_seen() {
    for (auto& page : ledger_->pages) page.seen = 0;
  }
  State state(std::size_t which) const { return ledger_->pages.at(which).state; }

 private:
  std::size_t bin(Instant at) const {
    return static_cast<std::size_t>(std::max(at - ledger_->start, Nanos{0}) / SpendingLedger::kBin);
  }

  const int file_;
  SpendingLedger* ledger_;
  std::vector<pid_t> pids_;
};

}  // namespace weir::fleet
