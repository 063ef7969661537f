// What refusals of providers mean; samples as they are sent.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "provider/signals_for_test.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using Kind = Signals::Kind;

struct Row {
  std::string_view what;
  Answer answer;
  Kind kind;
  std::optional<Nanos> time = {};  // retry_after, of kExhausted resets_in
  std::string_view reason = {};    // empty: any
};

void check(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    const Signals signals = read(row.answer);
    EXPECT_EQ(signals.kind, row.kind);
    const bool exhausted = row.kind == Kind::kExhausted;
    EXPECT_EQ(exhausted ? signals.resets_in : signals.retry_after, row.time);
    EXPECT_EQ(exhausted ? signals.retry_after : signals.resets_in, std::nullopt);
    if (!row.reason.empty()) {
      EXPECT_EQ(signals.reason, row.reason);
    }
  }
}

TEST(RefusalsTest, EveryFormOfRetryAfterIsUnderstood) {
  check({
      {"whole seconds", {.status = 429, .fields = {{"Retry-After", "20"}}}, Kind::kLimited, 20s},
      {"a fraction", {.status = 429, .fields = {{"retry-after", "1.25"}}}, Kind::kLimited, 1'250ms},
      {"a date",
       {.status = 429, .fields = {{"Retry-After", "Mon, 16 Nov 2026 05:47:30 GMT"}}},
       Kind::kLimited,
       30s},
      {"milliseconds",
       {.status = 429, .fields = {{"retry-after-ms", "350"}}},
       Kind::kLimited,
       350ms},
      {"milliseconds of Azure",
       {.profile = Profile::kAzure, .status = 429, .fields = {{"x-ms-retry-after-ms", "41"}}},
       Kind::kLimited,
       41ms},
      {"the finer one wins",
       {.status = 429, .fields = {{"retry-after", "2"}, {"retry-after-ms", "1500"}}},
       Kind::kLimited,
       1'500ms},
      {"zero says nothing, the body does",
       {.profile = Profile::kOpenai,
        .status = 429,
        .fields = {{"retry-after", "0"}},
        .body = R"({"error":{"message":"Rate limit reached for gpt-4o on tokens per min (TPM): )"
                R"(Limit 30000. Please try again in 6m0s.","type":"tokens",)"
                R"("code":"rate_limit_exceeded"}})"},
       Kind::kLimited,
       6min,
       "openai: rate_limit_exceeded"},
      {"in a sentence of no JSON",
       {.status = 429, .body = "Slow down; limits reset after 2m 13s, sorry"},
       Kind::kLimited,
       133s},
      {"for an overload, too",
       {.status = 503, .fields = {{"retry-after", "5"}}},
       Kind::kOverloaded,
       5s},
      {"not for a failure", {.status = 500, .fields = {{"retry-after", "5"}}}, Kind::kFailed},
  });
}

TEST(RefusalsTest, AbsurdTimesAreBoundedOrIgnored) {
  const auto limited = [](std::string_view value) {
    return read({.status = 429, .fields = {{"retry-after", value}}}).retry_after;
  };
  EXPECT_EQ(limited("277403"), 1h);
  EXPECT_EQ(limited("1000000000000000000000000000000"), 1h);
  EXPECT_EQ(limited("Fri, 01 Jan 2100 00:00:00 GMT"), 1h);
  for (const std::string_view value :
       {"-5", "NaN", "Infinity", "1e30", "soon", "", "0", "Sun, 15 Nov 2026 05:47:30 GMT"}) {
    EXPECT_EQ(limited(value), std::nullopt) << value;
  }
}

