// A source's definition: what it may say, and every mistake with its place.
#include "config/source_file.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

using namespace std::chrono_literals;

std::string first_mistake(const std::string& text, std::string_view name = {}) {
  const auto source = parse_source(text, "s.yaml", name);
  return source ? "no mistake" : source.error().front().text();
}

// S4.8: seed 004's example, as it stands there.
TEST(SourceFile, NeedsANameAndAUrlAlone) {
  const auto source = parse_source(
      "name: fmp-aapl-prices\n"
      "url: https://financialmodelingprep.com/api/v3/historical-price-full/AAPL\n",
      "s.yaml");
  ASSERT_TRUE(source) << source.error().front().text();
  EXPECT_EQ(source->name, "fmp-aapl-prices");
  EXPECT_EQ(source->every, 1min);
  EXPECT_EQ(source->timeout, 30s);
  EXPECT_EQ(source->max_body, 1024U * 1024U);
}

TEST(SourceFile, SaysEverythingInYamlOrJson) {
  const SourceConfig expected{.name = "a",
                              .url = "http://localhost:81/x?y=1",
                              .every = 5min,
                              .timeout = 10s,
                              .max_body = 2048,
                              .headers = {{"Accept", "text/plain"}, {"X-Version", "2"}}};
  const auto yaml = parse_source(
      "name: a\nurl: http://localhost:81/x?y=1\nevery: 5m\ntimeout: 10s\nmax_body: 2KiB\n"
      "headers:\n  Accept: text/plain\n  X-Version: 2\n",
      "s.yaml");
  const auto json = parse_source(
      R"({"name":"a","url":"http://localhost:81/x?y=1","every":"5m","timeout":"10s",
          "max_body":2048,"headers":{"Accept":"text/plain","X-Version":"2"}})",
      "body");
  ASSERT_TRUE(yaml) << yaml.error().front().text();
  ASSERT_TRUE(json) << json.error().front().text();
  EXPECT_EQ(*yaml, expected);
  EXPECT_EQ(*json, expected);
}

TEST(SourceFile, OfAPutMayLeaveItsNameOut) {
  EXPECT_EQ(parse_source("url: https://a.example/", "body", "a")->name, "a");
  EXPECT_EQ(first_mistake("url: https://a.example/\nname: b\n", "a"),
            "s.yaml:2:7: name: is not a, as the address of the request says");
}

TEST(SourceFile, NamesEveryMistakeWithItsPlace) {
  const auto source = parse_source(
      "name: a b\nurl: ftp://x/\nevery: 10ms\ntimeout: 1h\nmax_body: 9MiB\nevry: 5m\n"
      "headers: {Host: x, Connection: close, X-Weir-Agent: a, \"a b\": c, X: {}}\n",
      "s.yaml");
  ASSERT_FALSE(source);
  std::vector<std::string> lines;
  for (const Mistake& mistake : source.error()) lines.push_back(mistake.text());
  const std::vector<std::string> expected{
      "s.yaml:1:7: name: a name is 1 to 64 letters, digits, dots, underscores or dashes: a b",
      "s.yaml:2:6: url: must begin with https:// or http://",
      "s.yaml:3:8: every: is from 1s to 365d",
      "s.yaml:4:10: timeout: is from 1s to 10m",
      "s.yaml:5:11: max_body: must be bytes from 1 to 8388608 such as 1MiB: 9MiB",
      "s.yaml:6:1: evry: unknown key `evry`; did you mean `every`?",
      "s.yaml:7:11: headers.Host: is written by Weir itself",
      "s.yaml:7:20: headers.Connection: is written by Weir itself",
      "s.yaml:7:39: headers.X-Weir-Agent: is written by Weir itself",
      "s.yaml:7:56: headers.a: is no name of a header",
      "s.yaml:7:66: headers.X: expected text"};
  EXPECT_EQ(lines, expected);
}

TEST(SourceFile, RefusesUrlsThatAreNone) {
  for (const char* url : {"example.com", "https://", "https:///x", "https://a.example/a b",
                          "https://a.example/x#y", "https://a.example:99999/", "https://a..b/",
                          "file:///etc/passwd", "\"https://a.example/\\r\\nX: y\""}) {
    EXPECT_TRUE(first_mistake(std::string{"name: a\nurl: "} + url).contains("url: ")) << url;
  }
  const std::string long_url = "https://a.example/" + std::string(kSourceUrlBytesMax, 'a');
  EXPECT_TRUE(first_mistake("name: a\nurl: " + long_url).contains("is longer"));
}

// S4.7: keys are never stored, so they cannot be in what is.
TEST(SourceFile, RefusesCredentialsAndNeverQuotesThem) {
  for (const char* line : {"headers: {Authorization: Bearer CANARY}",
                           "headers: {X-Api-Key: CANARY}",
                           "headers: {cookie: CANARY}",
                           "headers: {X-Auth-Token: CANARY}",
                           "headers: {apikey: CANARY}",
                           "headers: {X-Functions-Key: CANARY}",
                           "url: https://a.example/q?access_key=CANARY",
                           "url: https://a.example/q?b=1&Signature=CANARY",
                           "url: https://user:CANARY@a.example/",
                           "url: https://CANARY@a.example/",
                           "url: https://a.example/q?symbol=A&apikey=CANARY",
                           "url: https://a.example/q?%61pi_key=CANARY",
                           "url: https://a.example?token=CANARY",
                           "url: https://a.example/q?api_token=CANARY",
                           "url: https://a.example/q?private_token=CANARY",
                           "url: https://a.example/q?id_token=CANARY",
                           "url: https://a.example/q?Refresh_Token=CANARY",
                           "url: https://a.example/q?passwd=CANARY",
                           "headers: {X-CMC_PRO_API_KEY: CANARY}",
                           "headers: {CB-ACCESS-PASSPHRASE: CANARY}",
                           "headers: {DD-APPLICATION-KEY: CANARY}"}) {
    std::string text = std::string{line} + "\nname: a\n";
    if (!text.starts_with("url")) text += "url: https://a.example/\n";
    const std::string mistake = first_mistake(text);
    EXPECT_TRUE(mistake.contains("api_key")) << line << ": " << mistake;
    EXPECT_FALSE(mistake.contains("CANARY")) << mistake;
  }
}

}  // namespace
}  // namespace weir
