// WindowEnds: where the windows of a limit end, for those that stand on a calendar.
//
// A contract, so that `core` need not know zones or days. Immutable, so safe to share between
// threads. It reads no clock.
#pragma once

#include "weir/core/time.h"

namespace weir {

class WindowEnds {
 public:
  WindowEnds() = default;
  WindowEnds(const WindowEnds&) = delete;
  WindowEnds& operator=(const WindowEnds&) = delete;
  virtual ~WindowEnds() = default;

  // The end of the window that contains `now`, which is in [0, kInstantMax]: strictly later than
  // `now` by at most 2 × kPeriodMax, and never earlier for a later `now`.
  virtual Instant after(Instant now) const = 0;
};

}  // namespace weir
