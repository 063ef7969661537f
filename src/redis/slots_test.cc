#include "redis/slots.h"

#include <gtest/gtest.h>

namespace weir::redis {
namespace {

using net::RespValue;
using Kind = RespValue::Kind;

RespValue text(std::string value) { return {.kind = Kind::kString, .text = std::move(value)}; }
RespValue integer(std::int64_t value) { return {.kind = Kind::kInteger, .integer = value}; }
RespValue array(std::vector<RespValue> items) {
  return {.kind = Kind::kArray, .items = std::move(items)};
}

TEST(Slots, AreThoseOfTheClusterSpecification) {
  EXPECT_EQ(slot_of("123456789"), 0x31c3 % kSlots);
  EXPECT_EQ(slot_of(""), 0);
  EXPECT_EQ(slot_of("foo"), 12182);
}

TEST(Slots, GoByTheTagInBraces) {
  EXPECT_EQ(slot_of("{user1000}.following"), slot_of("user1000"));
  EXPECT_EQ(slot_of("q:{gate}:s"), slot_of("q:{gate}:l"));
  EXPECT_EQ(slot_of("foo{{bar}}zap"), slot_of("{bar"));
  EXPECT_EQ(slot_of("foo{bar}{zap}"), slot_of("bar"));
  EXPECT_NE(slot_of("foo{}{bar}"), slot_of("bar"));  // an empty tag is none
  EXPECT_NE(slot_of("foo{bar"), slot_of("bar"));
}

TEST(Slots, AreReadFromTheServersMap) {
  const auto ranges = parse_slots(array(
      {array({integer(0), integer(8191), array({text("127.0.0.1"), integer(7000), text("id")}),
              array({text("127.0.0.1"), integer(7003), text("replica")})}),
       array({integer(8192), integer(16383), array({text(""), integer(7001)})})}));
  ASSERT_TRUE(ranges);
  ASSERT_EQ(ranges->size(), 2U);
  EXPECT_EQ(ranges->at(0).last, 8191);
  EXPECT_EQ(ranges->at(0).host, "127.0.0.1");
  EXPECT_EQ(ranges->at(0).port, 7000);
  EXPECT_EQ(ranges->at(1).host, "");
}

TEST(Slots, AreNotReadFromAMapThatIsWrong) {
  const auto node = array({text("127.0.0.1"), integer(7000)});
  EXPECT_FALSE(parse_slots(text("OK")));
  EXPECT_FALSE(parse_slots(array({integer(1)})));
  EXPECT_FALSE(parse_slots(array({array({integer(0), integer(16384), node})})));
  EXPECT_FALSE(parse_slots(array({array({integer(-1), integer(5), node})})));
  EXPECT_FALSE(parse_slots(array({array({integer(6), integer(5), node})})));
  EXPECT_FALSE(parse_slots(array({array({integer(0), integer(5), array({text("a")})})})));
  EXPECT_FALSE(
      parse_slots(array({array({integer(0), integer(5), array({text("a"), integer(0)})})})));
}

TEST(Redirects, AreRead) {
  const auto moved = parse_redirect("MOVED 3999 127.0.0.1:6381");
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->kind, Redirect::Kind::kMoved);
  EXPECT_EQ(moved->slot, 3999);
  EXPECT_EQ(moved->host, "127.0.0.1");
  EXPECT_EQ(moved->port, 6381);
  EXPECT_EQ(parse_redirect("ASK 0 ::1:6381")->host, "::1");
  EXPECT_EQ(parse_redirect("ASK 0 ::1:6381")->kind, Redirect::Kind::kAsk);
  EXPECT_EQ(parse_redirect("MOVED 1 :6381")->host, "");
  for (const auto* wrong : {"ERR MOVED 1 a:1", "MOVED", "MOVED 1", "MOVED x a:1", "MOVED 16384 a:1",
                            "MOVED 1 a", "MOVED 1 a:0", "MOVED 1 a:99999", "MOVED 1 a b:1"}) {
    EXPECT_FALSE(parse_redirect(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace weir::redis
