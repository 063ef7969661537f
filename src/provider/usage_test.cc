#include "provider/usage.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weir {
namespace {

constexpr const char* kJson = "application/json; charset=utf-8";
constexpr const char* kSse = "Text/Event-Stream; charset=utf-8";
constexpr const char* kFrames = "application/vnd.amazon.eventstream";

UsageReader read(std::string_view type, std::string_view body) {
  UsageReader reader{type};
  reader.read(body);
  return reader;
}

struct Row {
  const char* name;
  const char* type;
  std::string body;
  Usage usage;
  Amount visible = 0;
};

std::string big_endian(std::size_t value, int size) {
  std::string bytes;
  for (int shift = 8 * (size - 1); shift >= 0; shift -= 8) {
    bytes += static_cast<char>(value >> static_cast<unsigned>(shift) & 0xFFU);
  }
  return bytes;
}

// A message of AWS's event stream; the checksums are not looked at.
std::string frame(const std::string& name, const std::string& value, const std::string& payload) {
  const std::string headers =
      static_cast<char>(name.size()) + name + '\x07' + big_endian(value.size(), 2) + value;
  return big_endian(headers.size() + payload.size() + 16, 4) + big_endian(headers.size(), 4) +
         "CRC0" + headers + payload + "CRC1";
}

std::vector<Row> rows() {
  return {
      {"chat",
       kJson,
       R"({"id":"chatcmpl-1","object":"chat.completion","model":"gpt-4o","choices":[{"index":0,
       "message":{"role":"assistant","content":"a \"usage\": {\"prompt_tokens\": 9}"},
       "logprobs":null,"finish_reason":"stop"}],
       "usage":{"prompt_tokens":2006,"completion_tokens":300,
       "total_tokens":2306,"prompt_tokens_details":{"cached_tokens":1920,"audio_tokens":0},
       "completion_tokens_details":{"reasoning_tokens":17}},"service_tier":"default"})",
       {.input = 86, .cached_input = 1920, .output = 300}},
      {"chat of GPT-5.6 with a cache write, in the flex tier",
       kJson,
       R"({"service_tier":"flex","usage":{"prompt_tokens":100,"completion_tokens":7,
       "prompt_tokens_details":{"cached_tokens":30,"cache_write_tokens":20}}})",
       {.input = 50,
        .cached_input = 30,
        .cache_write = 20,
        .output = 7,
        .tier = ServiceTier::kFlex}},
      {"responses",
       kJson,
       R"({"id":"resp_1","object":"response","status":"completed","error":null,"output":[{"type":
       "message","content":[{"type":"output_text","text":"hi"}]}],"usage":{"input_tokens":36,
       "input_tokens_details":{"cached_tokens":11},"output_tokens":87,"output_tokens_details":
       {"reasoning_tokens":64},"total_tokens":123},"service_tier":"priority"})",
       {.input = 25, .cached_input = 11, .output = 87, .tier = ServiceTier::kPriority}},
      {"embeddings",
       kJson,
       R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":[-0.0069,
       1.5e-3 ,
       2]},{"embedding":[]}],"model":"text-embedding-3-small",
       "usage":{"prompt_tokens":8,"total_tokens":8}})",
       {.input = 8}},
      {"messages",
       kJson,
       R"({"type":"message","content":[{"type":"tool_use",
       "input":{"usage":{"input_tokens":99999}}}],
       "usage":{"input_tokens":2095,"cache_creation_input_tokens":130,
       "cache_read_input_tokens":5000,
       "cache_creation":{"ephemeral_5m_input_tokens":100,"ephemeral_1h_input_tokens":30},
       "output_tokens":503,"server_tool_use":{"web_search_requests":3},"service_tier":"batch"}})",
       {.input = 2095,
        .cached_input = 5000,
        .cache_write = 100,
        .cache_write_1h = 30,
        .output = 503,
        .tier = ServiceTier::kBatch}},
      {"generateContent",
       kJson,
       R"({"candidates":[{"content":{"parts":[{"text":"12345678"}],"role":"model"}}],
       "usageMetadata":{"promptTokenCount":1000,"candidatesTokenCount":20,"totalTokenCount":1130,
       "thoughtsTokenCount":70,"toolUsePromptTokenCount":40,"cachedContentTokenCount":600,
       "promptTokensDetails":[{"modality":"TEXT","tokenCount":1000}]}})",
       {.input = 440, .cached_input = 600, .output = 90},
       2},
      {"converse",
       kJson,
       R"({"metrics":{"latencyMs":1},"output":{"message":{"content":[{"text":"hi"}]}},"usage":
       {"cacheReadInputTokens":3,"cacheWriteInputTokens":5,"inputTokens":30,"outputTokens":628,
       "totalTokens":666}})",
       {.input = 30, .cached_input = 3, .cache_write = 5, .output = 628}},
      {"chat stream",
       kSse,
       "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}],"
       "\"usage\":null}\n\n"
       "data: {\"choices\":[{\"delta\":{\"content\":\"Hel\\u006co "
       "\\ud83d\\ude00\"}}],\"usage\":null}"
       "\n\ndata: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"arguments\":"
       "\"{}\"}}]}}],\"usage\":null}\n\n"
       "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":19,\"completion_tokens\":10,"
       "\"total_tokens\":29}}\n\ndata: [DONE]\n\n",
       {.input = 19, .output = 10},
       3},
      {"messages stream, whose counts are cumulative",
       kSse,
       "event: message_start\r\ndata: {\"type\":\"message_start\",\"message\":{\"content\":[],"
       "\"usage\":{\"input_tokens\":25,\"cache_read_input_tokens\":7,\"output_tokens\":1}}}\r\n\r\n"
       "event: ping\r\ndata: {\"type\":\"ping\"}\r\n\r\n"
       "event: content_block_delta\r\ndata: "
       "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":"
       "{\"type\":\"text_delta\",\"text\":\"Hello there\"}}\r\n\r\n"
       "event: message_delta\r\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":"
       "\"end_turn\"},\"usage\":{\"output_tokens\":9}}\r\n\r\n"
       "event: message_delta\r\ndata: {\"type\":\"message_delta\",\"delta\":{},\"usage\":"
       "{\"output_tokens\":15}}\r\n\r\nevent: message_stop\r\ndata: "
       "{\"type\":\"message_stop\"}\r\n\r\n",
       {.input = 25, .cached_input = 7, .output = 15},
       3},
      {"responses stream",
       kSse,
       "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"error\":null,"
       "\"usage\":null}}\n\n"
       "event: response.output_text.delta\ndata: "
       "{\"type\":\"response.output_text.delta\",\"delta\":"
       "\"12345\"}\n\nevent: response.incomplete\ndata: "
       "{\"type\":\"response.incomplete\",\"response\":"
       "{\"service_tier\":\"default\",\"usage\":{\"input_tokens\":37,\"output_tokens\":11,"
       "\"input_tokens_details\":{\"cached_tokens\":5}}}}\n\n",
       {.input = 32, .cached_input = 5, .output = 11},
       2},
      {"streamGenerateContent, of which the last counts",
       kSse,
       "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}],\"usageMetadata\":"
       "{\"promptTokenCount\":9,\"totalTokenCount\":9}}\r\rdata: "
       "{\"candidates\":[{\"content\":{}}],"
       "\"usageMetadata\":{\"promptTokenCount\":9,\"candidatesTokenCount\":4,\"totalTokenCount\":"
       "13}}"
       "\r\r",
       {.input = 9, .output = 4},
       1},
      {"streamGenerateContent as an array",
       kJson,
       "[{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"abcdefghi\"}]}}],\"usageMetadata\":"
       "{\"promptTokenCount\":9,\"totalTokenCount\":10}}\n,\r\n{\"usageMetadata\":{"
       "\"promptTokenCount\":9,\"totalTokenCount\":16}}]",
       {.input = 9, .output = 7},
       3},
      {"Groq's stream",
       kSse,
       "data: "
       "{\"choices\":[{\"delta\":{}}],\"x_groq\":{\"id\":\"r\",\"usage\":{\"queue_time\":0.03,"
       "\"prompt_tokens\":18,\"completion_tokens\":6}}}\n\n",
       {.input = 18, .output = 6}},
      {"Mistral's stream",
       kSse,
       "data: {\"choices\":[{\"delta\":{\"content\":[{\"type\":\"text\",\"text\":\"abcde\"}]},"
       "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":5,\"total_tokens\":8,"
       "\"completion_tokens\":3}}\n\n",
       {.input = 5, .output = 3},
       2},
      {"converse-stream",
       kFrames,
       frame(":event-type", "contentBlockDelta", R"({"delta":{"text":"Hello"},"p":"abc"})") +
           frame(":event-type", "metadata",
                 R"({"usage":{"inputTokens":12,"outputTokens":34,"totalTokens":46}})"),
       {.input = 12, .output = 34},
       2},
      {"invoke-with-response-stream",
       kFrames,
       // {"delta":{"text":"abcdefgh"}} and {"amazon-bedrock-invocationMetrics":{...}}
       frame(":event-type", "chunk", R"({"bytes":"eyJkZWx0YSI6eyJ0ZXh0IjoiYWJjZGVmZ2gifX0="})") +
           frame(":event-type", "chunk",
                 R"({"bytes":"eyJhbWF6b24tYmVkcm9jay1pbnZvY2F0aW9uTWV0cmljcyI6eyJpbnB1dFRva2VuQ291)"
                 R"(bnQiOjEzLCJvdXRwdXRUb2tlbkNvdW50IjoxN319"})"),
       {.input = 13, .output = 17},
       2},
  };
}

