#include "server/limit_spec.h"

#include <gtest/gtest.h>

#include "config/load.h"
#include "server/text.h"

namespace weir::server {
namespace {

std::vector<LimitConfig> parsed(const std::string& text) {
  auto limits = parse_limits(text, "body");
  EXPECT_TRUE(limits) << (limits ? "" : limits.error().front().text());
  return limits.value_or(std::vector<LimitConfig>{});
}

std::string body(const std::vector<LimitConfig>& limits) {
  JsonText json;
  json.open('{').key("limits").open('[');
  for (const LimitConfig& limit : limits) add_limit_spec(json, limit);
  json.close(']').close('}');
  return json.str();
}

TEST(LimitSpecTest, WhatIsPutBackIsTheSame) {
  for (const char* text : {
           "{limit: 300, period: 1m}",
           "{max_concurrency: 5}",
           "{tokens_per_minute: 300000}",
           "{tokens_per_minute: 123457, max_concurrency: 3, limit: 7, period: 90s}",
           "{budget: {usd: 12.5}}",
           "{budget: {usd: 0.000001, per: 7d, reset: '06:30', zone: Europe/Berlin}}",
           "{limits: [{unit: requests, amount: 10, per: 250ms}]}",
           "{limits: [{unit: tokens, amount: 10, per: 1h, burst: 3}]}",
           "{limits: [{unit: usd, amount: 2.25, per: 1d, burst: 0.5}]}",
           "{limits: [{unit: input_tokens, amount: 10, per: 1m, algorithm: stepped}]}",
           "{limits: [{unit: output_tokens, amount: 10, per: 1m, algorithm: sliding_log}]}",
           "{limits: [{unit: requests, amount: 10, per: 1m, algorithm: sliding_window}]}",
           "{limits: [{unit: requests, amount: 9, per: 2d, algorithm: fixed_window, align: "
           "calendar, reset: '23:59', zone: America/New_York, name: two days}]}",
           "{limits: [{unit: requests, amount: 1, per: 1m}, {unit: requests, amount: 2, per: 1m}]}",
       }) {
    const auto limits = parsed(text);
    ASSERT_FALSE(limits.empty()) << text;
    const std::string told = body(limits);
    const auto again = parsed(told);
    ASSERT_EQ(again.size(), limits.size()) << told;
    for (std::size_t i = 0; i < limits.size(); ++i) {
      EXPECT_EQ(again[i].spec, limits[i].spec) << told;
      ASSERT_EQ(again[i].align.has_value(), limits[i].align.has_value()) << told;
      if (!limits[i].align) continue;
      EXPECT_EQ(again[i].align->zone.name(), limits[i].align->zone.name());
      EXPECT_EQ(again[i].align->reset, limits[i].align->reset);
    }
  }
}

TEST(LimitSpecTest, SaysItInTheWordsOfAFile) {
  EXPECT_EQ(body(parsed("{max_concurrency: 5, limits: [{unit: tokens, amount: 10, per: 60s}]}")),
            R"({"limits":[{"unit":"slots","amount":5,"name":"slots"},)"
            R"({"unit":"tokens","amount":10,"per":"1m","algorithm":"token_bucket","burst":10,)"
            R"("name":"tokens per 1m"}]})");
}

TEST(LimitSpecTest, SlotsHaveNoPeriod) {
  for (const char* text : {"{limits: [{unit: slots, amount: 5, per: 1m}]}",
                           "{limits: [{unit: slots, amount: 5, burst: 5}]}",
                           "{limits: [{unit: slots, amount: 0}]}", "{limits: [{unit: slots}]}"}) {
    EXPECT_FALSE(parse_limits(text, "body")) << text;
  }
}

}  // namespace
}  // namespace weir::server
