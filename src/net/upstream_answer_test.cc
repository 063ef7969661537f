// Answers out of bytes: how they end, in every cut, and those that are refused.
#include "net/upstream_answer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weir::net {
namespace {

using namespace std::string_literals;
using Step = AnswerReader::Step;

struct Outcome {
  int status = 0;
  std::string body = {};
  bool ended = false;
  bool keep_alive = false;
  bool ends_at_close = false;
  std::string fault = {};
  std::string left = {};
};

// Reads `bytes` in pieces that end at `cut` and then every `step` bytes.
Outcome read(std::string_view method, std::string_view bytes, std::size_t cut, std::size_t step) {
  AnswerReader reader;
  AnswerReader::Found found;
  Outcome outcome;
  reader.start(method);
  while (!bytes.empty() && !outcome.ended && outcome.fault.empty()) {
    // A copy of its own, so that sanitizers see a view that outlives its piece.
    const std::string piece{bytes.substr(0, cut)};
    bytes.remove_prefix(piece.size());
    cut = step;
    std::string_view rest = piece;
    for (bool more = true; more;) {
      switch (reader.next(rest, found)) {
        case Step::kMore:
          EXPECT_TRUE(rest.empty());
          more = false;
          break;
        case Step::kHead: outcome.status = found.head.status; break;
        case Step::kBody:
          EXPECT_FALSE(found.body.empty());
          outcome.body += found.body;
          break;
        case Step::kEnd:
          outcome.ended = true;
          outcome.left = std::string{rest} + std::string{bytes};
          more = false;
          break;
        case Step::kFault:
          outcome.fault = found.fault;
          more = false;
          break;
      }
    }
  }
  outcome.keep_alive = reader.keep_alive();
  outcome.ends_at_close = reader.ends_at_close();
  return outcome;
}

void expect_in_every_cut(std::string_view method, const std::string& bytes,
                         const Outcome& expected) {
  for (std::size_t cut = 1; cut <= bytes.size(); ++cut) {
    for (const std::size_t step : {std::size_t{1}, std::size_t{7}, bytes.size()}) {
      const Outcome outcome = read(method, bytes, cut, step);
      ASSERT_EQ(outcome.fault, expected.fault) << bytes << " at " << cut << ", " << step;
      ASSERT_EQ(outcome.status, expected.status) << bytes << " at " << cut << ", " << step;
      ASSERT_EQ(outcome.body, expected.body) << bytes << " at " << cut << ", " << step;
      ASSERT_EQ(outcome.ended, expected.ended) << bytes << " at " << cut << ", " << step;
      ASSERT_EQ(outcome.ends_at_close, expected.ends_at_close) << bytes;
      ASSERT_EQ(outcome.keep_alive, expected.keep_alive) << bytes;
      ASSERT_EQ(outcome.left, expected.left) << bytes << " at " << cut << ", " << step;
    }
  }
}

std::string chunked(const std::string& body) {
  return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body;
}

TEST(AnswerReader, FindsTheEndInEveryCut) {
  const std::string length = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
  const Outcome whole{.status = 200, .ended = true, .keep_alive = true};
  const auto with = [&](Outcome outcome, std::string body, std::string left = {}) {
    outcome.body = std::move(body);
    outcome.left = std::move(left);
    return outcome;
  };
  expect_in_every_cut("GET", length + "hello", with(whole, "hello"));
  expect_in_every_cut("GET", length + "helloHTTP", with(whole, "hello", "HTTP"));
  expect_in_every_cut("HEAD", length, whole);
  expect_in_every_cut("HEAD", chunked("x"), with(whole, "", "x"));
  expect_in_every_cut("GET", chunked("0\r\n\r\n"), whole);
  expect_in_every_cut("POST", chunked("3\r\nabc\r\nA;x=\"y\"\r\n0123456789\r\n00\r\nT: t\r\n\r\n"),
                      with(whole, "abc0123456789"));
  expect_in_every_cut("POST", chunked("1\r\na\r\n0\r\n\r\nX"), with(whole, "a", "X"));
  expect_in_every_cut("GET",
                      "HTTP/1.1 100 Go\r\nA: b\r\n\r\nHTTP/1.1 102 Wait\r\n\r\n" + length + "12345",
                      with(whole, "12345"));
  expect_in_every_cut("GET", "HTTP/1.1 200 OK\r\n\r\nuntil the end",
                      {.status = 200, .body = "until the end", .ends_at_close = true});
  expect_in_every_cut("GET", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx",
                      {.status = 200, .body = "x", .ended = true});
  expect_in_every_cut("GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx",
                      {.status = 200, .body = "x", .ended = true});
  expect_in_every_cut("GET", "HTTP/1.1 204 None\r\n\r\n",
                      {.status = 204, .ended = true, .keep_alive = true});
  expect_in_every_cut("GET", "HTTP/1.1 304 Same\r\nContent-Length: 7\r\n\r\n",
                      {.status = 304, .ended = true, .keep_alive = true});
}

TEST(AnswerReader, AnUnfinishedAnswerHasNoEnd) {
  const Outcome open{.status = 200, .body = "abc", .keep_alive = true};
  for (const std::string body :
       {"3\r\nabc", "3\r\nabc\r\n", "3\r\nabc\r\n0\r\n", "3\r\nabc\r\n0\r\nT: t\r\n", "4\r\nabc"}) {
    expect_in_every_cut("GET", chunked(body), open);
  }
  expect_in_every_cut("GET", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc", open);
}

TEST(AnswerReader, RefusesWhatCanBeReadInTwoWays) {
  const std::string ambiguous = "the answer is not HTTP/1.1 that can be read in only one way";
  for (const std::string& answer : {
           "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"s,
           "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n"s,
           "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n"s,
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n"s,
           "HTTP/1.1 200 OK\r\nX: y\r\n folded\r\n\r\n"s,
           "HTTP/1.1 200 OK\r\nX: \0\r\n\r\n"s,
           "HTTP/1.1 200 OK\nX: y\n\n"s,
           "HTTP/1.1 200 OK\r\nX: y\rZ: z\r\n\r\n"s,
           "HTTP/1.1 102 Wait\r\nContent-Length: 5\r\n\r\n"s,
           "\r\nHTTP/1.1 200 OK\r\n\r\n"s,
           "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"s,
       }) {
    expect_in_every_cut("GET", answer, {.fault = ambiguous});
  }
  for (const std::string& body :
       {"\r\n"s, "x\r\n"s, "-1\r\n"s, "+1\r\n"s, "0x1\r\n"s, " 1\r\n"s, "1 \r\n"s, "1\n"s, "1\r\r"s,
        "1;\n"s, "0\r\n \r\n"s, "00000000000000001\r\n"s, "0\r\nX y: z\r\n\r\n"s}) {
    expect_in_every_cut("GET", chunked(body),
                        {.status = 200, .keep_alive = true, .fault = ambiguous});
  }
  expect_in_every_cut("GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
                      {.fault = "the answer has a transfer coding that is not chunked"});
  expect_in_every_cut("GET", "HTTP/2.0 200 OK\r\n\r\n",
                      {.fault = "the answer is not of HTTP/1.1 or 1.0"});
  expect_in_every_cut("GET", "HTTP/1.1 101 Switching Protocols\r\n\r\n",
                      {.fault = "the server changes to another protocol unasked"});
}

// After the last byte of a chunk, whatever is not CRLF.
TEST(AnswerReader, RefusesAChunkThatIsLongerThanItSays) {
  const Outcome outcome = read("GET", chunked("1\r\nab\r\n"), 1, 1);
  EXPECT_EQ(outcome.body, "a");
  EXPECT_FALSE(outcome.fault.empty());
}

TEST(AnswerReader, PassesOverEightInformationalAnswers) {
  std::string answers;
  for (int i = 0; i < 8; ++i) answers += "HTTP/1.1 103 Hints\r\n\r\n";
  const std::string last = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
  expect_in_every_cut("GET", answers + last, {.status = 200, .ended = true, .keep_alive = true});
  expect_in_every_cut("GET", answers + "HTTP/1.1 103 Hints\r\n\r\n",
                      {.fault = "too many informational answers"});
}

TEST(AnswerReader, BoundsAHead) {
  std::string head = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: ";
  head += std::string(kHeadBytesMax - head.size() - 4, 'x') + "\r\n\r\n";
  for (const std::size_t step : {std::size_t{1}, std::size_t{1'000}, std::size_t{100'000}}) {
    EXPECT_TRUE(read("GET", head, step, step).ended);
    EXPECT_EQ(read("GET", head.insert(head.size() - 4, 1, 'x'), step, step).fault,
              "the head of the answer is too large");
    head.erase(head.size() - 5, 1);
  }
  EXPECT_EQ(read("GET", std::string(100'000, 'x'), 1'000, 1'000).fault,
            "the head of the answer is too large");
}

TEST(AnswerReader, ReadsOneAnswerAfterTheOther) {
  AnswerReader reader;
  AnswerReader::Found found;
  std::string_view bytes =
      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab"
      "HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nc\r\n0\r\n\r\n";
  reader.start("GET");
  EXPECT_EQ(reader.next(bytes, found), Step::kHead);
  EXPECT_EQ(reader.next(bytes, found), Step::kBody);
  EXPECT_EQ(reader.next(bytes, found), Step::kEnd);
  reader.start("GET");
  EXPECT_EQ(reader.next(bytes, found), Step::kHead);
  EXPECT_EQ(found.head.status, 500);
  EXPECT_EQ(reader.next(bytes, found), Step::kBody);
  EXPECT_EQ(found.body, "c");
  EXPECT_EQ(reader.next(bytes, found), Step::kEnd);
  EXPECT_TRUE(bytes.empty());
}

}  // namespace
}  // namespace weir::net
