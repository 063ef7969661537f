#include "config/zone.h"

#include <absl/time/civil_time.h>
#include <absl/time/time.h>

#include <algorithm>

namespace weir {
namespace {

// Letters and the like alone: a name is looked up as a path.
bool is_zone_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && name.front() != '/' &&
         name.find_first_not_of(
             "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
             "_+-/") == name.npos;
}

CalendarTime reset_on(const absl::TimeZone& zone, absl::CivilDay day, std::chrono::minutes reset) {
  const auto at = zone.At(absl::CivilSecond{day} + reset / std::chrono::seconds{1});
  return absl::ToChronoTime(at.kind == absl::TimeZone::TimeInfo::SKIPPED ? at.trans : at.pre);
}

}  // namespace

Result<Zone> Zone::load(const std::string& name) {
  absl::TimeZone zone;
  if (is_zone_name(name) && absl::LoadTimeZone(name, &zone)) return Zone{name};
  return fail(Errc::kInvalidConfig,
              "must be a time zone of the IANA database, such as UTC or Europe/Berlin");
}

CalendarTime Zone::next_reset(CalendarTime at, Nanos period, std::chrono::minutes reset) const {
  absl::TimeZone zone;
  absl::LoadTimeZone(name_, &zone);  // kept in memory since load()
  constexpr Nanos kDay = std::chrono::days{1};
  const absl::CivilDay epoch{1970, 1, 1};
  const absl::civil_diff_t days = std::max<absl::civil_diff_t>(period / kDay, 1);
  const absl::civil_diff_t today = absl::CivilDay{zone.At(absl::FromChrono(at)).cs} - epoch;

  // From a day that is certainly over to the first one whose reset is still to come.
  absl::CivilDay day = epoch + (today - today % days - 2 * days);
  CalendarTime last = reset_on(zone, day, reset);
  CalendarTime next = last;
  for (; next <= at; next = reset_on(zone, day, reset)) {
    last = next;
    day += days;
  }
  if (period >= kDay) return next;
  return std::min(next, last + ((at - last) / period + 1) * period);
}

}  // namespace weir
