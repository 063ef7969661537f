// What every bus promises. Those that have a server use a real one.
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <thread>
#include <utility>

#include "bus/bus_for_test.h"
#include "bus/nats_for_test.h"
#include "redis/redis_for_test.h"
#include "weir/bus/in_process_bus.h"

namespace weir::bus {
namespace {

using Bus = std::shared_ptr<MessageBus>;
using Subscription = std::unique_ptr<MessageBus::Subscription>;

// Where a bus comes from, and what can happen to it.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;
  virtual Bus connect() = 0;
  virtual void kill() {}
  virtual void start() {}
  virtual void freeze() {}
  virtual void thaw() {}
};

class InProcess final : public Backend {
 public:
  Bus connect() override { return bus_; }

 private:
  const Bus bus_ = make_in_process_bus();
};

template <class Server>
class Served final : public Backend {
 public:
  Bus connect() override {
    auto bus = connect_bus({.url = server_.url(), .name = "test", .ca_file = ""});
    EXPECT_TRUE(bus) << bus.error().message;
    return *bus;
  }
  void kill() override { server_.kill(); }
  void start() override { server_.start(); }
  void freeze() override { server_.freeze(); }
  void thaw() override { server_.thaw(); }

 private:
  Server server_;
};

struct Kind {
  const char* name;
  std::unique_ptr<Backend> (*make)();
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

template <class Made>
std::unique_ptr<Backend> make() {
  return std::make_unique<Made>();
}
const Kind kInProcess{"InProcess", make<InProcess>};
const Kind kNats{"Nats", make<Served<NatsServer>>};
const Kind kRedis{"Redis", make<Served<redis::RedisServer>>};

class BusTest : public testing::TestWithParam<Kind> {
 protected:
  Bus connect() {
    Bus bus = backend_->connect();
    EXPECT_TRUE(is_ready(*bus)) << bus->status().failure;
    return bus;
  }
  static Subscription listen(const Bus& bus, std::string_view subject,
                             MessageBus::Handler handler) {
    auto made = bus->subscribe(subject, std::move(handler));
    EXPECT_TRUE(made) << made.error().message;
    EXPECT_TRUE(is_ready(*bus));
    return std::move(*made);
  }

