// Cancelling waits: by signal, by coroutine, and while they end for another reason. S1.5
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "asio/loop.h"
#include "weir/asio/acquire.h"
#include "weir/asio/sleep.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;
using asio::cancellation_type;

struct CancellationTest : testing::Test {
  Loop loop;
  std::unique_ptr<Gate> slots =
      Gate::create({.name = "slots", .limits = {LimitSpec::concurrency(1)}}, loop.time.source())
          .value();
  const Request call;
  asio::cancellation_signal signal;
  int completions = 0;
  Result<Permit> outcome = fail(Errc::kUnavailable);

  // Nobody else has a slot until this is destroyed.
  Permit only_slot() { return slots->try_acquire(call).value(); }

  void wait() {
    async_acquire(*slots, call,
                  asio::bind_cancellation_slot(
                      signal.slot(), asio::bind_executor(loop.io, [this](Result<Permit> result) {
                        ++completions;
                        outcome = std::move(result);
                      })));
  }
};

TEST_F(CancellationTest, EachTypeEndsTheWaitWithoutATrace) {
  const Permit held = only_slot();
  const GateMetrics before = slots->metrics();
  for (const cancellation_type type :
       {cancellation_type::terminal, cancellation_type::partial, cancellation_type::total}) {
    completions = 0;
    wait();
    EXPECT_EQ(slots->metrics().waiting, 1U);
    signal.emit(type);
    EXPECT_EQ(slots->metrics().waiting, 0U);
    EXPECT_EQ(completions, 0) << "the handler is not run by whoever cancels";
    loop.run();
    EXPECT_EQ(completions, 1);
    EXPECT_EQ(outcome.error(), Errc::kCancelled);
  }
  EXPECT_EQ(slots->metrics().acquired, before.acquired);
}

TEST_F(CancellationTest, TypeNoneIsNone) {
  const Permit held = only_slot();
  wait();
  signal.emit(cancellation_type::none);
  loop.run();
  EXPECT_EQ(completions, 0);
  signal.emit(cancellation_type::terminal);
  loop.run();
}

TEST_F(CancellationTest, TheSlotIsFreeOnceTheHandlerHasRun) {
  wait();
  EXPECT_TRUE(signal.slot().has_handler());
  loop.run();
  EXPECT_FALSE(signal.slot().has_handler());
  EXPECT_TRUE(outcome);
  signal.emit(cancellation_type::terminal);
  wait();  // behind the permit of the first
  signal.emit(cancellation_type::terminal);
  loop.run();
  EXPECT_EQ(completions, 2);
  EXPECT_EQ(outcome.error(), Errc::kCancelled);
}

TEST_F(CancellationTest, APermitGrantedBeforeTheCancellationIsKept) {
  std::optional<Permit> held{only_slot()};
  wait();
  held.reset();
  signal.emit(cancellation_type::terminal);
  loop.run();
  EXPECT_EQ(completions, 1);
  EXPECT_TRUE(outcome);
}

TEST_F(CancellationTest, ASecondCancellationChangesNothing) {
  const Permit held = only_slot();
  wait();
  signal.emit(cancellation_type::terminal);
  signal.emit(cancellation_type::terminal);
  loop.run();
  EXPECT_EQ(completions, 1);
}

TEST_F(CancellationTest, ASignalMayGoBeforeACompletionThatIsNeverRun) {
  auto context = std::make_unique<asio::io_context>();
  auto own = std::make_unique<asio::cancellation_signal>();
  async_acquire(
      *slots, call,
      asio::bind_cancellation_slot(own->slot(), asio::bind_executor(*context, asio::detached)));
  context.reset();
  EXPECT_TRUE(slots->try_acquire(call));
  own->emit(cancellation_type::terminal);
}

TEST_F(CancellationTest, ACoroutineIsCancelledFromOutside) {
  const Permit held = only_slot();
  Errc code{};
  const auto waiting = [&]() -> asio::awaitable<void> {
    code = (co_await async_acquire(*slots, call)).error().code;
  };
  asio::co_spawn(loop.io, waiting, asio::bind_cancellation_slot(signal.slot(), asio::detached));
  loop.run();
  EXPECT_EQ(slots->metrics().waiting, 1U);
  signal.emit(cancellation_type::terminal);
  loop.run();
  EXPECT_EQ(code, Errc::kCancelled);
  EXPECT_EQ(slots->metrics().waiting, 0U);
}

TEST_F(CancellationTest, ASleepIsADeadlineToo) {
  const Permit held = only_slot();
  const Instant until = loop.time.now() + 5s;
  const auto race = [&]() -> asio::awaitable<std::size_t> {
    const auto first = co_await (async_acquire(*slots, call, asio::use_awaitable) ||
                                 async_sleep_until(loop.time.source(), until, asio::use_awaitable));
    co_return first.index();
  };
  EXPECT_EQ(loop.get(race()), 1U);
  EXPECT_EQ(loop.time.now(), until);
  EXPECT_EQ(slots->metrics().waiting, 0U);
}

// A wait that a test begins, ends and cancels by hand.
struct FakeWait {
  struct Ticket {
    std::shared_ptr<int> cancels;
    void cancel() {
      if (cancels != nullptr) ++*cancels;
    }
  };
  std::shared_ptr<int> cancels = std::make_shared<int>(0);
};

TEST_F(CancellationTest, ATicketThatComesAfterTheCancellationIsCancelled) {
  FakeWait wait;
  std::move_only_function<void(Result<void>)> finish;
  initiate<void>(
      [&](auto done) {
        finish = std::move(done);
        signal.emit(cancellation_type::terminal);
        EXPECT_EQ(*wait.cancels, 0);
        return FakeWait::Ticket{wait.cancels};
      },
      asio::bind_cancellation_slot(
          signal.slot(), asio::bind_executor(loop.io, [&](Result<void>) { ++completions; })));
  EXPECT_EQ(*wait.cancels, 1);
  finish({});
  loop.run();
  EXPECT_EQ(completions, 1);
}

