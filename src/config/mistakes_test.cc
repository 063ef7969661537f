// What is wrong in a file, where, and in which words.
#include <gtest/gtest.h>

#include "config/load.h"

namespace weir {
namespace {

struct Row {
  std::string text;
  std::string place;  // "line:column: field"
  std::string part;   // of the message
};

std::string all(const Mistakes& mistakes) {
  std::string text;
  for (const auto& mistake : mistakes) text += mistake.text() + "\n";
  return text;
}

template <class Parse>
void expect_one_mistake(const std::vector<Row>& rows, Parse parse) {
  for (const auto& [text, place, part] : rows) {
    const auto parsed = parse(text, "f.yaml");
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().size(), 1U) << text << "\n" << all(parsed.error());
    const std::string line = parsed.error()[0].text();
    EXPECT_TRUE(line.starts_with("f.yaml" + place)) << text << "\n" << line;
    EXPECT_NE(line.find(part), line.npos) << text << "\n" << line;
  }
}

// A provider with `line` as its second.
std::string with(const std::string& line) { return "domain: a.com\n" + line + "\n"; }

TEST(ProviderMistakes, HaveAPlaceAFieldAndACure) {  // S4.1
  expect_one_mistake(
      {
          {"name: x\n", ":1:1: domain", "is missing"},
          {"domain:\n", ":1:1: domain", "expected a domain such as"},
          {"domain: [a.com]\n", ":1:9: domain", "not a list"},
          {"domain: a..com\n", ":1:9: domain", "is not a domain"},
          {"domain: https://a.com/v1\n", ":1:9: domain", "the host alone: a.com"},
          {"domain: a.com:443\n", ":1:9: domain", "the host alone: a.com"},
          {with("name: a b"), ":2:7: name", "1 to 64 letters"},
          {with("name: " + std::string(65, 'n')), ":2:7: name", "1 to 64 letters"},
          {with("name: {a: b}"), ":2:7: name", "expected a name, not a mapping"},
          {with("pass_client_key: yes"), ":2:18: pass_client_key", "one of true, false: yes"},
          {with("pass_client_key: true\napi_key: k"), ":2:18: pass_client_key",
           "choose api_key or"},
          {with("api_key_parameter: apikey"), ":2:20: api_key_parameter", "there is none"},
          {with("api_key: k\napi_key_parameter: a=b"), ":3:20: api_key_parameter", "a name is"},
          {with("max_body: 0"), ":2:11: max_body", "from 1 to 1073741824 such as 1MiB: 0"},
          {with("max_body: 1025MiB"), ":2:11: max_body", "1025MiB"},
          {with("max_body: 32MB"), ":2:11: max_body", "32MB"},
          {with("max_body: 99999999999999999999GiB"), ":2:11: max_body", "such as 1MiB"},
          {with("max_body: MiB"), ":2:11: max_body", "such as 1MiB"},
          {with("default_max_tokens: 0"), ":2:21: default_max_tokens", "from 1 to 1000000000"},
          {with("refund_unused_tokens: 1"), ":2:23: refund_unused_tokens", "true, false"},
          {with("prices: {m: {input: 1}}"), ":2:13: prices.m.output", "is missing"},
          {with("prices: {m: {output: 1, input: -1}}"), ":2:32: prices.m.input",
           "dollars from 0 to"},
          {with("prices: {m: {output: 1, input: 0.0000001}}"), ":2:32: ", "6 decimals"},
          {with("prices: {m: {output: 1, input: 1, cache: 1}}"), ":2:35: prices.m.cache",
           "unknown"},
          {with("prices: {\"\": {output: 1, input: 1}}"), ":2:10: prices.", "a pattern is"},
          {with("limit: 5"), ":2:8: limit", "needs `period`"},
          {with("period: 5m"), ":2:9: period", "needs `limit`"},
          {with("limit: 0\nperiod: 1m"), ":2:8: limit", "from 1 to 1000000000000000: 0"},
          {with("limit: 1000000000000001\nperiod: 1m"), ":2:8: limit", "from 1 to"},
          {with("limit: 99999999999999999999\nperiod: 1m"), ":2:8: limit", "from 1 to"},
          {with("limit: -3\nperiod: 1m"), ":2:8: limit", "-3"},
          {with("limit: 1.5\nperiod: 1m"), ":2:8: limit", "a whole number"},
          {with("limit: \"5\"\nperiod: 1m"), ":2:8: limit", "without quotes"},
          {with("limit: many\nperiod: 1m"), ":2:8: limit", "many"},
          {with("limit:\nperiod: 1m"), ":2:1: limit", "not nothing"},
          {with("limit: 3\nperiod: 5x"), ":3:9: period", "5x is not a period; write 30s, 5m"},
          {with("limit: 3\nperiod: 60"), ":3:9: period", "60 is not a period"},
          {with("limit: 3\nperiod: m"), ":3:9: period", "is not a period"},
          {with("limit: 3\nperiod: 0s"), ":3:9: period", "from 1ms to 400d"},
          {with("limit: 3\nperiod: 401d"), ":3:9: period", "from 1ms to 400d"},
          {with("limit: 3\nperiod: 99999999999999999999s"), ":3:9: period", "from 1ms to 400d"},
          {with("limit: 3\nperiod: -5s"), ":3:9: period", "is not a period"},
          {with("limit: 3\npriod: 5s\nperiod: 5s"), ":3:1: priod", "did you mean `period`?"},
          {with("api-key: x"), ":2:1: api-key", "did you mean `api_key`?"},
          {with("zebra: 1"), ":2:1: zebra", "unknown key `zebra`"},
          {with("tokens_per_minute: 9"), ":2:20: tokens_per_minute", "from 10"},
          {with("max_concurrency: 0"), ":2:18: max_concurrency", "from 1"},
          {with("request_timeout: 3"), ":2:18: request_timeout", "3 is not a period"},
          {with("request_timeout: 201d"), ":2:18: request_timeout", "is at most 200d"},
          {with("max_wait: soon"), ":2:11: max_wait", "soon is not a period"},
          {with("profile: opnai"), ":2:10: profile", "did you mean `openai`?"},
          {with("upstream: ftp://a.com"), ":2:11: upstream", "https://"},
          {with("upstream: http://a.com"), ":2:11: upstream", "this machine alone"},
          {with("upstream: https://u:p@a.com"), ":2:11: upstream", "user or a password"},
          {with("upstream: https://a.com/x?y"), ":2:11: upstream", "host, port and path"},
          {with("upstream: https://"), ":2:11: upstream", "is not a URL"},
          {with("upstream: https://a.com:99999"), ":2:11: upstream", "is not a URL"},
          {with("models: [a]"), ":2:9: models", "expected a mapping"},
          {with("models: {x: 5}"), ":2:13: models.x", "expected a mapping"},
          {with("models: {x: {weight: 5}}"), ":2:14: models.x.weight", "unknown key"},
          {with("models: {x: {limit: 5}}"), ":2:21: models.x.limit", "needs `period`"},
          {with("models: {\"\": {}}"), ":2:10: models.", "a pattern is"},
          {with("agents: {x: {weight: 0}}"), ":2:22: agents.x.weight", "from 1 to 1000"},
          {with("agents: {x: {weight: 1001}}"), ":2:22: agents.x.weight", "from 1 to 1000"},
          {with("agents: {x: {priority: 101}}"), ":2:24: agents.x.priority", "from -100 to 100"},
          {with("agents: {default: {}, \"*\": {}}"), ":2:23: agents", "are the same"},
      },
      parse_provider);
}

TEST(LimitMistakes, HaveAPlaceAFieldAndACure) {  // S4.1
  const auto entry = [](const std::string& text) { return "limits:\n  - {" + text + "}\n"; };
  const std::string good = "unit: tokens, amount: 5, per: 1m";
  expect_one_mistake(
      {
          {"[1]\n", ":1:1: ", "expected a mapping"},
          {"limits: 5\n", ":1:9: limits", "expected a list"},
          {"limits: [5]\n", ":1:10: limits[0]", "expected a mapping"},
          {entry("amount: 5, per: 1m"), ":2:5: limits[0].unit", "is missing"},
          {entry("unit: tokens, per: 1m"), ":2:5: limits[0].amount", "is missing"},
          {entry("unit: tokens, amount: 5"), ":2:5: limits[0].per", "is missing"},
          {entry("unit: token, amount: 5, per: 1m"), ":2:12: limits[0].unit", "mean `tokens`?"},
          {entry("unit: slot, amount: 5, per: 1m"), ":2:12: limits[0].unit", "mean `slots`?"},
          {entry("unit: slots, amount: 5, per: 1m"), ":2:35: limits[0].per", "given back"},
          {entry(good + ", algorithm: leaky"), ":2:51: limits[0].algorithm", "sliding_log: leaky"},
          {entry(good + ", algorithm: sliding_log, burst: 5"), ":2:71: limits[0].burst", "only a"},
          {entry(good + ", burst: 0"), ":2:47: limits[0].burst", "from 1"},
          {entry(good + ", burst: 1000000000000000"), ":2:5: limits[0]", "400 days to fill"},
          {entry(good + ", name: \"a\\tb\""), ":2:46: limits[0].name", "printable"},
          {entry(good + ", align: calendar"), ":2:47: limits[0].align", "only a fixed_window"},
          {entry(good + ", align: wall, algorithm: fixed_window"), ":2:47: ", "calendar: wall"},
          {entry(good + ", zone: UTC"), ":2:46: limits[0].zone", "needs align: calendar"},
          {entry(good + ", reset: 01:00"), ":2:47: limits[0].reset", "needs align: calendar"},
          {entry(good + ", nam: x"), ":2:40: limits[0].nam", "did you mean `name`?"},
          {entry("unit: tokens, amount: 5, per: 36h, algorithm: fixed_window, align: calendar"),
           ":2:36: limits[0].per", "whole days: 36h"},
          {entry("unit: usd, amount: 0.0000001, per: 1d"), ":2:25: limits[0].amount", "6 decimals"},
          {entry("unit: usd, amount: 1., per: 1d"), ":2:25: limits[0].amount", "dollars"},
          {entry("unit: usd, amount: 1000000000.1, per: 1d"), ":2:25: limits[0]", "dollars"},
          {entry("unit: usd, amount: 0, per: 1d"), ":2:25: limits[0].amount", "dollars"},
          {"budget: 50\n", ":1:9: budget", "expected a mapping"},
          {"budget: {per: 1d}\n", ":1:9: budget.usd", "is missing"},
          {"budget: {usd: 5, reset: 24:00}\n", ":1:25: budget.reset", "00:00 to 23:59: 24:00"},
          {"budget: {usd: 5, reset: noon}\n", ":1:25: budget.reset", "noon"},
          {"budget: {usd: 5, zone: Mars/Base}\n", ":1:24: budget.zone", "IANA"},
          {"budget: {usd: 5, zone: ../../etc/passwd}\n", ":1:24: budget.zone", "IANA"},
          {"budget: {usd: 5, zone: Europe}\n", ":1:24: budget.zone", "IANA"},
          {"limits:\n- {" + good + ", name: x}\n- {" + good + ", name: x}\n", ":3:3: limits[1]",
           "two limits have the name \"x\""},
          {"limits: [" +
               [&] {
                 std::string many;
                 for (int i = 0; i < 17; ++i) many += "{" + good + "}, ";
                 return many;
               }() +
               "]\n",
           ":1:9: limits", "at most 16 limits"},
      },
      parse_limits);
}

TEST(MainMistakes, HaveAPlaceAFieldAndACure) {
  const auto token = [](const std::string& text) { return "auth: {tokens: [{" + text + "}]}\n"; };
  expect_one_mistake(
      {
          {"", ": the file is empty", ""},
          {"# nothing\n", ": the file is empty", ""},
          {"- a\n", ":1:1: ", "expected a mapping (key: value), not a list"},
          {"hello\n", ":1:1: ", "expected a mapping"},
          {"listen: nowhere\n", ":1:9: listen", "nowhere is not an address"},
          {"listen: 127.0.0.1:70000\n", ":1:9: listen", "a port from 0 to 65535"},
          {"listen: ::1:80\n", ":1:9: listen", "write 127.0.0.1:9347"},
          {"listen: \":80\"\n", ":1:9: listen", "write 127.0.0.1:9347"},
          {"listen: 0.0.0.0:80\n", ":1:9: listen", "would let everybody in"},
          {"store: mysql://h/db\n", ":1:8: store", "postgresql://"},
          {"durability: exakt\n", ":1:13: durability", "did you mean `exact`?"},
          {"sync: yes\n", ":1:7: sync", "process, power"},
          {"on_store_failure: open\n", ":1:19: on_store_failure", "deny, memory"},
          {"providers: a.yaml\n", ":1:12: providers", "expected a list"},
          {"providers: [{}]\n", ":1:13: providers[0]", "path of a file"},
          {"hosts: [a..b]\n", ":1:9: hosts[0]", "a host name"},
          {"provider: [a]\n", ":1:1: provider", "did you mean `providers`?"},
          {"agents: {}\n", ":1:1: agents", "unknown key"},
          {token("scope: read, token: 0123456789abcdef"), ":1:17: auth.tokens[0].name", "missing"},
          {token("name: a, token: 0123456789abcdef"), ":1:17: auth.tokens[0].scope", "missing"},
          {token("name: a, scope: root, token: 0123456789abcdef"), ":1:34: ", "client, read"},
          {token("name: a, scope: read"), ":1:17: auth.tokens[0]", "token_env and token_file"},
          {token("name: a, scope: read, token: 0123456789abcde"), ":1:17: ", "at least 16"},
          {token("name: a, scope: read, token_env: WEIR_NOT_SET"),
           ":1:51: ", "WEIR_NOT_SET is not"},
          {token("name: a, scope: read, token: 0123456789abcdef}, {name: a, scope: read, token: "
                 "fedcba9876543210"),
           ":1:73: auth.tokens[1].name", "two tokens have the name a"},
          {token("name: a, scope: read, token: 0123456789abcdef}, {name: b, scope: read, token: "
                 "0123456789abcdef"),
           ":1:66: auth.tokens[1]", "the same token as that of a"},
          {"fleet: {node: a}\n", ":1:8: fleet", "needs redis or bus"},
          {"fleet: {redis: http://h}\n", ":1:16: fleet.redis", "redis:// or rediss:// or unix://"},
          {"fleet: {bus: \"nats://\"}\n", ":1:14: fleet.bus", "with a host"},
          {"fleet: {redis: \"redis://h/x\"}\n", ":1:16: fleet.redis",
           "a database that is no number"},
          {"fleet: {bus: nats://h, fallback: close}\n", ":1:34: fleet.fallback", "must be one of"},
      },
      parse_main);
}

TEST(SeedJsonMistakes, StandInsideRateLimitAlone) {  // S3.7
  const auto entry = [](const std::string& text) {
    return R"({"other": [1], "agents": {"x": 1, "resilience": {"rate_limit": {"openai": )" + text +
           "}}}}";
  };
  expect_one_mistake(
      {
          {entry(R"({"burst": 5})"), ":1:85: agents.resilience.rate_limit.openai.burst",
           "approximate token estimates"},
          {entry(R"({"tokens": 5})"), ":1:76: agents.resilience.rate_limit.openai.tokens",
           "unknown"},
          {entry(R"({"max_concurrency": 0})"), ":1:95: ", "from 1"},
          {entry("5"), ":1:75: agents.resilience.rate_limit.openai", "expected a mapping"},
      },
      parse_main);
}

TEST(YamlMistakes, HostileTextIsRefusedWithItsPlace) {
  const std::string deep = "a: " + std::string(64, '[') + std::string(64, ']');
  expect_one_mistake(
      {
          {with("name: *x"), ":2:7: ", "aliases"},
          {with("name: &x y"), ":2:7: ", "anchors"},
          {with("name: !mine y"), ":2:7: ", "tag"},
          {with("name: !!map y"), ":2:7: ", "tag"},
          {with("domain: b.com"), ":2:1: ", "`domain` stands here twice, first in line 1"},
          {with("---\ndomain: b.com"), ":2:1: ", "a second document"},
          {with("? [a]\n: b"), ":2:3: ", "a key must be text"},
          {with("~: b"), ":2:1: ", "a key must be text"},
          {with(deep), ":2:67: ", "nested more than 64 deep"},
          {with(std::string("a: \0", 4)), ":2:4: ", "NUL"},
          {with("a: \xC3\x28"), ":2:4: ", "invalid UTF-8"},
          {with("a: \xED\xA0\x80"), ":2:4: ", "invalid UTF-8"},
          {with("a: \xC0\xAF"), ":2:4: ", "invalid UTF-8"},
          {with("a: {b"), ":3:1: ", "not YAML: end of map flow not found"},
          {with("name: \"b"), ":2:7: ", "quote is never closed"},
          {with("name: 'b''"), ":2:7: ", "quote is never closed"},
          {with("a: @b"), ":2:4: ", "not YAML: unknown token"},
          {"%YAML 9.sk\n---\ndomain: a.com\n", ":1:1: ", "bad YAML version"},
          {std::string(1024 * 1024 + 1, ' '), ": larger than 1 MiB", ""},
      },
      parse_provider);
}

TEST(YamlMistakes, AnAliasBombIsOnlyText) {  // MECHANISMS: 350 bytes walked for 3.5 s
  std::string bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n";
  for (char c = 'b'; c < 'z'; ++c) {
    const std::string last = "*" + std::string(1, static_cast<char>(c - 1));
    bomb += std::string(1, c) + ": &" + c + " [" + last;
    for (int i = 0; i < 8; ++i) bomb += "," + last;
    bomb += "]\n";
  }
  const auto parsed = parse_provider(bomb, "f");
  ASSERT_FALSE(parsed);
  EXPECT_LE(parsed.error().size(), 100U);
  EXPECT_FALSE(parse_provider("domain: &x [*x]\n", "f"));
}

TEST(ProviderMistakes, AreAllToldAtOnceInOrder) {
  const auto parsed = parse_provider(
      "period: 5x\nlimit: 0\ndomain: a..b\nname: *x\nlimits: [{unit: usd, per: 1d}]\nfoo: 1\n",
      "f");
  ASSERT_FALSE(parsed);
  std::vector<int> lines;
  for (const auto& mistake : parsed.error()) lines.push_back(mistake.place.line);
  EXPECT_EQ(lines, (std::vector{4}));  // an unknown alias ends the reading

  const auto other = parse_provider(
      "period: 5x\nlimit: 0\ndomain: a..b\nname: &x y\nupstream: *x\nlimits: [{unit: usd, per: "
      "1d}]\n"
      "foo: 1\nfoo: 2\n",
      "f");
  ASSERT_FALSE(other);
  lines.clear();
  for (const auto& mistake : other.error()) lines.push_back(mistake.place.line);
  EXPECT_EQ(lines, (std::vector{1, 2, 3, 4, 5, 6, 7, 8, 8})) << all(other.error());
}

TEST(Mistakes, NeverQuoteASecret) {  // S4.7
  const std::string key = "sk-canary-0123456789";
  for (const std::string& line :
       {"api_key: " + key + "\nlimit: 0", "api_key: {" + key + ": 1}", "api_key: [" + key + "]",
        "api_key: *" + key, "api_key: &" + key + " x", "api_key: !" + key + " x",
        "api_key: \"" + key + "\\q\"", "api_key: \"" + key + " \"", "api_key: @" + key,
        "api_key_env: " + key, "api_key_file: " + key, "api_key: " + key + "\napi_key: " + key,
        "api_key:" + key, "upstream: https://u:" + key + "@h", "upstream: ftp://u:" + key + "@h",
        "api_key: " + key + "\napi_key_env: X", "{api_key:" + key + "}", "api_key: '" + key,
        "%YAML " + key + "\n---\n"}) {
    for (const std::string& text : {with(line), line}) {
      const auto parsed = parse_provider(text, "f");
      const std::string told = parsed ? "" : all(parsed.error());
      EXPECT_EQ(told.find("canary"), std::string::npos) << told;
    }
  }
  for (const std::string& line :
       {"store: mysql://u:" + key + "@h/", "fleet: {redis: \"http://u:" + key + "@h\"}",
        "fleet: {redis: \"redis://u:" + key + "@\", bus: [" + key + "]}",
        std::string{"auth: {tokens: [{token: canary}]}"},
        std::string{"auth: {tokens: [{token: [canary]}]}"},
        std::string{"auth: {tokens: [{token:canary}]}"}}) {
    const auto parsed = parse_main(line, "f");
    ASSERT_FALSE(parsed) << line;
    EXPECT_EQ(all(parsed.error()).find("canary"), std::string::npos) << all(parsed.error());
  }
}

}  // namespace
}  // namespace weir