TEST(RefusalsTest, OfOpenai) {
  check({
      {"out of credit",
       {.profile = Profile::kOpenai,
        .status = 429,
        .body =
            R"({"error":{"message":"You exceeded your current quota, please check your plan and )"
            R"(billing details.","type":"insufficient_quota","param":null,)"
            R"("code":"insufficient_quota"}})"},
       Kind::kExhausted,
       {},
       "openai: insufficient_quota"},
      {"a ramp that is too steep",
       {.profile = Profile::kOpenai, .status = 503, .body = R"({"error":{"code":"slow_down"}})"},
       Kind::kLimited},
      {"overload",
       {.profile = Profile::kOpenai,
        .status = 503,
        .body = R"({"error":{"code":"server_is_overloaded"}})"},
       Kind::kOverloaded},
      {"headers alone: full again when reset, with nothing left",
       {.profile = Profile::kOpenai,
        .status = 429,
        .fields = {{"x-ratelimit-limit-requests", "500"},
                   {"x-ratelimit-remaining-requests", "0"},
                   {"x-ratelimit-reset-requests", "12s"},
                   {"x-ratelimit-remaining-tokens", "9000"},
                   {"x-ratelimit-reset-tokens", "50s"}}},
       Kind::kLimited,
       12s},
      {"of a day, and back within minutes",
       {.profile = Profile::kGroq,
        .status = 429,
        .body = R"({"error":{"message":"Rate limit reached on tokens per day (TPD): Limit 500000. )"
                R"(Please try again in 3m2.7s.","code":"rate_limit_exceeded"}})"},
       Kind::kLimited,
       182'700ms},
      {"of a day, and gone for longer",
       {.profile = Profile::kOpenai,
        .status = 429,
        .body = R"({"error":{"message":"Rate limit reached on requests per day (RPD): Limit 200. )"
                R"(Please try again in 7m12s.","code":"rate_limit_exceeded"}})"},
       Kind::kExhausted,
       432s},
      {"a request that is wrong", {.profile = Profile::kOpenai, .status = 400}, Kind::kFailed},
      {"a gateway's budget",
       {.profile = Profile::kOpenai,
        .status = 429,
        .body = R"({"error":{"type":"budget_exceeded","message":"x"}})"},
       Kind::kExhausted},
  });
}

TEST(RefusalsTest, OfAnthropic) {
  check({
      {"too fast",
       {.profile = Profile::kAnthropic,
        .status = 429,
        .fields = {{"retry-after", "17"},
                   {"anthropic-ratelimit-requests-remaining", "0"},
                   {"anthropic-ratelimit-requests-reset", "2026-11-16T05:48:00Z"}},
        .body = R"({"type":"error","error":{"type":"rate_limit_error","message":"slow"}})"},
       Kind::kLimited,
       17s,
       "anthropic: rate_limit_error"},
      {"too fast by headers alone",
       {.profile = Profile::kAnthropic,
        .status = 429,
        .fields = {{"anthropic-ratelimit-input-tokens-limit", "40000"},
                   {"anthropic-ratelimit-input-tokens-remaining", "0"},
                   {"anthropic-ratelimit-input-tokens-reset", "2026-11-16T05:47:45Z"}}},
       Kind::kLimited,
       45s},
      {"the tier's spend cap",
       {.profile = Profile::kAnthropic,
        .status = 429,
        .body = R"({"type":"error","error":{"type":"rate_limit_error","message":"x",)"
                R"("details":{"error_code":"enforced_spend_limit_reached"}}})"},
       Kind::kExhausted,
       {},
       "anthropic: enforced_spend_limit_reached"},
      {"a limit of one's own",
       {.profile = Profile::kAnthropic,
        .status = 400,
        .body =
            R"({"type":"error","error":{"type":"invalid_request_error","message":"You have )"
            R"(reached your specified API usage limits. You will regain access on 2026-11-16 at )"
            R"(12:00 UTC."}})"},
       Kind::kExhausted,
       6h + 13min,
       "anthropic: invalid_request_error"},
      {"until a day that is far off: asked again after the longest day",
       {.profile = Profile::kAnthropic,
        .status = 400,
        .body =
            R"({"error":{"message":"You have reached your specified API usage limits. You will )"
            R"(regain access on 2026-12-01 at 00:00 UTC."}})"},
       Kind::kExhausted,
       25h},
      {"overload",
       {.profile = Profile::kAnthropic,
        .status = 529,
        .body = R"({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}})"},
       Kind::kOverloaded,
       {},
       "anthropic: overloaded_error"},
      {"a subscription's five hours",
       {.profile = Profile::kAnthropic,
        .status = 429,
        .fields = {{"anthropic-ratelimit-unified-status", "rejected"},
                   {"anthropic-ratelimit-unified-reset", "1794815220"}}},
       Kind::kExhausted,
       2h},
      {"Cloudflare's page to agents that come in parallel",
       {.profile = Profile::kAnthropic,
        .status = 403,
        .fields = {{"content-type", "text/html; charset=UTF-8"}, {"cf-ray", "8f-FRA"}},
        .body = "<!DOCTYPE html><title>Just a moment...</title>"},
       Kind::kLimited},
      {"a key without permission",
       {.profile = Profile::kAnthropic,
        .status = 403,
        .body = R"({"error":{"type":"permission_error","message":"no"}})"},
       Kind::kFailed},
  });
}

