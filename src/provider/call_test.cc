#include "provider/call.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weir {
namespace {

CallFacts read(Profile profile, std::string_view path, std::string_view body,
               std::string_view query = {}, std::string_view method = "POST") {
  return read_call(profile, {method, path, query, body}, no_tokenizer);
}

struct Row {
  Profile profile;
  const char* path;
  const char* body;
  Api api;
  const char* model;
  bool stream = false;
  std::optional<Amount> max_output = {};
  Amount choices = 1;
};

TEST(ReadCall, KnowsEveryApi) {
  using enum Profile;
  for (const Row& row : std::vector<Row>{
           {kOpenai, "/v1/chat/completions",
            R"({"model":"gpt-4o","messages":[{"role":"user","content":"Hi"}],"max_tokens":64,"n":3,
               "stream":true})",
            Api::kChat, "gpt-4o", true, 64, 3},
           {kOpenai, "/chat/completions",
            R"({"messages":[],"max_completion_tokens":1009,"model":"o3","stream":false})",
            Api::kChat, "o3", false, 1009},
           {kOpenai, "/v1/completions",
            R"({"model":"gpt-3.5-turbo-instruct","prompt":"a","n":2,"best_of":5,"max_tokens":16})",
            Api::kCompletions, "gpt-3.5-turbo-instruct", false, 16, 5},
           {kOpenai, "/v1/responses/",
            R"({"model":"gpt-5","input":"a","max_output_tokens":512,"stream":true})",
            Api::kResponses, "gpt-5", true, 512},
           {kOpenai, "/v1/embeddings", R"({"model":"text-embedding-3-small","input":["a","b"]})",
            Api::kEmbeddings, "text-embedding-3-small"},
           {kOpenai, "/v1/images/generations", R"({"model":"dall-e-3","prompt":"a"})", Api::kOther,
            ""},
           {kOpenai, "/v1/threads/t_1/messages", R"({"role":"user","content":"a"})", Api::kOther,
            ""},
           {kAnthropic, "/v1/messages",
            R"({"model":"claude-opus-5","max_tokens":1024,"stream":true,"messages":[]})",
            Api::kMessages, "claude-opus-5", true, 1024},
           {kAnthropic, "/v1/messages/count_tokens",
            R"({"model":"claude-opus-5","messages":[{"role":"user","content":"Hi"}]})",
            Api::kCountTokens, "claude-opus-5"},
           {kAnthropic, "/v1/messages/batches", R"({"requests":[]})", Api::kOther, ""},
           {kGemini, "/v1beta/models/gemini-2.5-pro:generateContent",
            R"({"contents":[],"generationConfig":{"maxOutputTokens":100,"candidateCount":2}})",
            Api::kGenerate, "gemini-2.5-pro", false, 100, 2},
           {kGemini, "/v1beta/models/gemini-2.5-pro:streamGenerateContent",
            R"({"contents":[],"generation_config":{"max_output_tokens":101}})", Api::kGenerate,
            "gemini-2.5-pro", true, 101},
           {kGemini, "/v1beta/models/gemini-embedding-001:embedContent",
            R"({"content":{"parts":[{"text":"a"}]}})", Api::kEmbeddings, "gemini-embedding-001"},
           {kGemini, "/v1beta/models/gemini-2.5-pro:countTokens", R"({"contents":[]})",
            Api::kCountTokens, "gemini-2.5-pro"},
           {kGemini, "/v1beta/openai/chat/completions",
            R"({"model":"gemini-2.5-pro","messages":[]})", Api::kChat, "gemini-2.5-pro"},
           {kGemini, "/v1beta/models/gemini-2.5-pro:bake", R"({"contents":[]})", Api::kOther, ""},
           {kAzure, "/openai/deployments/my%2Dgpt/chat/completions",
            R"({"model":"ignored","messages":[],"max_tokens":7})", Api::kChat, "my-gpt", false, 7},
           {kAzure, "/openai/deployments/emb/embeddings", R"({"input":"a"})", Api::kEmbeddings,
            "emb"},
           {kBedrock, "/model/anthropic.claude-sonnet-4-20250514-v1%3A0/converse",
            R"({"messages":[],"inferenceConfig":{"maxTokens":99}})", Api::kConverse,
            "anthropic.claude-sonnet-4-20250514-v1:0", false, 99},
           {kBedrock, "/model/m/converse-stream", R"({"messages":[]})", Api::kConverse, "m", true},
           {kBedrock, "/model/m/invoke", R"({"anthropic_version":"x","max_tokens":5})",
            Api::kInvoke, "m", false, 5},
           {kBedrock, "/model/m/invoke-with-response-stream", R"({"prompt":"a","max_gen_len":6})",
            Api::kInvoke, "m", true, 6},
           {kBedrock, "/model/amazon.titan-embed-text-v2%3A0/invoke", R"({"inputText":"a"})",
            Api::kEmbeddings, "amazon.titan-embed-text-v2:0"},
           {kGroq, "/openai/v1/chat/completions", R"({"model":"llama","messages":[]})", Api::kChat,
            "llama"},
           {kMistral, "/v1/chat/completions", R"({"model":"mistral-small","messages":[]})",
            Api::kChat, "mistral-small"},
           {kGeneric, "/v1/chat/completions", R"({"model":"qwen","messages":[]})", Api::kChat,
            "qwen"},
           {kGeneric, "/v1/completions", R"({"model":"car"})", Api::kOther, ""},
           {kGeneric, "/v1/orders", R"({"model":"car","input":"a"})", Api::kOther, ""},
       }) {
    const CallFacts facts = read(row.profile, row.path, row.body);
    EXPECT_EQ(facts.api, row.api) << row.path;
    EXPECT_EQ(facts.model, row.model) << row.path;
    EXPECT_EQ(facts.stream, row.stream) << row.path;
    EXPECT_EQ(facts.max_output, row.max_output) << row.path;
    EXPECT_EQ(facts.choices, row.choices) << row.path;
  }
}

