// Pub/Sub on a real server.
#include <atomic>
#include <mutex>

#include "redis/client_for_test.h"

namespace weir::redis {
namespace {

class ClientPubSubTest : public ClientTest, public testing::WithParamInterface<int> {
 protected:
  ClientPubSubTest() {
    Options spoken = options(server_.url());
    spoken.protocol = GetParam();
    client_ = connect(spoken);
  }

  bool subscribed() const {
    return eventually([&] { return client_->subscribed(); });
  }
  // How many have heard it, as the server counts.
  std::string publish(const std::string& channel, const std::string& payload) {
    return say(*client_, {"PUBLISH", channel, payload});
  }

  RedisServer server_;
  std::shared_ptr<Client> client_;
};

INSTANTIATE_TEST_SUITE_P(Resp, ClientPubSubTest, testing::Values(2, 3));

TEST_P(ClientPubSubTest, HearsWhatIsPublishedInItsOrder) {
  std::mutex mutex;
  std::vector<std::string> heard;
  client_->subscribe("one", [&](std::string_view payload) {
    const std::lock_guard lock{mutex};
    heard.emplace_back(payload);
  });
  client_->subscribe("two", [](std::string_view) { ADD_FAILURE() << "another channel"; });
  ASSERT_TRUE(subscribed());
  std::vector<std::string> said;
  for (int i = 0; i < 200; ++i) {
    said.push_back(std::to_string(i));
    EXPECT_EQ(publish("one", said.back()), "1");
  }
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard lock{mutex};
    return heard.size() == said.size();
  }));
  EXPECT_EQ(heard, said);
}

TEST_P(ClientPubSubTest, TellsEverySubscriberOfAChannelAndNoneThatHasLeft) {
  std::atomic<int> first = 0;
  std::atomic<int> second = 0;
  const auto one = client_->subscribe("c", [&](std::string_view) { ++first; });
  client_->subscribe("c", [&](std::string_view) { ++second; });
  ASSERT_TRUE(subscribed());
  publish("c", "x");
  EXPECT_TRUE(eventually([&] { return first == 1 && second == 1; }));
  client_->unsubscribe(one);
  publish("c", "x");
  EXPECT_TRUE(eventually([&] { return second == 2; }));
  EXPECT_EQ(first, 1);
}

TEST_P(ClientPubSubTest, TellsTheServerWhenNobodyListensAnyMoreAndWhenAgain) {
  const auto id = client_->subscribe("c", [](std::string_view) {});
  ASSERT_TRUE(subscribed());
  EXPECT_EQ(server_.cli({"PUBSUB", "CHANNELS"}), "c");
  client_->unsubscribe(id);
  EXPECT_TRUE(eventually([&] { return server_.cli({"PUBSUB", "CHANNELS"}).empty(); }));
  for (int i = 0; i < 20; ++i) {
    std::atomic<int> heard = 0;
    const auto again = client_->subscribe("c", [&](std::string_view) { ++heard; });
    ASSERT_TRUE(subscribed());
    EXPECT_EQ(publish("c", "x"), "1");
    EXPECT_TRUE(eventually([&] { return heard == 1; }));
    client_->unsubscribe(again);
  }
}

TEST_P(ClientPubSubTest, IsRestoredWithAllItsChannelsAfterARestart) {
  std::atomic<int> heard = 0;
  for (int i = 0; i < 10; ++i) {
    client_->subscribe("c" + std::to_string(i), [&](std::string_view) { ++heard; });
  }
  ASSERT_TRUE(subscribed());
  server_.kill();
  EXPECT_TRUE(eventually([&] { return !client_->subscribed(); }));
  client_->subscribe("c10", [&](std::string_view) { ++heard; });  // meanwhile
  server_.start();
  ASSERT_TRUE(subscribed());
  ASSERT_TRUE(eventually([&] { return client_->status().up; }));
  for (int i = 0; i <= 10; ++i) EXPECT_EQ(publish("c" + std::to_string(i), "x"), "1");
  EXPECT_TRUE(eventually([&] { return heard == 11; }));
}

TEST_P(ClientPubSubTest, NoticesAFrozenServer) {
  client_->subscribe("c", [](std::string_view) {});
  ASSERT_TRUE(subscribed());
  server_.freeze();
  EXPECT_TRUE(eventually([&] { return !client_->subscribed(); }));
  server_.thaw();
  EXPECT_TRUE(subscribed());
}

TEST_P(ClientPubSubTest, MayBeLeftFromInsideADelivery) {
  std::atomic<int> heard = 0;
  std::atomic<std::uint64_t> id = 0;
  id = client_->subscribe("c", [&](std::string_view) {
    ++heard;
    client_->unsubscribe(id);
  });
  ASSERT_TRUE(subscribed());
  EXPECT_EQ(publish("c", "x"), "1");
  EXPECT_TRUE(eventually([&] { return heard == 1; }));
  EXPECT_TRUE(eventually([&] { return publish("c", "x") == "0"; }));
  EXPECT_EQ(heard, 1);
}

TEST_P(ClientPubSubTest, RunsNoDeliveryAfterItHasBeenLeftByAnotherThread) {
  for (int i = 0; i < 20; ++i) {
    std::atomic<bool> left = false;
    std::atomic<int> late = 0;
    std::atomic<int> heard = 0;
    const auto id = client_->subscribe("c", [&](std::string_view) {
      ++heard;
      for (int spin = 0; spin < 100; ++spin) std::this_thread::yield();
      if (left) ++late;
    });
    ASSERT_TRUE(subscribed());
    std::atomic<int> told = 0;
    for (int said = 0; said < 50; ++said) {
      client_->call("", {"PUBLISH", "c", "x"}, in(10s), [&](const Answer&) { ++told; });
    }
    ASSERT_TRUE(eventually([&] { return heard > 2; }));
    client_->unsubscribe(id);
    left = true;
    ASSERT_TRUE(eventually([&] { return told == 50; }));
    EXPECT_EQ(late, 0);
  }
}

TEST_P(ClientPubSubTest, IsOverWhenTheClientIsClosedFromADelivery) {
  std::atomic<int> heard = 0;
  client_->subscribe("c", [&](std::string_view) {
    ++heard;
    client_->close();
  });
  ASSERT_TRUE(subscribed());
  publish("c", "x");
  EXPECT_TRUE(eventually([&] { return server_.cli({"PUBSUB", "CHANNELS"}).empty(); }));
  EXPECT_EQ(heard, 1);
  EXPECT_FALSE(client_->subscribed());
}

}  // namespace
}  // namespace weir::redis
