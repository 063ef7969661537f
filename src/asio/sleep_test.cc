#include "weir/asio/sleep.h"

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/strand.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "asio/loop.h"
#include "control/jump_timer.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

struct AsyncSleep : testing::Test {
  Loop loop;
  const Instant start = loop.time.now();
  asio::cancellation_signal signal;
  std::vector<Instant> woken;
  Errc code{};

  auto wakes() {
    return asio::bind_executor(loop.io, [this](const Result<void>& slept) {
      woken.push_back(loop.time.now());
      if (!slept) code = slept.error().code;
    });
  }
  void cancellable_sleep(Nanos length) {
    async_sleep_until(loop.time.source(), start + length,
                      asio::bind_cancellation_slot(signal.slot(), wakes()));
  }
};

TEST_F(AsyncSleep, WakesInOrderAtTheirInstants) {
  for (const Nanos length : {3s, 1s, 2s}) {
    async_sleep_until(loop.time.source(), start + length, wakes());
  }
  loop.run();
  EXPECT_EQ(woken, (std::vector<Instant>{start + 1s, start + 2s, start + 3s}));
}

TEST_F(AsyncSleep, WakesAtOnceFromAnInstantInThePast) {
  async_sleep_until(loop.time.source(), start - 1s, wakes());
  async_sleep_until(loop.time.source(), start, wakes());
  EXPECT_TRUE(woken.empty()) << "but not inside the initiating function";
  loop.settle();
  EXPECT_EQ(woken, (std::vector<Instant>{start, start}));
  EXPECT_FALSE(loop.time.next_alarm());
}

TEST_F(AsyncSleep, ACoroutineAwaitsIt) {
  const auto sleeper = [&]() -> asio::awaitable<bool> {
    const Result<void> slept = co_await async_sleep_until(loop.time.source(), start + 1s);
    co_return slept.has_value();
  };
  EXPECT_TRUE(loop.get(sleeper()));
  EXPECT_EQ(loop.time.now(), start + 1s);
}

TEST_F(AsyncSleep, IsCancelledAndDisarmed) {
  cancellable_sleep(1h);
  signal.emit(asio::cancellation_type::terminal);
  loop.settle();
  EXPECT_EQ(code, Errc::kCancelled);
  EXPECT_EQ(woken, std::vector<Instant>{start});
  EXPECT_FALSE(loop.time.next_alarm());
}

TEST_F(AsyncSleep, ACancellationAfterTheAlarmComesTooLate) {
  code = Errc::kUnavailable;
  cancellable_sleep(1s);
  loop.time.advance(1s);
  signal.emit(asio::cancellation_type::terminal);
  loop.settle();
  EXPECT_EQ(woken.size(), 1U);
  EXPECT_EQ(code, Errc::kUnavailable);
}

TEST_F(AsyncSleep, ATimerMayRingInsideArm) {
  JumpTimer timer{loop.time};
  async_sleep_until(timer.source(), start + 1s,
                    asio::bind_cancellation_slot(signal.slot(), wakes()));
  loop.settle();
  EXPECT_EQ(woken, std::vector<Instant>{start + 1s});
}

// Real threads: sleeps that end on the timer's thread while they are cancelled on their strands.
TEST(AsyncSleepThreads, CancellationsRaceWithTheTimer) {
  constexpr std::size_t kSleeps = 600;
  const TimeSource time = TimeSource::system();
  asio::io_context io;
  std::vector<std::unique_ptr<asio::cancellation_signal>> signals;
  std::atomic<std::size_t> slept = 0;
  std::atomic<std::size_t> cancelled = 0;
  for (std::size_t i = 0; i < kSleeps; ++i) {
    auto& signal = *signals.emplace_back(std::make_unique<asio::cancellation_signal>());
    const auto strand = asio::make_strand(io);
    asio::post(strand, [&, strand, i] {
      async_sleep_until(time, time.clock.now() + Nanos{i % 50 * 1'000},
                        asio::bind_cancellation_slot(
                            signal.slot(), asio::bind_executor(strand, [&](Result<void> result) {
                              ++(result ? slept : cancelled);
                            })));
      asio::post(strand, [&signal] { signal.emit(asio::cancellation_type::terminal); });
    });
  }
  {
    std::vector<std::jthread> runners;
    for (int i = 0; i < 3; ++i) runners.emplace_back([&] { io.run(); });
  }
  EXPECT_EQ(slept + cancelled, kSleeps);
}

}  // namespace
}  // namespace weir
