// The proxy in stepped time between clients and a provider whose every byte is written by hand.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <list>

#include "config/load.h"
#include "core/temporary_directory_for_test.h"
#include "proxy/proxy.h"
#include "server/server_for_test.h"

namespace weir::proxy {

using server::Answer;
using server::RawClient;

// A provider that does what the test says, on the test's own thread.
class Provider {
 public:
  Provider() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listening_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listening_, 128), 0);
    getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &size);
    port = ntohs(address.sin_port);
  }
  ~Provider() {
    close(listening_);
    for (const Link& link : links_) close(link.socket);
  }
  Provider(const Provider&) = delete;
  Provider& operator=(const Provider&) = delete;

  // A connection of the proxy's.
  struct Link {
    int socket;
    std::string unread = {};
  };
  // One request on it.
  struct Visit {
    Link* link;
    std::string head;
    std::string body;

    bool has(std::string_view text) const { return head.find(text) != std::string::npos; }
    void send(std::string_view bytes) const {
      while (!bytes.empty()) {
        const auto sent = ::send(link->socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        ASSERT_GT(sent, 0);
        bytes.remove_prefix(static_cast<std::size_t>(sent));
      }
    }
    void answer(std::string_view body_text, std::string_view status = "200 OK",
                std::string_view fields = "Content-Type: application/json\r\n") const {
      send("HTTP/1.1 " + std::string{status} + "\r\n" + std::string{fields} + "Content-Length: " +
           std::to_string(body_text.size()) + "\r\n\r\n" + std::string{body_text});
    }
    void chunk(std::string_view bytes) const {
      std::array<char, 16> size;
      std::snprintf(size.data(), size.size(), "%zx\r\n", bytes.size());
      send(size.data() + std::string{bytes} + "\r\n");
    }
    void hang_up() const { shutdown(link->socket, SHUT_RDWR); }
    // Waits until the proxy has closed it.
    void until_left() const {
      pollfd readable{link->socket, POLLIN, 0};
      std::array<char, 1024> bytes;
      while (poll(&readable, 1, server::kPatienceMs) == 1) {
        if (recv(link->socket, bytes.data(), bytes.size(), 0) <= 0) return;
      }
      ADD_FAILURE() << "the proxy keeps the connection";
    }
  };

  // The next request that has come whole.
  Visit next() {
    for (;;) {
      for (Link& link : links_) {
        if (auto visit = whole(link)) return std::move(*visit);
      }
      std::vector<pollfd> ready{{listening_, POLLIN, 0}};
      for (const Link& link : links_) ready.push_back({link.socket, POLLIN, 0});
      if (poll(ready.data(), ready.size(), server::kPatienceMs) <= 0) {
        ADD_FAILURE() << "no request comes";
        return {&links_.emplace_back(-1), {}, {}};
      }
      std::size_t at = 1;
      for (auto link = links_.begin(); link != links_.end(); ++at) {
        const auto next = std::next(link);
        if ((ready[at].revents & (POLLIN | POLLHUP)) != 0 && !read(*link)) {
          close(link->socket);
          links_.erase(link);
        }
        link = next;
      }
      if ((ready[0].revents & POLLIN) != 0) {
        links_.push_back({accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC)});
      }
    }
  }
  // No request and no connection is waiting. What the proxy did before is done.
  bool idle() {
    std::vector<pollfd> ready{{listening_, POLLIN, 0}};
    for (const Link& link : links_) ready.push_back({link.socket, POLLIN, 0});
    return poll(ready.data(), ready.size(), 0) == 0;
  }
  std::size_t connections() const { return links_.size(); }

  std::uint16_t port = 0;

 private:
  static bool read(Link& link) {
    std::array<char, 64 * 1024> bytes;
    const auto got = recv(link.socket, bytes.data(), bytes.size(), 0);
    if (got <= 0) return false;
    link.unread.append(bytes.data(), static_cast<std::size_t>(got));
    return true;
  }
  static std::optional<Visit> whole(Link& link) {
    const auto end = net::find_head_end(link.unread);
    if (!end) return {};
    const auto head = net::parse_request_head(std::string_view{link.unread}.substr(0, *end));
    if (!head) {
      ADD_FAILURE() << "malformed: " << link.unread;
      return {};
    }
    const std::size_t length = head->body.length;
    if (link.unread.size() < *end + length) return {};
    Visit visit{&link, link.unread.substr(0, *end), link.unread.substr(*end, length)};
    link.unread.erase(0, *end + length);
    return visit;
  }

  const int listening_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::list<Link> links_;
};

