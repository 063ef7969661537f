#include "fleet/capacity_update.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weir::fleet {
namespace {

using namespace std::chrono;

const CapacityUpdate kUpdate{.resource = "openai-api",
                             .agent_id = "agent-1",
                             .new_capacity = 50,
                             .reason = "received 429 response",
                             .timestamp = sys_days{2025y / 1 / 2} + 3h + 4min + 5s + 60ms};

// A well-formed update with one field as the test wants it, or left out.
std::string with(std::string_view field, std::string_view value) {
  const std::vector<std::pair<std::string_view, std::string_view>> fields{
      {"resource", R"("api")"},
      {"agent_id", R"("a")"},
      {"new_capacity", "50"},
      {"reason", R"("429")"},
      {"timestamp", R"("2025-01-01T00:00:00Z")"}};
  std::string text;
  for (const auto& [name, ordinary] : fields) {
    const std::string_view chosen = name == field ? value : ordinary;
    if (chosen.empty()) continue;
    text += (text.empty() ? R"({")" : R"(,")") + std::string{name} + R"(":)" + std::string{chosen};
  }
  return text + "}";
}

std::optional<CalendarTime> time_of(std::string_view timestamp) {
  const auto update = parse_capacity_update(with("timestamp", '"' + std::string{timestamp} + '"'));
  return update ? std::optional{update->timestamp} : std::nullopt;
}

// S0.7
TEST(CapacityUpdateTest, IsWrittenAsTheSwarmReadsIt) {
  EXPECT_EQ(format_capacity_update(kUpdate),
            R"({"resource":"openai-api","agent_id":"agent-1","new_capacity":50,)"
            R"("reason":"received 429 response","timestamp":"2025-01-02T03:04:05.060000000Z"})");
}

TEST(CapacityUpdateTest, IsReadAsItWasWritten) {
  CapacityUpdate update = kUpdate;
  for (const char* text : {"", "\"quoted\" \\ \n\t", "zu viele Anfragen: größer", "\x01\x1f"}) {
    update.reason = text;
    update.resource = "r" + update.reason;
    EXPECT_EQ(parse_capacity_update(format_capacity_update(update).value()), update) << text;
  }
  update.new_capacity = kAmountMax;
  EXPECT_EQ(parse_capacity_update(format_capacity_update(update).value()), update);
}

// As Go's encoding/json writes a time.Time.
TEST(CapacityUpdateTest, ReadsWhatOthersWrite) {
  const auto update = parse_capacity_update(
      R"( { "timestamp" : "2025-01-02T05:04:05.06+02:00", "reason":"received 429 response",
            "new_capacity":50, "agent_id":"agent-1", "resource":"openai-api",
            "more": {"than": ["we", "know"]} } )");
  EXPECT_EQ(update, kUpdate);
}

TEST(CapacityUpdateTest, ReadsEveryFormOfRfc3339) {
  const CalendarTime time = sys_days{2024y / 2 / 29} + 23h + 59min + 58s;
  EXPECT_EQ(time_of("2024-02-29T23:59:58Z"), time);
  EXPECT_EQ(time_of("2024-02-29t23:59:58z"), time);
  EXPECT_EQ(time_of("2024-02-29 23:59:58Z"), time);
  EXPECT_EQ(time_of("2024-02-29T23:59:58.5Z"), time + 500ms);
  EXPECT_EQ(time_of("2024-02-29T23:59:58.123456789Z"), time + 123'456'789ns);
  EXPECT_EQ(time_of("2024-02-29T23:59:58.1234567899999Z"), time + 123'456'789ns);
  EXPECT_EQ(time_of("2024-03-01T05:29:58+05:30"), time);
  EXPECT_EQ(time_of("2024-02-29T15:59:58-08:00"), time);
  EXPECT_EQ(time_of("2024-02-29T23:59:60Z"), time + 2s);
  EXPECT_EQ(time_of("1970-01-01T00:00:00Z"), CalendarTime{});
  EXPECT_EQ(time_of("1969-12-31T23:00:00-01:00"), CalendarTime{});
}

TEST(CapacityUpdateTest, RefusesOtherTimes) {
  for (const char* text : {"",
                           "now",
                           "1735689600",
                           "2025-01-01",
                           "2025-01-01T00:00:00",
                           "2025-01-01T00:00Z",
                           "2025-13-01T00:00:00Z",
                           "2025-00-01T00:00:00Z",
                           "2025-02-29T00:00:00Z",
                           "2025-01-32T00:00:00Z",
                           "2025-01-01T24:00:00Z",
                           "2025-01-01T00:60:00Z",
                           "2025-01-01T00:00:61Z",
                           "2025-01-01T00:00:00.Z",
                           "2025-01-01T00:00:00,5Z",
                           "2025-01-01T00:00:00+0100",
                           "2025-01-01T00:00:00+24:00",
                           "2025-01-01T00:00:00Z ",
                           " 2025-01-01T00:00:00Z",
                           "2025-1-1T00:00:00Z",
                           "-025-01-01T00:00:00Z",
                           "2025-01-01T00:00:00\u00e9",
                           "1969-12-31T23:59:59Z",
                           "0000-01-01T00:00:00Z",
                           "2200-01-01T00:00:00Z",
                           "9999-12-31T23:59:59Z",
                           "1970-01-01T00:00:00+00:01",
                           "2199-12-31T23:59:59-00:01"}) {
    EXPECT_EQ(time_of(text), std::nullopt) << text;
  }
}