TEST(ReadCall, WhatIsNotUnderstoodIsOneRequest) {
  const std::string deep =
      R"({"model":"m","messages":)" + std::string(64, '[') + std::string(64, ']') + "}";
  for (const std::string& body : std::vector<std::string>{
           "", "no", "[]", R"({"model":"m","messages":[)", R"({"model":"m",})",
           R"({"messages":[]})", R"({"model":5,"messages":[]})", R"({"model":"","messages":[]})",
           R"({"model":"a b","messages":[]})", R"({"model":"a\n","messages":[]})",
           R"({"model":")" + std::string(257, 'm') + R"(","messages":[]})", deep}) {
    const CallFacts facts = read(Profile::kOpenai, "/v1/chat/completions", body);
    EXPECT_EQ(facts.api, Api::kOther) << body;
    EXPECT_EQ(facts.model, "") << body;
  }
  const char* good = R"({"model":"m","messages":[]})";
  EXPECT_EQ(read(Profile::kOpenai, "/v1/chat/completions", good, "", "GET").api, Api::kOther);
  EXPECT_EQ(read(Profile::kOpenai, "", good).api, Api::kOther);
  EXPECT_EQ(read(Profile::kOpenai, "/v1/models", good).api, Api::kOther);
}

TEST(ReadCall, TheLastOfTwoMembersCounts) {
  const CallFacts facts =
      read(Profile::kOpenai, "/v1/chat/completions",
           R"({"model":"a","stream":true,"stream_options":{"include_usage":true},"messages":[],
               "mod\u0065l":"b","stream":false,"stream_options":{}})");
  EXPECT_EQ(facts.model, "b");
  EXPECT_FALSE(facts.stream);
  EXPECT_FALSE(facts.usage_asked);
}