TEST(UsageReader, FindsTheUsageOfEveryApi) {  // S3.10
  for (const Row& row : rows()) {
    const UsageReader reader = read(row.type, row.body);
    EXPECT_EQ(reader.usage(), row.usage) << row.name;
    EXPECT_EQ(reader.visible_output(), row.visible) << row.name;
    EXPECT_EQ(reader.error(), "") << row.name;
  }
}

TEST(UsageReader, DoesNotCareWhereTheBytesAreCut) {
  for (const Row& row : rows()) {
    for (std::size_t cut = 0; cut <= row.body.size(); ++cut) {
      UsageReader reader{row.type};
      reader.read(std::string_view{row.body}.substr(0, cut));
      reader.read(std::string_view{row.body}.substr(cut));
      ASSERT_EQ(reader.usage(), row.usage) << row.name << " at " << cut;
      ASSERT_EQ(reader.visible_output(), row.visible) << row.name << " at " << cut;
    }
    UsageReader reader{row.type};
    for (const char& byte : row.body) reader.read({&byte, 1});
    EXPECT_EQ(reader.usage(), row.usage) << row.name;
  }
}

TEST(UsageReader, ACutNumberIsNotANumber) {
  const std::string whole = R"({"usage":{"prompt_tokens":123,"completion_tokens":45678)";
  EXPECT_EQ(read(kJson, whole).usage(), (Usage{.input = 123}));
  EXPECT_EQ(read(kJson, whole + "}").usage(), (Usage{.input = 123, .output = 45678}));
}

