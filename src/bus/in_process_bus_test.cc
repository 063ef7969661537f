#include "weir/bus/in_process_bus.h"

#include <gtest/gtest.h>

#include <atomic>

namespace weir {
namespace {

TEST(InProcessBus, SettlesWhenAllHasBeenDelivered) {
  const auto bus = make_in_process_bus();
  std::atomic<int> heard = 0;
  const auto subscription = bus->subscribe("x", [&](std::string_view) { ++heard; });
  for (int i = 1; i <= 1000; ++i) {
    ASSERT_TRUE(bus->publish("x", ""));
    bus->settle();
    ASSERT_EQ(heard, i);
  }
  EXPECT_EQ(bus->status().delivered, 1000);
}

TEST(InProcessBus, SettlesAfterWhatHandlersPublish) {
  const auto bus = make_in_process_bus();
  std::atomic<int> left = 100;
  const auto ping = bus->subscribe(
      "ping", [&](std::string_view) { static_cast<void>(bus->publish("pong", "")); });
  const auto pong = bus->subscribe("pong", [&](std::string_view) {
    if (--left > 0) static_cast<void>(bus->publish("ping", ""));
  });
  ASSERT_TRUE(bus->publish("ping", ""));
  bus->settle();
  EXPECT_EQ(left, 0);
}

TEST(InProcessBus, SettlesWhenThereIsNothingOrNobody) {
  const auto bus = make_in_process_bus();
  bus->settle();
  ASSERT_TRUE(bus->publish("nobody", ""));
  bus->settle();
  bus->close();
  bus->settle();
}

}  // namespace
}  // namespace weir