TEST(ReadCall, NumbersOutOfReasonAreBounded) {
  const CallFacts facts =
      read(Profile::kOpenai, "/v1/chat/completions",
           R"({"model":"m","messages":[],"max_tokens":99999999999999999999999,"n":1e99,"best_of":
               88888888888888888888888})");
  EXPECT_EQ(facts.max_output, 1'000'000'000);
  EXPECT_EQ(facts.choices, 1000);
  const CallFacts none = read(Profile::kOpenai, "/v1/chat/completions",
                              R"({"model":"m","messages":[],"max_tokens":-5,"n":0})");
  EXPECT_FALSE(none.max_output);
  EXPECT_EQ(none.choices, 1);
}

TEST(ReadCall, UsageIsAskedForWhereTheClientDidNot) {
  const auto hides = [](Profile profile, const std::string& more, std::string_view query = {}) {
    return read(profile, "/v1/chat/completions", R"({"model":"m","messages":[])" + more + "}",
                query)
        .hide_usage();
  };
  using enum Profile;
  EXPECT_TRUE(hides(kOpenai, R"(,"stream":true)"));
  EXPECT_TRUE(hides(kOpenai, R"(,"stream":true,"stream_options":{"include_usage":false})"));
  EXPECT_FALSE(hides(kOpenai, R"(,"stream":true,"stream_options":{"include_usage":true})"));
  EXPECT_FALSE(hides(kOpenai, R"(,"stream":false)"));
  EXPECT_TRUE(hides(kGeneric, R"(,"stream":true)"));
  EXPECT_FALSE(hides(kMistral, R"(,"stream":true)"));
  EXPECT_FALSE(hides(kGroq, R"(,"stream":true)"));
  EXPECT_TRUE(hides(kAzure, R"(,"stream":true)", "x=1&api-version=2024-10-21"));
  EXPECT_FALSE(hides(kAzure, R"(,"stream":true)", "api-version=2024-02-01"));
  EXPECT_FALSE(
      read(kOpenai, "/v1/responses", R"({"model":"m","input":"a","stream":true})").hide_usage());
}

// Without ranks three bytes are a token.
Amount input(Profile profile, std::string_view path, std::string_view body) {
  return read(profile, path, body).input_tokens;
}
Amount chat(const std::string& members) {
  return input(Profile::kOpenai, "/v1/chat/completions", R"({"model":"gpt-4o",)" + members + "}");
}

TEST(Estimate, ChatsHaveThreeForEachMessageOneForANameAndThreeForTheReply) {  // S3.8
  EXPECT_EQ(chat(R"("messages":[{"role":"abc","content":"abcdef"}])"), 3 + 1 + 2 + 3);
  EXPECT_EQ(chat(R"("messages":[{"role":"abc","content":"abc","name":"abc"},{"role":"abc",
                    "content":[{"type":"text","text":"abcdef"}]}])"),
            (3 + 1 + 1 + 1 + 1) + (3 + 1 + 2) + 3);
}

TEST(Estimate, TextIsCountedDecoded) {
  EXPECT_EQ(chat(R"("messages":[{"role":"abc","content":"\u0061\n\ud83d\ude00"}])"), 3 + 1 + 2 + 3);
}

TEST(Estimate, CountsAllThatIsAPromptAndNothingElse) {
  EXPECT_EQ(input(Profile::kOpenai, "/v1/embeddings",
                  R"({"model":"m","input":["abc","abcd"],"user":"nobody","encoding_format":"x"})"),
            1 + 2);
  EXPECT_EQ(input(Profile::kOpenai, "/v1/embeddings", R"({"model":"m","input":[[1,22,333],[4]]})"),
            4);
  EXPECT_EQ(input(Profile::kOpenai, "/v1/responses",
                  R"({"model":"m","input":"abc","instructions":"abcdef"})"),
            3);
  EXPECT_EQ(input(Profile::kAnthropic, "/v1/messages",
                  R"({"model":"m","system":[{"type":"text","text":"abc","cache_control":{"type":
                  "ephemeral"}}],"messages":[{"role":"abc","content":"abc"}],"metadata":{"user_id":
                  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}})"),
            1 + (3 + 1 + 1) + 3);
  EXPECT_EQ(input(Profile::kGemini, "/v1beta/models/m:generateContent",
                  R"({"systemInstruction":{"parts":[{"text":"abc"}]},"contents":[{"role":"abc",
                  "parts":[{"text":"abcdef"}]}]})"),
            1 + (3 + 1 + 2) + 3);
}

