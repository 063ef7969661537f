// Chunked bodies: the same however the bytes are cut, and nothing that readers could disagree on.
#include "net/chunked.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <string_view>

namespace weir::net {
namespace {

using enum HttpFault;
using namespace std::string_literals;

constexpr std::uint64_t kPlenty = 1'000;

struct Outcome {
  std::string body;
  std::size_t taken = 0;
  bool done = false;
  std::optional<HttpFault> fault = {};

  bool operator==(const Outcome&) const = default;
};

// Fed in pieces of `piece` bytes.
Outcome decoded(std::string_view bytes, std::size_t piece, std::uint64_t body_max = kPlenty) {
  ChunkedDecoder decoder{body_max};
  Outcome outcome;
  while (!bytes.empty() && !decoder.done()) {
    const auto taken = decoder.feed(bytes.substr(0, piece), outcome.body);
    if (!taken) {
      outcome.fault = taken.error();
      break;
    }
    outcome.taken += *taken;
    bytes.remove_prefix(*taken);
  }
  outcome.done = decoder.done();
  return outcome;
}

TEST(Chunked, GivesTheBodyAndLeavesTheNextMessage) {
  const Outcome whole = decoded("5\r\nhello\r\n00A;x=\"y\";z\r\n, world!!!\r\n0\r\n\r\nGET", 100);
  EXPECT_EQ(whole.body, "hello, world!!!");
  EXPECT_TRUE(whole.done);
  EXPECT_EQ(whole.taken, 40U);

  const Outcome trailers = decoded("1\r\na\r\n0;last\r\nX-Sum: 1\r\nY:\r\n\r\n\r\n", 100);
  EXPECT_EQ(trailers.body, "a");
  EXPECT_TRUE(trailers.done);
  EXPECT_EQ(trailers.taken, 30U);

  EXPECT_TRUE(decoded("0\r\n\r\n", 100).done);
  EXPECT_TRUE(decoded("0000000000000000\r\n\r\n", 100).done);
  EXPECT_EQ(decoded("2\r\n\r\n\r\n0\r\n\r\n", 100).body, "\r\n");
}

TEST(Chunked, IsNotDoneBeforeItsLastByte) {
  constexpr std::string_view kBytes = "1\r\na\r\n0\r\nX: y\r\n\r\n";
  for (std::size_t size = 0; size < kBytes.size(); ++size) {
    const Outcome part = decoded(kBytes.substr(0, size), 100);
    EXPECT_FALSE(part.done || part.fault) << size;
    EXPECT_EQ(part.taken, size);
  }
}

TEST(Chunked, IsRefusedWhereReadersCouldDisagree) {
  for (const std::string& bytes : {
           "\r\n"s,
           ";x\r\n"s,
           "g\r\n"s,
           "-1\r\n"s,
           "+1\r\n"s,
           " 1\r\n"s,
           "1 \r\n"s,
           "1 ;x\r\n"s,
           "0x1\r\n"s,
           "1\n"s,
           "1\rx"s,
           "1\r\r\n"s,
           "1;x\n"s,
           "1;x\0\r\n"s,
           "1;x\x7f\r\n"s,
           "1;\rx"s,
           "1\r\nab"s,
           "1\r\na\n"s,
           "1\r\na\rx"s,
           "1\r\na0\r\n\r\n"s,
           "1\r\na\r\n\r\n"s,
           "00000000000000001\r\n"s,
           "0\r\n\n"s,
           "0\r\n\rx"s,
           "0\r\n X: y\r\n\r\n"s,
           "0\r\n: y\r\n\r\n"s,
           "0\r\nX\r\n\r\n"s,
           "0\r\nX : y\r\n\r\n"s,
           "0\r\nX: y\n\r\n"s,
           "0\r\nX: y\rz"s,
           "0\r\nX: \0\r\n\r\n"s,
           "0\r\nX: y\r\n z\r\n\r\n"s,
       }) {
    EXPECT_EQ(decoded(bytes, 100).fault, kBadMessage) << testing::PrintToString(bytes);
    EXPECT_EQ(decoded(bytes, 1).fault, kBadMessage) << testing::PrintToString(bytes);
  }
}

TEST(Chunked, TooLargeIsKnownFromTheSizeAlone) {
  EXPECT_EQ(decoded("a\r\n", 100, 9).fault, kBodyTooLarge);
  EXPECT_EQ(decoded("a;", 100, 9).fault, kBodyTooLarge);
  EXPECT_EQ(decoded("a\r\n", 100, 10).fault, std::nullopt);
  EXPECT_EQ(decoded("5\r\nhello\r\n5\r\n", 100, 9).fault, kBodyTooLarge);
  EXPECT_EQ(decoded("5\r\nhello\r\n4\r\n", 100, 9).fault, std::nullopt);
  EXPECT_EQ(decoded("ffffffffffffffff\r\n", 100).fault, kBodyTooLarge);
  EXPECT_EQ(decoded("ffffffffffffffff\r\nx", 100, ~std::uint64_t{0}).fault, std::nullopt);
  EXPECT_TRUE(decoded("0\r\n\r\n", 100, 0).done);
}

TEST(Chunked, ExtensionsAndTrailersAreBoundedTogether) {
  const std::string half(kHeadBytesMax / 2 - 1, 'x');
  EXPECT_TRUE(decoded("0;" + half + "\r\n" + half + ":yy\r\n\r\n", 1'000).done);
  EXPECT_EQ(decoded("0;" + half + "\r\n" + half + ":yyy\r\n\r\n", 1'000).fault, kHeadTooLarge);
  EXPECT_EQ(decoded("0;" + half + "\r\n" + half + "nnn", 1'000).fault, kHeadTooLarge);
  EXPECT_EQ(decoded("1;" + half + "\r\na\r\n0;" + half + "xxx", 1'000).fault, kHeadTooLarge);
}

TEST(Chunked, IsTheSameHoweverItIsCut) {
  constexpr std::string_view kPieces[] = {
      "0\r\n", "\r\n", "1\r\na\r\n", "3;x=y\r\nabc\r\n",     "b", "X: y\r\n", "\n",
      "\r",    ";",    "5",          "c\r\n012345678901\r\n"};
  std::mt19937_64 random{9};
  int good = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes;
    for (auto pieces = random() % 8; pieces > 0; --pieces) {
      bytes += kPieces[random() % 3 == 0 ? random() % std::size(kPieces) : 2 + random() % 2];
    }
    if (random() % 2 == 0) bytes += "0\r\n\r\nGET";
    const Outcome at_once = decoded(bytes, bytes.size());
    good += at_once.done ? 1 : 0;
    for (const auto piece : {1UZ, 2UZ, 3UZ, 7UZ}) {
      Outcome cut = decoded(bytes, piece);
      if (at_once.fault) cut.taken = at_once.taken;  // nothing is said of it then
      ASSERT_EQ(cut, at_once) << testing::PrintToString(bytes) << " by " << piece;
    }
  }
  EXPECT_GT(good, 1'000);
}

}  // namespace
}  // namespace weir::net
