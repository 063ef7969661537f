#include "weir/core/sliding_window.h"

#include <gtest/gtest.h>

#include "core/timeline.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using timeline::admits;
using timeline::never;
using timeline::owes;
using timeline::refunds;
using timeline::waits;

// S1.6: with 7 in the previous window, 25% of it overlapping and 3 in the current one, the count is
// 4.75: of a limit of 10 there are 5 whole ones left.
TEST(SlidingWindow, CountsSevenAtAQuarterAndThreeAsFourAndThreeQuarters) {
  timeline::of(SlidingWindow::create({10, 4s}))
      .runs({
          admits(0s, 7, 3),
          admits(7s, 3, 5),
          waits(7s, 6, 428'571'429ns, 5),
          admits(7'428'571'429ns, 6, 0),
      });
}

// S1.6: the same 4.75, in hundredths.
TEST(SlidingWindow, CountsSevenHundredAtAQuarterAndThreeHundredAsFourHundredSeventyFive) {
  timeline::of(SlidingWindow::create({700, 4s}))
      .runs({
          admits(0s, 700, 0),
          admits(7s, 300, 700 - 475),
      });
}

TEST(SlidingWindow, FadesThePreviousWindowOut) {
  timeline::of(SlidingWindow::create({10, 10s}))
      .runs({
          admits(0s, 10, 0),
          waits(0s, 1, 11s, 0),
          waits(10s, 1, 1s, 0),
          waits(11s - 1ns, 1, 1ns, 0),
          admits(11s, 1, 0),
          admits(15s, 4, 0),
          waits(15s, 10, 15s, 0),
          waits(30s - 1ns, 10, 1ns, 9),
          admits(30s, 10, 0),
      });
}

TEST(SlidingWindow, CountsNothingAfterTwoWindows) {
  timeline::of(SlidingWindow::create({10, 10s}))
      .runs({
          admits(9s, 10, 0),
          waits(20s - 1ns, 10, 1ns, 9),
          admits(20s, 10, 0),
          admits(1h, 10, 0),
      });
}

TEST(SlidingWindow, StandsOnTheGridThatBeganWithItsStart) {
  timeline::of(SlidingWindow::create({10, 10s}), 100s)
      .runs({
          admits(109s, 10, 0),
          waits(109s, 5, 6s, 0),  // half of the window that begins at 110 s
          admits(115s, 5, 0),
      });
}

TEST(SlidingWindow, SaysNeverToMoreThanItsLimit) {
  timeline::of(SlidingWindow::create({10, 1s})).runs({never(0s, 11, 10), admits(0s, 10, 0)});
}

TEST(SlidingWindow, CarriesADebtIntoTheNextWindow) {
  timeline::of(SlidingWindow::create({10, 10s}))
      .runs({
          owes(0s, 40, -30),
          waits(0s, 1, 17'750ms, -30),
          waits(17'750ms - 1ns, 1, 1ns, 0),
          admits(17'750ms, 1, 0),
          admits(20s, 9, 0),
      });
}

TEST(SlidingWindow, RefundsOnlyWhileTheWindowOfTheChargeIsCurrent) {
  timeline::of(SlidingWindow::create({10, 10s}))
      .runs({
          admits(0s, 8, 2),
          refunds(9s, 3, 0s, 5),
          refunds(10s, 5, 0s, 5),
          refunds(15s, 5, 0s, 7),
          admits(15s, 4, 3),
          refunds(16s, 40, 15s, 8),
      });
}

TEST(SlidingWindow, MintsNothingWhenTheClockRunsBackwards) {
  timeline::of(SlidingWindow::create({10, 10s}))
      .runs({
          admits(0s, 4, 6),
          admits(15s, 5, 3),
          admits(3s, 1, 0),
          waits(3s, 1, 9'500ms, 0),
          admits(12'500ms, 1, 0),
      });
}

TEST(SlidingWindow, RefundsAChargeOfAnInstantOutsideTheTimeLine) {
  timeline::of(SlidingWindow::create({10, 1min}))
      .runs({
          admits(-5s, 8, 2),
          refunds(-5s, 3, -5s, 5),
          admits(Nanos::max(), 8, 2),
          refunds(Nanos::max(), 3, Nanos::max(), 5),
      });
}

}  // namespace
}  // namespace weir
