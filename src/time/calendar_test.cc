#include "weir/time/calendar.h"

#include <gtest/gtest.h>

#include "weir/time/simulated_time.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

TEST(Calendar, GoesWithTheWall) {
  SimulatedTime time;
  const Calendar calendar{time};
  EXPECT_EQ(calendar.now(), time.wall());
  time.advance(3h);
  EXPECT_EQ(calendar.now(), time.wall());
  EXPECT_EQ(calendar.at(time.now() + 5s), time.wall() + 5s);
  EXPECT_EQ(calendar.instant(time.wall() - 5s), time.now() - 5s);
}

TEST(Calendar, DoesNotFollowAWallThatJumpsBack) {
  SimulatedTime time;
  const Calendar calendar{time};
  const CalendarTime before = calendar.now();
  for (const Nanos jump : {Nanos{1h}, Nanos{24h}}) {
    time.set_wall(time.wall() - jump);
    EXPECT_EQ(calendar.now(), before);
  }
  time.advance(10min);
  EXPECT_EQ(calendar.now(), before + 10min);
}

TEST(Calendar, FollowsAWallThatJumpsAheadAndStaysThere) {
  SimulatedTime time;
  const Calendar calendar{time};
  const CalendarTime before = calendar.now();
  time.set_wall(time.wall() + 24h);
  EXPECT_EQ(calendar.now(), before + 24h);
  time.set_wall(time.wall() - 24h);
  EXPECT_EQ(calendar.now(), before + 24h);
}

// A clock on which an hour passes between any two readings: a process that is stopped for long.
class SlowlyReadClock final : public Clock {
 public:
  CalendarTime wall() const override { return CalendarTime{read().time_since_epoch()}; }

 private:
  Instant read() const override { return now_ += 1h; }
  mutable Instant now_{};
};

TEST(Calendar, ARestBetweenTwoReadingsPutsItAheadOfNothing) {
  const SlowlyReadClock clock;
  const Calendar calendar{clock};
  for (int i = 0; i < 3; ++i) EXPECT_LE(calendar.ahead(), 0h);
}

TEST(Calendar, IsNeverBeforeWhatAnEarlierProcessSaw) {
  SimulatedTime time;
  const Calendar calendar{time};
  const CalendarTime seen = time.wall() + 2h;
  calendar.never_before(seen);
  EXPECT_EQ(calendar.now(), seen);
  time.advance(1min);
  EXPECT_EQ(calendar.now(), seen + 1min) << "it goes on from there";
  calendar.never_before(seen - 1h);
  EXPECT_EQ(calendar.now(), seen + 1min);
  time.set_wall(seen + 5h);
  EXPECT_EQ(calendar.now(), seen + 5h);
}

}  // namespace
}  // namespace weir
