#include "provider/answers.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

using namespace std::chrono_literals;

TEST(RefusalBody, HasTheShapeOfTheProvider) {
  const RefusalText refusal{429, "rate_limited", "wait a \"bit\"\n", 34'070ms};
  using enum Profile;
  for (const Profile profile : {kOpenai, kAzure, kGroq, kMistral}) {
    EXPECT_EQ(refusal_body(profile, refusal),
              R"({"error":{"message":"wait a \"bit\"\n","type":"rate_limit_error","param":null,)"
              R"("code":"rate_limited"}})");
  }
  EXPECT_EQ(refusal_body(kAnthropic, refusal),
            R"({"type":"error","error":{"type":"rate_limit_error","message":"wait a \"bit\"\n"}})");
  EXPECT_EQ(refusal_body(kGemini, refusal),
            R"({"error":{"code":429,"message":"wait a \"bit\"\n","status":"RESOURCE_EXHAUSTED",)"
            R"("details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo",)"
            R"("retryDelay":"34.070s"}]}})");
  EXPECT_EQ(refusal_body(kBedrock, refusal),
            R"({"__type":"ThrottlingException","message":"wait a \"bit\"\n"})");
  EXPECT_EQ(refusal_body(kGeneric, refusal),
            R"({"error":"rate_limited","message":"wait a \"bit\"\n"})");
}

TEST(RefusalBody, IsWordedByTheStatus) {
  EXPECT_EQ(refusal_body(Profile::kAnthropic, {400, "never_fits", "m"}),
            R"({"type":"error","error":{"type":"invalid_request_error","message":"m"}})");
  EXPECT_EQ(refusal_body(Profile::kGemini, {400, "never_fits", "m"}),
            R"({"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT"}})");
  EXPECT_EQ(refusal_body(Profile::kAnthropic, {413, "too_large", "m"}),
            R"({"type":"error","error":{"type":"request_too_large","message":"m"}})");
  EXPECT_EQ(refusal_body(Profile::kBedrock, {599, "x", "m"}),
            R"({"__type":"InternalServerException","message":"m"})");
  EXPECT_EQ(refusal_body(Profile::kGemini, {503, "x", "m", 26s}),
            R"({"error":{"code":503,"message":"m","status":"UNAVAILABLE","details":[{"@type":)"
            R"("type.googleapis.com/google.rpc.RetryInfo","retryDelay":"26s"}]}})");
}

TEST(Credentials, GoIntoTheFieldOfTheProvider) {
  const auto shown = [](Profile profile) {
    const KeyField field = key_field(profile);
    return std::string{field.name} + ": " + std::string{field.prefix} + "K";
  };
  EXPECT_EQ(shown(Profile::kOpenai), "authorization: Bearer K");
  EXPECT_EQ(shown(Profile::kAnthropic), "x-api-key: K");
  EXPECT_EQ(shown(Profile::kGemini), "x-goog-api-key: K");
  EXPECT_EQ(shown(Profile::kAzure), "api-key: K");
  EXPECT_EQ(shown(Profile::kBedrock), "authorization: Bearer K");
  EXPECT_EQ(shown(Profile::kGroq), "authorization: Bearer K");
  EXPECT_EQ(shown(Profile::kMistral), "authorization: Bearer K");
  EXPECT_EQ(shown(Profile::kGeneric), "authorization: Bearer K");
}

TEST(Credentials, AreTakenOutOfAQuery) {
  const auto gemini = [](std::string_view query) {
    return without_credentials(Profile::kGemini, query);
  };
  EXPECT_EQ(gemini("alt=sse&key=AIza"), "alt=sse");
  EXPECT_EQ(gemini("key=AIza"), "");
  EXPECT_EQ(gemini("key=a&alt=sse&KEY=b&%6Bey=c&key&access_token=d"), "alt=sse");
  EXPECT_EQ(gemini("alt=sse&keys=1&x=key=2"), "alt=sse&keys=1&x=key=2");
  EXPECT_EQ(gemini(""), "");
  EXPECT_EQ(without_credentials(Profile::kGeneric, "key=5&apikey=s"), "key=5");
}

}  // namespace
}  // namespace weir
