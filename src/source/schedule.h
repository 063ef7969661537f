// Schedule: which source is fetched next. Seed 004's scheduler (S4.8).
//
// A source is in one of four places: later (its time has not come), waiting (due, but its domain
// has no capacity), queued (the peek said yes), running. A cycle moves what is due to its domain,
// and from there as many to the queue as the gates would admit, the longest overdue first; it
// counts those that are queued already and have not asked yet. A domain that is refused is not
// looked at again before the next cycle, so a cycle costs what it moves and one peek for each
// domain with something due, however many sources wait there.
//
// Every source goes back behind those that are due before it: none starves. Where agents always
// wait at a gate, or come at the very instant at which it opens, the peek never says yes; so one
// source of a provider at a time, once it is kTooLate, takes its place in the gate's own queue. Not
// thread-safe; asks no gate for more than a forecast, and does no I/O.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "config/model.h"
#include "net/upstream.h"
#include "provider/resources.h"
#include "server/live_view.h"
#include "store/source_store.h"
#include "weir/control/circuit_breaker.h"
#include "weir/time/timer.h"

namespace weir::source {

// As one agent all sources have one share of a provider, and one place in its file where an
// operator limits or prefers them (`agents: {sources: …}`).
inline constexpr std::string_view kAgent = "sources";
Caller caller_of(const ProviderConfig& provider);

struct Domain;

struct Source {
  enum class Place : std::uint8_t { kLater, kWaiting, kQueued, kRunning };

  SourceConfig config;
  net::Origin origin;
  std::string target;  // "/path?query"
  std::shared_ptr<Domain> domain;
  std::uint64_t turn;  // of those due at one time, whose last one is longer ago goes first
  Instant due;
  std::int64_t failures = 0;       // in a row
  std::uint64_t rate_limited = 0;  // due times at which a limit made it wait
  bool put_off = false;            // this one is counted
  std::uint64_t held_before = 0;   // its domain's `held` when it began to wait
  std::optional<store::SourceResult> last = {};
  Place place = Place::kLater;
  bool in_line = false;  // queued or running to wait in the gates' queue
  bool gone = false;     // removed or replaced; only a task may still know it
};

// Older first.
struct ByDue {
  bool operator()(const std::shared_ptr<Source>& a, const std::shared_ptr<Source>& b) const {
    return a->due != b->due ? a->due < b->due : a->turn < b->turn;
  }
};

// The sources of one host.
struct Domain {
  std::string host;
  std::unique_ptr<CircuitBreaker> breaker;
  std::set<std::shared_ptr<Source>, ByDue> waiting = {};
  std::deque<std::shared_ptr<Source>> queued = {};
  std::size_t sources = 0;
  std::size_t running = 0;
  std::size_t asking = 0;               // of those, who have no permit yet
  std::uint64_t held = 0;               // cycles in which a limit let none of the waiting go on
  std::optional<Instant> in_line = {};  // since when the one is due that stands in line
  // Where no provider is configured nobody else remembers a 429.
  Instant held_until{};
  std::int64_t refusals = 0;  // in a row
  bool ready = false;         // in Schedule::ready_
};

// One fetch. Its pass ends before its source.
struct Task {
  std::shared_ptr<Source> source;
  std::shared_ptr<Resource> resource;  // null: not limited
  CircuitBreaker::Pass pass;
  bool admitted = false;
};

// How a task has ended.
struct Ending {
  enum class Kind : std::uint8_t {
    kFetched,            // an answer below 400
    kRefused,            // one of 400 to 499: this source's failure
    kFailed,             // none, a broken one, or 500 and above: the domain's failure as well
    kLimited,            // the server said "too fast": not a failure, due as before
    kRateLimitExceeded,  // our own gates did: likewise
    kStopped,            // nobody's fault
  };
  Kind kind;
  std::optional<Nanos> retry_after = {};  // of kLimited and kFailed
};

// A source as it is shown.
struct View {
  SourceConfig config;
  std::string resource;  // empty: not limited
  std::string_view state;
  Nanos due_in;  // negative: overdue
  std::int64_t failures;
  std::uint64_t rate_limited;
  std::optional<store::SourceResult> last;
};

// `due` counts those that are not queued, also those in a gate's queue; of `breakers_open` at most
// kBreakersShown are named. Says nothing of the store.
using Summary = server::SourceSummary;

class Schedule {
 public:
  static constexpr std::size_t kSourcesMax = 100'000;
  static constexpr std::size_t kWorkers = 64;
  // Of one host at once. Who states no limit gets few.
  static constexpr std::size_t kLimitedAtOnce = 32;
  static constexpr std::size_t kUnlimitedAtOnce = 8;
  static constexpr std::size_t kQueuedMax = 256;  // of one host
  static constexpr std::size_t kBreakersShown = 100;
  static constexpr int kFailuresMax = 5;  // of one host in a row; then its breaker opens
  static constexpr Nanos kOpenFor = std::chrono::seconds{30};
  static constexpr Nanos kTooLate = std::chrono::seconds{5};
  // How long one that is late waits among a provider's other callers, before another may.
  static constexpr Nanos kLinePatience = std::chrono::minutes{1};

