// Activity: who comes to one provider, how long they wait for its quota, how long it then takes.
//
// Safe to use from any thread: one short lock, taken at most three times a request. It decides
// nothing and calls nobody. Nothing is allocated for a call of an agent that is known and does not
// wait. Bounded: kAgentsMax agents are told apart, a provider that nobody has used takes no memory,
// one that was used 20 KiB, and 250 bytes for each agent.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "provider/domain.h"
#include "provider/wait_histogram.h"
#include "weir/core/cost.h"
#include "weir/core/time.h"

namespace weir {

class Activity {
 public:
  // A call, as it comes in. Its views must last until it is queued, admitted or refused, and for
  // one that is queued again until then.
  struct Arrival {
    std::string_view agent = {};
    std::string_view model = {};
    Cost cost = {};
    int priority = 0;
  };
  struct Use {
    Amount tokens = 0;
    Amount micro_usd = 0;
  };
  static Amount tokens_of(const Cost& cost);
  class Visit;

  static constexpr std::size_t kAgentsMax = 1'000;
  static constexpr std::size_t kAgentsShown = 12;
  static constexpr std::size_t kQueueShown = 20;
  static constexpr std::size_t kSlowestShown = 5;

  // A thousand calls at a time fill 64 bits of nanoseconds in 106 days.
  using Total = std::chrono::microseconds;
  // Only ever grow, or are of the last minute. What callers claim to use may be anything: a sum of
  // amounts stops at the largest number there is.
  struct Counts {
    std::uint64_t arrived = 0;
    std::uint64_t admitted = 0;   // calls, not their tries
    std::uint64_t refused = 0;    // by us
    std::uint64_t abandoned = 0;  // left before they were admitted or refused
    std::uint64_t limited = 0;    // answers of 429
    std::uint64_t failed = 0;     // no answer, a broken one, or an error of 5xx
    std::uint64_t expired = 0;    // permits that were never released
    Amount tokens = 0;            // of calls that ended
    Amount micro_usd = 0;
    Amount estimated = 0;  // tokens of calls that were settled: as reserved,
    Amount settled = 0;    // and as used
    std::uint64_t waits = 0;
    Total waited{0};  // of all these
    std::uint64_t answers = 0;
    Total upstream{0};  // of all these

    Counts& operator+=(const Counts& other);
  };
  struct Agent {
    std::string name = {};
    double share = 0;            // of what all used in the last 10 minutes: tokens, else requests
    std::uint64_t admitted = 0;  // in this time
    std::uint64_t waiting = 0;
    std::uint64_t in_flight = 0;
  };
  struct Queued {
    std::string agent;
    std::string model;
    Cost cost;
    int priority = 0;
    Instant since{};
  };
  struct Slow {
    std::string agent;
    std::string model;
    std::string limit;  // what it waited for; empty if nobody knows
    Nanos waited{0};
    Instant at{};
  };
  struct View {
    Counts totals;
    Counts minute;
    WaitHistogram::Spread wait;      // of those admitted in the last minute; who did not wait: 0
    WaitHistogram::Spread upstream;  // of what ended in the last minute
    std::uint64_t waiting = 0;
    std::uint64_t in_flight = 0;
    Nanos in_flight_age{0};             // on average, so far
    std::optional<Instant> expired_at;  // the last one
    std::vector<Agent> agents;          // by share
    Agent others;                       // those who are not among them
    std::size_t agents_total = 0;       // who did something in the last 10 minutes
    std::vector<Queued> queue;          // the longest wait first
    std::vector<Slow> slowest;          // of the last hour
  };
  // The last minute is the running slice of 10 s and the five before.
  View view(Instant now) const;

  struct Sample {
    Counts totals;
    std::uint64_t waiting_max = 0;  // since the sample before
    std::uint64_t in_flight_max = 0;
  };
  Sample sample();
  struct Busy {
    std::uint64_t waiting = 0;
    std::uint64_t in_flight = 0;
    std::uint64_t admitted = 0;  // in the last minute
  };
  Busy busy(Instant now) const;
  bool used() const;

  Visit arrive(const Arrival& arrival, Instant now);
  // The provider said 429. True unless it said so within the last second: then it is worth telling.
  bool limited(Instant now);
  void failed(Instant now);

