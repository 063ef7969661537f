#include "server/acquire_call.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace weir::server {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;

// What is wrong with it; empty if nothing is.
std::string mistake(const std::string& text) {
  const auto json = parse_json(text);
  if (!json) return json.error();
  const auto call = read_acquire(*json);
  return call ? "" : call.error();
}
std::string with(const std::string& field) { return R"({"resource":"a",)" + field + "}"; }
std::string cost(const std::string& amounts) { return with(R"("cost":{)" + amounts + "}"); }

TEST(AcquireCall, EveryMistakeNamesItsField) {
  struct Row {
    std::string body, named;
  };
  const std::string name_too_long(kNameBytesMax + 1, 'n');
  const std::string url_too_long(kUrlBytesMax + 1, 'u');
  for (const Row& row : std::vector<Row>{
           // Not an object at all.
           {"", "the body is not JSON"},
           {"{", "the body is not JSON"},
           {R"({"resource":"a"} x)", "the body is not JSON"},
           {R"({"resource":"a",})", "the body is not JSON"},
           {R"({'resource':'a'})", "the body is not JSON"},
           {"{\"resource\":\"\xff\"}", "the body is not JSON"},
           {R"({"resource":"\ud800"})", "the body is not JSON"},
           {with(R"("priority":01)"), "the body is not JSON"},
           {with(R"("priority":NaN)"), "the body is not JSON"},
           {"[]", "a request must be an object"},
           {"null", "a request must be an object"},
           {"\"a\"", "a request must be an object"},
           // Whom it is about.
           {"{}", "either a `resource` or a `url`"},
           {R"({"agent":"a"})", "either a `resource` or a `url`"},
           {R"({"resource":"a","url":"https://b"})", "either a `resource` or a `url`"},
           {R"({"resource":""})", "`resource`"},
           {R"({"resource":7})", "`resource`"},
           {R"({"resource":null})", "`resource`"},
           {R"({"resource":["a"]})", "`resource`"},
           {R"({"resource":"a\u0000b"})", "`resource` holds a NUL"},
           {R"({"resource":")" + name_too_long + "\"}", "`resource` is longer than 256 bytes"},
           {R"({"url":true})", "`url`"},
           {R"({"url":"https://a\u0000"})", "`url` holds a NUL"},
           {R"({"url":")" + url_too_long + "\"}", "`url` is longer than 8192 bytes"},
           // The rest.
           {with(R"("agent":7)"), "`agent`"},
           {with(R"("agent":"\u0000")"), "`agent` holds a NUL"},
           {with(R"("agent":")" + name_too_long + "\""), "`agent` is longer"},
           {with(R"("model":{})"), "`model`"},
           {with(R"("model":")" + name_too_long + "\""), "`model` is longer"},
           {with(R"("priority":"1")"), "`priority` must be a whole number from -100 to 100"},
           {with(R"("priority":101)"), "`priority`"},
           {with(R"("priority":-101)"), "`priority`"},
           {with(R"("priority":1.5)"), "`priority`"},
           {with(R"("priority":18446744073709551615)"), "`priority`"},
           {with(R"("wait_ms":-1)"), "`wait_ms` must be a whole number from 0 to 3600000"},
           {with(R"("wait_ms":3600001)"), "`wait_ms`"},
           {with(R"("wait_ms":0.5)"), "`wait_ms`"},
           {with(R"("wait_ms":1e300)"), "`wait_ms`"},
           {with(R"("wait_ms":true)"), "`wait_ms`"},
           {with(R"("hold_ms":0)"), "`hold_ms` must be a whole number from 1 to 86400000"},
           {with(R"("hold_ms":86400001)"), "`hold_ms`"},
           {with(R"("hold_ms":9223372036854775808)"), "`hold_ms`"},
           {with(R"("hold_ms":null)"), "`hold_ms`"},
           {with(R"("resourse":"a")"), "`resourse` is not known"},
           {with(R"("Agent":"a")"), "`Agent` is not known"},
           {with(R"("":1)"), "`` is not known"},
           // Costs.
           {with(R"("cost":5)"), "`cost` must be an object"},
           {with(R"("cost":[])"), "`cost` must be an object"},
           {cost(R"("token":5)"), "`cost.token` is not a unit"},
           {cost(R"("micro_usd":5)"), "`cost.micro_usd` is not a unit"},
           {cost(R"("tokens":-1)"), "`cost.tokens` must be a whole number from 0 to"},
           {cost(R"("tokens":1.5)"), "`cost.tokens`"},
           {cost(R"("tokens":"5")"), "`cost.tokens`"},
           {cost(R"("tokens":1000000000000001)"), "`cost.tokens`"},
           {cost(R"("tokens":99999999999999999999999999)"), "`cost.tokens`"},
           {cost(R"("requests":1e99)"), "`cost.requests`"},
           {cost(R"("slots":-9223372036854775808)"), "`cost.slots`"},
           {cost(R"("usd":-0.01)"), "`cost.usd` must be from 0 to 1000000000 dollars"},
           {cost(R"("usd":-1)"), "`cost.usd`"},
           {cost(R"("usd":1000000000.01)"), "`cost.usd`"},
           {cost(R"("usd":1e300)"), "`cost.usd`"},
           {cost(R"("usd":18446744073709551615)"), "`cost.usd`"},
           {cost(R"("usd":"0.25")"), "`cost.usd` must be a number of dollars"},
           {cost(R"("usd":null)"), "`cost.usd` must be a number of dollars"},
       }) {
    const std::string said = mistake(row.body);
    EXPECT_NE(said.find(row.named), std::string::npos)
        << row.body.substr(0, 100) << "\n  said: " << said << "\n  not: " << row.named;
  }
}

