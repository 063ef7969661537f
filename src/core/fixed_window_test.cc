#include "weir/core/fixed_window.h"

#include <gtest/gtest.h>

#include "core/random_limit.h"
#include "core/timeline.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using timeline::admits;
using timeline::never;
using timeline::owes;
using timeline::refunds;
using timeline::waits;

// S4.4: 300 a minute; at 295 five more are approved, and the next five denied.
TEST(FixedWindow, ApprovesFiveOfTenAtTwoHundredNinetyFiveOfThreeHundred) {
  timeline::of(FixedWindow::create({300, 1min}))
      .runs({
          admits(23s, 295, 5),
          admits(50s, 1, 4),
          admits(50s, 1, 3),
          admits(50s, 1, 2),
          admits(50s, 1, 1),
          admits(50s, 1, 0),
          waits(50s, 1, 33s, 0),
          waits(83s - 1ns, 1, 1ns, 0),
          admits(83s, 300, 0),
      });
}

// S4.4: the window of 10:00:00 has ended, the next begins with the request of 11:00:05.
TEST(FixedWindow, BeginsAWindowAtTheFirstRequestAfterTheLastOneEnded) {
  timeline::of(FixedWindow::create({2000, 1h}))
      .runs({
          admits(10h, 2000, 0),
          waits(11h - 1ns, 1, 1ns, 0),
          admits(11h + 5s, 1, 1999),
          admits(12h, 1999, 0),
          waits(12h, 1, 5s, 0),
          admits(12h + 5s, 1, 1999),
      });
}

TEST(FixedWindow, CanPassTwiceItsLimitAcrossABoundary) {
  timeline::of(FixedWindow::create({10, 1s}))
      .runs({
          admits(0s, 1, 9),
          admits(1s - 1ns, 9, 0),
          admits(1s, 10, 0),
          waits(1s, 1, 1s, 0),
      });
}

TEST(FixedWindow, SaysNeverToMoreThanItsLimit) {
  timeline::of(FixedWindow::create({10, 1s})).runs({never(0s, 11, 10), admits(0s, 10, 0)});
}

TEST(FixedWindow, BeginsNoWindowWithARefusedRequest) {
  timeline::of(FixedWindow::create({10, 1min}))
      .runs({
          admits(0s, 6, 4),
          waits(59s, 5, 1s, 4),
          never(61s, 11, 10),
          admits(90s, 6, 4),
          waits(90s, 5, 60s, 4),
      });
}

TEST(FixedWindow, ChargesADebtToTheRunningWindowAlone) {
  timeline::of(FixedWindow::create({10, 1min}))
      .runs({
          admits(0s, 5, 5),
          owes(1s, 12, -7),
          waits(1s, 1, 59s, -7),
          admits(60s, 10, 0),
      });
}

TEST(FixedWindow, RefundsOnlyWhileTheWindowOfTheChargeRuns) {
  timeline::of(FixedWindow::create({10, 1min}))
      .runs({
          admits(0s, 8, 2),
          refunds(59s, 3, 0s, 5),
          refunds(59s, 100, 0s, 10),
          admits(59s, 10, 0),
          refunds(60s, 4, 0s, 10),
          admits(61s, 7, 3),
          refunds(61s, 4, 0s, 3),
          refunds(62s, 4, 61s, 7),
      });
}

TEST(FixedWindow, MintsNothingWhenTheClockRunsBackwards) {
  timeline::of(FixedWindow::create({10, 1min}))
      .runs({
          admits(100s, 10, 0),
          waits(10s, 1, 150s, 0),
          waits(159s, 1, 1s, 0),
          admits(160s, 1, 9),
      });
}

// Windows of 80 s and 40 s in turn, from 0 s.
Result<FixedWindow> ten_on_the_calendar() {
  return FixedWindow::create({10, 1min}, std::make_shared<reference::UnevenEnds>(1min));
}

TEST(CalendarWindow, EndsWhereTheCalendarSaysWheneverItsFirstRequestCame) {
  timeline::of(ten_on_the_calendar())
      .runs({
          admits(50s, 10, 0),
          waits(50s, 1, 30s, 0),
          waits(80s - 1ns, 1, 1ns, 0),
          admits(80s, 4, 6),
          waits(81s, 7, 39s, 6),
          admits(199s, 10, 0),  // the window from 120 s on had no request
          admits(200s, 10, 0),
      });
}

TEST(CalendarWindow, RefundsOnlyWhileTheWindowOfTheChargeRuns) {
  timeline::of(ten_on_the_calendar())
      .runs({
          admits(10s, 8, 2),
          refunds(79s, 3, 10s, 5),
          refunds(80s, 3, 10s, 10),
          admits(90s, 7, 3),
          refunds(91s, 4, 79s, 3),
          refunds(91s, 4, 90s, 7),
      });
}

TEST(CalendarWindow, MintsNothingWhenTheClockRunsBackwards) {
  timeline::of(ten_on_the_calendar())
      .runs({
          admits(130s, 10, 0),
          waits(10s, 1, 190s, 0),
          waits(199s, 1, 1s, 0),
          admits(200s, 1, 9),
      });
}

TEST(FixedWindow, RefundsAChargeOfAnInstantOutsideTheTimeLine) {
  timeline::of(FixedWindow::create({10, 1min}))
      .runs({
          admits(-5s, 8, 2),
          refunds(-5s, 3, -5s, 5),
          admits(Nanos::max(), 8, 2),
          refunds(Nanos::max(), 3, Nanos::max(), 5),
      });
}

}  // namespace
}  // namespace weir
