// Time that moves when told to: a Clock and a Timer for tests and simulations.
//
// One thread advances; any thread may read the time, arm and disarm meanwhile. Alarms ring on the
// advancing thread, inside the call that advances, and must not advance time themselves.
//
//   SimulatedTime time;
//   gate.acquire(...);           // with time.source()
//   time.advance(20ms);          // whatever is due within 20 ms happens here, in order
#pragma once

#include <atomic>
#include <optional>

#include "weir/time/alarm_queue.h"
#include "weir/time/clock.h"
#include "weir/time/timer.h"

namespace weir {

class SimulatedTime final : public Clock, public Timer {
 public:
  // One hour after the epoch of Instant, so that a test can step back from the start.
  static constexpr Instant kStart{std::chrono::hours{1}};
  // 2025-01-01 00:00:00 UTC.
  static constexpr CalendarTime kWallStart{std::chrono::sys_days{std::chrono::year{2025} / 1 / 1}};

  explicit SimulatedTime(Instant start = kStart, CalendarTime wall = kWallStart);

  TimeSource source() { return {*this, *this}; }

  // Moves time forward, ringing what falls due in order of instant (ties in order of arming); while
  // an alarm rings, now() is its instant. What another thread arms for an instant just passed
  // rings in this call or, if it comes too late, in the next. Zero rings what is due already.
  void advance(Nanos by) { advance_to(now() + by); }
  // An instant in the past counts as now.
  void advance_to(Instant at);

  // Jumps from alarm to alarm. True if none is armed any more; otherwise the next one is later
  // than `limit`, and time stands at `limit`.
  bool run_until_idle(Instant limit);

  std::optional<Instant> next_alarm() const { return queue_.next(); }

  // A clock that runs backwards, the wall with it. Rings nothing; armed instants stay.
  void step_back(Nanos by);

  // The wall jumps; from here it runs with now() again.
  void set_wall(CalendarTime wall);
  CalendarTime wall() const override;

  // An instant in the past counts as now. Rings in the next call that advances.
  void arm(Alarm& alarm, Instant at) override;
  void disarm(Alarm& alarm) override { queue_.disarm(alarm); }

 private:
  Instant read() const override { return now_.load(std::memory_order_acquire); }
  void move_to(Instant at) { now_.store(at, std::memory_order_release); }
  void ring_due(Instant by);

  std::atomic<Instant> now_;
  std::atomic<Nanos> wall_ahead_;  // the wall's time since its epoch, less now()'s
  AlarmQueue queue_;
};

}  // namespace weir