TEST(Estimate, ToolsCountWithTheirNamesAndDescriptions) {
  const Amount without = chat(R"("messages":[])");
  EXPECT_EQ(chat(R"("messages":[],"tools":[{"type":"function","function":{"name":"abc",
      "description":"abcdef","parameters":{"type":"object","properties":{"city":{"type":"string",
      "description":"abc"}}}}}])"),
            without + 9 + 1 + 2 + (2 + 2) + 1);
}

// A PNG of 1024 × 1024: its signature and the first chunk.
const std::string kPng = "iVBORw0KGgoAAAANSUhEUgAABAAAAAQACAYAAAB/" + std::string(4000, 'A');

TEST(Estimate, PicturesAreNeverCountedAsText) {
  const Amount plain = chat(R"("messages":[{"role":"abc","content":[]}])");
  const auto picture = [&](const std::string& part) {
    return chat(R"("messages":[{"role":"abc","content":[)" + part + "]}]") - plain;
  };
  const std::string url =
      R"({"type":"image_url","image_url":{"url":"data:image/png;base64,)" + kPng;
  EXPECT_EQ(picture(url + "\"}}"), 765);  // four tiles
  EXPECT_EQ(picture(url + R"(","detail":"low"}})"), 85);
  EXPECT_EQ(picture(R"({"type":"image_url","image_url":{"detail":"low","url":"https://a/b.png"}})"),
            85);
  EXPECT_EQ(picture(R"({"type":"image_url","image_url":{"url":"https://a/b.png"}})"), 1445);
  EXPECT_EQ(
      picture(url + R"("}},{"type":"image_url","image_url":{"detail":"low","url":"https://a"}})"),
      765 + 85);
  EXPECT_EQ(picture(R"({"type":"input_image","detail":"low","image_url":"https://a/b.png"})"), 85);

  const auto claude = [](const std::string& source) {
    return input(Profile::kAnthropic, "/v1/messages",
                 R"({"model":"claude-opus-5","messages":[{"role":"abc","content":[{"type":"image",
                 "source":{)" +
                     source + "}}]}]}") -
           7;
  };
  EXPECT_EQ(claude(R"("type":"base64","media_type":"image/png","data":")" + kPng + "\""), 1399);
  EXPECT_EQ(claude(R"("type":"url","url":"https://a/b.png")"), 1600);
  EXPECT_EQ(input(Profile::kGemini, "/v1beta/models/m:generateContent",
                  R"({"contents":[{"parts":[{"inlineData":{"mimeType":"image/png","data":")" +
                      kPng + R"("}}]}]})"),
            258 * 4 + 6);
  EXPECT_EQ(input(Profile::kBedrock, "/model/anthropic.claude-x/converse",
                  R"({"messages":[{"role":"abc","content":[{"image":{"format":"png","source":{
                  "bytes":")" +
                      kPng + R"("}}}]}]})"),
            1399 + 7);
}

TEST(Estimate, WhatOnlyLooksLikeAPictureIsText) {
  EXPECT_EQ(chat(R"("messages":[{"role":"abc","content":"data:image/png;base64,AAAA"}])"),
            3 + 1 + 9 + 3);
  const std::string words(300, 'a');
  EXPECT_EQ(input(Profile::kAnthropic, "/v1/messages",
                  R"({"model":"m","messages":[{"role":"abc","content":[{"type":"tool_use","id":"x",
                  "name":"abc","input":{"data":"some words )" +
                      words + R"(","url":"https://a.example/"}}]}]})"),
            3 + 1 + 1 + 104 + 6 + 3);
}

