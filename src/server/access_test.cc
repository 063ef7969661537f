#include "server/access.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace weir::server {
namespace {

MainConfig config() {
  MainConfig config;
  config.hosts = {"Weir.Example", "other.example."};
  config.tokens = {{"agents", Scope::kClient, Secret{"client-token"}},
                   {"page", Scope::kRead, Secret{"read-token"}},
                   {"ops", Scope::kAdmin, Secret{"admin-token"}}};
  return config;
}
MainConfig without_tokens() {
  MainConfig open = config();
  open.tokens.clear();
  return open;
}

struct Asked {
  std::string fields = {};
  Need need = Need::kAdmin;
  std::string method = "GET";
  bool streams = false;
  std::string host = "Host: localhost\r\n";
  std::string version = "1.1";
};

std::expected<Identity, Denial> check(const Access& access, const Asked& asked) {
  const std::string text =
      asked.method + " / HTTP/" + asked.version + "\r\n" + asked.host + asked.fields + "\r\n";
  const auto head = net::parse_request_head(text);
  if (!head) return std::unexpected(Denial{0, "not_http", text});
  return access.check(*head, "10.0.0.9", asked.need, asked.streams);
}
// 0 for yes, else the status.
int denial(const Access& access, const Asked& asked) {
  const auto checked = check(access, asked);
  return checked ? 0 : checked.error().status;
}

TEST(Access, AScopeAllowsItsOwnCallsAndAdminAll) {
  const Access access{config()};
  struct Row {
    std::string token;
    std::string name;
    int client, read, admin;
  };
  for (const Row& row : std::vector<Row>{{"client-token", "agents", 0, 403, 403},
                                         {"read-token", "page", 403, 0, 403},
                                         {"admin-token", "ops", 0, 0, 0}}) {
    const std::string fields = "Authorization: Bearer " + row.token + "\r\n";
    EXPECT_EQ(denial(access, {.fields = fields, .need = Need::kClient}), row.client) << row.name;
    EXPECT_EQ(denial(access, {.fields = fields, .need = Need::kRead}), row.read) << row.name;
    EXPECT_EQ(denial(access, {.fields = fields, .need = Need::kAdmin}), row.admin) << row.name;
    EXPECT_EQ(denial(access, {.fields = fields, .need = Need::kNothing}), 0) << row.name;
  }
  const auto admin = check(access, {.fields = "X-Weir-Token: admin-token\r\n"});
  ASSERT_TRUE(admin);
  EXPECT_EQ(admin->name, "ops");
  EXPECT_EQ(admin->scope, Scope::kAdmin);
}

TEST(Access, AScopeThatIsMissingIsNamed) {
  const Access access{config()};
  const auto refused = check(access, {.fields = "X-Weir-Token: read-token\r\n"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "scope_missing");
  EXPECT_EQ(refused.error().message,
            "the token \"page\" has the scope read; this call needs admin");
}

TEST(Access, ATokenComesInEitherField) {
  const Access access{config()};
  for (const std::string field :
       {"Authorization: Bearer admin-token", "authorization: bearer admin-token",
        "AUTHORIZATION: BEARER admin-token", "X-Weir-Token: admin-token",
        "x-weir-token: admin-token", "Authorization: Basic eDp5\r\nX-Weir-Token: admin-token"}) {
    EXPECT_EQ(denial(access, {.fields = field + "\r\n"}), 0) << field;
  }
}

TEST(Access, ATokenThatIsWrongOrMissingIsUnauthorized) {
  const Access access{config()};
  for (const std::string field :
       {"X: y", "Authorization: Bearer", "Authorization: admin-token",
        "Authorization: Basic admin-token", "Cookie: token=admin-token",
        "Authorization: Bearer admin-toke", "Authorization: Bearer admin-token2",
        "Authorization: Bearer Admin-Token", "Authorization: Bearer client-token admin-token",
        "X-Weir-Token: nobody", "X-Weir-Token: ops"}) {
    const auto refused = check(access, {.fields = field + "\r\n"});
    ASSERT_FALSE(refused) << field;
    EXPECT_EQ(refused.error().status, 401) << field;
    EXPECT_EQ(refused.error().message.find("admin-tok"), std::string::npos) << field;
  }
  EXPECT_EQ(denial(access, {.need = Need::kNothing}), 0);
}

TEST(Access, WithoutTokensEverybodyIsAnAdminKnownByAddress) {
  const Access access{without_tokens()};
  const auto anybody = check(access, {});
  ASSERT_TRUE(anybody);
  EXPECT_EQ(anybody->name, "10.0.0.9");
  EXPECT_EQ(anybody->scope, Scope::kAdmin);
}

// A page of evil.example whose name was made to point to us sends its own name as Host.
TEST(Access, AHostIsAnAddressOrAConfiguredName) {
  const Access access{without_tokens()};
  for (const std::string host :
       {"127.0.0.1", "127.0.0.1:9347", "10.1.2.3:80", "192.168.0.7", "[::1]", "[::1]:9347",
        "[2001:db8::1]:9347", "localhost", "localhost:9347", "LOCALHOST:9347", "weir.example",
        "WEIR.example", "weir.example:9347", "weir.example.", "weir.example.:9347",
        "other.example"}) {
    EXPECT_EQ(denial(access, {.host = "Host: " + host + "\r\n"}), 0) << host;
  }
  for (const std::string host :
       {"evil.example", "evil.example:9347", "sub.weir.example", "weir.example.evil.example",
        "evilweir.example", "127.0.0.1.evil.example", "localhost.evil.example:9347",
        "127.0.0.1.nip.io", "xn--weir-example"}) {
    const auto refused = check(access, {.host = "Host: " + host + "\r\n"});
    ASSERT_FALSE(refused) << host;
    EXPECT_EQ(refused.error().status, 421) << host;
    EXPECT_NE(refused.error().message.find(host), std::string::npos) << refused.error().message;
  }
  // Browsers always send one.
  EXPECT_EQ(denial(access, {.host = "", .version = "1.0"}), 0);
}

TEST(Access, AHostIsCheckedBeforeATokenIsAsked) {
  const Access access{config()};
  EXPECT_EQ(denial(access, {.need = Need::kNothing, .host = "Host: evil.example\r\n"}), 421);
  EXPECT_EQ(
      denial(access, {.fields = "X-Weir-Token: admin-token\r\n", .host = "Host: evil.example\r\n"}),
      421);
}

TEST(Access, APageOfAnotherOriginChangesAndWatchesNothing) {
  const Access access{without_tokens()};
  struct Row {
    std::string origin;
    bool ours;
  };
  for (const auto& [origin, ours] : std::vector<Row>{{"http://localhost:9347", true},
                                                     {"https://localhost:9347", true},
                                                     {"http://localhost", false},
                                                     {"http://localhost:8080", false},
                                                     {"http://127.0.0.1:9347", false},
                                                     {"http://evil.example", false},
                                                     {"http://localhost:9347.evil.example", false},
                                                     {"http://evil.example/localhost:9347", false},
                                                     {"localhost:9347", false},
                                                     {"null", false}}) {
    Asked asked{.fields = "Origin: " + origin + "\r\n", .host = "Host: localhost:9347\r\n"};
    EXPECT_EQ(denial(access, asked), 0) << origin;  // a GET changes nothing
    asked.method = "HEAD";
    EXPECT_EQ(denial(access, asked), 0) << origin;
    for (const std::string method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS"}) {
      asked.method = method;
      EXPECT_EQ(denial(access, asked), ours ? 0 : 403) << method << origin;
    }
    asked.method = "GET";
    asked.streams = true;
    EXPECT_EQ(denial(access, asked), ours ? 0 : 403) << origin;
  }
  EXPECT_EQ(denial(access, {.method = "POST"}), 0);  // not from a page at all
}

TEST(Access, RulesChangeWhileThreadsAsk) {
  Access access{config()};
  std::vector<std::jthread> threads;
  std::atomic<bool> stop = false;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        const int status = denial(access, {.fields = "X-Weir-Token: admin-token\r\n"});
        EXPECT_TRUE(status == 0 || status == 401) << status;
      }
    });
  }
  MainConfig other = config();
  other.tokens = {{"new", Scope::kAdmin, Secret{"new-token"}}};
  for (int i = 0; i < 1'000; ++i) access.apply(i % 2 == 0 ? other : config());
  stop = true;
  threads.clear();
  access.apply(other);
  EXPECT_EQ(denial(access, {.fields = "X-Weir-Token: admin-token\r\n"}), 401);
  EXPECT_EQ(denial(access, {.fields = "X-Weir-Token: new-token\r\n"}), 0);
}

}  // namespace
}  // namespace weir::server