  const std::unique_ptr<Backend> backend_ = GetParam().make();
};

// Those with a server.
class ServedBusTest : public BusTest {};

std::string name_of(const testing::TestParamInfo<Kind>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Every, BusTest, testing::Values(kInProcess, kNats, kRedis), name_of);
INSTANTIATE_TEST_SUITE_P(Every, ServedBusTest, testing::Values(kNats, kRedis), name_of);

// S0.10
TEST_P(BusTest, EverythingArrivesInThePublishersOrder) {
  const Bus publisher = connect();
  const Bus listener = connect();
  Heard heard;
  const auto subscription = listen(listener, "order", heard.handler());
  std::vector<std::string> told;
  for (int i = 0; i < 2000; ++i) {
    told.push_back(std::to_string(i));
    ASSERT_TRUE(tell(*publisher, "order", told.back()));
  }
  ASSERT_TRUE(heard.waits_for(told.size()));
  EXPECT_EQ(heard.all(), told);
}

// S0.10
TEST_P(BusTest, TwoPublishersKeepTheirOwnOrders) {
  const Bus listener = connect();
  Heard heard;
  const auto subscription = listen(listener, "order", heard.handler());
  constexpr int kEach = 1000;
  {
    std::vector<std::jthread> threads;
    for (const char* name : {"a", "b"}) {
      threads.emplace_back([this, name] {
        const Bus publisher = connect();
        for (int i = 0; i < kEach; ++i) {
          EXPECT_TRUE(tell(*publisher, "order", name + std::to_string(i)));
        }
        EXPECT_TRUE(eventually([&] { return publisher->status().published >= kEach; }));
      });
    }
    ASSERT_TRUE(heard.waits_for(2 * kEach));
  }
  int next[2] = {};
  for (const std::string& message : heard.all()) {
    int& expected = next[message[0] - 'a'];
    ASSERT_EQ(message.substr(1), std::to_string(expected++));
  }
}

TEST_P(BusTest, APublisherHearsItself) {
  const Bus bus = connect();
  Heard heard;
  const auto subscription = listen(bus, "self", heard.handler());
  EXPECT_TRUE(bus->publish("self", "hello"));
  EXPECT_TRUE(heard.waits_for(1));
  EXPECT_TRUE(eventually([&] { return bus->status().delivered == 1; }));
  EXPECT_EQ(bus->status().published, 1);
  EXPECT_EQ(bus->status().dropped, 0);
}

TEST_P(BusTest, EverySubscriptionOfASubjectHears) {
  const Bus one = connect();
  const Bus other = connect();
  Heard heard[4];
  std::vector<Subscription> subscriptions;
  for (int i = 0; i < 4; ++i) {
    subscriptions.push_back(listen(i < 3 ? one : other, "many", heard[i].handler()));
  }
  EXPECT_TRUE(one->publish("many", "1"));
  for (const Heard& each : heard) EXPECT_TRUE(each.waits_for(1));

  subscriptions.erase(subscriptions.begin());
  EXPECT_TRUE(one->publish("many", "2"));
  for (int i = 1; i < 4; ++i) EXPECT_TRUE(heard[i].waits_for(2));
  EXPECT_EQ(heard[0].count(), 1);
}

TEST_P(BusTest, OtherSubjectsAreNotHeard) {
  const Bus bus = connect();
  Heard heard;
  const auto subscription = listen(bus, "a.b", heard.handler());
  for (const char* subject : {"a", "b", "a.b.c", "a.bc", "A.b", "a.b"}) {
    EXPECT_TRUE(bus->publish(subject, subject));
  }
  EXPECT_TRUE(heard.waits_for(1));
  EXPECT_EQ(heard.all(), std::vector<std::string>{"a.b"});
}

TEST_P(BusTest, ASubscriptionEndsInItsOwnHandler) {
  const Bus bus = connect();
  Heard heard;
  std::atomic<int> calls = 0;
  Subscription ending;
  const auto token = std::make_shared<int>();
  ending = listen(bus, "end", [&, token](std::string_view) {
    ++calls;
    ending.reset();
    EXPECT_GE(token.use_count(), 2) << "the handler is still there";
  });
  const auto staying = listen(bus, "end", heard.handler());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(bus->publish("end", ""));
  EXPECT_TRUE(heard.waits_for(3));
  EXPECT_TRUE(eventually([&] { return token.use_count() == 1; }));
  EXPECT_EQ(calls, 1);
}

TEST_P(BusTest, AHandlerEndsAnotherSubscription) {
  const Bus bus = connect();
  Heard ended;
  Heard marks;
  auto victim = listen(bus, "victim", ended.handler());
  const auto killer = listen(bus, "kill", [&](std::string_view) { victim.reset(); });
  const auto marker = listen(bus, "mark", marks.handler());
  EXPECT_TRUE(bus->publish("kill", ""));
  EXPECT_TRUE(eventually([&] { return bus->status().delivered == 1; }));
  EXPECT_TRUE(bus->publish("victim", ""));
  EXPECT_TRUE(bus->publish("mark", ""));
  EXPECT_TRUE(marks.waits_for(1));
  EXPECT_EQ(ended.count(), 0);
}

TEST_P(BusTest, NoHandlerRunsAfterItsSubscriptionHasEnded) {
  const Bus bus = connect();
  std::atomic<bool> stop = false;
  std::jthread publisher{[&] {
    while (!stop) static_cast<void>(bus->publish("flow", "x"));
  }};
  struct Watched {
    std::atomic<int> heard = 0;
    std::atomic<bool> ended = false;
  };
  std::atomic<int> late = 0;
  std::vector<std::unique_ptr<Watched>> all;
  for (int round = 0; round < 10; ++round) {
    Watched& watched = *all.emplace_back(std::make_unique<Watched>());
    auto subscription = listen(bus, "flow", [&](std::string_view) {
      ++watched.heard;
      for (int i = 0; i < 5 && !watched.ended; ++i) std::this_thread::yield();
      if (watched.ended) ++late;
    });
    EXPECT_TRUE(eventually([&] { return watched.heard > 0; }));
    subscription.reset();
    watched.ended = true;
  }
  EXPECT_EQ(late, 0);
  stop = true;
}

// S0.10
TEST_P(BusTest, ASlowSubscriberIsBoundedAndDelaysNobody) {
  const Bus bus = connect();
  std::latch go{1};
  std::latch entered{1};
  std::atomic<std::size_t> slow = 0;
  Heard fast;
  const auto stuck = listen(bus, "load", [&](std::string_view) {
    if (slow++ == 0) {
      entered.count_down();
      go.wait();
    }
  });
  const auto quick = listen(bus, "load", fast.handler());
  EXPECT_TRUE(bus->publish("load", "0"));
  entered.wait();
  const std::uint64_t before = bus->status().dropped;

  constexpr std::size_t kTooMany = 100;
  constexpr std::size_t kTotal = 1 + MessageBus::kPendingMax + kTooMany;
  for (std::size_t i = 1; i < kTotal; ++i) {
    ASSERT_TRUE(bus->publish("load", std::to_string(i)));
    ASSERT_TRUE(i % 100 != 0 || fast.waits_for(i));
  }
  EXPECT_TRUE(fast.waits_for(kTotal));
  EXPECT_EQ(fast.count(), kTotal);
  EXPECT_EQ(slow, 1);
  EXPECT_TRUE(eventually([&] { return bus->status().dropped == before + kTooMany; }))
      << bus->status().dropped;
  go.count_down();
  EXPECT_TRUE(eventually([&] { return slow == 1 + MessageBus::kPendingMax; })) << slow;
}

TEST_P(BusTest, ClosesFromAnyThreadAndMoreThanOnce) {
  const Bus bus = connect();
  Heard heard;
  const auto subscription = listen(bus, "x", heard.handler());
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&] { bus->close(); });
  }
  bus->close();
  EXPECT_EQ(bus->publish("x", "").error(), Errc::kClosed);
  EXPECT_EQ(bus->subscribe("x", heard.handler()).error(), Errc::kClosed);
  EXPECT_TRUE(eventually([&] { return !bus->status().connected; }));
  EXPECT_EQ(heard.count(), 0);
}

