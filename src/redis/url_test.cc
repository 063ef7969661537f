#include "redis/url.h"

#include <gtest/gtest.h>

namespace weir::redis {
namespace {

TEST(RedisUrl, NamesHostPortDatabaseUserAndPassword) {
  const Address address = parse_url("redis://ann:p%40ss%2Fword@Cache.Example:7000/3").value();
  EXPECT_FALSE(address.tls);
  EXPECT_EQ(address.host, "cache.example");
  EXPECT_EQ(address.port, 7000);
  EXPECT_EQ(address.user, "ann");
  EXPECT_EQ(address.password, "p@ss/word");
  EXPECT_EQ(address.database, 3);
  EXPECT_EQ(address.label(), "cache.example:7000");
}

TEST(RedisUrl, HasDefaults) {
  const Address address = parse_url("redis://localhost").value();
  EXPECT_EQ(address.port, 6379);
  EXPECT_EQ(address.database, 0);
  EXPECT_EQ(address.user + address.password, "");
  EXPECT_EQ(parse_url("redis://localhost/").value().database, 0);
}

TEST(RedisUrl, MayHaveAPasswordAlone) {
  const Address address = parse_url("rediss://:sec:ret@[::1]:7001").value();
  EXPECT_TRUE(address.tls);
  EXPECT_EQ(address.user, "");
  EXPECT_EQ(address.password, "sec:ret");
  EXPECT_EQ(address.host, "::1");
  EXPECT_EQ(address.label(), "[::1]:7001");
  EXPECT_EQ(parse_url("redis://[::1]").value().port, 6379);
  EXPECT_EQ(parse_url("redis://:a@b@host").value().password, "a@b");
}

TEST(RedisUrl, MayNameAUserWithoutAPassword) {
  const Address address = parse_url("rediss://ann@host:6379").value();
  EXPECT_EQ(address.user, "ann");
  EXPECT_EQ(address.password, "");
}

TEST(RedisUrl, NamesAUnixSocket) {
  const Address address = parse_url("unix:///run/redis.sock?db=2").value();
  EXPECT_EQ(address.path, "/run/redis.sock");
  EXPECT_EQ(address.database, 2);
  EXPECT_EQ(address.label(), "/run/redis.sock");
  EXPECT_EQ(parse_url("unix:///run/redis.sock").value().database, 0);
}

TEST(RedisUrl, IsRefusedInWordsThatNameWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> rows{
      {"", "does not begin with redis://, rediss:// or unix://"},
      {"localhost:6379", "does not begin with redis://, rediss:// or unix://"},
      {"http://localhost", "does not begin with redis://, rediss:// or unix://"},
      {"redis://", "has no host[:port] in ''"},
      {"redis://a b", "has no host[:port] in 'a b'"},
      {"redis://host:port", "has no host[:port] in 'host'"},
      {"redis://host:0", "has '0' as its port, which is no number from 1 to 65535"},
      {"redis://host:65536", "has no host[:port] in 'host'"},
      {"redis://host/x", "has a database that is no number from 0"},
      {"redis://host/-1", "has a database that is no number from 0"},
      {"redis://host/1/2", "has a database that is no number from 0"},
      {"redis://host?db=1", "has a '?' or '#', which means nothing here"},
      {"redis://@host", "has nothing before its '@'"},
      {"redis://ann:@host", "has an empty password"},
      {"redis://:%zz@host", "has a '%' in its user or password that is not %XX"},
      {"redis://:%4@host", "has a '%' in its user or password that is not %XX"},
      {"unix://run/redis", "has no absolute path after unix://"},
      {"unix:///a?x=1", "has something else than db=N after its '?'"},
      {"unix:///a?db=", "has a database that is no number from 0"},
      {"unix:///" + std::string(107, 'a'), "has too long a path for a Unix socket"},
  };
  for (const auto& [url, why] : rows) {
    const auto parsed = parse_url(url);
    ASSERT_FALSE(parsed) << url;
    EXPECT_EQ(parsed.error(), Errc::kInvalidConfig);
    EXPECT_EQ(parsed.error().message, "the Redis URL " + why) << url;
  }
}

TEST(RedisUrl, NeverShowsThePasswordWhenItIsRefused) {
  for (const std::string rest : {"@a b", "@host:0", "@host/x", "@host?x", "@", "%zz@host", ""}) {
    const auto parsed = parse_url("redis://ann:hush" + rest);
    ASSERT_FALSE(parsed) << rest;
    EXPECT_FALSE(parsed.error().message.contains("hush")) << parsed.error().message;
  }
}

}  // namespace
}  // namespace weir::redis