 private:
  static constexpr Nanos kSlice = std::chrono::seconds{10};
  static constexpr std::size_t kSlices = 6;
  static constexpr Nanos kAgentSlice = std::chrono::minutes{1};
  static constexpr std::size_t kAgentSlices = 10;
  static constexpr Nanos kSlowSlice = std::chrono::minutes{10};
  static constexpr std::size_t kSlowSlices = 6;

  struct Slice {
    std::int64_t index = -1;
    Counts counts;
    WaitHistogram wait;
    WaitHistogram upstream;
  };
  // One of those who come, or all who found no place.
  struct Guest {
    std::uint64_t visits = 0;  // that know of it
    std::uint64_t waiting = 0;
    std::uint64_t in_flight = 0;
    std::int64_t newest = 0;
    std::array<Amount, kAgentSlices> tokens{};
    std::array<std::uint64_t, kAgentSlices> requests{};

    void turn_to(Instant now);
    // In the ten minutes it was turned to last.
    Amount tokens_used() const;
    std::uint64_t requests_made() const;
    bool idle() const;
  };
  struct SlowSlice {
    std::int64_t index = -1;
    std::vector<Slow> waits;  // the longest first
  };
  struct Book {
    Counts past;  // of slices that are over
    std::array<Slice, kSlices> slices;
    ByName<Guest> guests;
    Guest others;
    Instant next_sweep{};
    std::list<Queued> queue;
    std::uint64_t in_flight = 0;
    // When those in flight began, summed up in microseconds: what overflows falls out again when
    // it is taken from as many times now.
    std::uint64_t in_flight_since = 0;
    std::uint64_t waiting_max = 0;
    std::uint64_t in_flight_max = 0;
    std::array<SlowSlice, kSlowSlices> slowest;
    std::optional<Instant> limited_at;
    std::optional<Instant> expired_at;
  };

  // These want the lock.
  Book& book();
  Slice& slice(Instant now);
  static bool recent(const Slice& slice, Instant now);
  Guest& guest(std::string_view name, Instant now);
  bool note_slow(const Queued& wait, Nanos waited, Instant now);
  void leave_queue(Visit& visit, Nanos waited);
  void begin_flight(Visit& visit);
  void end_flight(Visit& visit);
  void finish(Visit& visit, Instant now);
  void show_agents(View& view, Instant now) const;

  mutable std::mutex mutex_;
  std::unique_ptr<Book> book_;  // null until somebody comes
};

// One call, from its arrival to its end. Owned by one holder at a time and moved; not thread-safe
// by itself. The Activity must outlive it. To destroy it before it was admitted or refused is to
// leave (abandoned); after, to end without a known time.
class Activity::Visit {
 public:
  enum class Holds : std::uint8_t { kNothing, kSomething };

  Visit() = default;
  Visit(Visit&& other) noexcept;
  Visit& operator=(Visit&& other) noexcept;
  ~Visit() { leave(); }

  // It waits. Also for one under way that has to wait again: the provider refused it.
  void queued(Instant now);
  // True if this was one of the longest waits: then waited_for() wants to know the reason.
  bool admitted(Instant now, Holds holds);
  void waited_for(std::string limit);
  void refused(Instant now);
  // What it really used; a unit that `actual` does not name stays as it was reserved.
  void settled(const Cost& actual);
  void settled(const Use& actual) { settled_ = actual; }
  // The answer is whole, or the permit was given back.
  void ended(Instant now);
  // The permit was taken back; nobody knows when its work was over.
  void expired(Instant now);
  // Admitted, and not ended.
  bool under_way() const { return state_ == State::kUnderWay; }

 private:
  friend class Activity;
  enum class State : std::uint8_t { kOver, kArrived, kQueued, kUnderWay };

  Visit(Activity& activity, const Arrival& arrival, Instant now)
      : activity_(&activity), arrival_(arrival), since_(now), state_(State::kArrived) {}
  void leave();

  Activity* activity_ = nullptr;
  Arrival arrival_ = {};
  Instant since_{};  // its arrival, the begin of its wait, its admission
  Guest* guest_ = nullptr;
  std::list<Queued>::iterator place_{};  // while it is queued
  std::optional<Use> settled_ = {};
  Nanos waited_{0};
  State state_ = State::kOver;
  bool counted_ = false;  // as admitted
};

}  // namespace weir