TEST(Estimate, DocumentsAndSoundTakeAShareOfTheirBytes) {
  const auto data = [](const std::string& base64) {
    return input(Profile::kAnthropic, "/v1/messages",
                 R"({"model":"m","messages":[{"role":"abc","content":[{"type":"document","source":{
                 "type":"base64","data":")" +
                     base64 + R"("}}]}]})") -
           7;
  };
  EXPECT_EQ(data("JVBERi0x" + std::string(39'992, 'A')), 3001);  // %PDF-1, 30,000 bytes
  EXPECT_EQ(data("SUQzBAAA" + std::string(39'992, 'A')), 301);   // ID3
}

TEST(Estimate, OfALargeBodyIsAThirdOfItsText) {
  const std::string large(2'000'000, 'x');
  EXPECT_EQ(chat(R"("messages":[{"role":"abc","content":")" + large + "\"}]"), 3 + 1 + 666'667 + 3);
  EXPECT_EQ(chat(R"("messages":[{"role":"abc","content":[{"type":"image_url","image_url":{"url":
      "data:image/png;base64,)" +
                 kPng + large + "\"}}]}]"),
            3 + 1 + 765 + 3);
}

// The conversation of OpenAI's cookbook ("How to count tokens with tiktoken"), and what its API
// said.
TEST(Estimate, OfAChatIsWhatOpenAiCounts) {  // S3.8
  ASSERT_NE(built_in_tokenizer(Encoding::kO200k), nullptr) << "tools/ranks gets the ranks";
  const auto count = [&](const std::string& model) {
    return read_call(Profile::kOpenai,
                     {"POST", "/v1/chat/completions", "",
                      R"({"model":")" + model +
                          R"(","messages":[
        {"role":"system","content":"You are a helpful, pattern-following assistant that )"
                          R"(translates corporate jargon into plain English."},
        {"role":"system","name":"example_user",
         "content":"New synergies will help drive top-line growth."},
        {"role":"system","name":"example_assistant",
         "content":"Things working well together will increase revenue."},
        {"role":"system","name":"example_user","content":"Let's circle back when we have more )"
                          R"(bandwidth to touch base on opportunities for )"
                          R"(increased leverage."},
        {"role":"system","name":"example_assistant",
         "content":"Let's talk later when we're less busy about how to do better."},
        {"role":"user","content":"This late pivot means we don't have time to boil the ocean for )"
                          R"(the client deliverable."}]})"},
                     built_in_tokenizer)
        .input_tokens;
  };
  EXPECT_EQ(count("gpt-4-0613"), 129);
  EXPECT_EQ(count("gpt-4o"), 124);
}

// Each byte is a token by itself, so that what is counted can be seen.
TEST(Estimate, GoesByTheTokenizerOfTheModel) {  // S3.8
  static const auto bytes = Tokenizer::create(Encoding::kO200k, [] {
    constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string ranks;
    for (unsigned byte = 0; byte < 256; ++byte) {
      ranks += {kDigits[byte >> 2U], kDigits[(byte & 3U) << 4U], '=', '='};
      ranks += " " + std::to_string(byte) + "\n";
    }
    return ranks;
  }());
  ASSERT_TRUE(bytes) << bytes.error();
  const auto count = [&](const std::string& model) {
    return read_call(Profile::kOpenai,
                     {"POST", "/v1/embeddings", "",
                      R"({"input":["abc","abcd"],"model":")" + model + "\"}"},
                     [](Encoding encoding) -> const Tokenizer* {
                       return encoding == Encoding::kO200k ? bytes->get() : nullptr;
                     })
        .input_tokens;
  };
  EXPECT_EQ(count("gpt-4o"), 7);
  EXPECT_EQ(count("my-model"), 7);
  EXPECT_EQ(count("text-embedding-3-small"), 3);  // cl100k, of which there are no ranks here
}

}  // namespace
}  // namespace weir
