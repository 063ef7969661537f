#include <gtest/gtest.h>

#include "net/upstream.h"

namespace weir::net {
namespace {

TEST(Origin, IsReadFromAUrl) {
  struct Row {
    std::string_view url;
    Origin origin;
  };
  for (const auto& [url, origin] : std::vector<Row>{
           {"https://api.example.com",
            {.host = "api.example.com", .authority = "api.example.com", .base = ""}},
           {"https://api.example.com/",
            {.host = "api.example.com", .authority = "api.example.com", .base = ""}},
           {"HTTPS://API.Example.COM:443/v1/",
            {.host = "api.example.com", .authority = "api.example.com", .base = "/v1"}},
           {"https://api.example.com:8443/base/deep//",
            {.host = "api.example.com",
             .port = 8443,
             .authority = "api.example.com:8443",
             .base = "/base/deep"}},
           {"http://127.0.0.1",
            {.tls = false, .host = "127.0.0.1", .port = 80, .authority = "127.0.0.1", .base = ""}},
           {"http://a:443",
            {.tls = false, .host = "a", .port = 443, .authority = "a:443", .base = ""}},
           {"http://a:00080/",
            {.tls = false, .host = "a", .port = 80, .authority = "a", .base = ""}},
           {"http://[::1]:65535/x",
            {.tls = false, .host = "::1", .port = 65535, .authority = "[::1]:65535", .base = "/x"}},
           {"https://[0:0:0:0:0:0:0:1]", {.host = "::1", .authority = "[::1]", .base = ""}},
           {"https://b\u00fccher.example",
            {.host = "xn--bcher-kva.example", .authority = "xn--bcher-kva.example", .base = ""}},
           {"https://a./b", {.host = "a", .authority = "a", .base = "/b"}},
       }) {
    EXPECT_EQ(Origin::parse(url), origin) << url;
  }
}

TEST(Origin, IsNothingElse) {
  using namespace std::string_view_literals;
  for (const std::string_view url : {""sv,
                                     "a"sv,
                                     "a.example/b"sv,
                                     "//a"sv,
                                     "://a"sv,
                                     "https:/a"sv,
                                     "https:a"sv,
                                     "https://"sv,
                                     "https:///b"sv,
                                     "ftp://a"sv,
                                     "file:///etc/passwd"sv,
                                     "unix:///run/x"sv,
                                     "httpss://a"sv,
                                     " https://a"sv,
                                     "https://a "sv,
                                     "https://user@a"sv,
                                     "https://user:key@a"sv,
                                     "https://good.example@evil.example"sv,
                                     "https://a\\@b"sv,
                                     "https://a\\b"sv,
                                     "https://a?b"sv,
                                     "https://a#b"sv,
                                     "https://a/b?c"sv,
                                     "https://a/b#c"sv,
                                     "https://a/b c"sv,
                                     "https://a/b\r\nX: y"sv,
                                     "https://a/\0"sv,
                                     "https://a\0b"sv,
                                     "https://a\r\nb"sv,
                                     "https://a/\u00fc"sv,
                                     "https://a:"sv,
                                     "https://a:/b"sv,
                                     "https://a:0"sv,
                                     "https://a:65536"sv,
                                     "https://a:99999999999"sv,
                                     "https://a:8o"sv,
                                     "https://a:-1"sv,
                                     "https://a:+1"sv,
                                     "https://a:1:2"sv,
                                     "https://:443"sv,
                                     "https://::1"sv,
                                     "https://[::1"sv,
                                     "https://[::1]x"sv,
                                     "https://[::1]:"sv,
                                     "https://[fe80::1%25eth0]"sv,
                                     "https://[127.0.0.1]"sv,
                                     "https://127.1"sv,
                                     "https://2130706433"sv,
                                     "https://0x7f.1"sv,
                                     "https://a..b"sv,
                                     "https://-a"sv,
                                     "https://a%2eb"sv,
                                     "https://a,b"sv}) {
    EXPECT_FALSE(Origin::parse(url)) << testing::PrintToString(url);
  }
}

}  // namespace
}  // namespace weir::net