TEST(UsageReader, CountsWhatPassedOfAStreamThatEndsEarly) {
  std::string stream;
  for (int i = 0; i < 7; ++i) {
    stream += "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
  }
  EXPECT_EQ(read(kSse, stream).visible_output(), 7);  // one token an event
  EXPECT_FALSE(read(kSse, stream).usage());
  stream += "data: {\"choices\":[{\"delta\":{\"content\":\"" + std::string(100, 'y');
  EXPECT_EQ(read(kSse, stream).visible_output(), 27);  // a fourth of 107 bytes
}

TEST(UsageReader, SeesAnErrorInsideOfAStream) {
  const auto error = [](const char* type, const std::string& body) {
    return std::string{read(type, body).error()};
  };
  EXPECT_EQ(error(kSse,
                  "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":"
                  "\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"),
            "overloaded_error");
  EXPECT_EQ(error(kSse, R"(data: {"error":{"message":"m","type":null,"code":"slow_down"}})"
                        "\n\n"),
            "slow_down");
  EXPECT_EQ(error(kSse, "data: {\"type\":\"error\",\"code\":\"rate_limit_exceeded\"}\n\n"),
            "rate_limit_exceeded");
  EXPECT_EQ(error(kSse,
                  "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":"
                  "\"server_error\"}}}\n\n"),
            "server_error");
  EXPECT_EQ(error(kJson, R"({"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}})"),
            "RESOURCE_EXHAUSTED");
  EXPECT_EQ(error(kJson, R"({"error":"no"})"), "error");
  EXPECT_EQ(error(kFrames, frame(":exception-type", "throttlingException", "{}")),
            "throttlingException");
  EXPECT_EQ(error(kJson, R"({"error":null,"a":{"error":{"type":"x"}},"type":"y"})"), "");
}

TEST(UsageReader, TakesBedrocksUsageFromTheHead) {
  UsageReader reader{kJson};
  reader.field("X-Amzn-Bedrock-Input-Token-Count", "31");
  reader.field("x-amzn-bedrock-output-token-count", "37");
  reader.field("x-amzn-bedrock-cache-read-input-token-count", "41");
  reader.field("x-amzn-bedrock-cache-write-input-token-count", "43");
  reader.field("x-amzn-requestid", "99");
  EXPECT_EQ(reader.usage(),
            (Usage{.input = 31, .cached_input = 41, .cache_write = 43, .output = 37}));
}

TEST(UsageReader, PassesOverWhatItDoesNotUnderstand) {
  for (const std::string& body :
       {std::string{}, std::string{"<html>"}, std::string{"[[[["}, std::string{"{]"},
        std::string(100'000, '['), std::string{R"({"usage":[1,2],"a":tru})"},
        std::string{R"({"usage":{"prompt_tokens":-5}})"},
        std::string{R"({"usage":{"prompt_tokens":null}})"},
        std::string{R"({"usage":{"x":{"prompt_tokens":5}}})"},
        std::string{R"({"usage":{"content":{"prompt_tokens":5}}})"}, std::string(1000, '\0')}) {
    for (const char* type : {kJson, kSse, kFrames, "", "audio/mpeg"}) {
      EXPECT_FALSE(read(type, body).usage()) << body;
    }
  }
  const auto huge = read(kJson, R"({"usage":{"prompt_tokens":999999999999999999999999}})").usage();
  EXPECT_EQ(huge->input, 1'000'000'000'000);
}

TEST(UsageReader, ReadsANumberOfAnyLengthAlikeHoweverItIsCut) {
  const std::string body = R"({"usage":{"prompt_tokens":)" + std::string(200, '0') + "7}}";
  UsageReader whole{"application/json"};
  whole.read(body);
  UsageReader cut{"application/json"};
  for (const char& byte : body) cut.read({&byte, 1});
  EXPECT_EQ(whole.usage(), cut.usage());
}

}  // namespace
}  // namespace weir
