// Hosts: every way to write one gives the same text, and what misleads a reader gives none.
#include "net/host.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

namespace weir::net {
namespace {

struct Row {
  std::string_view written;
  std::string_view host;
};

constexpr Row kHosts[] = {
    {"https://financialmodelingprep.com/api/v3/quote", "financialmodelingprep.com"},
    {"financialmodelingprep.com", "financialmodelingprep.com"},
    {"api.example.com:8443", "api.example.com"},
    {"https://API.Example.COM", "api.example.com"},
    {"HTTPS://api.example.com?key=1", "api.example.com"},
    {"https://api.example.com#part", "api.example.com"},
    {"https://api.example.com:", "api.example.com"},
    {"https://api.example.com:443/a:b@c", "api.example.com"},
    {"https://api.example.com./", "api.example.com"},
    {"redis+tls-1.2://cache:6379", "cache"},
    {"wss://a.example/x?u=http://other.example", "a.example"},
    {"a.example/x?u=http://other.example", "a.example"},
    {"https://user:secret@api.example.com/", "api.example.com"},
    {"https://user:p@ss@api.example.com/", "api.example.com"},
    {"https://good.example@other.example/", "other.example"},
    {"https://u%40good.example:x@other.example", "other.example"},
    {"https://other.example/@good.example", "other.example"},
    {"https://other.example?@good.example", "other.example"},
    {"https://other.example#@good.example", "other.example"},
    {"user@host:22", "host"},
    {"my_service:8080", "my_service"},
    {"r3---sn-4g5e.example", "r3---sn-4g5e.example"},
    {"1.example", "1.example"},
    {"3com.com", "3com.com"},
    {"0xyz", "0xyz"},
    {"a.0xyz", "a.0xyz"},
    {"localhost", "localhost"},
    {"https://bücher.example/", "xn--bcher-kva.example"},
    {"https://BÜCHER.example/", "xn--bcher-kva.example"},
    {"xn--bcher-kva.example", "xn--bcher-kva.example"},
    {"XN--BCHER-KVA.example", "xn--bcher-kva.example"},
    {"faß.de", "xn--fa-hia.de"},  // non-transitional: not fass.de
    {"bu\u0308cher.example", "xn--bcher-kva.example"},
    {"例え。テスト", "xn--r8jz45g.xn--zckzah"},
    {"ｅｘａｍｐｌｅ.com", "example.com"},
    {"http://127.0.0.1:9347/", "127.0.0.1"},
    {"127.0.0.1.", "127.0.0.1"},
    {"１２７.0.0.1", "127.0.0.1"},
    {"255.255.255.255", "255.255.255.255"},
    {"[::1]", "::1"},
    {"::1", "::1"},
    {"http://[2001:DB8:0:0::1]:80/x", "2001:db8::1"},
    {"[0:0:0:0:0:ffff:7f00:1]:1", "::ffff:127.0.0.1"},
    {"https://u@[fe80::1]/", "fe80::1"},
};

constexpr std::string_view kNoHosts[] = {
    "",
    "/",
    "//a.example/",
    "https://",
    "https:///path",
    "https://user@/",
    "https://:443/",
    ".",
    "..",
    ".a.example",
    "a..example",
    "a.example..",
    "a.example.。",
    "-a.example",
    "a-.example",
    "a.example-",
    "a b.example",
    " a.example",
    "a.example ",
    "a.example\t",
    "a.example\n",
    "https://a.example\\@other.example/",
    "https:\\\\a.example",
    "http:/a.example",
    "a.example:",
    "a.example:http",
    "a.example:-1",
    "a.example:+80",
    "a.example:65536",
    "a.example:000080",
    "a.example:80:80",
    "a%2eexample",
    "%61.example",
    "a％2eexample",
    "a,b.example",
    "a*.example",
    "a<b>.example",
    "a'b",
    "a\"b",
    "a~b",
    "2130706433",
    "0x7f.1",
    "0X7F.1",
    "0x",
    "a.0x7f",
    "127.1",
    "127.0.0.01",
    "0177.0.0.1",
    "127.0.0.256",
    "1.2.3.4.5",
    "a.1",
    "1",
    "[::1",
    "[::1]x",
    "[::1]:",
    "[::1]]",
    "[]",
    "[127.0.0.1]",
    "[a.example]",
    "[fe80::1%eth0]",
    "[v1.x]",
    "1::2::3",
    "http://::1/",
    "a\u00a0b.example",
    "xn--a.example",  // punycode of nothing
    "xn--.example",
    "a\xff.example",
    "a\xc0\xae.example",  // an overlong dot
};

TEST(Host, HasOneFormHoweverItIsWritten) {  // S4.3
  for (const auto& [written, host] : kHosts) EXPECT_EQ(host_of(written), host) << written;
}

TEST(Host, IsNotFoundWhereReadersCouldDisagree) {  // S4.3
  for (const auto written : kNoHosts) {
    EXPECT_EQ(host_of(written), std::nullopt) << testing::PrintToString(written);
  }
  EXPECT_EQ(host_of(std::string_view{"a\0.example", 10}), std::nullopt);
  EXPECT_EQ(host_of(std::string_view{"127.0.0.1\0", 10}), std::nullopt);
  EXPECT_EQ(host_of(std::string_view{"::1\0", 4}), std::nullopt);
}

TEST(Host, IsBoundedByLabelAndName) {
  const std::string label(63, 'a');
  EXPECT_EQ(host_of(label), label);
  EXPECT_EQ(host_of(label + "a"), std::nullopt);
  const std::string most = label + "." + label + "." + label + ".";
  EXPECT_EQ(host_of(most + std::string(61, 'b')), most + std::string(61, 'b'));
  EXPECT_EQ(host_of(most + std::string(61, 'b') + "."), most + std::string(61, 'b'));
  EXPECT_EQ(host_of(most + std::string(62, 'b')), std::nullopt);
  EXPECT_EQ(host_of(std::string(1'000'000, 'a')), std::nullopt);
  std::string soft = "a";
  for (int i = 0; i < 1'000; ++i) soft += "\u00ad";
  EXPECT_EQ(host_of(soft), std::nullopt);
}

TEST(Host, OfAHostIsItself) {
  for (const auto& row : kHosts) EXPECT_EQ(host_of(row.host), row.host);

  constexpr std::array<std::string_view, 20> kPieces = {"a", "B", "1",  "0x", ".",  "-",     "_",
                                                        ":", "[", "]",  "@",  "/",  "://",   "xn--",
                                                        "ü", "ß", "。", "１", "::", "\u00ad"};
  std::mt19937_64 random{4};
  int hosts = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::string written;
    for (auto pieces = random() % 8; pieces > 0; --pieces) written += kPieces[random() % 20];
    const auto host = host_of(written);
    if (!host) continue;
    ++hosts;
    EXPECT_EQ(host_of(*host), host) << written;
    EXPECT_EQ(host_of("https://" + (host->contains(':') ? "[" + *host + "]" : *host) + "/"), host);
  }
  EXPECT_GT(hosts, 1'000);
}

TEST(Host, KnowsAddressesAndThisMachine) {
  for (const auto host : {"127.0.0.1", "10.0.0.1", "::1", "::", "2001:db8::1"}) {
    EXPECT_TRUE(is_address(host)) << host;
  }
  for (const auto host : {"localhost", "a.example", "", "127.1", "[::1]"}) {
    EXPECT_FALSE(is_address(host)) << host;
  }
  for (const auto host : {"localhost", "127.0.0.1", "127.255.0.9", "::1"}) {
    EXPECT_TRUE(is_loopback(host)) << host;
  }
  for (const auto host : {"", "0.0.0.0", "128.0.0.1", "127.a.example", "localhost.a.example",
                          "::", "2001:db8::1", "10.0.0.1"}) {
    EXPECT_FALSE(is_loopback(host)) << host;
  }
}

}  // namespace
}  // namespace weir::net
