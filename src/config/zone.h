// Zone: a time zone of the IANA database, for windows that begin on the calendar.
//
// A small immutable value, safe to share between threads.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "weir/core/error.h"
#include "weir/core/time.h"

namespace weir {

class Zone {
 public:
  Zone() : name_("UTC") {}
  // Fails with kInvalidConfig for a name that the system's database does not know.
  static Result<Zone> load(const std::string& name);

  const std::string& name() const { return name_; }

  // The first reset strictly after `at`: windows of `period` that restart `reset` after midnight
  // in this zone. A period of whole days counts days since 1970-01-01 and follows the zone's days
  // of 23, 24 or 25 hours; a shorter one starts anew at each day's reset. A reset that the zone's
  // clock skips is the first instant after the gap; one that it shows twice is the first.
  CalendarTime next_reset(CalendarTime at, Nanos period, std::chrono::minutes reset) const;

 private:
  explicit Zone(std::string name) : name_(std::move(name)) {}

  std::string name_;
};

}  // namespace weir