TEST_F(CancellationTest, ATicketThatComesAfterTheEndIsDropped) {
  FakeWait wait;
  initiate<void>(
      [&](auto done) {
        done(Result<void>{});
        return FakeWait::Ticket{wait.cancels};
      },
      asio::bind_cancellation_slot(
          signal.slot(), asio::bind_executor(loop.io, [&](Result<void>) { ++completions; })));
  EXPECT_EQ(wait.cancels.use_count(), 1);
  signal.emit(cancellation_type::terminal);
  EXPECT_EQ(*wait.cancels, 0);
  loop.run();
  EXPECT_EQ(completions, 1);
}

// Real threads: three run the handlers, two release, one is the timer; each operation has a strand
// from which it is cancelled, often just as a release serves it.
TEST(CancellationThreads, CancellationsRaceWithGrantsAndDeadlines) {
  constexpr std::size_t kOperations = 1'500;
  constexpr Amount kSlots = 3;
  struct Operation {
    explicit Operation(asio::io_context& io) : strand(asio::make_strand(io)) {}
    asio::strand<asio::io_context::executor_type> strand;
    asio::cancellation_signal signal;
    int completions = 0;
    bool in_strand = false;
  };
  const TimeSource time = TimeSource::system();
  const auto gate =
      Gate::create({.name = "slots", .limits = {LimitSpec::concurrency(kSlots)}}, time).value();
  asio::io_context io;
  asio::thread_pool releasers{2};
  std::atomic<int> granted = 0;
  std::atomic<int> cancelled = 0;
  std::atomic<int> late = 0;

  std::vector<std::unique_ptr<Operation>> operations;
  for (std::size_t i = 0; i < kOperations; ++i) {
    operations.push_back(std::make_unique<Operation>(io));
  }
  const auto cancel = [&](std::size_t index) {
    Operation& operation = *operations[index % kOperations];
    asio::post(operation.strand, [&] { operation.signal.emit(cancellation_type::total); });
  };
  for (std::size_t i = 0; i < kOperations; ++i) {
    Operation& operation = *operations[i];
    auto handler = [&, i](Result<Permit> result) {
      ++operation.completions;
      operation.in_strand = operation.strand.running_in_this_thread();
      if (result) {
        ++granted;
        if (i % 2 == 0) cancel(i + 1 + i % 7);
        asio::post(releasers, [permit = std::move(*result)] {});
      } else {
        ++(result.error() == Errc::kCancelled ? cancelled : late);
      }
    };
    asio::post(operation.strand, [&, i, handler] {
      const Instant deadline = i % 5 == 0 ? time.clock.now() + 500us : kEndOfTime;
      async_acquire(*gate, {.agent = i % 3 == 0 ? "a" : "b"}, deadline,
                    asio::bind_cancellation_slot(operation.signal.slot(),
                                                 asio::bind_executor(operation.strand, handler)));
    });
    if (i % 11 == 0) cancel(i);
  }
  {
    std::vector<std::jthread> runners;
    for (int i = 0; i < 3; ++i) runners.emplace_back([&] { io.run(); });
  }
  releasers.join();

  EXPECT_EQ(static_cast<std::size_t>(granted + cancelled + late), kOperations);
  EXPECT_GT(granted, 0);
  EXPECT_GT(cancelled, 0);
  for (const auto& operation : operations) {
    EXPECT_EQ(operation->completions, 1);
    EXPECT_TRUE(operation->in_strand);
    EXPECT_FALSE(operation->signal.slot().has_handler());
  }
  const GateMetrics metrics = gate->metrics();
  EXPECT_EQ(metrics.waiting, 0U);
  EXPECT_EQ(metrics.acquired, static_cast<std::uint64_t>(granted));
  EXPECT_EQ(metrics.limits[0].available, kSlots);
}

// Real threads: coroutines on strands, of which each abandons the slower of two waits.
TEST(CancellationThreads, CoroutinesAbandonTheSlowerOfTwoWaits) {
  constexpr int kCoroutines = 100;
  constexpr int kRounds = 5;
  const auto make = [] {
    return Gate::create({.name = "slots", .limits = {LimitSpec::concurrency(2)}}).value();
  };
  const std::unique_ptr<Gate> left = make();
  const std::unique_ptr<Gate> right = make();
  asio::io_context io;
  std::atomic<int> rounds = 0;
  const auto worker = [&]() -> asio::awaitable<void> {
    for (int i = 0; i < kRounds; ++i) {
      const auto first = co_await (async_acquire(*left, {}, asio::use_awaitable) ||
                                   async_acquire(*right, {}, asio::use_awaitable));
      if (first.index() == 0 ? std::get<0>(first).has_value() : std::get<1>(first).has_value()) {
        ++rounds;
      }
      co_await asio::post(co_await asio::this_coro::executor, asio::use_awaitable);
    }
  };
  for (int i = 0; i < kCoroutines; ++i) {
    asio::co_spawn(asio::make_strand(io), worker, asio::detached);
  }
  {
    std::vector<std::jthread> runners;
    for (int i = 0; i < 3; ++i) runners.emplace_back([&] { io.run(); });
  }
  EXPECT_EQ(rounds, kCoroutines * kRounds);
  EXPECT_EQ(left->metrics().limits[0].available, 2);
  EXPECT_EQ(right->metrics().limits[0].available, 2);
  EXPECT_EQ(left->metrics().waiting + right->metrics().waiting, 0U);
}

}  // namespace
}  // namespace weir
