// The examples of the formats and of the seeds, verbatim, and what they mean.
#include <gtest/gtest.h>

#include <cstdlib>

#include "config/load.h"
#include "config/texts_for_test.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

template <class T>
T good(std::expected<T, Mistakes> parsed) {
  if (parsed) return *std::move(parsed);
  std::string text;
  for (const auto& mistake : parsed.error()) text += mistake.text() + "\n";
  ADD_FAILURE() << text;
  return {};
}

std::vector<std::string> names(const std::vector<LimitConfig>& limits) {
  std::vector<std::string> all;
  for (const auto& limit : limits) all.push_back(limit.spec.name);
  return all;
}

LimitSpec named(LimitSpec spec, std::string name) {
  spec.name = std::move(name);
  return spec;
}

TEST(ProviderFile, TheExampleOfTheFormatsMeansWhatItSays) {
  const auto provider = good(parse_provider(kProviderExample, "anthropic.yaml"));
  EXPECT_EQ(provider.name, "anthropic");
  EXPECT_EQ(provider.domain, "api.anthropic.com");
  EXPECT_EQ(provider.upstream, "https://api.anthropic.com");
  EXPECT_EQ(provider.profile, Profile::kAnthropic);
  EXPECT_EQ(provider.api_key.reveal(), "sk-example");
  EXPECT_EQ(provider.request_timeout, 3min);
  EXPECT_EQ(provider.max_wait, 240s);
  EXPECT_EQ(provider.place.line, 2);

  ASSERT_EQ(provider.limits.size(), 6U);
  const auto spec = [&](std::size_t i) { return provider.limits[i].spec; };
  EXPECT_EQ(spec(0),
            named(LimitSpec::fixed_window(Unit::kRequests, {300, 1min}), "requests per 1m"));
  EXPECT_EQ(spec(1), named(LimitSpec::stepped(Unit::kTokens, {270'000, 30'000, 6s}),
                           "tokens per minute"));  // S3.1
  EXPECT_EQ(spec(2), named(LimitSpec::concurrency(5), "slots"));
  EXPECT_EQ(spec(3),
            named(LimitSpec::token_bucket(Unit::kRequests, {5, 1s}, 10), "requests per 1s"));
  EXPECT_EQ(spec(4), named(LimitSpec::sliding_window(Unit::kInputTokens, {50'000, 1min}),
                           "input_tokens per 1m"));
  EXPECT_EQ(spec(5), named(LimitSpec::fixed_window(Unit::kMicroUsd, {50'000'000, 24h}), "budget"));
  ASSERT_TRUE(provider.limits[5].align);
  EXPECT_EQ(provider.limits[5].align->zone.name(), "UTC");
  EXPECT_EQ(provider.limits[5].align->reset, 0min);
  EXPECT_FALSE(provider.limits[0].align);

  ASSERT_EQ(provider.models.size(), 1U);
  EXPECT_EQ(provider.models[0].pattern, "claude-opus-*");
  EXPECT_EQ(provider.models[0].limits[0].spec.burst, 90'000);
  ASSERT_EQ(provider.agents.size(), 2U);
  EXPECT_EQ(provider.agents[0].pattern, "*");
  EXPECT_EQ(provider.agents[0].limits[0].spec.burst, 18'000);
  EXPECT_EQ(provider.agents[1].pattern, "planner-*");
  EXPECT_EQ(provider.agents[1].weight, 4U);
  EXPECT_EQ(provider.agents[1].priority, 10);
}

TEST(ProviderFile, TheExamplesOfSeed004AreAccepted) {  // S4.1
  const auto fmp = good(parse_provider(kSeedFmp, "fmp.yaml"));
  EXPECT_EQ(fmp.name, "financialmodelingprep.com");
  EXPECT_EQ(fmp.upstream, "https://financialmodelingprep.com");
  EXPECT_EQ(fmp.profile, Profile::kGeneric);
  EXPECT_EQ(fmp.api_key.reveal(), "your_fmp_api_key_here");
  EXPECT_EQ(fmp.limits[0].spec.amount, 300);
  EXPECT_EQ(good(parse_provider(kSeedAlphavantage, "a")).limits[0].spec.amount, 5);
  const auto yahoo = good(parse_provider(kSeedYahoo, "yahoo.yaml"));
  EXPECT_EQ(yahoo.limits[0].spec.period, 1h);
  EXPECT_TRUE(yahoo.api_key.empty());
}

TEST(ProviderFile, ADomainAloneIsEnough) {
  const auto provider = good(parse_provider("domain: API.Example.com.", "f"));
  EXPECT_EQ(provider.name, "api.example.com");
  EXPECT_TRUE(provider.limits.empty());
  EXPECT_EQ(good(parse_provider("domain: \"[::1]\"\nname: x\n", "f")).upstream, "https://[::1]");
  EXPECT_EQ(
      good(parse_provider("domain: a.com\nupstream: http://127.0.0.1:8080/v1\n", "f")).upstream,
      "http://127.0.0.1:8080/v1");
}

TEST(ProviderFile, TheProfileFollowsTheDomain) {
  const auto profile = [](const std::string& domain) {
    return good(parse_provider("domain: " + domain, "f")).profile;
  };
  EXPECT_EQ(profile("api.openai.com"), Profile::kOpenai);
  EXPECT_EQ(profile("api.anthropic.com"), Profile::kAnthropic);
  EXPECT_EQ(profile("generativelanguage.googleapis.com"), Profile::kGemini);
  EXPECT_EQ(profile("mine.openai.azure.com"), Profile::kAzure);
  EXPECT_EQ(profile("bedrock-runtime.eu-west-1.amazonaws.com"), Profile::kBedrock);
  EXPECT_EQ(profile("api.groq.com"), Profile::kGroq);
  EXPECT_EQ(profile("api.mistral.ai"), Profile::kMistral);
  EXPECT_EQ(profile("notapi.openai.com"), Profile::kGeneric);
  EXPECT_EQ(good(parse_provider("domain: api.openai.com\nprofile: azure\n", "f")).profile,
            Profile::kAzure);
  EXPECT_EQ(name(Profile::kMistral), "mistral");
}

TEST(ProviderFile, AKeyMayComeFromTheEnvironment) {
  ::setenv("WEIR_CONFIG_TEST_KEY", "from-the-environment", 1);
  const auto provider =
      good(parse_provider("domain: a.com\napi_key_env: WEIR_CONFIG_TEST_KEY\n", "f"));
  EXPECT_EQ(provider.api_key.reveal(), "from-the-environment");
  ::unsetenv("WEIR_CONFIG_TEST_KEY");
}

TEST(ProviderFile, WhatTheProxyGoesByReachesTheModel) {
  const auto provider = good(parse_provider(
      "domain: a.com\npass_client_key: true\nmax_body: 3MiB\ndefault_max_tokens: 1009\n"
      "refund_unused_tokens: false\nprices:\n"
      "  \"gpt-4o*\": {input: 2.5, output: 10, cached_input: 1.25, cache_write: 3.750001}\n"
      "  local: {input: 0, output: 0.000001}\n",
      "f"));
  EXPECT_TRUE(provider.pass_client_key);
  EXPECT_EQ(provider.max_body, 3U * 1024 * 1024);
  EXPECT_EQ(provider.default_max_tokens, 1009);
  EXPECT_EQ(provider.refund_unused_tokens, false);
  ASSERT_EQ(provider.prices.size(), 2U);
  EXPECT_EQ(provider.prices[0].pattern, "gpt-4o*");
  EXPECT_EQ(provider.prices[0].price, (Price{2'500'000, 10'000'000, 1'250'000, 3'750'001}));
  EXPECT_EQ(provider.prices[1].price, (Price{0, 1, 0, 0}));

  const auto plain = good(parse_provider("domain: a.com", "f"));
  EXPECT_FALSE(plain.pass_client_key);
  EXPECT_EQ(plain.max_body, 32U * 1024 * 1024);
  EXPECT_FALSE(plain.default_max_tokens);
  EXPECT_FALSE(plain.refund_unused_tokens);

  const auto max_body = [](const std::string& text) {
    return good(parse_provider("domain: a.com\nmax_body: " + text, "f")).max_body;
  };
  EXPECT_EQ(max_body("1"), 1U);
  EXPECT_EQ(max_body("7KiB"), 7168U);
  EXPECT_EQ(max_body("1GiB"), 1U << 30U);
}

TEST(MainFile, TheExampleOfTheFormatsMeansWhatItSays) {
  ::setenv("WEIR_CONFIG_TEST_TOKEN", "0123456789abcdef", 1);
  const auto main = good(parse_main(kMainExample, "weir.yaml")).main;
  ::unsetenv("WEIR_CONFIG_TEST_TOKEN");
  EXPECT_EQ(main.listen.host, "127.0.0.1");
  EXPECT_EQ(main.listen.port, 9347);
  EXPECT_EQ(main.store.reveal(), "/var/lib/weir/weir.db");
  EXPECT_EQ(main.durability, Durability::kExact);
  EXPECT_EQ(main.sync, Sync::kProcess);
  EXPECT_EQ(main.on_store_failure, OnStoreFailure::kDeny);
  ASSERT_EQ(main.tokens.size(), 1U);
  EXPECT_EQ(main.tokens[0].name, "agents");
  EXPECT_EQ(main.tokens[0].scope, Scope::kClient);
  EXPECT_EQ(main.tokens[0].token.reveal(), "0123456789abcdef");
  ASSERT_TRUE(main.fleet);
  EXPECT_EQ(main.fleet->redis.reveal(), "rediss://user@host:6379");
  EXPECT_EQ(main.fleet->bus.reveal(), "nats://host:4222");
  EXPECT_EQ(main.fleet->node, "weir-1");
  EXPECT_EQ(main.fleet->fallback, Fallback::kReserve);
}

TEST(MainFile, AStoreIsRelativeToTheFileThatNamesIt) {
  EXPECT_EQ(good(parse_main("store: weir.db\n", "conf/weir.yaml")).main.store.reveal(),
            "conf/weir.db");
  const std::string local = "postgresql:///weir?host=/run/postgresql";
  EXPECT_EQ(good(parse_main("store: \"" + local + "\"\n", "conf/weir.yaml")).main.store.reveal(),
            local);
}

TEST(MainFile, EveryKeyReachesTheModel) {
  const auto main =
      good(parse_main("listen: 0\nhosts: [Weir.Example.com]\nstore: "
                      "postgresql://u:p@h/db\ndurability: snapshot\nsync: power\n"
                      "on_store_failure: memory\nfleet: {bus: redis://h, fallback: local}\n",
                      "f"))
          .main;
  EXPECT_EQ(main.listen.port, 0);
  EXPECT_EQ(main.hosts, std::vector<std::string>{"weir.example.com"});
  EXPECT_EQ(main.durability, Durability::kSnapshot);
  EXPECT_EQ(main.sync, Sync::kPower);
  EXPECT_EQ(main.on_store_failure, OnStoreFailure::kMemory);
  EXPECT_EQ(main.fleet->fallback, Fallback::kLocal);
}

TEST(SeedJson, IsAMainFileWhoseProvidersAreFoundByName) {  // S3.7
  std::string tabs{kSeedJson};
  for (std::size_t at = 0; (at = tabs.find("  ", at)) != tabs.npos;) tabs.replace(at, 2, "\t");
  for (const std::string& text : {std::string{kSeedJson}, tabs}) {
    const auto model = good(parse_main(text, "config.json"));
    ASSERT_EQ(model.providers.size(), 3U);
    EXPECT_EQ(model.providers[0].name, "anthropic");
    EXPECT_EQ(model.providers[0].domain, "");
    EXPECT_EQ(names(model.providers[0].limits),
              (std::vector<std::string>{"tokens per minute", "slots"}));
    EXPECT_EQ(model.providers[0].limits[0].spec.burst, 270'000);
    EXPECT_EQ(model.providers[1].limits[0].spec.burst, 90'000);
    EXPECT_EQ(model.providers[1].limits[1].spec.amount, 3);
    EXPECT_EQ(model.providers[2].name, "openai_official");
  }
}

TEST(SeedJson, WhatAnEntryLeavesOutIsTheDocumentsOwn) {  // S3.7
  const auto model = good(parse_main(
      R"({"agents":{"resilience":{"rate_limit":{"openai":{"max_concurrency":9},"mine":{}}}}})",
      "f"));
  EXPECT_EQ(model.providers[0].limits[0].spec.amount, 10'000);
  EXPECT_EQ(model.providers[0].limits[1].spec.amount, 9);
  EXPECT_TRUE(model.providers[1].limits.empty());
}

TEST(Limits, OfTheApiAreThoseOfTheFiles) {
  const auto limits = good(parse_limits(
      R"({"limits":[{"unit":"requests","amount":5,"per":"1m","algorithm":"fixed_window"},
          {"unit":"usd","amount":0.25,"per":"1h","algorithm":"sliding_log"},
          {"unit":"tokens","amount":100,"per":"10s","algorithm":"stepped","name":"steps"},
          {"unit":"requests","amount":9,"per":"7d","algorithm":"fixed_window","align":"calendar",
           "reset":"06:30","zone":"Europe/Berlin"}],
          "max_concurrency":2,"tokens_per_minute":10,"limit":3,"period":"1m"})",
      ""));
  EXPECT_EQ(names(limits), (std::vector<std::string>{"requests per 1m", "tokens per minute",
                                                     "slots", "requests per 1m (2)", "usd per 1h",
                                                     "steps", "requests per 7d"}));
  EXPECT_EQ(limits[4].spec.amount, 250'000);
  EXPECT_EQ(limits[5].spec.burst, 100);
  EXPECT_EQ(limits[6].align->reset, 6h + 30min);
  EXPECT_EQ(limits[6].align->zone.name(), "Europe/Berlin");
  EXPECT_TRUE(good(parse_limits("{}", "")).empty());
}

TEST(Limits, ANameOfOursGivesWayToOneOfTheFile) {
  EXPECT_EQ(
      names(good(parse_limits("limit: 3\nperiod: 1m\nlimits:\n- {unit: tokens, amount: 1, per: "
                              "1s, name: requests per 1m}\n",
                              ""))),
      (std::vector<std::string>{"requests per 1m (2)", "requests per 1m"}));
}

TEST(Listen, TakesAnAddressOrAPort) {
  const auto is = [](std::string_view text, const char* host, int port, bool loopback) {
    const auto listen = parse_listen(text);
    ASSERT_TRUE(listen) << text;
    EXPECT_EQ(listen->host, host);
    EXPECT_EQ(listen->port, port);
    EXPECT_EQ(listen->loopback(), loopback) << text;
  };
  is("127.0.0.1:9347", "127.0.0.1", 9347, true);
  is("[::1]:0", "::1", 0, true);
  is("localhost:1", "localhost", 1, true);
  is("8080", "127.0.0.1", 8080, true);
  is("0.0.0.0:80", "0.0.0.0", 80, false);
  is("[::]:80", "::", 80, false);
  for (const char* text : {"", ":", "a:b", "-1", "65536", "1.2.3.4", "x@h:1", "http://h:1"}) {
    EXPECT_EQ(parse_listen(text).error(), Errc::kInvalidConfig) << text;
  }
}

TEST(Listen, BeyondThisMachineNeedsTokens) {
  MainConfig main;
  EXPECT_FALSE(wide_open(main));
  main.listen = *parse_listen("0.0.0.0:80");
  EXPECT_TRUE(wide_open(main));
  main.tokens.emplace_back();
  EXPECT_FALSE(wide_open(main));
}

TEST(Period, IsANumberAndAUnit) {
  EXPECT_EQ(parse_period("250ms").value(), 250ms);
  EXPECT_EQ(parse_period("30s").value(), 30s);
  EXPECT_EQ(parse_period("5m").value(), 5min);
  EXPECT_EQ(parse_period("400d").value(), std::chrono::days{400});
  for (const char* text : {"", "s", "5", "5 s", "5S", "0ms", "401d", "1e3s", "+5s"}) {
    EXPECT_EQ(parse_period(text).error(), Errc::kInvalidConfig) << text;
  }
}

TEST(Explain, SaysInPlainWordsWhatHolds) {
  EXPECT_EQ(explain(good(parse_provider(kProviderExample, "f"))),
            "anthropic (api.anthropic.com)\n"
            "  at most 300 requests in each window of 1m, starting with its first request\n"
            "  at most 270000 tokens at once, 30000 more every 6s\n"
            "  at most 5 calls at a time\n"
            "  5 requests a second, at most 10 requests at once\n"
            "  at most 50000 input tokens in any 1m, by a sliding window\n"
            "  $50 a day, from 00:00 UTC\n"
            "  models claude-opus-*, together:\n"
            "    at most 90000 tokens at once, 10000 more every 6s\n"
            "  each agent *, weight 1, priority 0:\n"
            "    at most 18000 tokens at once, 2000 more every 6s\n"
            "  each agent planner-*, weight 4, priority 10\n"
            "  api key: yes\n");
  EXPECT_EQ(explain(good(parse_provider(
                "domain: a.com\nmax_concurrency: 1\nlimits:\n"
                "- {unit: output_tokens, amount: 1, per: 2h, algorithm: sliding_log}\n"
                "- {unit: usd, amount: 0.5, per: 2d, algorithm: fixed_window, align: calendar}\n"
                "- {unit: usd, amount: 12.345, per: 1h}\n",
                "f"))),
            "a.com (a.com)\n"
            "  at most 1 call at a time\n"
            "  at most 1 output token in any 2h, to the letter\n"
            "  $0.50 every 2d, from 00:00 UTC\n"
            "  $12.345 an hour, at most $12.345 at once\n"
            "  api key: none\n");
  EXPECT_EQ(explain(good(parse_provider("domain: a.com", "f"))),
            "a.com (a.com)\n  no limits: everything is admitted\n  api key: none\n");
  EXPECT_TRUE(explain(good(parse_provider("domain: a.com\napi_key: k\napi_key_parameter: p", "f")))
                  .ends_with("  api key: yes, in the query as p\n"));
}

}  // namespace
}  // namespace weir
