#include "weir/time/system_clock.h"
#include "weir/time/thread_timer.h"
#include "weir/time/timer.h"

namespace weir {

TimeSource TimeSource::system() {
  // Never destroyed: threads may still wait on them while the process ends.
  static Clock& clock = *new TscClock;
  static Timer& timer = *new ThreadTimer(clock);
  return {clock, timer};
}

TimeSource TimeSource::since_boot() {
  static Clock& clock = *new BootClock;
  static Timer& timer = *new ThreadTimer(clock);
  return {clock, timer};
}

}  // namespace weir