// S0.8
TEST(CapacityUpdateTest, RefusesWhatLacksAFieldOrHasItOfAnotherKind) {
  ASSERT_TRUE(parse_capacity_update(with("", "")));
  for (const char* field : {"resource", "agent_id", "new_capacity", "reason", "timestamp"}) {
    for (const char* value : {"", "null", "true", "{}", "[]", "1.5"}) {
      EXPECT_EQ(parse_capacity_update(with(field, value)), std::nullopt) << field << value;
    }
  }
  for (const char* value :
       {"0", "-1", "50.0", "5e1", R"("50")", "1000000000000001", "9223372036854775808",
        "-9223372036854775808", "1e400", "NaN", "123456789012345678901234567890"}) {
    EXPECT_EQ(parse_capacity_update(with("new_capacity", value)), std::nullopt) << value;
  }
  EXPECT_EQ(parse_capacity_update(with("resource", R"("")")), std::nullopt);
  EXPECT_EQ(parse_capacity_update(with("agent_id", R"("")")), std::nullopt);
  EXPECT_EQ(parse_capacity_update(with("agent_id", R"("a\nb")")), std::nullopt);
  EXPECT_EQ(parse_capacity_update(with("agent_id", "\"a\x7f\"")), std::nullopt);
  const std::string longest(kAgentIdBytesMax, 'a');
  EXPECT_TRUE(parse_capacity_update(with("agent_id", '"' + longest + '"')));
  EXPECT_EQ(parse_capacity_update(with("agent_id", '"' + longest + "a\"")), std::nullopt);
}

// S0.8
TEST(CapacityUpdateTest, RefusesWhatIsNotOneJsonObject) {
  const std::string good = with("", "");
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(parse_capacity_update(good.substr(0, size)), std::nullopt) << size;
  }
  for (const std::string& text :
       {good + good, good + "x", "[" + good + "]", std::string{"null"}, std::string{"50"},
        with("reason", "\"\xff\""), with("reason", "\"\\ud800\""), with("reason", "\"a\nb\"")}) {
    EXPECT_EQ(parse_capacity_update(text), std::nullopt) << text;
  }
}

TEST(CapacityUpdateTest, IsBoundedInSizeAndDepth) {
  const std::string start = with("", "");
  const auto padded = [&](std::size_t size) {
    return start + std::string(size - start.size(), ' ');
  };
  EXPECT_TRUE(parse_capacity_update(padded(kUpdateBytesMax)));
  EXPECT_EQ(parse_capacity_update(padded(kUpdateBytesMax + 1)), std::nullopt);

  const auto nested = [&](std::size_t depth) {
    return start.substr(0, start.size() - 1) + R"(,"more":)" + std::string(depth, '[') +
           std::string(depth, ']') + "}";
  };
  EXPECT_TRUE(parse_capacity_update(nested(7)));
  EXPECT_EQ(parse_capacity_update(nested(8)), std::nullopt);
  EXPECT_EQ(parse_capacity_update(nested(4000)), std::nullopt);
}

TEST(CapacityUpdateTest, CutsALongReasonBetweenCharacters) {
  CapacityUpdate update = kUpdate;
  for (std::size_t ahead = 0; ahead < 4; ++ahead) {
    update.reason = std::string(ahead, 'a');
    while (update.reason.size() < 2 * kReasonBytesMax) update.reason += "\u20ac";
    const auto read = parse_capacity_update(format_capacity_update(update).value());
    ASSERT_TRUE(read);
    EXPECT_TRUE(update.reason.starts_with(read->reason));
    EXPECT_LE(read->reason.size(), kReasonBytesMax);
    EXPECT_GT(read->reason.size(), kReasonBytesMax - 3);
  }
}

TEST(CapacityUpdateTest, WritesNothingThatNobodyCouldRead) {
  CapacityUpdate update = kUpdate;
  update.reason = "latin: \xe9";
  auto expected = kUpdate;
  expected.reason.clear();
  EXPECT_EQ(parse_capacity_update(format_capacity_update(update).value()), expected);

  update = kUpdate;
  update.resource = "latin: \xe9";
  EXPECT_EQ(format_capacity_update(update), std::nullopt);
  update.resource = std::string(kUpdateBytesMax, 'r');
  EXPECT_EQ(format_capacity_update(update), std::nullopt);
}

}  // namespace
}  // namespace weir::fleet
