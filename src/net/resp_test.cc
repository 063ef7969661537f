#include "net/resp.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace weir::net {
namespace {

using namespace std::string_view_literals;
using Kind = RespValue::Kind;
using State = RespReader::State;

RespValue text(std::string value) { return {.kind = Kind::kString, .text = std::move(value)}; }
RespValue error(std::string value) { return {.kind = Kind::kError, .text = std::move(value)}; }
RespValue integer(std::int64_t value) { return {.kind = Kind::kInteger, .integer = value}; }
RespValue array(std::vector<RespValue> items) {
  return {.kind = Kind::kArray, .items = std::move(items)};
}

struct Read {
  std::vector<RespValue> values;
  std::string failure;
};

Read read(std::string_view bytes, std::size_t cut, RespReader::Bounds bounds = {}) {
  RespReader reader{bounds};
  Read result;
  RespValue value;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(cut, bytes.size()))) {
    reader.feed(bytes.substr(0, cut));
    while (reader.next(value) == State::kValue) result.values.push_back(value);
  }
  result.failure = reader.failure();
  return result;
}

void expect(std::string_view bytes, const std::vector<RespValue>& values) {
  for (std::size_t cut = 1; cut <= bytes.size(); ++cut) {
    const Read got = read(bytes, cut);
    EXPECT_EQ(got.failure, "") << bytes << " in pieces of " << cut;
    EXPECT_EQ(got.values, values) << bytes << " in pieces of " << cut;
  }
}

void expect_broken(std::string_view bytes, std::string_view why, RespReader::Bounds bounds = {}) {
  for (std::size_t cut = 1; cut <= bytes.size(); ++cut) {
    const Read got = read(bytes, cut, bounds);
    EXPECT_EQ(got.failure, why) << bytes << " in pieces of " << cut;
    EXPECT_TRUE(got.values.empty()) << bytes << " in pieces of " << cut;
  }
}

TEST(RespReader, ReadsEveryTypeOfVersion2HoweverItIsCut) {
  expect("+OK\r\n", {text("OK")});
  expect("-ERR wrong\r\n", {error("ERR wrong")});
  expect(":-42\r\n:+7\r\n:9223372036854775807\r\n", {integer(-42), integer(7), integer(INT64_MAX)});
  expect("$5\r\nhe\r\no\r\n$0\r\n\r\n", {text("he\r\no"), text("")});
  expect("$-1\r\n*-1\r\n", {{}, {}});
  expect("*2\r\n*1\r\n:1\r\n*0\r\n+next\r\n",
         {array({array({integer(1)}), array({})}), text("next")});
}

TEST(RespReader, ReadsEveryTypeOfVersion3HoweverItIsCut) {
  expect("_\r\n", {{}});
  expect("#t\r\n#f\r\n",
         {{.kind = Kind::kBool, .integer = 1}, {.kind = Kind::kBool, .integer = 0}});
  expect(",1.5\r\n,-2e3\r\n,inf\r\n", {{.kind = Kind::kDouble, .real = 1.5},
                                       {.kind = Kind::kDouble, .real = -2000},
                                       {.kind = Kind::kDouble, .real = INFINITY}});
  expect("(-12345678901234567890123\r\n", {text("-12345678901234567890123")});
  expect("!9\r\nERR wrong\r\n", {error("ERR wrong")});
  expect("=8\r\ntxt:text\r\n", {text("text")});
  expect("%2\r\n+a\r\n:1\r\n+b\r\n~1\r\n:2\r\n",
         {array({text("a"), integer(1), text("b"), array({integer(2)})})});
  expect(">2\r\n+pong\r\n+\r\n", {{.kind = Kind::kPush, .items = {text("pong"), text("")}}});
  EXPECT_TRUE(std::isnan(read(",nan\r\n", 100).values.at(0).real));
}

