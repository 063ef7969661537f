// Days of 23, 24 and 25 hours. Expected instants are in UTC.
#include "config/zone.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

using namespace std::chrono_literals;
using std::chrono::sys_days;
using std::chrono::year;

constexpr Nanos kDay = 24h;

CalendarTime utc(int y, unsigned m, unsigned d, std::chrono::minutes at = 0min) {
  return sys_days{year{y} / static_cast<int>(m) / static_cast<int>(d)} + at;
}

struct Row {
  const char* zone;
  CalendarTime at;
  Nanos period;
  std::chrono::minutes reset;
  CalendarTime next;
};

TEST(Zone, TheNextResetIsExactOverTheYear) {  // S3.10
  const Row rows[] = {
      {"UTC", utc(2026, 3, 1), kDay, 0min, utc(2026, 3, 2)},  // strictly after
      {"UTC", utc(2026, 3, 1) - 1ns, kDay, 0min, utc(2026, 3, 1)},
      {"UTC", utc(2026, 3, 1, 5h), kDay, 6h, utc(2026, 3, 1, 6h)},
      {"UTC", utc(2026, 3, 1, 5h), 6h, 0min, utc(2026, 3, 1, 6h)},
      {"UTC", utc(2026, 3, 1, 22h), 7h, 0min, utc(2026, 3, 2)},  // anew each day
      {"UTC", utc(2026, 3, 1, 1h), 7h, 2h, utc(2026, 3, 1, 2h)},
      {"UTC", utc(1970, 1, 1), 7 * kDay, 0min, utc(1970, 1, 8)},
      {"UTC", utc(1970, 1, 7, 23h), 7 * kDay, 1h, utc(1970, 1, 8, 1h)},
      {"UTC", utc(1970, 1, 8, 30min), 7 * kDay, 1h, utc(1970, 1, 8, 1h)},
      {"UTC", utc(1969, 12, 31, 12h), 7 * kDay, 0min, utc(1970, 1, 1)},
      {"UTC", utc(1969, 12, 20), 7 * kDay, 0min, utc(1969, 12, 25)},
      // Berlin: 2026-03-29 has 23 hours, 02:00 to 03:00 is skipped at 01:00 UTC.
      {"Europe/Berlin", utc(2026, 3, 28, 23h), kDay, 0min, utc(2026, 3, 29, 22h)},
      {"Europe/Berlin", utc(2026, 3, 28, 23h) - 1ns, kDay, 0min, utc(2026, 3, 28, 23h)},
      {"Europe/Berlin", utc(2026, 3, 29), kDay, 2h + 30min, utc(2026, 3, 29, 1h)},
      {"Europe/Berlin", utc(2026, 3, 29, 1h), kDay, 2h + 30min, utc(2026, 3, 30, 30min)},
      {"Europe/Berlin", utc(2026, 3, 29, 20h), 12h, 0min, utc(2026, 3, 29, 22h)},
      // 2026-10-25 has 25 hours, 02:00 to 03:00 comes twice, from 00:00 and from 01:00 UTC.
      {"Europe/Berlin", utc(2026, 10, 24, 22h), kDay, 0min, utc(2026, 10, 25, 23h)},
      {"Europe/Berlin", utc(2026, 10, 25), kDay, 2h + 30min, utc(2026, 10, 25, 30min)},
      {"Europe/Berlin", utc(2026, 10, 25, 30min), kDay, 2h + 30min, utc(2026, 10, 26, 90min)},
      {"Europe/Berlin", utc(2026, 10, 25, 1h + 10min), kDay, 2h + 30min, utc(2026, 10, 26, 90min)},
      {"Europe/Berlin", utc(2026, 10, 25, 22h + 30min), 12h, 0min, utc(2026, 10, 25, 23h)},
      // New York: 2026-03-08 at 07:00 UTC, 2026-11-01 at 06:00 UTC.
      {"America/New_York", utc(2026, 3, 8, 5h), kDay, 0min, utc(2026, 3, 9, 4h)},
      {"America/New_York", utc(2026, 3, 8, 5h), kDay, 2h, utc(2026, 3, 8, 7h)},
      {"America/New_York", utc(2026, 11, 1, 4h), kDay, 0min, utc(2026, 11, 2, 5h)},
      {"America/New_York", utc(2026, 11, 1, 4h), kDay, 1h + 30min, utc(2026, 11, 1, 5h + 30min)},
      // Samoa had no 2011-12-30 at all.
      {"Pacific/Apia", utc(2011, 12, 29, 12h), kDay, 0min, utc(2011, 12, 30, 10h)},
      {"Pacific/Apia", utc(2011, 12, 30, 10h), kDay, 0min, utc(2011, 12, 31, 10h)},
  };
  for (const Row& row : rows) {
    const auto zone = Zone::load(row.zone);
    ASSERT_TRUE(zone) << row.zone;
    EXPECT_EQ((zone->next_reset(row.at, row.period, row.reset) - row.next).count(), 0)
        << row.zone << " row " << &row - rows;
  }
}

TEST(Zone, ResetsFollowOneAnotherWithoutAGap) {
  for (const char* name : {"UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"}) {
    const auto zone = Zone::load(name);
    for (const Nanos period : {Nanos{1h}, Nanos{5h}, kDay, 3 * kDay}) {
      CalendarTime at = utc(2026, 1, 1);
      for (int i = 0; i < 500; ++i) {
        const CalendarTime next = zone->next_reset(at, period, 150min);
        ASSERT_GT(next, at);
        ASSERT_LE(next - at, period + 1h) << name;
        ASSERT_EQ(zone->next_reset(next - 1ns, period, 150min), next) << name;
        at = next;
      }
    }
  }
}

TEST(Zone, OnlyNamesOfTheDatabaseAreLoaded) {
  EXPECT_EQ(Zone{}.name(), "UTC");
  EXPECT_EQ(Zone::load("Europe/Berlin")->name(), "Europe/Berlin");
  for (const char* name : {"", "Europe", "europe/berlin ", "/etc/localtime", "../zoneinfo/UTC",
                           "file:/dev/stdin", "Europe/Nowhere"}) {
    EXPECT_EQ(Zone::load(name).error(), Errc::kInvalidConfig) << name;
  }
}

}  // namespace
}  // namespace weir
