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
    ProviderConfig provider;
    provider.profile = Profile::kGemini;
    return without_credentials(provider, query);
  };
  EXPECT_EQ(gemini("alt=sse&key=AIza"), "alt=sse");
  EXPECT_EQ(gemini("key=AIza"), "");
  EXPECT_EQ(gemini("key=a&alt=sse&KEY=b&%6Bey=c&key&access_token=d"), "alt=sse");
  EXPECT_EQ(gemini("alt=sse&keys=1&x=key=2"), "alt=sse&keys=1&x=key=2");
  EXPECT_EQ(gemini(""), "");
  ProviderConfig generic;
  EXPECT_EQ(without_credentials(generic, "key=5&apikey=s"), "key=5");
  generic.key_parameter = "appid";
  EXPECT_EQ(without_credentials(generic, "key=5&AppID=s&app%69d=t"), "key=5");
}

TEST(Credentials, GoIntoTheQueryWhereTheProviderWantsThemThere) {
  ProviderConfig provider;
  std::string target = "GET /query";
  append_key_parameter(target, provider);
  provider.api_key = Secret{"k&y/1"};
  append_key_parameter(target, provider);
  EXPECT_EQ(target, "GET /query");
  provider.key_parameter = "apikey";
  std::string head;
  append_key(head, provider);
  EXPECT_EQ(head, "");
  append_key_parameter(target, provider);
  EXPECT_EQ(target, "GET /query?apikey=k%26y%2F1");
  target = "GET /query?a=1";
  append_key_parameter(target, provider);
  EXPECT_EQ(target, "GET /query?a=1&apikey=k%26y%2F1");
}

// S4.7
TEST(Credentials, AreHiddenInEitherFormAndLengthsStay) {
  ProviderConfig provider;
  provider.api_key = Secret{"k&y/1234"};
  const auto hidden = [&](std::string text, TextEnd end = TextEnd::kWhole) {
    hide_key(text, provider, end);
    return text;
  };
  EXPECT_EQ(hidden("a k&y/1234 b k%26y%2F1234 k&y/ c"), "a ******** b ************ k&y/ c");
  EXPECT_EQ(hidden(R"({"key":"k&y\/1234"})"), R"({"key":"*********"})") << "as JSON may have it";
  EXPECT_EQ(hidden("cut: k&y/", TextEnd::kCut), "cut: ****");
  EXPECT_EQ(hidden("cut: k%26y%", TextEnd::kCut), "cut: ******");
  EXPECT_EQ(hidden(R"(cut: k&y\/1)", TextEnd::kCut), "cut: ******");
  EXPECT_EQ(hidden("whole: k&y/"), "whole: k&y/") << "the text ends with another word";
  provider.api_key = Secret{"********"};  // whose place does not change
  EXPECT_EQ(hidden("x********y"), "x********y");
  provider.api_key = Secret{"demo123"};
  EXPECT_EQ(hidden("a demo123 of demo", TextEnd::kCut), "a demo123 of demo") << "found everywhere";
}

}  // namespace
}  // namespace weir
