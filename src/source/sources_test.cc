// Sources wired together, in stepped time and with a real server; more through the daemon, in app.
#include "source/sources.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "net/upstream_for_test.h"
#include "provider/resources_for_test.h"
#include "weir/time/simulated_time.h"

namespace weir::source {
namespace {

using namespace std::chrono_literals;

struct SourcesTest : testing::Test {
  SourcesTest() {
    auto opened = Sources::open({.resources = resources,
                                 .events = events,
                                 .log = log,
                                 .time = time.source(),
                                 .tls = nullptr,
                                 .store = {}});
    EXPECT_TRUE(opened);
    sources = std::move(*opened);
  }
  static Sources::Done into(std::promise<bool>& stored) {
    return [&stored](Result<Sources::Changed> changed) {
      stored.set_value(changed && changed->stored);
    };
  }
  void limit(LimitSpec spec) {
    ProviderConfig config = provider("world", {{.spec = std::move(spec)}});
    config.domain = "127.0.0.1";
    ASSERT_TRUE(resources.apply({config}));
  }
  // And nothing is under way.
  void until_fetched(int count) {
    const auto done = [&] {
      const Summary now = sources->summary();
      return fetched >= count && now.queued + now.running == 0;
    };
    while (!done()) {
      time.advance(0ns);  // for an alarm that was set while time went on
      std::this_thread::yield();
    }
  }
  bool put(const std::string& name, const std::string& url) {
    std::promise<bool> stored;
    sources->put({.name = name, .url = url, .every = 1h}, "test", into(stored));
    return stored.get_future().get();
  }
  void put_many(int count) {
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(put(fmt::format("s{}", i), fmt::format("http://127.0.0.1:{}/", world.port())));
    }
  }
  bool remove(const std::string& name) {
    std::promise<bool> stored;
    sources->remove(name, "test", into(stored));
    return stored.get_future().get();
  }

  SimulatedTime time;
  server::Log log{-1, server::Log::Format::kText, time};
  server::EventHub events{time.source()};
  Resources resources{GateMaking{time.source()}};
  std::atomic<int> fetched = 0;
  net::RawServer world{[this](net::Peer& peer) {
    for (; !peer.request().empty(); ++fetched) peer.send(net::answer_of("{}"));
  }};
  std::unique_ptr<Sources> sources;
};

TEST_F(SourcesTest, OneThatIsRemovedWhileItRunsIsNotScheduled) {
  const net::RawServer silent{[](net::Peer& peer) { peer.wait_for_end(); }};
  ASSERT_TRUE(put("a", fmt::format("http://127.0.0.1:{}/", silent.port())));
  while (sources->summary().running == 0) std::this_thread::yield();
  ASSERT_TRUE(remove("a"));
  const std::string metrics = sources->metrics();
  EXPECT_TRUE(metrics.contains("weir_sources{state=\"scheduled\"} 0\n")) << metrics;
  EXPECT_TRUE(metrics.contains("weir_sources{state=\"running\"} 1\n")) << metrics;
  sources->stop();
}

// A look each second would find one.
TEST_F(SourcesTest, ABucketWithoutABurstIsUsedAsSoonAsItHasSomething) {
  limit(LimitSpec::token_bucket(Unit::kRequests, {600, 1min}, 1));
  put_many(11);
  for (int i = 1; i <= 10; ++i) {
    until_fetched(i);
    EXPECT_EQ(fetched, i);
    time.advance(100ms);
  }
  until_fetched(11);
  sources->stop();
}

TEST_F(SourcesTest, ASlotIsUsedAgainSoonAfterItIsFree) {
  limit(LimitSpec::concurrency(1));
  Gate& gate = resources.find("world")->gate();
  gate.hold_until(kEndOfTime);
  put_many(10);
  gate.resume();
  time.advance(Sources::kCycle);
  for (int i = 1; i <= 9; ++i) {
    until_fetched(i);
    time.advance(Sources::kCycleLeast);
  }
  until_fetched(10);
  sources->stop();
}

TEST_F(SourcesTest, AQueryWithoutAKeyIsNotTakenForOne) {
  limit(LimitSpec::concurrency(1));
  resources.find("world")->gate().hold_until(kEndOfTime);
  EXPECT_TRUE(put("a", "http://127.0.0.1/x?&a=1&&b=2&"));
  EXPECT_FALSE(put("b", "http://127.0.0.1/x?&a=1&access_token=2"));
  sources->stop();
}

}  // namespace
}  // namespace weir::source