TEST_P(BusTest, ClosesInHandlers) {
  const Bus bus = connect();
  std::latch both{2};
  std::atomic<int> closed = 0;
  std::vector<Subscription> subscriptions;
  for (int i = 0; i < 2; ++i) {
    subscriptions.push_back(listen(bus, "close", [&](std::string_view) {
      both.arrive_and_wait();
      bus->close();
      ++closed;
    }));
  }
  EXPECT_TRUE(bus->publish("close", "1"));
  static_cast<void>(bus->publish("close", "2"));
  EXPECT_TRUE(eventually([&] { return closed == 2; }));
  bus->close();
  EXPECT_EQ(closed, 2);
}

TEST_P(BusTest, IsDestroyedInItsHandler) {
  Bus bus = connect();
  const std::weak_ptr<MessageBus> watched = bus;
  const bool shared = bus.use_count() > 1;  // the one in the process is also the backend's
  Subscription subscription;
  std::latch done{1};
  subscription = listen(bus, "end", [&](std::string_view) {
    subscription.reset();
    bus.reset();
    done.count_down();
  });
  EXPECT_TRUE(bus->publish("end", ""));
  done.wait();
  EXPECT_EQ(watched.expired(), !shared);
}

// S0.10
TEST_P(BusTest, ClosesWhileMessagesFlow) {
  const Bus steady = connect();
  std::atomic<bool> stop = false;
  std::atomic<int> heard = 0;
  std::jthread publisher{[&] {
    while (!stop) {
      if (!steady->publish("flow", std::string(100, 'x'))) std::this_thread::yield();
    }
  }};
  const bool alone = std::string_view{GetParam().name} == "InProcess";
  for (int round = 0; round < 10; ++round) {
    const Bus bus = alone ? steady : connect();
    std::vector<Subscription> subscriptions;
    for (int i = 0; i < 10; ++i) {
      subscriptions.push_back(listen(bus, "flow", [&](std::string_view) {
        std::this_thread::yield();
        ++heard;
      }));
    }
    const int before = heard;
    EXPECT_TRUE(eventually([&] { return heard > before; }));
    if (!alone || round == 9) {
      bus->close();
      const int after = heard;
      for (int i = 0; i < 5; ++i) std::this_thread::yield();
      EXPECT_EQ(heard, after);
    }
  }
  stop = true;
}

