// Every shape of a request on which two readers could disagree is refused, and with which status.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "net/http_head.h"

namespace weir::net {
namespace {

using enum HttpFault;
using namespace std::string_literals;

const std::string kRequest = "POST /v1/acquire HTTP/1.1\r\nHost: a\r\n";

struct BadRow {
  std::string head;
  HttpFault fault;
};

std::string get(const std::string& target) {
  return "GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n";
}
std::string hosted(const std::string& host) { return "GET / HTTP/1.1\r\n" + host + "\r\n"; }
std::string with(const std::string& fields) { return kRequest + fields + "\r\n"; }

std::vector<BadRow> bad_rows() {
  return {
      // Two ways to know where the body ends.
      {with("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), kBadMessage},
      {with("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), kBadMessage},
      {with("Transfer-Encoding: gzip\r\nContent-Length: 5\r\n"), kBadMessage},
      {with("Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n"), kBadMessage},
      {with("Transfer-Encoding: chunked, identity\r\nContent-Length: 5\r\n"), kBadMessage},
      {with("Content-Length: 5\r\nContent-Length: 6\r\n"), kBadMessage},
      {with("Content-Length: 5\r\nContent-Length: 5\r\n"), kBadMessage},
      {with("Content-Length: 5\r\nX: y\r\ncontent-length: 5\r\n"), kBadMessage},
      // Lengths that are not one number.
      {with("Content-Length: 5, 5\r\n"), kBadMessage},
      {with("Content-Length: +5\r\n"), kBadMessage},
      {with("Content-Length: -5\r\n"), kBadMessage},
      {with("Content-Length: 0x5\r\n"), kBadMessage},
      {with("Content-Length: 5 5\r\n"), kBadMessage},
      {with("Content-Length: 5.0\r\n"), kBadMessage},
      {with("Content-Length: 5e1\r\n"), kBadMessage},
      {with("Content-Length: 5;\r\n"), kBadMessage},
      {with("Content-Length: \"5\"\r\n"), kBadMessage},
      {with("Content-Length: five\r\n"), kBadMessage},
      {with("Content-Length:\r\n"), kBadMessage},
      {with("Content-Length: \r\n"), kBadMessage},
      {with("Content-Length:\t5\r\n"), kBadMessage},
      {with("Content-Length: \xd9\xa5\r\n"), kBadMessage},  // an Arabic five
      {with("Content-Length: 1000000000000000000\r\n"), kBodyTooLarge},
      {with("Content-Length: 18446744073709551621\r\n"), kBodyTooLarge},
      // Transfer codings that are not exactly `chunked`.
      {with("Transfer-Encoding: gzip\r\n"), kNotImplemented},
      {with("Transfer-Encoding: identity\r\n"), kNotImplemented},
      {with("Transfer-Encoding: xchunked\r\n"), kNotImplemented},
      {with("Transfer-Encoding: chunkedx\r\n"), kNotImplemented},
      {with("Transfer-Encoding: chunked, identity\r\n"), kBadMessage},
      {with("Transfer-Encoding: identity, chunked\r\n"), kBadMessage},
      {with("Transfer-Encoding: chunked, chunked\r\n"), kBadMessage},
      {with("Transfer-Encoding: chunked,\r\n"), kBadMessage},
      {with("Transfer-Encoding: ,chunked\r\n"), kBadMessage},
      {with("Transfer-Encoding: chunked;q=1\r\n"), kBadMessage},
      {with("Transfer-Encoding: \"chunked\"\r\n"), kBadMessage},
      {with("Transfer-Encoding:\r\n"), kBadMessage},
      {with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), kBadMessage},
      {with("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"), kBadMessage},
      {with("Transfer-Encoding:\tchunked\r\n"), kBadMessage},
      {with("Transfer-Encoding: chunked\t\r\n"), kBadMessage},
      {with("Transfer-Encoding: \x0b"s + "chunked\r\n"), kBadMessage},
      {with("Transfer-Encoding: chunked\x0c\r\n"), kBadMessage},
      {with("Transfer-Encoding: \xa0"s + "chunked\r\n"), kBadMessage},
      {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", kBadMessage},
      // Names and lines.
      {with("Transfer-Encoding : chunked\r\n"), kBadMessage},
      {with("Transfer-Encoding\t: chunked\r\n"), kBadMessage},
      {with(" Transfer-Encoding: chunked\r\n"), kBadMessage},
      {with("X: y\r\n Transfer-Encoding: chunked\r\n"), kBadMessage},
      {with("X: y\r\n\tfolded\r\n"), kBadMessage},
      {with("Transfer-Encoding:\r\n chunked\r\n"), kBadMessage},
      {with("X: y\nTransfer-Encoding: chunked\r\n"), kBadMessage},
      {with("X: y\rTransfer-Encoding: chunked\r\n"), kBadMessage},
      {with("X: y\r\rZ: z\r\n"), kBadMessage},
      {with("X: y\r\n\rZ: z\r\n"), kBadMessage},
      {with("X: \0\r\n"s), kBadMessage},
      {with("X\0: y\r\n"s), kBadMessage},
      {with("X: \x01\r\n"), kBadMessage},
      {with("X: 12345678\x7f"
            "2345678\r\n"),
       kBadMessage},
      {with("X: 12345678\x1f"
            "2345678\r\n"),
       kBadMessage},
      {with(": y\r\n"), kBadMessage},
      {with("X\r\n"), kBadMessage},
      {with("X y: z\r\n"), kBadMessage},
      {with("X(y): z\r\n"), kBadMessage},
      {with("X\xc3\xa4: z\r\n"), kBadMessage},
      {with("X: y\r\n\r\nZ: z\r\n"), kBadMessage},  // the blank line is not the last
      // Hosts.
      {"GET / HTTP/1.1\r\n\r\n", kBadMessage},
      {hosted("Host: a\r\nHost: a\r\n"), kBadMessage},
      {hosted("Host: a\r\nhost: b\r\n"), kBadMessage},
      {hosted("Host:\r\n"), kBadMessage},
      {hosted("Host: user@a\r\n"), kBadMessage},
      {hosted("Host: a b\r\n"), kBadMessage},
      {hosted("Host: a, b\r\n"), kBadMessage},
      {hosted("Host: a/b\r\n"), kBadMessage},
      {hosted("Host: a?b\r\n"), kBadMessage},
      {hosted("Host: a%2e\r\n"), kBadMessage},
      {hosted("Host: http://a\r\n"), kBadMessage},
      {hosted("Host: a:\r\n"), kBadMessage},
      {hosted("Host: :80\r\n"), kBadMessage},
      {hosted("Host: a:8o\r\n"), kBadMessage},
      {hosted("Host: a:123456\r\n"), kBadMessage},
      {hosted("Host: a:80:80\r\n"), kBadMessage},
      {hosted("Host: [::1\r\n"), kBadMessage},
      {hosted("Host: [::1]x\r\n"), kBadMessage},
      {hosted("Host: []\r\n"), kBadMessage},
      {hosted("Host: ::1\r\n"), kBadMessage},
      {hosted("Host: [fe80::1%1]\r\n"), kBadMessage},
      {hosted("Host : a\r\n"), kBadMessage},
      {get("http://b/"), kBadMessage},  // and the field says a
      {get("http://a:80/"), kBadMessage},
      {get("http://u@a/"), kBadMessage},
      {get("http:///"), kBadMessage},
      {"GET http://a@b/ HTTP/1.0\r\n\r\n", kBadMessage},
      // Request lines.
      {"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", kBadMessage},
      {"\r\n", kBadMessage},
      {"", kBadMessage},
      {" GET / HTTP/1.1\r\nHost: a\r\n\r\n", kBadMessage},
      {"GET /\r\n\r\n", kBadMessage},  // HTTP/0.9
      {"GET\r\n\r\n", kBadMessage},
      {"GET  HTTP/1.1\r\nHost: a\r\n\r\n", kBadMessage},
      {"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", kBadMessage},
      {"GET /  HTTP/1.1\r\nHost: a\r\n\r\n", kBadMessage},
      {"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", kBadMessage},
      {"GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", kBadMessage},
      {"GET /\tHTTP/1.1\r\nHost: a\r\n\r\n", kBadMessage},
      {"GET / HTTP/1.1\nHost: a\n\n", kBadMessage},
      {"GET / HTTP/1.1\r\nHost: a\r\n\n", kBadMessage},
      {"GET / HTTP/1.1\rHost: a\r\n\r\n", kBadMessage},
      {"G(T / HTTP/1.1\r\nHost: a\r\n\r\n", kBadMessage},
      {"G\xc3\x89T / HTTP/1.1\r\nHost: a\r\n\r\n", kBadMessage},
      {std::string(33, 'G') + " / HTTP/1.1\r\nHost: a\r\n\r\n", kNotImplemented},
      {"GET / http/1.1\r\nHost: a\r\n\r\n", kBadMessage},
      {"GET / HTTP/1.1x\r\nHost: a\r\n\r\n", kBadMessage},
      {"GET / HTTP/1\r\nHost: a\r\n\r\n", kBadMessage},
      {"GET / HTTP/01.1\r\nHost: a\r\n\r\n", kBadMessage},
      {"GET / HTTP 1.1\r\nHost: a\r\n\r\n", kBadMessage},
      {"GET / HTTP/0.9\r\nHost: a\r\n\r\n", kVersion},
      {"GET / HTTP/1.2\r\nHost: a\r\n\r\n", kVersion},
      {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", kVersion},
      {"PRI * HTTP/2.0\r\n\r\n", kVersion},
      {"\x16\x03\x01\x02\n", kBadMessage},  // TLS where none is spoken
      {get("/a b"), kBadMessage},
      {get("/a#b"), kBadMessage},
      {get("/\x7f"), kBadMessage},
      {get("/\xc3\xa4"), kBadMessage},
      {get("/\0"s), kBadMessage},
      {get("a"), kBadMessage},
      {get("*"), kBadMessage},
      {get("?a"), kBadMessage},
      {get("a:80"), kBadMessage},
      {get("ftp://a/"), kBadMessage},
      {get("http:/a/"), kBadMessage},
      {"GET http HTTP/1.0\r\n\r\n", kBadMessage},
      {get("/" + std::string(8 * 1024, 'a')), kTargetTooLong},
      // The rest.
      {with("Expect: 200-ok\r\n"), kExpectation},
      {with("Expect:\r\n"), kExpectation},
      {with("X: " + std::string(16 * 1024, 'x') + "\r\n"), kHeadTooLarge},
  };
}

std::string what(const std::string& head) { return testing::PrintToString(head.substr(0, 200)); }

TEST(RequestSmuggling, IsRefused) {
  const auto rows = bad_rows();
  EXPECT_GE(rows.size(), 60U);
  for (const auto& [head, fault] : rows) {
    const auto parsed = parse_request_head(head);
    EXPECT_EQ(parsed ? 0 : static_cast<int>(parsed.error()), static_cast<int>(fault)) << what(head);
  }
}

TEST(ResponseSmuggling, IsRefusedWhereItIsInARequest) {
  const std::string status_line = "HTTP/1.1 200 OK\r\n";
  int rows = 0;
  for (const auto& [head, fault] : bad_rows()) {
    if (!head.starts_with(kRequest)) continue;
    ++rows;
    const auto parsed = parse_response_head(status_line + head.substr(kRequest.size()), "POST");
    EXPECT_EQ(parsed ? 0 : static_cast<int>(parsed.error()), static_cast<int>(fault)) << what(head);
  }
  EXPECT_GE(rows, 60);
  EXPECT_TRUE(parse_response_head(status_line + "Content-Length: 5\r\n\r\n", "POST"));
}

// The rows above are wrong in one thing only if this is right.
TEST(RequestSmuggling, RowsAreGoodButForOneThing) {
  for (const auto& head : {with(""), with("X: y\r\n"), with("Content-Length: 5\r\n"), get("/"),
                           get("http://a/"), hosted("Host: a\r\n")}) {
    EXPECT_TRUE(parse_request_head(head)) << what(head);
  }
}

bool lies_in(std::string_view view, std::string_view whole) {
  return view.data() == nullptr ||
         (view.data() >= whole.data() && view.data() + view.size() <= whole.data() + whole.size());
}

// Random bytes put into good and bad heads: no crash, no view outside, and the same from a copy.
TEST(RequestSmuggling, RandomBytesNeverMakeViewsOutside) {
  std::vector<std::string> heads{get("http://a/b?c"), with("Transfer-Encoding: chunked\r\n"),
                                 with("Content-Length: 5\r\nConnection: a, close\r\n")};
  for (auto& row : bad_rows()) {
    if (row.head.size() < 1'000 && !row.head.empty()) heads.push_back(std::move(row.head));
  }
  constexpr std::string_view kOdd = "\r\n\t :,;/?#*@[]%05aAzZ\x7f\x80\xff";
  std::mt19937_64 random{7};
  int good = 0;
  for (int i = 0; i < 100'000; ++i) {
    std::string head = heads[random() % heads.size()];
    for (auto changes = random() % 4; changes > 0; --changes) {
      const auto at = random() % head.size();
      const char odd = kOdd[random() % kOdd.size()];
      switch (random() % 3) {
        case 0: head[at] = odd; break;
        case 1: head.insert(at, 1, odd); break;
        case 2: head.size() > 1 ? head.erase(at, 1) : head; break;
      }
    }
    const std::vector<char> exact(head.begin(), head.end());  // no byte after it may be read
    const std::string_view bytes{exact.data(), exact.size()};
    const auto parsed = parse_request_head(bytes);
    const auto again = parse_request_head(head);
    ASSERT_EQ(parsed.has_value(), again.has_value());
    if (!parsed) {
      ASSERT_EQ(parsed.error(), again.error());
      continue;
    }
    ++good;
    for (const auto view : {parsed->method, parsed->path, parsed->query, parsed->host}) {
      ASSERT_TRUE(lies_in(view, bytes)) << what(head);
    }
    for (const auto& [name, value] : parsed->fields.all()) {
      ASSERT_TRUE(lies_in(name, bytes) && lies_in(value, bytes)) << what(head);
    }
    ASSERT_EQ(parsed->path, again->path);
    ASSERT_EQ(parsed->body.length, again->body.length);
    ASSERT_EQ(find_head_end(bytes), bytes.size()) << what(head);
  }
  EXPECT_GT(good, 1'000);
}

}  // namespace
}  // namespace weir::net
