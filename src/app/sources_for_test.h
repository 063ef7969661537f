// Sources through a daemon for tests: a real HTTP server as the outside world, in stepped time.
#pragma once

#include <fmt/format.h>

#include <map>

#include "app/daemon_for_test.h"
#include "net/upstream_for_test.h"

namespace weir::app {

// Answers every request as `reply` says, and remembers who came.
class World {
 public:
  using Reply = std::function<std::string(const std::string& request)>;

  void answer(Reply reply) {
    const std::lock_guard lock{mutex_};
    reply_ = std::move(reply);
  }
  void answer(const std::string& text) {
    answer([text](const std::string&) { return text; });
  }
  static std::string good(const std::string& body, const std::string& type = "application/json") {
    return net::answer_of(body, "Content-Type: " + type + "\r\n");
  }
  static std::string status(const std::string& line, const std::string& fields = {}) {
    return "HTTP/1.1 " + line + "\r\n" + fields + "Content-Length: 2\r\n\r\n{}";
  }
  std::map<std::string, int> visits() {
    const std::lock_guard lock{mutex_};
    return visits_;
  }
  int count() {
    const std::lock_guard lock{mutex_};
    return count_;
  }
  std::string last() {
    const std::lock_guard lock{mutex_};
    return last_;
  }
  std::string url(const std::string& path = "/x", const std::string& host = "127.0.0.1") const {
    return fmt::format("http://{}:{}{}", host, server_.port(), path);
  }

 private:
  void serve(net::Peer& peer) {
    for (;;) {
      const std::string request = peer.request();
      if (request.empty()) return;
      Reply reply;
      {
        const std::lock_guard lock{mutex_};
        last_ = request;
        ++count_;
        ++visits_[request.substr(4, request.find(' ', 4) - 4)];
        reply = reply_;
      }
      const std::string text = reply(request);
      if (text.empty()) return peer.wait_for_end();
      if (!peer.send(text)) return;
    }
  }

  std::mutex mutex_;
  Reply reply_ = [](const std::string&) { return good("{}"); };
  std::map<std::string, int> visits_;
  int count_ = 0;
  std::string last_;
  net::RawServer server_{[this](net::Peer& peer) { serve(peer); }};
};

class SourcesTest : public DaemonTest {
 protected:
  ~SourcesTest() override { daemon.reset(); }

  // The world as a provider.
  void limited(const std::string& more) {
    provider("world", "name: world\ndomain: 127.0.0.1\nupstream: " + world.url("") + "\n" + more);
  }
  Answer put(const std::string& name, const std::string& definition) {
    return call({.method = "PUT", .target = "/v1/sources/" + name, .body = definition});
  }
  void add(const std::string& name, const std::string& more = "every: 1h\n") {
    const Answer answer = put(name, "url: " + world.url("/" + name) + "\n" + more);
    ASSERT_EQ(answer.status, 201) << answer.response.body;
  }
  Answer source(const std::string& name) { return get("/v1/sources/" + name); }
  std::string state(const std::string& name) { return source(name).text("state"); }
  void until(const std::function<bool()>& done) {
    while (!done()) {
      time.advance(Nanos{0});  // for an alarm that was set while time went on
      nap();
    }
  }
  void until_fetched(int count) {
    until([&] { return world.count() >= count; });
  }
  void until_last(const std::string& name, int status) {
    until([&] {
      const Answer answer = source(name);
      return answer.json.at("last").is_object() &&
             answer.json.at("last").at("status").as_int64() == status;
    });
  }
  // Nothing is queued or under way.
  void until_quiet() {
    until([&] {
      const std::string text = get("/metrics").response.body;
      return text.contains("weir_sources{state=\"queued\"} 0\n") &&
             text.contains("weir_sources{state=\"running\"} 0\n");
    });
  }
  // A second goes by, and what it brings is done.
  void second() {
    time.advance(std::chrono::seconds{1});
    // A cycle that this one's alarm has posted comes before what a later PUT posts.
    const std::string tick = fmt::format("tick{}", ++ticks_);
    ASSERT_EQ(put(tick, "url: " + world.url("/tick", "localhost") + "\nevery: 365d\n").status, 201);
    until([&] { return source(tick).json.at("last").is_object(); });
    until_quiet();
  }

  World world;

 private:
  int ticks_ = 0;
};

}  // namespace weir::app