TEST(AcquireCall, ReadsAllThatCanBeAsked) {
  const auto json = parse_json(
      R"({"url":"https://api.example/v1","agent":"planner-1","model":"large","priority":-100,
          "wait_ms":3600000,"hold_ms":86400000,
          "cost":{"requests":2,"tokens":1200,"input_tokens":1000,"output_tokens":200,
                  "usd":0.25,"slots":0}})");
  ASSERT_TRUE(json);
  const auto call = read_acquire(*json);
  ASSERT_TRUE(call) << call.error();
  EXPECT_EQ(call->resource, "");
  EXPECT_EQ(call->url, "https://api.example/v1");
  EXPECT_EQ(call->agent, "planner-1");
  EXPECT_EQ(call->model, "large");
  EXPECT_EQ(call->priority, -100);
  EXPECT_EQ(call->wait, 1h);
  EXPECT_EQ(call->hold, 24h);
  EXPECT_EQ(call->cost, Cost{}
                            .with(Unit::kRequests, 2)
                            .with(Unit::kTokens, 1200)
                            .with(Unit::kInputTokens, 1000)
                            .with(Unit::kOutputTokens, 200)
                            .with(Unit::kMicroUsd, 250'000)
                            .with(Unit::kSlots, 0));
}

TEST(AcquireCall, AsksForOneCallWhereNothingElseIsSaid) {
  const auto json = parse_json(R"({"resource":"a"})");
  const auto call = read_acquire(*json);
  ASSERT_TRUE(call) << call.error();
  EXPECT_EQ(call->resource, "a");
  EXPECT_EQ(call->priority, std::nullopt);
  EXPECT_EQ(call->cost, Cost::call());
  EXPECT_EQ(call->wait, 0ns);
  EXPECT_EQ(call->hold, std::nullopt);

  const auto priced = parse_json(cost(R"("tokens":7)"));
  EXPECT_EQ(read_acquire(*priced)->cost, Cost::call(7));  // and still a request in a slot
}

