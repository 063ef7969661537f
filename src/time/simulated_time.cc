#include "weir/time/simulated_time.h"

#include <algorithm>

namespace weir {

SimulatedTime::SimulatedTime(Instant start, CalendarTime wall)
    : now_(start), wall_ahead_(wall.time_since_epoch() - start.time_since_epoch()) {}

void SimulatedTime::advance_to(Instant at) {
  at = std::max(at, now());
  ring_due(at);
  move_to(at);
  // What another thread armed meanwhile, having read the old time. Whoever arms later than this
  // and then reads the clock sees the new time.
  ring_due(at);
}

bool SimulatedTime::run_until_idle(Instant limit) {
  while (const auto at = next_alarm()) {
    if (*at > limit) {
      advance_to(limit);
      return false;
    }
    advance_to(*at);
  }
  return true;
}

void SimulatedTime::step_back(Nanos by) { move_to(now() - by); }

void SimulatedTime::set_wall(CalendarTime wall) {
  wall_ahead_ = wall.time_since_epoch() - now().time_since_epoch();
}

CalendarTime SimulatedTime::wall() const {
  return CalendarTime{now().time_since_epoch() + wall_ahead_.load()};
}

void SimulatedTime::arm(Alarm& alarm, Instant at) { queue_.arm(alarm, std::max(at, now())); }

void SimulatedTime::ring_due(Instant by) {
  while (const auto due = queue_.begin_ring(by)) {
    move_to(std::max(due->at, now()));
    due->alarm->ring(now());
    queue_.end_ring();
  }
}

}  // namespace weir
