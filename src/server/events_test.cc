#include "server/events.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "provider/resources_for_test.h"
#include "server/history.h"
#include "server/server_for_test.h"

namespace weir::server {
namespace {

using namespace std::chrono_literals;

struct EventsTest : ServerTest {
  EventsTest() {
    router.add({.method = "GET",
                .pattern = "/events",
                .need = Need::kNothing,
                .handler =
                    [this](const HttpRequest& http, Responder& responder) {
                      hub->watch(responder, net::query_value(http.head.query, "only"));
                    },
                .streams = true});
    start({.listen = {}, .threads = 2});
  }
  ~EventsTest() override {
    stop();
    listener.reset();
  }

  // Connected, its greeting read.
  std::unique_ptr<RawClient> watch(int receive_bytes = 0, const std::string& query = {}) {
    auto client = std::make_unique<RawClient>(port, receive_bytes);
    client->send("GET /events" + query + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_TRUE(client->answer().has("Content-Type: text/event-stream\r\n"));
    EXPECT_EQ(client->until("\n\n"), ": events as they happen\n\n");
    return client;
  }

  std::unique_ptr<EventHub> hub = std::make_unique<EventHub>(time.source());
};

TEST_F(EventsTest, EveryWatcherGetsEveryEvent) {
  hub->publish("before", "");  // nobody watches: nothing happens
  EXPECT_FALSE(hub->watched());
  auto first = watch();
  auto second = watch();
  EXPECT_TRUE(hub->watched());
  time.advance(1500ms);
  hub->publish("refused", R"("resource":"api","limit":"tokens")");
  hub->publish("bare", "");
  for (RawClient* client : {first.get(), second.get()}) {
    EXPECT_TRUE(client->until("\n").starts_with("id: "));
    EXPECT_EQ(client->until("\n\n"),
              "event: refused\n"
              R"(data: {"time":"2025-01-01T00:00:01.500Z","resource":"api","limit":"tokens"})"
              "\n\n");
    EXPECT_TRUE(client->until("\n").starts_with("id: "));
    EXPECT_EQ(client->until("\n\n"),
              "event: bare\n"
              R"(data: {"time":"2025-01-01T00:00:01.500Z"})"
              "\n\n");
  }
}

TEST_F(EventsTest, AWatcherThatGoesIsForgotten) {
  auto client = watch();
  client->close();
  while (hub->watched()) std::this_thread::yield();
  hub->publish("unheard", "");
}

TEST_F(EventsTest, ASlowWatcherIsToldHowManyItMissed) {
  auto slow = watch(4096);
  auto quick = watch();
  const std::string large = "\"x\":\"" + std::string(20'000, 'x') + "\"";
  int published = 0;
  for (; published < 1'000; ++published) {
    hub->publish("large", large);
    EXPECT_NE(quick->until("\n\n").find("event: large"), std::string::npos);
  }
  // All are accounted for: an event brings the news of those missed before it.
  int got = 0;
  int missed = 0;
  while (got + missed < published) {
    // Until the server has seen that there is room again, the next one is missed as well.
    while (slow->silent()) {
      hub->publish("large", large);
      ASSERT_LT(++published, 100'000);
      quick->until("\n\n");
    }
    const std::string event = slow->until("\n\n");
    if (const auto count = event.find("\"count\":"); count != std::string::npos) {
      EXPECT_TRUE(event.starts_with("event: missed\n")) << event;
      missed += std::stoi(event.substr(count + 8));
    } else {
      EXPECT_NE(event.find("event: large\n"), std::string::npos) << event.substr(0, 100);
      ++got;
    }
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(got, 0);
  EXPECT_GT(missed, 0);
  EXPECT_EQ(got + missed, published);
  until_read();
  EXPECT_TRUE(slow->silent());
}

TEST_F(EventsTest, TheHundredAndFirstWatcherIsRefused) {
  std::vector<std::unique_ptr<RawClient>> clients;
  for (std::size_t i = 0; i < EventHub::kWatchersMax; ++i) clients.push_back(watch());
  RawClient late{port};
  const Answer answer = late.get("/events");
  EXPECT_EQ(answer.status, 503);
  EXPECT_NE(answer.body.find("\"too_many_watchers\""), std::string::npos);
  EXPECT_EQ(late.get("/hello").status, 200);

  clients.pop_back();
  while (late.get("/events").status == 503) {
  }
}

TEST_F(EventsTest, AHeartbeatEvery15SecondsKeepsTheStreamAlive) {
  auto client = watch();
  time.advance(14s);
  until_read();
  EXPECT_TRUE(client->silent());
  time.advance(1s);
  EXPECT_EQ(client->until("\n\n"), ": \n\n");
  time.advance(15s);
  EXPECT_EQ(client->until("\n\n"), ": \n\n");
  time.advance(10min);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(client->until("\n\n"), ": \n\n");
}

TEST_F(EventsTest, ClosingEndsTheStreams) {
  auto first = watch();
  auto second = watch();
  hub->publish("last", "");
  hub->close();
  EXPECT_FALSE(hub->watched());
  for (RawClient* client : {first.get(), second.get()}) {
    EXPECT_NE(client->until_closed().find("event: last"), std::string::npos);
  }
  auto next = watch();  // the hub itself goes on
  hub->publish("more", "");
  EXPECT_NE(next->until("\n\n").find("event: more"), std::string::npos);
}

TEST_F(EventsTest, ThreadsPublishWhileWatchersComeAndGo) {
  auto steady = watch();
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([this] {
        for (int n = 0; n < 200; ++n) hub->publish("event", "");
      });
    }
    for (int i = 0; i < 10; ++i) watch();
  }
  for (int i = 0; i < 600; ++i) {
    ASSERT_NE(steady->until("\n\n").find("event: event"), std::string::npos);
  }
}

TEST_F(EventsTest, AWatcherGetsOnlyTheTypesItAsksFor) {
  auto some = watch(0, "?only=live,operated");
  EXPECT_FALSE(hub->watched()) << "nobody puts events of single requests together for it";
  EXPECT_TRUE(hub->watched("live"));
  EXPECT_FALSE(hub->watched("point"));
  auto all = watch();
  EXPECT_TRUE(hub->watched());
  for (const char* type : {"admitted", "live", "store", "point", "operated"}) {
    hub->publish(type, "");
  }
  const auto next = [](RawClient& client) {
    const std::string text = client.until("\n\n");
    const std::size_t begin = text.find("event: ") + 7;
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  for (const char* type : {"live", "operated"}) EXPECT_EQ(next(*some), type);
  for (const char* type : {"admitted", "store", "operated"}) EXPECT_EQ(next(*all), type);
  all->close();
  while (hub->watched()) std::this_thread::yield();
  EXPECT_TRUE(hub->watched("live"));
}

TEST_F(EventsTest, ATypeThatThereIsNotIsRefused) {
  for (const char* query : {"?only=", "?only=lives", "?only=live,", "?only=live,nothing"}) {
    RawClient client{port};
    client.send(std::string{"GET /events"} + query + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const auto answer = client.answer();
    EXPECT_EQ(answer.status, 400) << query;
    EXPECT_NE(answer.body.find("operated"), std::string::npos) << "says which there are";
  }
}

TEST_F(EventsTest, TheLastNewsAreKeptThoughNobodyWatched) {
  EXPECT_EQ(hub->news(), R"({"events":[]})");
  hub->publish("admitted", R"("resource":"api")");
  hub->publish("live", R"("resources":[])");
  hub->publish("operated", R"("what":"pause")");
  EXPECT_EQ(hub->news(),
            R"({"events":[{"type":"operated","time":"2025-01-01T00:00:00.000Z","what":"pause"}]})");
  for (std::size_t i = 0; i < EventHub::kNewsMax + 10; ++i) {
    hub->publish("limited", "\"n\":" + std::to_string(i));
  }
  EXPECT_EQ(hub->news().find("operated"), std::string::npos);
  EXPECT_EQ(hub->news().find("\"n\":9}"), std::string::npos);
  EXPECT_NE(hub->news().find("\"n\":10}"), std::string::npos);
  EXPECT_NE(hub->news().find("\"n\":209}"), std::string::npos);
}

TEST_F(EventsTest, AProviderThatWasRemovedHasNoMorePoints) {
  Resources resources{GateMaking{time.source()}};
  const History history{resources, *hub, time.source()};
  for (const char* name : {"gone", "stays"}) {
    const auto resource = resources.put(provider(name, {})).value();
    resource->activity().arrive({.agent = "a"}, time.now()).refused(time.now());
  }
  auto client = watch(0, "?only=point");
  time.advance(History::kStep);
  EXPECT_TRUE(client->until("\n\n").contains(R"("resource":"gone")"));
  ASSERT_TRUE(resources.remove("gone"));
  time.advance(History::kStep);
  client->until("event: point");  // after a heartbeat
  const std::string points = client->until("\n\n");
  EXPECT_FALSE(points.contains(R"("resource":"gone")")) << points;
  EXPECT_TRUE(points.contains(R"("resource":"stays")")) << points;
}

}  // namespace
}  // namespace weir::server
