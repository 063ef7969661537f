// What providers say of their quotas; samples as they are sent.
#include "provider/signals.h"

#include <random>
#include <string>
#include <vector>

#include "provider/signals_for_test.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using Quotas = std::vector<Quota>;

constexpr Nanos kDay = 24h;

Quotas quotas_of(const Answer& answer) {
  const Signals signals = read(answer);
  return {signals.quotas().begin(), signals.quotas().end()};
}

TEST(QuotasTest, OfOpenai) {
  const Quotas quotas = quotas_of({.profile = Profile::kOpenai,
                                   .fields = {{"x-ratelimit-limit-requests", "10000"},
                                              {"x-ratelimit-limit-tokens", "2000000"},
                                              {"x-ratelimit-remaining-requests", "9999"},
                                              {"X-RateLimit-Remaining-Tokens", "1999000"},
                                              {"x-ratelimit-reset-requests", "6ms"},
                                              {"x-ratelimit-reset-tokens", "30ms"}}});
  EXPECT_EQ(quotas, (Quotas{{.unit = Unit::kRequests,
                             .period = 1min,
                             .limit = 10'000,
                             .remaining = 9'999,
                             .reset_in = 6ms},
                            {.unit = Unit::kTokens,
                             .period = 1min,
                             .limit = 2'000'000,
                             .remaining = 1'999'000,
                             .reset_in = 30ms}}));
}

TEST(QuotasTest, OfTwoOfOneUnitAndPeriodTheStricterCounts) {
  const Quotas quotas = quotas_of({.profile = Profile::kOpenai,
                                   .fields = {{"x-ratelimit-limit-tokens", "2000000"},
                                              {"x-ratelimit-limit-project-tokens", "500000"},
                                              {"x-ratelimit-remaining-tokens", "100"},
                                              {"x-ratelimit-remaining-project-tokens", "400000"},
                                              {"x-ratelimit-limit-tokens_usage_based", "700000"},
                                              {"x-ratelimit-reset-tokens", "1s"}}});
  EXPECT_EQ(quotas, (Quotas{{.unit = Unit::kTokens,
                             .period = 1min,
                             .limit = 500'000,
                             .remaining = 100,
                             .reset_in = 1s}}));
}

TEST(QuotasTest, ARequestThatIsBackAfterMinutesIsOneOfADay) {
  const Quotas quotas = quotas_of({.profile = Profile::kOpenai,
                                   .fields = {{"x-ratelimit-limit-requests", "200"},
                                              {"x-ratelimit-remaining-requests", "199"},
                                              {"x-ratelimit-reset-requests", "7m12s"}}});
  ASSERT_EQ(quotas.size(), 1U);
  EXPECT_EQ(quotas[0].period, kDay);
}