TEST(RefusalsTest, OfGemini) {
  check({
      {"too fast",
       {.profile = Profile::kGemini,
        .status = 429,
        .body = R"({"error":{"code":429,"message":"You exceeded your current quota.\n* Quota )"
                R"(exceeded for metric: x, limit: 15\nPlease retry in 34.074824224s.",)"
                R"("status":"RESOURCE_EXHAUSTED","details":[)"
                R"({"@type":"type.googleapis.com/google.rpc.QuotaFailure",)"
                R"("violations":[{"quotaMetric":"x",)"
                R"("quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier",)"
                R"("quotaValue":"15"}]},)"
                R"({"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"26s"}]}})"},
       Kind::kLimited,
       26s},
      {"only the sentence says when",
       {.profile = Profile::kGemini,
        .status = 429,
        .body =
            R"([{"error":{"message":"Please retry in 34.07s.","status":"RESOURCE_EXHAUSTED"}}])"},
       Kind::kLimited,
       34'070ms},
      {"of a day: midnight in California, whatever the delay says",
       {.profile = Profile::kGemini,
        .status = 429,
        .body = R"({"error":{"code":429,"message":"x","status":"RESOURCE_EXHAUSTED","details":[)"
                R"({"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"},)"
                R"({"quotaId":"Other"}]},)"
                R"({"retryDelay":"26s"}]}})"},
       Kind::kExhausted,
       2h + 13min,
       "gemini: GenerateRequestsPerDayPerProjectPerModel-FreeTier"},
      {"no free tier",
       {.profile = Profile::kGemini,
        .status = 429,
        .body = R"({"error":{"message":"Quota exceeded, limit: 0\nPlease retry in 4s",)"
                R"("status":"RESOURCE_EXHAUSTED"}})"},
       Kind::kExhausted},
      {"a long delay",
       {.profile = Profile::kGemini,
        .status = 429,
        .body = R"({"error":{"message":"x","status":"RESOURCE_EXHAUSTED",)"
                R"("details":[{"retryDelay":"301s"}]}})"},
       Kind::kExhausted,
       301s},
      {"Vertex gives no details",
       {.profile = Profile::kGemini,
        .status = 429,
        .body = R"({"error":{"code":429,"message":"Resource exhausted. Please try again later.",)"
                R"("status":"RESOURCE_EXHAUSTED"}})"},
       Kind::kLimited},
      {"overload",
       {.profile = Profile::kGemini,
        .status = 503,
        .body = R"({"error":{"code":503,"message":"The model is overloaded.",)"
                R"("status":"UNAVAILABLE"}})"},
       Kind::kOverloaded},
  });
}

TEST(RefusalsTest, OfOpenrouter) {
  check({
      {"an epoch in the body",
       {.profile = Profile::kOpenai,
        .status = 429,
        .body = R"({"error":{"code":429,"message":"Rate limit exceeded",)"
                R"("metadata":{"limit_source":"openrouter_shared_capacity",)"
                R"("headers":{"X-RateLimit-Limit":"20","X-RateLimit-Remaining":"0",)"
                R"("X-RateLimit-Reset":"1794808040000"}}}})"},
       Kind::kLimited,
       20s,
       "openai: openrouter_shared_capacity"},
      {"free requests of a day",
       {.profile = Profile::kOpenai,
        .status = 429,
        .body = R"({"error":{"metadata":{"limit_source":"openrouter_free_tier_daily",)"
                R"("headers":{"X-RateLimit-Reset":1794808200000}}}})"},
       Kind::kExhausted,
       3min},
      {"no credits",
       {.profile = Profile::kOpenai,
        .status = 402,
        .body = R"({"error":{"code":402,"message":"Insufficient credits"}})"},
       Kind::kExhausted},
      {"credits for a smaller call",
       {.profile = Profile::kOpenai,
        .status = 402,
        .body =
            R"({"error":{"message":"This request requires more credits, or fewer max_tokens."}})"},
       Kind::kFailed},
  });
}