TEST(AcquireCall, TakesTheLargestOfEverything) {
  EXPECT_EQ(mistake(R"({"resource":")" + std::string(kNameBytesMax, 'n') + "\"}"), "");
  EXPECT_EQ(mistake(R"({"url":")" + std::string(kUrlBytesMax, 'u') + "\"}"), "");
  EXPECT_EQ(mistake(cost(R"("tokens":1000000000000000)")), "");
  EXPECT_EQ(mistake(with(R"("priority":100)")), "");
  EXPECT_EQ(mistake(with(R"("hold_ms":1)")), "");
  EXPECT_EQ(mistake(with("\"agent\":\"\\u00e9 \xF0\x9F\x98\x80\\n\"")), "");
}

TEST(AcquireCall, JsonMayBe64DeepAndNoDeeper) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(parse_json(nested(kJsonDepthMax)));
  EXPECT_FALSE(parse_json(nested(kJsonDepthMax + 1)));
  EXPECT_FALSE(parse_json(nested(500'000)));
  EXPECT_FALSE(parse_json(std::string(1'000'000, '[')));
}

Amount micro_usd(const std::string& number) {
  const auto json = parse_json(R"({"cost":{"usd":)" + number + "}}");
  const auto read = json ? read_settlement(*json) : std::unexpected(json.error());
  if (!read) ADD_FAILURE() << number << ": " << read.error();
  return read ? (*read)[Unit::kMicroUsd] : -1;
}

TEST(AcquireCall, DollarsAreExactToTheMillionthAndRoundedUpBeyond) {
  struct Row {
    std::string number;
    Amount micro;
  };
  for (const auto& [number, micro] :
       std::vector<Row>{{"0", 0},
                        {"0.0", 0},
                        {"-0.0", 0},
                        {"1", 1'000'000},
                        {"0.25", 250'000},
                        {"0.1", 100'000},
                        {"0.3", 300'000},
                        {"0.30000000000000004", 300'000},  // 0.1 + 0.2 of many languages
                        {"0.7999999999999999", 800'000},   // 0.1 + 0.7
                        {"1.1", 1'100'000},
                        {"2.675", 2'675'000},
                        {"0.000001", 1},
                        {"1e-6", 1},
                        {"0.0000011", 2},
                        {"0.0000019", 2},
                        {"0.0000001", 1},
                        {"1e-9", 1},
                        {"1e-30", 1},
                        {"0.0123455", 12'346},
                        {"123456.789012", 123'456'789'012},
                        {"999999999.999999", 999'999'999'999'999},
                        {"1000000000", kAmountMax}}) {
    EXPECT_EQ(micro_usd(number), micro) << number;
  }
}

TEST(AcquireCall, EveryDecimalOfSixPlacesIsItself) {
  std::mt19937_64 random{7};
  for (int i = 0; i < 20'000; ++i) {
    const auto digits = std::uniform_int_distribution<int>{1, 12}(random);
    const auto micro =
        static_cast<Amount>(random() % static_cast<std::uint64_t>(std::pow(10, digits)));
    const std::string number = fmt::format("{}.{:06}", micro / 1'000'000, micro % 1'000'000);
    ASSERT_EQ(micro_usd(number), micro) << number;
  }
}

TEST(AcquireCall, ASettlementNamesOnlyWhatItCorrects) {
  const auto json = parse_json(R"({"cost":{"tokens":900,"usd":0.5}})");
  const auto cost = read_settlement(*json);
  ASSERT_TRUE(cost) << cost.error();
  EXPECT_EQ((*cost)[Unit::kTokens], 900);
  EXPECT_EQ((*cost)[Unit::kMicroUsd], 500'000);
  EXPECT_FALSE(cost->names(Unit::kRequests));
  EXPECT_FALSE(cost->names(Unit::kSlots));
  for (const std::string bad : {"{}", "[]", R"({"cost":{},"x":1})", R"({"tokens":5})",
                                R"({"cost":null})", R"({"cost":{"tokens":-1}})"}) {
    const auto parsed = parse_json(bad);
    ASSERT_TRUE(parsed);
    EXPECT_FALSE(read_settlement(*parsed)) << bad;
  }
}

}  // namespace
}  // namespace weir::server
