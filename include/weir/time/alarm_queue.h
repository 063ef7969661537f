// The armed alarms of one timer, in the order in which they ring: by instant, then by arming.
//
// For those who write a Timer: it keeps Timer's promise about disarm(), the rest is when to call
// begin_ring(). Safe to use from any thread, but only one thread at a time may ring. Reads no
// clock and never rings by itself.
#pragma once

#include <compare>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>

#include "weir/core/time.h"
#include "weir/time/timer.h"

namespace weir {

class AlarmQueue {
 public:
  struct Due {
    Alarm* alarm;
    Instant at;
  };

  // As Timer::arm. True if this alarm is now the earliest.
  bool arm(Alarm& alarm, Instant at);

  // As Timer::disarm: waits while the alarm is ringing on another thread.
  void disarm(Alarm& alarm);

  std::optional<Instant> next() const;

  // Takes the earliest alarm if it is due by `by`. The caller then calls its ring() without a
  // lock, and after that end_ring().
  std::optional<Due> begin_ring(Instant by);
  void end_ring();

 private:
  struct Entry {
    Instant at;
    std::uint64_t armed;  // counts calls of arm(): ties ring in that order
    Alarm* alarm;

    friend auto operator<=>(const Entry&, const Entry&) = default;
  };
  using Entries = std::set<Entry>;

  void erase(Alarm& alarm);

  mutable std::mutex mutex_;
  std::condition_variable rung_;
  Entries entries_;
  std::unordered_map<Alarm*, Entries::iterator> places_;
  std::uint64_t armed_ = 0;

  Alarm* ringing_ = nullptr;
  std::thread::id ringer_;
  std::uint64_t rings_ = 0;
  bool disarming_ = false;  // somebody waits for the end of this ring
};

}  // namespace weir