TEST(RespReader, DropsAttributesWhereverTheyStand) {
  expect("|1\r\n+ttl\r\n:3\r\n+value\r\n", {text("value")});
  expect("*2\r\n|1\r\n+a\r\n*1\r\n:1\r\n:2\r\n:3\r\n", {array({integer(2), integer(3)})});
  expect("|0\r\n:1\r\n", {integer(1)});
}

TEST(RespReader, RefusesWhatIsMalformed) {
  expect_broken("hello\r\n", "no such type");
  expect_broken("\r\n", "an empty line");
  expect_broken("+OK\n", "a line does not end in CR LF");
  expect_broken("+O\rK\r\n", "a line does not end in CR LF");
  expect_broken(":\r\n", "no integer");
  expect_broken(":1x\r\n", "no integer");
  expect_broken(":+-1\r\n", "no integer");
  expect_broken(":9223372036854775808\r\n", "no integer");
  expect_broken(",one\r\n", "no double");
  expect_broken(",nan(1)\r\n", "no double");
  expect_broken("(1.5\r\n", "no big number");
  expect_broken("#x\r\n", "no boolean");
  expect_broken("_x\r\n", "no null");
  expect_broken("$-2\r\n", "no length");
  expect_broken("$?\r\n", "no length");
  expect_broken("$2\r\nabc\r\n", "a string does not end in CR LF");
  expect_broken("=3\r\nabc\r\n", "no verbatim string");
  expect_broken("*-2\r\n", "no count");
  expect_broken("*1\r\n>1\r\n:1\r\n", "a push inside a value");
}

TEST(RespReader, RefusesWhatIsTooLargeAsSoonAsItIsAnnounced) {
  const RespReader::Bounds bounds{.bytes_max = 20, .items_max = 3, .depth_max = 2};
  expect_broken("$21\r\n", "a value is too large", bounds);
  expect_broken("$99999999999999999999\r\n", "no length");
  expect_broken("+aaaaaaaaaaaaaaaaaaaa", "a value is too large", bounds);
  expect_broken("*3\r\n$9\r\n123456789\r\n", "a value is too large", bounds);
  expect_broken("*4\r\n", "a value has too many items", bounds);
  expect_broken("%2\r\n", "a value has too many items", bounds);
  expect_broken("*2\r\n*2\r\n", "a value has too many items", bounds);
  expect_broken("%18446744073709551615\r\n", "a value has too many items");
  expect_broken("*1\r\n*1\r\n*1\r\n", "a value is nested too deeply", bounds);
  EXPECT_EQ(read("$14\r\n12345678901234\r\n", 3, bounds).failure, "a value is too large");
  EXPECT_EQ(read("$13\r\n1234567890123\r\n", 3, bounds).values.size(), 1U);
  EXPECT_EQ(read("+aaaaaaaaaaaaaaaaa\r\n", 3, bounds).values.size(), 1U);
}

TEST(RespReader, BoundsEachValueAndNotTheirSum) {
  const RespReader::Bounds bounds{.bytes_max = 20, .items_max = 1, .depth_max = 1};
  std::string bytes;
  for (int i = 0; i < 100; ++i) bytes += "*1\r\n$3\r\nabc\r\n";
  EXPECT_EQ(read(bytes, 7, bounds).values.size(), 100U);
}

TEST(RespReader, StaysBroken) {
  RespReader reader{{}};
  RespValue value;
  reader.feed("+one\r\n?\r\n+two\r\n");
  EXPECT_EQ(reader.next(value), State::kValue);
  EXPECT_EQ(reader.next(value), State::kBroken);
  reader.feed("+three\r\n");
  EXPECT_EQ(reader.next(value), State::kBroken);
}

TEST(AppendCommand, WritesWhatTheReaderReads) {
  const std::array<std::string, 3> words{"SET", "key", std::string{"\0\r\n", 3}};
  std::string bytes = "+before\r\n";
  append_command(bytes, words);
  EXPECT_EQ(bytes, "+before\r\n*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$3\r\n\0\r\n\r\n"sv);
  expect(bytes, {text("before"), array({text("SET"), text("key"), text(words[2])})});
}

}  // namespace
}  // namespace weir::net