class ProxyTest : public ::testing::Test {
 protected:
  ~ProxyTest() override {
    if (listener == nullptr) return;
    resources.close(Errc::kClosed);
    server::stop_stepping(*listener, time);
  }

  // A provider "api" of this profile; `more`: further lines of its file.
  void start(const std::string& profile = "generic", const std::string& more = {},
             MainConfig main = {}, server::Listener::Options options = {}) {
    access.apply(main);
    configure(profile, more);
    auto tls = net::make_tls_client();
    ASSERT_TRUE(tls) << tls.error();
    proxy = std::make_unique<Proxy>(Proxy::Parts{.resources = resources,
                                                 .events = events,
                                                 .log = log,
                                                 .clock = time,
                                                 .tls = std::move(*tls),
                                                 .tokenizer = built_in_tokenizer,
                                                 .fleet = fleet.get()});
    proxy->add_routes(router);
    options.listen = {.host = "127.0.0.1", .port = 0};
    auto opened = server::Listener::open(options, router, time.source(), log);
    ASSERT_TRUE(opened) << opened.error().message;
    listener = std::move(*opened);
    listener->start();
  }
  void configure(const std::string& profile, const std::string& more) {
    const std::string text = "name: api\ndomain: api.example.com\nupstream: http://127.0.0.1:" +
                             std::to_string(provider.port) + "\nprofile: " + profile + "\n" + more;
    auto config = parse_provider(text, "api.yaml");
    ASSERT_TRUE(config) << config.error().front().text();
    ASSERT_TRUE(resources.apply({*config}));
  }

  RawClient client() const { return RawClient{listener->port()}; }
  static std::string post(const std::string& path, const std::string& body,
                          const std::string& fields = {}) {
    return "POST /proxy/api" + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  static std::string get(const std::string& path, const std::string& fields = {}) {
    return "GET /proxy/api" + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n";
  }
  GateMetrics metrics() { return resources.find("api")->gate().metrics(); }
  Amount left(const std::string& limit) {
    for (const LimitStatus& status : metrics().limits) {
      if (status.name == limit) return status.available;
    }
    ADD_FAILURE() << "no limit is called " << limit;
    return 0;
  }
  void until_left(const std::string& limit, Amount wanted) {
    while (left(limit) != wanted) std::this_thread::yield();
  }
  void until_waiting(std::size_t wanted) {
    const auto waiting = [&] {
      std::size_t all = metrics().waiting;
      for (const auto& account : resources.find("api")->accounts()) {
        all += account->gate().metrics().waiting;
      }
      return all;
    };
    while (waiting() != wanted) std::this_thread::yield();
  }

  SimulatedTime time;
  TemporaryDirectory directory;
  Provider provider;
  int log_file =
      ::open(directory.path("log").c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
  server::Log log{log_file, server::Log::Format::kJson, time};
  server::Access access{MainConfig{}};
  server::Router router{access};
  server::EventHub events{time.source()};
  Resources resources{GateMaking{time.source()}};
  std::unique_ptr<FleetSignals> fleet;  // for the test to set before start()
  std::unique_ptr<Proxy> proxy;
  std::unique_ptr<server::Listener> listener;
};

}  // namespace weir::proxy