TEST(RefusalsTest, OfTheOthers) {
  check({
      {"Bedrock",
       {.profile = Profile::kBedrock,
        .status = 429,
        .fields = {{"x-amzn-ErrorType", "ThrottlingException:http://internal.amazon.com/"}},
        .body = R"({"message":"Too many requests, please wait before trying again."})"},
       Kind::kLimited,
       {},
       "bedrock: ThrottlingException"},
      {"Bedrock, as a 400",
       {.profile = Profile::kBedrock,
        .status = 400,
        .fields = {{"x-amzn-errortype", "ThrottlingException"}}},
       Kind::kLimited},
      {"Bedrock, tokens of a day",
       {.profile = Profile::kBedrock,
        .status = 429,
        .fields = {{"x-amzn-errortype", "ThrottlingException"}},
        .body = R"({"message":"Too many tokens per day, please wait before trying again."})"},
       Kind::kExhausted},
      {"Bedrock, a model that starts",
       {.profile = Profile::kBedrock,
        .status = 429,
        .fields = {{"x-amzn-errortype", "ModelNotReadyException"}}},
       Kind::kOverloaded},
      {"Mistral without entitlement",
       {.profile = Profile::kMistral,
        .status = 429,
        .fields = {{"x-ratelimit-limit-req-minute", "0"},
                   {"x-ratelimit-limit-tokens-minute", "500000"}}},
       Kind::kExhausted},
      {"Mistral's month",
       {.profile = Profile::kMistral,
        .status = 429,
        .fields = {{"x-ratelimit-limit-tokens-month", "1000"},
                   {"x-ratelimit-remaining-tokens-month", "0"}}},
       Kind::kExhausted},
      {"GitHub's primary limit",
       {.status = 403,
        .fields = {{"x-ratelimit-limit", "60"},
                   {"x-ratelimit-remaining", "0"},
                   {"x-ratelimit-reset", "1794808320"},
                   {"x-ratelimit-resource", "core"}},
        .body = R"({"message":"API rate limit exceeded"})"},
       Kind::kLimited,
       5min},
      {"GitHub's secondary limit",
       {.status = 403,
        .fields = {{"x-ratelimit-remaining", "59"}},
        .body = R"({"message":"You have exceeded a secondary rate limit."})"},
       Kind::kLimited,
       1min},
      {"GitHub forbids",
       {.status = 403, .fields = {{"x-ratelimit-remaining", "59"}}},
       Kind::kFailed},
      {"the draft of the IETF",
       {.status = 429, .fields = {{"RateLimit", "\"default\";r=0;t=9"}}},
       Kind::kLimited,
       9s},
      {"an API manager's quota",
       {.profile = Profile::kAzure,
        .status = 403,
        .body =
            R"({"statusCode":403,"message":"Out of call volume quota. Quota will be replenished )"
            R"(in 01:02:03."})"},
       Kind::kExhausted},
      {"a redirect", {.status = 302, .fields = {{"retry-after", "3"}}}, Kind::kServed},
      {"not found", {.status = 404}, Kind::kFailed, {}, "generic: status 404"},
  });
}

TEST(RefusalsTest, ABodyThatWasCutIsReadAsText) {
  const std::string body =
      R"({"error":{"message":"Please retry in 4s. )" + std::string(20'000, 'x');
  const Signals signals = read({.status = 429, .body = body});
  EXPECT_EQ(signals.retry_after, 4s);
}

TEST(RefusalsTest, AReasonIsShortAndPrintable) {
  const std::string body = "{\"error\":{\"code\":\"a\\nb\xc3\xa4" + std::string(500, 'x') + "\"}}";
  const std::string reason = read({.status = 429, .body = body}).reason;
  EXPECT_TRUE(reason.starts_with("generic: a?b??xxx")) << reason;
  EXPECT_LE(reason.size(), Signals::kReasonBytesMax);
}

}  // namespace
}  // namespace weir