  Schedule(Resources& resources, const Clock& clock) : resources_(resources), clock_(clock) {}
  ~Schedule();

  // Due at once; one of the same name is replaced and leaves its last result. Fails with
  // kCapacityExhausted when there are kSourcesMax.
  enum class Added : std::uint8_t { kNew, kReplaced };
  Result<Added> put(const SourceConfig& config);
  // One that was kept, as it was. It must be new.
  void restore(const SourceConfig& config, const store::SourceRow& row);
  bool remove(std::string_view name);

  // After how long the gates would admit more, where one of them knows; else Nanos::max().
  Nanos cycle();
  // The next task, which asks for its permit; nothing if there is none or all workers are busy.
  std::optional<Task> take();
  // It has its permit.
  void admit(Task& task);
  // `result` belongs to kFetched, kRefused and kFailed. What has changed, for those who watch:
  struct Change {
    bool kept = false;    // the source is still there
    bool failed = false;  // the first time in a row
    bool recovered = false;
    std::optional<CircuitBreaker::State> breaker = {};  // if it is closed or open now, and was not
  };
  Change end(Task task, const Ending& ending, const store::SourceResult& result);

  // Null if there is none.
  std::shared_ptr<const Source> find(std::string_view name) const;
  View view(const Source& source) const;
  // At most `count` whose names come after `after`.
  std::vector<View> list(std::string_view after, std::size_t count) const;
  store::SourceRow row(const Source& source) const;
  std::vector<store::SourceRow> rows() const;
  Summary summary() const;

 private:
  using SourcePtr = std::shared_ptr<Source>;
  using DomainPtr = std::shared_ptr<Domain>;
  // What the gates of a resource say in one cycle.
  struct Peek {
    std::shared_ptr<Resource> resource;
    std::optional<Resource::Route> route = {};
    Amount pending = 0;  // tasks of ours that have not asked yet
    bool refused = false;
    Nanos wait = Nanos::max();  // if it is refused and known
  };

  SourcePtr add(const SourceConfig& config, Instant due);
  DomainPtr domain_of(const std::string& host);
  void detach(const SourcePtr& source);
  // If it has no source, and none that was removed is still running.
  void forget(const DomainPtr& domain);
  void wait(const SourcePtr& source);
  void come_due(Instant now);
  void unqueue(Domain& domain);
  // What becomes of the first that waits.
  enum class Turn : std::uint8_t { kStays, kIsHeld, kAsks, kGoesInLine };
  Turn turn(const Domain& domain, Peek& peek, Instant now) const;
  static bool may_go_in_line(const Peek& peek);
  void note_failures(Source& source, std::int64_t failures);
  static void put_off(Source& source);
  Nanos back_off(const Source& source, std::int64_t failures) const;
  void leave_line(Source& source);

  Resources& resources_;
  const Clock& clock_;
  std::map<std::string, SourcePtr, std::less<>> sources_;
  std::unordered_map<std::string, DomainPtr> domains_;
  std::set<SourcePtr, ByDue> later_;
  std::set<DomainPtr> busy_;      // with something waiting or queued, or asking
  std::deque<DomainPtr> ready_;   // with something queued
  std::set<DomainPtr> troubled_;  // whose breaker is not closed
  std::size_t waiting_ = 0;
  std::size_t queued_ = 0;
  std::size_t running_ = 0;
  std::size_t in_line_ = 0;        // tasks without a worker until they have their permit
  std::set<std::string> failing_;  // by name
  std::uint64_t turns_ = 0;
};

}  // namespace weir::source