TEST_P(BusTest, CarriesAnyBytesUpToTheBound) {
  const Bus bus = connect();
  Heard heard;
  const auto subscription = listen(bus, "bytes", heard.handler());
  std::string every;
  for (int i = 0; i < 256; ++i) every += static_cast<char>(i);
  const std::vector<std::string> payloads{"", every, "\r\nPUB x 0\r\n",
                                          std::string(MessageBus::kPayloadMax, '\xff')};
  for (const std::string& payload : payloads) EXPECT_TRUE(bus->publish("bytes", payload));
  EXPECT_EQ(bus->publish("bytes", std::string(MessageBus::kPayloadMax + 1, 'x')).error(),
            Errc::kInvalidConfig);
  EXPECT_TRUE(heard.waits_for(payloads.size()));
  EXPECT_EQ(heard.all(), payloads);
}

TEST_P(BusTest, RefusesWhatIsNoSubject) {
  const Bus bus = connect();
  for (const std::string& subject :
       {std::string{}, std::string{"."}, std::string{"a."}, std::string{".a"}, std::string{"a..b"},
        std::string{"a b"}, std::string{"*"}, std::string{"a.>"}, std::string{"a\r\nPUB"},
        std::string{"\xc3\xa4"}, std::string(1, '\0'), std::string(201, 'a')}) {
    EXPECT_FALSE(is_subject(subject)) << subject;
    EXPECT_EQ(bus->publish(subject, "").error(), Errc::kInvalidConfig) << subject;
    EXPECT_EQ(bus->subscribe(subject, [](std::string_view) {}).error(), Errc::kInvalidConfig);
  }
  for (const std::string& subject :
       {std::string{"a"}, std::string{"ratelimit.capacity"}, std::string{"weir.hold"},
        std::string{"-_.A9"}, std::string(200, 'a')}) {
    EXPECT_TRUE(is_subject(subject)) << subject;
    Heard heard;
    const auto subscription = listen(bus, subject, heard.handler());
    EXPECT_TRUE(bus->publish(subject, ""));
    EXPECT_TRUE(heard.waits_for(1)) << subject;
  }
}

// S0.10
TEST_P(BusTest, HasAThousandSubscriptionsOnOneConnection) {
  const Bus bus = connect();
  constexpr int kSubscriptions = 1000;
  std::atomic<int> together = 0;
  std::atomic<int> apart = 0;
  std::vector<Subscription> subscriptions;
  for (int i = 0; i < kSubscriptions; ++i) {
    auto one = bus->subscribe("together", [&](std::string_view) { ++together; });
    auto other = bus->subscribe("apart." + std::to_string(i), [&apart, i](std::string_view told) {
      if (told == std::to_string(i)) ++apart;
    });
    ASSERT_TRUE(one && other);
    subscriptions.push_back(std::move(*one));
    subscriptions.push_back(std::move(*other));
  }
  ASSERT_TRUE(is_ready(*bus));
  EXPECT_TRUE(bus->publish("together", ""));
  for (int i = 0; i < kSubscriptions; ++i) {
    EXPECT_TRUE(tell(*bus, "apart." + std::to_string(i), std::to_string(i)));
  }
  EXPECT_TRUE(eventually([&] { return together == kSubscriptions && apart == kSubscriptions; }))
      << together << " " << apart;
}