TEST(QuotasTest, OfAnthropicWithTokensRoundedToTheNearestThousand) {
  const Quotas quotas =
      quotas_of({.profile = Profile::kAnthropic,
                 .fields = {{"anthropic-ratelimit-requests-limit", "50"},
                            {"anthropic-ratelimit-requests-remaining", "49"},
                            {"anthropic-ratelimit-requests-reset", "2026-11-16T05:47:01Z"},
                            {"anthropic-ratelimit-tokens-limit", "96000"},
                            {"anthropic-ratelimit-tokens-remaining", "95000"},
                            {"anthropic-ratelimit-tokens-reset", "2026-11-16T05:47:02Z"},
                            {"anthropic-ratelimit-input-tokens-limit", "80000"},
                            {"anthropic-ratelimit-input-tokens-remaining", "0"},
                            {"anthropic-ratelimit-input-tokens-reset", "2026-11-16T05:48:00Z"},
                            {"anthropic-ratelimit-output-tokens-limit", "16000"},
                            {"anthropic-priority-input-tokens-limit", "7"},
                            {"anthropic-fast-output-tokens-limit", "7"}}});
  const Quota requests{.period = 1min, .limit = 50, .remaining = 49, .reset_in = 1s};
  const Quota tokens{
      .unit = Unit::kTokens, .period = 1min, .limit = 96'000, .remaining = 95'499, .reset_in = 2s};
  const Quota input{.unit = Unit::kInputTokens,
                    .period = 1min,
                    .limit = 80'000,
                    .remaining = 499,
                    .reset_in = 1min};
  const Quota output{.unit = Unit::kOutputTokens, .period = 1min, .limit = 16'000};
  EXPECT_EQ(quotas, (Quotas{requests, tokens, input, output}));
}

TEST(QuotasTest, OfAzureWhoseTokensAreWindowsAndWhoseNonsenseIsIgnored) {
  EXPECT_EQ(quotas_of({.profile = Profile::kAzure,
                       .fields = {{"x-ratelimit-limit-tokens", "120000"},
                                  {"x-ratelimit-remaining-tokens", "119000"},
                                  {"x-ratelimit-reset-tokens", "20"}}}),
            (Quotas{{.unit = Unit::kTokens,
                     .period = 1min,
                     .limit = 120'000,
                     .remaining = 119'000,
                     .reset_in = 20s,
                     .fixed_window = true}}));
  const Signals nonsense = read({.profile = Profile::kAzure,
                                 .status = 429,
                                 .fields = {{"x-ratelimit-limit-requests", "0"},
                                            {"x-ratelimit-remaining-requests", "-1"},
                                            {"x-ratelimit-limit-tokens", "0"},
                                            {"x-ratelimit-remaining-tokens", "0"}}});
  EXPECT_TRUE(nonsense.quotas().empty());
  EXPECT_EQ(nonsense.kind, Signals::Kind::kLimited);
  EXPECT_EQ(nonsense.retry_after, std::nullopt);
}

TEST(QuotasTest, OfGroqWhoseRequestsAreOfADay) {
  EXPECT_EQ(quotas_of({.profile = Profile::kGroq,
                       .fields = {{"x-ratelimit-limit-requests", "14400"},
                                  {"x-ratelimit-remaining-requests", "14370"},
                                  {"x-ratelimit-reset-requests", "2m59.56s"},
                                  {"x-ratelimit-limit-tokens", "18000"},
                                  {"x-ratelimit-remaining-tokens", "17997"},
                                  {"x-ratelimit-reset-tokens", "7.66s"}}}),
            (Quotas{{.period = kDay, .limit = 14'400, .remaining = 14'370, .reset_in = 179'560ms},
                    {.unit = Unit::kTokens,
                     .period = 1min,
                     .limit = 18'000,
                     .remaining = 17'997,
                     .reset_in = 7'660ms}}));
}

TEST(QuotasTest, OfCerebrasAndMistralWhosePeriodsAreInTheNames) {
  EXPECT_EQ(
      quotas_of({.profile = Profile::kOpenai,
                 .fields = {{"x-ratelimit-limit-requests-day", "14400"},
                            {"x-ratelimit-remaining-requests-day", "14399"},
                            {"x-ratelimit-reset-requests-day", "33011.38"},
                            {"x-ratelimit-limit-tokens-minute", "60000"}}}),
      (Quotas{{.period = kDay, .limit = 14'400, .remaining = 14'399, .reset_in = 33'011'380ms},
              {.unit = Unit::kTokens, .period = 1min, .limit = 60'000}}));
  EXPECT_EQ(quotas_of({.profile = Profile::kMistral,
                       .fields = {{"x-ratelimit-limit-req-minute", "60"},
                                  {"x-ratelimit-remaining-req-minute", "59"},
                                  {"x-ratelimit-limit-tokens-minute", "500000"},
                                  {"x-ratelimit-remaining-tokens-minute", "499980"},
                                  {"x-ratelimit-limit-tokens-month", "1000000000"},
                                  {"x-ratelimit-tokens-query-cost", "20"}}}),
            (Quotas{{.period = 1min, .limit = 60, .remaining = 59},
                    {.unit = Unit::kTokens, .period = 1min, .limit = 500'000, .remaining = 499'980},
                    {.unit = Unit::kTokens, .period = 30 * kDay, .limit = 1'000'000'000}}));
}

TEST(QuotasTest, OfCohereTrialKeys) {
  EXPECT_EQ(quotas_of({.fields = {{"x-trial-endpoint-call-limit", "40"},
                                  {"x-trial-endpoint-call-remaining", "39"},
                                  {"x-endpoint-monthly-call-limit", "1000"}}}),
            (Quotas{{.period = 1min, .limit = 40, .remaining = 39},
                    {.period = 30 * kDay, .limit = 1'000}}));
}

TEST(QuotasTest, OfGithubWhoseResetIsAnEpoch) {
  EXPECT_EQ(quotas_of({.fields = {{"x-ratelimit-limit", "5000"},
                                  {"x-ratelimit-remaining", "4987"},
                                  {"x-ratelimit-reset", "1794809880"},
                                  {"x-ratelimit-used", "13"},
                                  {"x-ratelimit-resource", "core"}}}),
            (Quotas{{.period = 1h,
                     .limit = 5'000,
                     .remaining = 4'987,
                     .reset_in = 31min,
                     .fixed_window = true}}));
}

TEST(QuotasTest, OfTheDraftsOfTheIetf) {
  const Quota burst{.period = 1min, .limit = 100, .remaining = 50, .reset_in = 30s};
  const Quota daily{.period = kDay, .limit = 1'000};
  EXPECT_EQ(quotas_of({.fields = {{"RateLimit-Policy",
                                   "\"burst\";q=100;w=60,\"daily\";q=1000;w=86400;qu=\"requests\""},
                                  {"RateLimit", "\"burst\";r=50;t=30"}}}),
            (Quotas{burst, daily}));
  EXPECT_EQ(quotas_of({.fields = {{"RateLimit", "\"a,;b\";r=50;t=30"},
                                  {"RateLimit-Policy", "\"a,;b\"; q=100; w=60; pk=:x=:"}}}),
            Quotas{burst});
  EXPECT_EQ(quotas_of({.fields = {{"RateLimit", "\"up\";r=50;t=30"},
                                  {"RateLimit-Policy", "\"up\";q=100;w=60;qu=\"content-bytes\""}}}),
            Quotas{});
  EXPECT_EQ(quotas_of({.fields = {{"RateLimit-Limit", "100, 100;w=60, 1000;w=3600"},
                                  {"RateLimit-Remaining", "50"},
                                  {"RateLimit-Reset", "30"}}}),
            Quotas{burst});
  EXPECT_EQ(quotas_of({.fields = {{"RateLimit", "limit=100, remaining=50, reset=30"},
                                  {"RateLimit-Policy", "100;w=60"}}}),
            Quotas{burst});
}

TEST(QuotasTest, WithoutAPeriodSayIt) {
  EXPECT_EQ(quotas_of({.fields = {{"x-ratelimit-limit", "100"},
                                  {"x-ratelimit-remaining", "0"},
                                  {"x-ratelimit-reset", "7"}}}),
            (Quotas{{.limit = 100, .remaining = 0, .reset_in = 7s, .fixed_window = true}}));
}

TEST(QuotasTest, OfGeminiThereAreNone) {
  EXPECT_EQ(quotas_of({.profile = Profile::kGemini,
                       .fields = {{"content-type", "application/json"}, {"x-gemini", "1"}}}),
            Quotas{});
}

// However hostile: nothing throws, everything stays in its bounds.
TEST(SignalsTest, WhateverBytesComeTheBoundsHold) {
  const std::vector<std::string> names{"retry-after",
                                       "retry-after-ms",
                                       "x-ms-retry-after-ms",
                                       "x-ratelimit-limit",
                                       "x-ratelimit-remaining",
                                       "x-ratelimit-reset",
                                       "x-ratelimit-limit-requests",
                                       "x-ratelimit-remaining-requests",
                                       "x-ratelimit-reset-requests",
                                       "x-ratelimit-limit-tokens-day",
                                       "anthropic-ratelimit-tokens-limit",
                                       "anthropic-ratelimit-tokens-remaining",
                                       "anthropic-ratelimit-tokens-reset",
                                       "anthropic-ratelimit-unified-reset",
                                       "ratelimit",
                                       "ratelimit-policy",
                                       "ratelimit-limit",
                                       "ratelimit-reset",
                                       "x-amzn-errortype",
                                       "x-ratelimit-",
                                       "anthropic-ratelimit-",
                                       "ratelimit-",
                                       "x-trial-endpoint-call-"};
  const std::vector<std::string> values{"",
                                        "0",
                                        "-1",
                                        "1",
                                        "NaN",
                                        "inf",
                                        "1e30",
                                        "277403",
                                        "18446744073709551616",
                                        "9223372036854775807",
                                        std::string(300, '9'),
                                        "6m0s",
                                        "99999999d",
                                        "\"a\";q=1;w=1;r=0;t=9",
                                        "\"",
                                        ";;;",
                                        ",,,",
                                        "Sun, 06 Nov 1994 08:49:37 GMT",
                                        "Fri, 01 Jan 2199 00:00:00 GMT",
                                        "2026-11-16T05:48:00Z",
                                        "9999-99-99T99:99:99Z",
                                        "1794808080",
                                        "1794808080000",
                                        "=",
                                        "limit=9",
                                        "100;w=999999999999999",
                                        std::string("\xff\x00\x7f", 3)};
  const std::vector<std::string> bodies{
      "",
      "{",
      "null",
      "[]",
      "[[]]",
      "{\"error\":null}",
      "{\"error\":[]}",
      "{\"error\":\"x\"}",
      std::string(16'384, '['),
      std::string(20'000, 'x'),
      R"({"error":{"details":[{"retryDelay":"99999999999999999999s"}]}})",
      R"({"error":{"metadata":{"headers":{"X-RateLimit-Reset":18446744073709551615}}}})",
      R"({"error":{"metadata":{"headers":{"X-RateLimit-Reset":-1}}}})",
      R"({"error":{"code":429,"details":[1,{"violations":[1,{}]}],"status":"RESOURCE_EXHAUSTED"}})",
      R"({"error":{"message":"retry in 99999999999999999999999h limit: 0"}})",
      "{\"error\":{\"code\":\"\xff\\u0000\"}}"};
  std::mt19937_64 random{5};
  const auto pick = [&](const auto& from) -> const auto& { return from[random() % from.size()]; };
  const std::array statuses{200, 400, 402, 403, 404, 429, 500, 503, 529};
  std::string noise(64, ' ');
  for (int i = 0; i < 4'000; ++i) {
    for (char& c : noise) c = static_cast<char>(random());
    net::ResponseHead head;
    head.status = pick(statuses);
    for (std::uint64_t n = random() % 12; n > 0; --n) {
      head.fields.add({pick(names), random() % 8 == 0 ? noise : pick(values)});
    }
    const auto profile = static_cast<Profile>(random() % 8);
    const Signals signals =
        read_signals(profile, head, random() % 8 == 0 ? noise : pick(bodies), kWall);
    ASSERT_EQ(signals.kind == Signals::Kind::kServed, head.status < 400);
    ASSERT_EQ(signals.reason.empty(), head.status < 400);
    ASSERT_LE(signals.reason.size(), Signals::kReasonBytesMax);
    for (const char c : signals.reason) ASSERT_TRUE(c >= ' ' && c <= '~');
    if (signals.retry_after) {
      ASSERT_GT(*signals.retry_after, 0s);
      ASSERT_LE(*signals.retry_after, Signals::kRetryAfterMax);
    }
    if (signals.resets_in) {
      ASSERT_EQ(signals.kind, Signals::Kind::kExhausted);
      ASSERT_GT(*signals.resets_in, 0s);
      ASSERT_LE(*signals.resets_in, Signals::kResetMax);
    }
    for (const Quota& quota : signals.quotas()) {
      ASSERT_TRUE(quota.period >= 0s && quota.period <= kPeriodMax);
      ASSERT_TRUE(!quota.limit || (*quota.limit >= 1 && *quota.limit <= kAmountMax));
      ASSERT_TRUE(!quota.remaining || (*quota.remaining >= 0 && *quota.remaining <= kAmountMax));
      ASSERT_TRUE(!quota.reset_in || (*quota.reset_in >= 0s && *quota.reset_in <= kPeriodMax));
    }
  }
}

}  // namespace
}  // namespace weir
