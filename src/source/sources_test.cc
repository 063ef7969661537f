// Sources wired together, in stepped time and with a real server; more through the daemon, in app.
#include "source/sources.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <future>

#include "net/upstream_for_test.h"
#include "weir/time/simulated_time.h"

namespace weir::source {
namespace {

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
  bool put(const std::string& name, const std::string& url) {
    std::promise<bool> stored;
    sources->put({.name = name, .url = url}, "test", into(stored));
    return stored.get_future().get();
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

}  // namespace
}  // namespace weir::source
