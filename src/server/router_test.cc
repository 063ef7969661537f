#include "server/router.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weir::server {
namespace {

struct Kept {
  int status = 0;
  std::string body = {};
  std::string fields = {};
};

// Keeps what a handler replies.
struct Keeper final : Responder {
  explicit Keeper(Kept& to) : kept(to) {}

  void reply(const Reply& reply) override {
    EXPECT_EQ(kept.status, 0) << "answered twice";
    kept = {reply.status, std::string{reply.body}, std::string{reply.fields}};
  }
  Later later(std::move_only_function<void()>) override { return Later{nullptr, 0}; }
  std::shared_ptr<Stream> stream(std::string_view, std::move_only_function<void()>) override {
    return nullptr;
  }
  Relay relay(std::move_only_function<void()>, std::move_only_function<void()>) override {
    return Relay{nullptr, 0};
  }
  Loop& loop() override { std::abort(); }

  Kept& kept;
};

struct RouterTest : testing::Test {
  RouterTest() {
    add("GET", "/");
    add("GET", "/v1/resources");
    add("GET", "/v1/resources/{name}");
    add("PUT", "/v1/resources/{name}");
    add("POST", "/v1/resources/{name}/pause");
    add("POST", "/v1/permits/{id}/settle");
    add("DELETE", "/v1/permits/{id}");
    add("GET", "/pairs/{a}/{b}");
    add("POST", "/secret", Need::kAdmin);
    add("GET", "/events", Need::kNothing, /*streams=*/true);
  }

  void add(const std::string& method, const std::string& pattern, Need need = Need::kNothing,
           bool streams = false) {
    const auto echo = [method, pattern](const HttpRequest& http, Responder& responder) {
      responder.reply({.body = method + " " + pattern + " [" + http.parameters[0] + "][" +
                               http.parameters[1] + "] by " + http.client.name});
    };
    router.add(
        {.method = method, .pattern = pattern, .need = need, .handler = echo, .streams = streams});
  }

  Kept ask(const std::string& method, const std::string& target, const std::string& fields = {}) {
    const std::string text =
        method + " " + target + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n";
    Kept kept;
    Keeper keeper{kept};
    const auto head = net::parse_request_head(text);
    if (!head) {
      ADD_FAILURE() << text;
    } else {
      BodyShare share{memory};
      router.dispatch(*head, "", share, "peer", keeper);
    }
    return kept;
  }

  static MainConfig config() {
    MainConfig config;
    config.tokens = {{"ops", Scope::kAdmin, Secret{"token"}}};
    return config;
  }
  BodyMemory memory{0};
  Access access{config()};
  Router router{access};
};

TEST_F(RouterTest, FindsTheRouteAndItsParameters) {
  struct Row {
    std::string method, target, answer;
  };
  for (const Row& row : std::vector<Row>{
           {"GET", "/", "GET / [][]"},
           {"GET", "/v1/resources", "GET /v1/resources [][]"},
           {"GET", "/v1/resources?x=/y", "GET /v1/resources [][]"},
           {"GET", "/v1/resources/a", "GET /v1/resources/{name} [a][]"},
           {"PUT", "/v1/resources/a", "PUT /v1/resources/{name} [a][]"},
           {"POST", "/v1/resources/a/pause", "POST /v1/resources/{name}/pause [a][]"},
           {"POST", "/v1/permits/17/settle", "POST /v1/permits/{id}/settle [17][]"},
           {"DELETE", "/v1/permits/17", "DELETE /v1/permits/{id} [17][]"},
           {"GET", "/pairs/x/y", "GET /pairs/{a}/{b} [x][y]"},
           {"HEAD", "/v1/resources/a", "GET /v1/resources/{name} [a][]"},
           {"GET", "/v1/resources/{name}", "GET /v1/resources/{name} [{name}][]"},
       }) {
    const Kept reply = ask(row.method, row.target);
    EXPECT_EQ(reply.status, 200) << row.target;
    EXPECT_EQ(reply.body, row.answer + " by peer") << row.target;
  }
}

TEST_F(RouterTest, DecodesAParameterAfterThePathIsSplit) {
  struct Row {
    std::string target, parameter;
  };
  for (const auto& [target, parameter] :
       std::vector<Row>{{"/v1/resources/a%20b", "a b"},
                        {"/v1/resources/a%2Fb", "a/b"},
                        {"/v1/resources/a%2fpause", "a/pause"},
                        {"/v1/resources/..%2F..%2Fetc", "../../etc"},
                        {"/v1/resources/a+b", "a+b"},
                        {"/v1/resources/%C3%A9", "\xC3\xA9"},
                        {"/v1/resources/%2541", "%41"}}) {
    EXPECT_EQ(ask("GET", target).body, "GET /v1/resources/{name} [" + parameter + "][] by peer");
  }
}

TEST_F(RouterTest, SaysThatThereIsNothing) {
  for (const std::string target :
       {"/v1", "/v1/", "/v1/resources/", "/v1/resource", "//v1/resources", "/V1/resources",
        "/v1/resources/a/b", "/v1/resources//pause", "/v1/permits//settle", "/v1/resources/%00",
        "/v1/resources/%zz", "/v1/resources/%", "/v1%2Fresources", "/pairs/x", "/pairs/x/y/z"}) {
    const Kept reply = ask("POST", target, "Origin: http://localhost\r\n");
    EXPECT_EQ(reply.status, 404) << target;
    EXPECT_NE(reply.body.find("\"path_unknown\""), std::string::npos) << reply.body;
    EXPECT_NE(reply.body.find(target), std::string::npos) << reply.body;
  }
}

TEST_F(RouterTest, SaysWhichMethodsAreAllowed) {
  struct Row {
    std::string method, target, allow;
  };
  for (const Row& row : std::vector<Row>{{"DELETE", "/v1/resources", "GET, HEAD"},
                                         {"DELETE", "/v1/resources/a", "GET, HEAD, PUT"},
                                         {"GET", "/v1/permits/17", "DELETE"},
                                         {"HEAD", "/v1/permits/17", "DELETE"},
                                         {"GET", "/secret", "POST"},
                                         {"HEAD", "/events", "GET"},
                                         {"get", "/v1/resources", "GET, HEAD"}}) {
    const Kept reply = ask(row.method, row.target);
    EXPECT_EQ(reply.status, 405) << row.target;
    EXPECT_EQ(reply.fields, "Allow: " + row.allow + "\r\n") << row.target;
  }
}

TEST_F(RouterTest, AsksForATokenWhereOneIsNeeded) {
  const Kept missing = ask("POST", "/secret");
  EXPECT_EQ(missing.status, 401);
  EXPECT_EQ(missing.fields, "WWW-Authenticate: Bearer\r\n");
  EXPECT_NE(missing.body.find("\"token_missing\""), std::string::npos) << missing.body;
  EXPECT_EQ(ask("POST", "/secret", "X-Weir-Token: wrong\r\n").status, 401);
  EXPECT_EQ(ask("POST", "/secret", "X-Weir-Token: token\r\n").body, "POST /secret [][] by ops");
}

TEST_F(RouterTest, RefusesAPageOfAnotherOrigin) {
  const Kept changing = ask("POST", "/secret", "Origin: http://evil.example\r\n");
  EXPECT_EQ(changing.status, 403);
  EXPECT_EQ(changing.fields, "");
  EXPECT_EQ(ask("GET", "/events", "Origin: http://evil.example\r\n").status, 403);
  EXPECT_EQ(ask("GET", "/events", "Origin: http://localhost\r\n").status, 200);
}

}  // namespace
}  // namespace weir::server
