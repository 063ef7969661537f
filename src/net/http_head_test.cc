// Heads of HTTP/1.1 messages: what is read from them, and their bounds. http_smuggling_test.cc has
// the requests that are refused.
#include "net/http_head.h"

#include <gtest/gtest.h>

#include <string>

namespace weir::net {
namespace {

using enum HttpFault;

const std::string kRequest = "POST /v1/acquire HTTP/1.1\r\nHost: a\r\n";

std::string with(const std::string& fields) { return kRequest + fields + "\r\n"; }

std::string what(const std::string& head) { return testing::PrintToString(head.substr(0, 200)); }

struct GoodRow {
  std::string head;
  std::string_view method = {};
  std::string_view path = {};
  std::string_view query = {};
  std::string_view host = {};
  std::uint64_t length = 0;
  bool chunked = false;
  bool keep_alive = true;
  bool expects_continue = false;
};

TEST(RequestHead, SaysWhatWasSent) {
  const std::string long_path = "/" + std::string(8'191, 'a');
  const GoodRow rows[] = {
      {.head = "GET / HTTP/1.1\r\nHost: a\r\n\r\n", .method = "GET", .path = "/", .host = "a"},
      {.head = "GET /a/../%2e?b=c?d&e= HTTP/1.1\r\nHost:a.example:80\r\n\r\n",
       .method = "GET",
       .path = "/a/../%2e",
       .query = "b=c?d&e=",
       .host = "a.example:80"},
      {.head = "GET //b/c HTTP/1.1\r\nHOST:  [::1]:9347  \r\n\r\n",
       .method = "GET",
       .path = "//b/c",
       .host = "[::1]:9347"},
      {.head = with("Content-Length: 5\r\n"),
       .method = "POST",
       .path = "/v1/acquire",
       .host = "a",
       .length = 5},
      {.head = with("content-LENGTH:999999999999999999\r\n"),
       .method = "POST",
       .path = "/v1/acquire",
       .host = "a",
       .length = 999'999'999'999'999'999},
      {.head = with("Transfer-Encoding: Chunked\r\nConnection: x, Close\r\n"),
       .method = "POST",
       .path = "/v1/acquire",
       .host = "a",
       .chunked = true,
       .keep_alive = false},
      {.head = with("Expect: 100-Continue\r\nContent-Length: 0\r\nConnection: keep-alive\r\n"),
       .method = "POST",
       .path = "/v1/acquire",
       .host = "a",
       .expects_continue = true},
      {.head = with("Connection: closed\r\nConnection:,, \t, close\r\nConnection: keep-alive\r\n"),
       .method = "POST",
       .path = "/v1/acquire",
       .host = "a",
       .keep_alive = false},
      {.head = "GET / HTTP/1.0\r\nConnection: keep-alive\r\nExpect: 100-continue\r\n\r\n",
       .method = "GET",
       .path = "/",
       .host = "",
       .keep_alive = false},
      {.head = "GET http://A.example/b?c HTTP/1.1\r\nHost: a.EXAMPLE\r\n\r\n",
       .method = "GET",
       .path = "/b",
       .query = "c",
       .host = "a.EXAMPLE"},
      {.head = "GET HTTPS://a?b HTTP/1.1\r\nHost: a\r\n\r\n",
       .method = "GET",
       .path = "/",
       .query = "b",
       .host = "a"},
      {.head = "GET http://a HTTP/1.0\r\n\r\n",
       .method = "GET",
       .path = "/",
       .host = "a",
       .keep_alive = false},
      {.head = "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
       .method = "OPTIONS",
       .path = "*",
       .host = "a"},
      {.head = std::string(32, 'M') + " " + long_path + " HTTP/1.1\r\nHost: a\r\n\r\n",
       .method = "MMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMM",
       .path = long_path,
       .host = "a"},
  };
  for (const GoodRow& row : rows) {
    SCOPED_TRACE(what(row.head));
    const auto head = parse_request_head(row.head);
    ASSERT_TRUE(head) << static_cast<int>(head.error());
    EXPECT_EQ(head->method, row.method);
    EXPECT_EQ(head->path, row.path);
    EXPECT_EQ(head->query, row.query);
    EXPECT_EQ(head->host, row.host);
    EXPECT_EQ(head->body.length, row.length);
    EXPECT_EQ(head->body.chunked, row.chunked);
    EXPECT_FALSE(head->body.until_close);
    EXPECT_EQ(head->keep_alive, row.keep_alive);
    EXPECT_EQ(head->expects_continue, row.expects_continue);
  }
}

TEST(RequestHead, KeepsFieldsAsSentAndFindsThemWhateverTheirCase) {
  const std::string head =
      with("X-A:\t one \t\r\nx-b: caf\xc3\xa9\tau lait\r\nX-a:two\r\nX-C:\r\n");
  const auto parsed = parse_request_head(head);
  ASSERT_TRUE(parsed);
  const Fields copy = parsed->fields;
  ASSERT_EQ(copy.all().size(), 5U);
  EXPECT_EQ(copy.all()[1].name, "X-A");
  EXPECT_EQ(copy.find("x-A"), "one");
  EXPECT_EQ(copy.find("X-B"), "caf\xc3\xa9\tau lait");
  EXPECT_EQ(copy.find("x-c"), "");
  EXPECT_EQ(copy.find("x-d"), std::nullopt);
  EXPECT_EQ(copy.count("X-A"), 2U);
  EXPECT_EQ(copy.count("X-D"), 0U);
}

TEST(RequestHead, HasAHundredFieldsAtMost) {
  std::string fields;
  for (int i = 0; i < 99; ++i) fields += "X: y\r\n";
  EXPECT_TRUE(parse_request_head(with(fields)));
  const auto one_more = parse_request_head(with(fields + "X: y\r\n"));
  ASSERT_FALSE(one_more);
  EXPECT_EQ(one_more.error(), kHeadTooLarge);
}

TEST(RequestHead, HasSixteenKibibytesAtMost) {
  const auto of_size = [](std::size_t size) {
    return with("X: " + std::string(size - with("X: \r\n").size(), 'x') + "\r\n");
  };
  EXPECT_TRUE(parse_request_head(of_size(kHeadBytesMax)));
  const auto one_more = parse_request_head(of_size(kHeadBytesMax + 1));
  ASSERT_FALSE(one_more);
  EXPECT_EQ(one_more.error(), kHeadTooLarge);
}

TEST(HeadEnd, IsAfterTheBlankLineHoweverTheBytesArrive) {
  const std::string head = with("X: y\r\n");
  const std::string bytes = head + "body\r\n\r\n";
  EXPECT_EQ(find_head_end(bytes), head.size());
  for (std::size_t size = 0, searched = 0; size < head.size(); searched = size++) {
    EXPECT_EQ(find_head_end(bytes.substr(0, size), searched), std::nullopt) << size;
  }
  for (std::size_t searched = 0; searched < head.size(); ++searched) {
    EXPECT_EQ(find_head_end(bytes, searched), head.size()) << searched;
  }
}

TEST(HeadEnd, IsWhereTheHeadCanNoLongerBeGood) {
  for (const std::string bytes :
       {"GET / HTTP/1.1\n", "GET / HTTP/1.1\r\nHost: a\n", "\n", "\r\n"}) {
    const auto end = find_head_end(bytes + "more");
    ASSERT_EQ(end, bytes.size()) << what(bytes);
    EXPECT_FALSE(parse_request_head(bytes));
  }
  EXPECT_EQ(find_head_end(std::string(kHeadBytesMax, 'a')), std::nullopt);
  const std::string endless(kHeadBytesMax + 1, 'a');
  EXPECT_EQ(find_head_end(endless), endless.size());
  EXPECT_EQ(parse_request_head(endless).error(), kHeadTooLarge);
}

struct ResponseRow {
  std::string_view head;
  int status = 200;
  std::uint64_t length = 0;
  bool chunked = false;
  bool until_close = false;
  bool keep_alive = true;
  std::string_view method = "GET";
};

TEST(ResponseHead, SaysHowTheBodyEnds) {
  constexpr ResponseRow kRows[] = {
      {.head = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", .length = 7},
      {.head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", .chunked = true},
      {.head = "HTTP/1.1 200 \r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
       .keep_alive = false},
      {.head = "HTTP/1.1 429\r\nContent-Length: 1\r\n\r\n", .status = 429, .length = 1},
      {.head = "HTTP/1.1 200 OK\r\n\r\n", .until_close = true, .keep_alive = false},
      {.head = "HTTP/1.0 200 Very well\r\nContent-Length: 2\r\n\r\n",
       .length = 2,
       .keep_alive = false},
      {.head = "HTTP/1.1 100 Continue\r\n\r\n", .status = 100},
      {.head = "HTTP/1.1 204 No Content\r\n\r\n", .status = 204},
      {.head = "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", .status = 204},
      {.head = "HTTP/1.1 204 No Content\r\nContent-Length: 1\r\n\r\n",
       .status = 204,
       .keep_alive = false},
      {.head = "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
       .status = 204,
       .keep_alive = false},
      {.head = "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", .status = 304},
      {.head = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", .method = "HEAD"},
      {.head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", .method = "HEAD"},
  };
  for (const ResponseRow& row : kRows) {
    SCOPED_TRACE(row.head);
    const auto head = parse_response_head(row.head, row.method);
    ASSERT_TRUE(head);
    EXPECT_EQ(head->status, row.status);
    EXPECT_EQ(head->body.length, row.length);
    EXPECT_EQ(head->body.chunked, row.chunked);
    EXPECT_EQ(head->body.until_close, row.until_close);
    EXPECT_EQ(head->keep_alive, row.keep_alive);
  }
}

TEST(ResponseHead, KeepsReasonAndVersion) {
  const std::string well = "HTTP/1.0 200 Very  well \r\n\r\n", none = "HTTP/1.1 429\r\n\r\n";
  EXPECT_EQ(parse_response_head(well, "GET")->reason, "Very  well ");
  EXPECT_TRUE(parse_response_head(well, "GET")->http_1_0);
  EXPECT_EQ(parse_response_head(none, "GET")->reason, "");
  EXPECT_FALSE(parse_response_head(none, "GET")->http_1_0);
}

TEST(RequestHead, KeepsItsVersion) {
  EXPECT_TRUE(parse_request_head("GET / HTTP/1.0\r\n\r\n")->http_1_0);
  EXPECT_FALSE(parse_request_head(with(""))->http_1_0);
}

TEST(ResponseHead, IsReadAsStrictlyAsARequest) {
  for (const std::string_view head : {
           "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
           "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
           "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
           "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
           "HTTP/1.1 204 None\r\nContent-Length: x\r\n\r\n",
           "HTTP/1.1 100 Go\r\nContent-Length: 1\r\n\r\n",
           "HTTP/1.1 103 Hints\r\nTransfer-Encoding: chunked\r\n\r\n",
           "HTTP/1.1 200 OK\r\nX : y\r\n\r\n",
           "HTTP/1.1 200 OK\r\nX: y\r\n folded\r\n\r\n",
           "HTTP/1.1 200 OK\nContent-Length: 5\n\n",
           "HTTP/1.1 20 OK\r\n\r\n",
           "HTTP/1.1 099 OK\r\n\r\n",
           "HTTP/1.1 2000 OK\r\n\r\n",
           "HTTP/1.1 2x0 OK\r\n\r\n",
           "HTTP/1.1  200 OK\r\n\r\n",
           "HTTP/1.1 200 O\x01K\r\n\r\n",
           "HTTP/2.0 200 OK\r\n\r\n",
           "http/1.1 200 OK\r\n\r\n",
           "ICY 200 OK\r\n\r\n",
           "HTTP/1.1\r\n\r\n",
           "\r\n",
           "",
       }) {
    EXPECT_FALSE(parse_response_head(head, "GET")) << head;
  }
}

TEST(Query, GivesTheDecodedValueOfAName) {
  constexpr std::string_view kQuery = "a=1&b=%20%2B+%c3%A4&c&d==&a=2&&e=%2&f=%00";
  EXPECT_EQ(query_value(kQuery, "a"), "1");
  EXPECT_EQ(query_value(kQuery, "b"), " + ä");
  EXPECT_EQ(query_value(kQuery, "c"), "");
  EXPECT_EQ(query_value(kQuery, "d"), "=");
  EXPECT_EQ(query_value(kQuery, "e"), std::nullopt);
  EXPECT_EQ(query_value(kQuery, "f"), std::nullopt);
  EXPECT_EQ(query_value(kQuery, "g"), std::nullopt);
  EXPECT_EQ(query_value("", "a"), std::nullopt);
}

TEST(PercentEncoding, IsUndoneOrRefused) {
  EXPECT_EQ(percent_decoded("a%2fb+%25"), "a/b+%");
  EXPECT_EQ(percent_decoded(""), "");
  for (const std::string_view bad : {"%", "%2", "a%", "%g0", "%0g", "%00", "%%20"}) {
    EXPECT_EQ(percent_decoded(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(percent_decoded(std::string_view{"\0", 1}), std::nullopt);
}

}  // namespace
}  // namespace weir::net