// S0.10
TEST_P(ServedBusTest, SurvivesARestartOfTheServer) {
  const Bus bus = connect();
  const Bus other = connect();
  Heard heard;
  const auto subscription = listen(bus, "restart", heard.handler());
  for (std::size_t round = 1; round <= 3; ++round) {
    ASSERT_TRUE(tell(*other, "restart", std::to_string(round)));
    ASSERT_TRUE(heard.waits_for(round)) << round;
    backend_->kill();
    for (const Bus& each : {bus, other}) {
      ASSERT_TRUE(eventually([&] { return !each->status().connected; }));
      EXPECT_EQ(each->publish("restart", "lost").error(), Errc::kUnavailable);
      EXPECT_FALSE(each->status().failure.empty());
    }
    backend_->start();
    ASSERT_TRUE(is_ready(*bus));
    ASSERT_TRUE(is_ready(*other));
    EXPECT_EQ(bus->status().failure, "");
    EXPECT_GE(bus->status().connects, round + 1);
  }
  EXPECT_GE(bus->status().dropped, 3);
  EXPECT_EQ(heard.all(), (std::vector<std::string>{"1", "2", "3"}));
}

TEST_P(ServedBusTest, ConnectsToAServerThatComesLater) {
  backend_->kill();
  const Bus bus = backend_->connect();
  Heard heard;
  auto subscription = bus->subscribe("late", heard.handler());
  EXPECT_EQ(bus->publish("late", "").error(), Errc::kUnavailable);
  EXPECT_TRUE(eventually([&] { return !bus->status().failure.empty(); }));
  backend_->start();
  ASSERT_TRUE(is_ready(*bus));
  EXPECT_TRUE(bus->publish("late", ""));
  EXPECT_TRUE(heard.waits_for(1));
}

// S0.10: were a call to wait for the server, this would never end.
TEST_P(ServedBusTest, AFrozenServerDelaysNoCall) {
  const Bus bus = connect();
  Heard heard;
  const auto subscription = listen(bus, "frozen", heard.handler());
  backend_->freeze();
  const std::string payload(1000, 'x');
  std::size_t refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    if (!bus->publish("frozen", payload)) ++refused;
    if (i % 1000 == 0) {
      static_cast<void>(bus->status());
      EXPECT_TRUE(bus->subscribe("frozen." + std::to_string(i), heard.handler()));
    }
  }
  EXPECT_GT(refused, 0) << "what waits to be sent is bounded";
  EXPECT_TRUE(eventually([&] { return !bus->status().connected; })) << "and found to be frozen";
  EXPECT_EQ(bus->publish("frozen", "").error(), Errc::kUnavailable);
  backend_->thaw();
  ASSERT_TRUE(is_ready(*bus));
  EXPECT_TRUE(bus->publish("frozen", "thawed"));
  EXPECT_TRUE(eventually([&] {
    const auto all = heard.all();
    return !all.empty() && all.back() == "thawed";
  }));
}

TEST_P(ServedBusTest, AnIdleConnectionToAFrozenServerIsFound) {
  const Bus bus = connect();
  backend_->freeze();
  EXPECT_TRUE(eventually([&] { return !bus->status().connected; }));
  backend_->thaw();
  EXPECT_TRUE(is_ready(*bus));
}

TEST_P(ServedBusTest, EndsWhileTheServerIsFrozen) {
  Bus bus = connect();
  Bus before = backend_->connect();
  backend_->freeze();
  Bus connecting = backend_->connect();
  for (int i = 0; i < 1000; ++i) static_cast<void>(bus->publish("frozen", std::string(1000, 'x')));
  for (Bus* each : {&bus, &before, &connecting}) {
    (*each)->close();
    each->reset();
  }
}

}  // namespace
}  // namespace weir::bus
