#include "provider/sse.h"

#include <gtest/gtest.h>

#include <vector>

namespace weir {
namespace {

TEST(WithStreamUsage, ChangesNothingElse) {
  struct Row {
    const char* body;
    const char* asked;
  };
  for (const auto& [body, asked] : std::vector<Row>{
           {R"({"model":"m","stream":true})",
            R"({"stream_options":{"include_usage":true},"model":"m","stream":true})"},
           {" { \"a\" : 1 } ", " {\"stream_options\":{\"include_usage\":true}, \"a\" : 1 } "},
           {"{}", R"({"stream_options":{"include_usage":true}})"},
           {"{ }", R"({"stream_options":{"include_usage":true} })"},
           {R"({"stream_options": null ,"n":2})",
            R"({"stream_options": {"include_usage":true} ,"n":2})"},
           {R"({"stream_options":{}})", R"({"stream_options":{"include_usage":true}})"},
           {R"({"stream_options":{"x":{"include_usage":false}},"n":2})",
            R"({"stream_options":{"include_usage":true,"x":{"include_usage":false}},"n":2})"},
           {R"({"n":2,"stream_options":{"x":1, "include_usage": false}})",
            R"({"n":2,"stream_options":{"x":1, "include_usage": true}})"},
           {R"({"stream_options":{"include_usage":null}})",
            R"({"stream_options":{"include_usage":true}})"},
           {R"({"a":{"stream_options":null}})",
            R"({"stream_options":{"include_usage":true},"a":{"stream_options":null}})"},
           {R"({"stream_options":{"include_usage":false},"stream_options":{"y":[]}})",
            R"({"stream_options":{"include_usage":false},)"
            R"("stream_options":{"include_usage":true,"y":[]}})"},
           {R"({"stream\u005foptions":null})", R"({"stream\u005foptions":{"include_usage":true}})"},
           {R"({"stream_options":5})", R"({"stream_options":5})"},
           {"[]", "[]"},
           {"{\"a\":", "{\"a\":"},
           {"no", "no"},
           {"", ""},
       }) {
    EXPECT_EQ(with_stream_usage(body), asked);
  }
}

const std::string kUsageChunk =
    "data: {\"id\":\"1\",\"choices\":[],\"usage\":{\"prompt_tokens\":19,\"x\":{}}}\n\n";

struct Stream {
  std::string sent;
  std::string seen;
};

std::vector<Stream> streams() {
  const std::string content =
      "data: {\"choices\":[{\"delta\":{\"content\":\"\\\"usage\\\":null\"}}]}";
  return {
      {"data: {\"id\":\"1\",\"choices\":[{\"a\":1}],\"usage\":null}\n\n" + kUsageChunk +
           "data: [DONE]\n\n",
       "data: {\"id\":\"1\",\"choices\":[{\"a\":1}]}\n\ndata: [DONE]\n\n"},
      {"data: {\"usage\":null,\"id\":1}\r\n\r\ndata: {\"usage\" : null }\r\n\r\n",
       "data: {\"id\":1}\r\n\r\ndata: { }\r\n\r\n"},
      {"data: {\"id\":1 , \"usage\": null , \"x\":[]}\n\n", "data: {\"id\":1 , \"x\":[]}\n\n"},
      {": comment\n\nevent: x\nid: 5\n" + content + "\n\n",
       ": comment\n\nevent: x\nid: 5\n" + content + "\n\n"},
      // A chunk with usage and choices is one that was sent in any case.
      {"data: {\"choices\":[{}],\"usage\":{\"a\":1}}\n\n",
       "data: {\"choices\":[{}],\"usage\":{\"a\":1}}\n\n"},
      // Azure's first chunk.
      {"data: {\"choices\":[],\"usage\":null,\"prompt_filter_results\":[]}\n\n",
       "data: {\"choices\":[],\"prompt_filter_results\":[]}\n\n"},
      {"data: {\"error\":{\"usage\":null}}\n\ndata: {\"usage\":null",
       "data: {\"error\":{\"usage\":null}}\n\ndata: {\"usage\":null"},
      {"data: {\"usage\":\ndata: null}\n\n", "data: {\"usage\":\ndata: null}\n\n"},
      {"event: a\n" + kUsageChunk + "\n\n", "\n\n"},
  };
}

TEST(StreamUsageHider, TakesOutTheUsageAndNothingElse) {
  for (const auto& [sent, seen] : streams()) {
    StreamUsageHider hider;
    std::string out;
    hider.pass(sent, out);
    hider.finish(out);
    EXPECT_EQ(out, seen);
  }
}

TEST(StreamUsageHider, DoesNotCareWhereTheBytesAreCut) {
  for (const auto& [sent, seen] : streams()) {
    for (std::size_t cut = 0; cut <= sent.size(); ++cut) {
      StreamUsageHider hider;
      std::string out;
      hider.pass(std::string_view{sent}.substr(0, cut), out);
      hider.pass(std::string_view{sent}.substr(cut), out);
      hider.finish(out);
      ASSERT_EQ(out, seen) << cut;
    }
    StreamUsageHider hider;
    std::string out;
    for (const char& byte : sent) hider.pass({&byte, 1}, out);
    hider.finish(out);
    EXPECT_EQ(out, seen);
  }
}

TEST(StreamUsageHider, AnEventGoesOnAsSoonAsItIsWhole) {
  StreamUsageHider hider;
  std::string out;
  hider.pass("data: {\"a\":1}\n", out);
  EXPECT_EQ(out, "");
  hider.pass("\ndata: {", out);
  EXPECT_EQ(out, "data: {\"a\":1}\n\n");
}

TEST(StreamUsageHider, HoldsNoMoreThanItSays) {
  const std::string filler(StreamUsageHider::kHeldMax, 'x');
  const std::string text = "data: {\"a\":\"" + filler + "\",\"usage\":null}\n\n";
  for (const std::size_t cut :
       {std::size_t{1}, std::size_t{100}, filler.size() + 3, text.size() - 1, text.size()}) {
    StreamUsageHider hider;
    std::string out;
    hider.pass(std::string_view{text}.substr(0, cut), out);
    EXPECT_GE(out.size() + StreamUsageHider::kHeldMax, cut);
    hider.pass(std::string_view{text}.substr(cut), out);
    EXPECT_EQ(out, text);  // too long to be looked into
    out.clear();
    hider.pass(kUsageChunk + "data: 1\n\n", out);
    EXPECT_EQ(out, "data: 1\n\n");
  }
}

}  // namespace
}  // namespace weir
