#include "provider/domain.h"

#include <gtest/gtest.h>

#include "net/host.h"

namespace weir {
namespace {

struct DomainTest : testing::Test {
  DomainTest() {
    EXPECT_TRUE(table.add("example.com", 1));
    EXPECT_TRUE(table.add("api.example.com", 2));
    EXPECT_TRUE(table.add("xn--bcher-kva.example", 3));
    EXPECT_TRUE(table.add("10.0.0.1", 4));
    EXPECT_TRUE(table.add("::1", 5));
    EXPECT_TRUE(table.add("localhost", 6));
  }

  // 0: none
  std::size_t of(std::string_view url) const {
    const auto host = net::host_of(url);
    return host ? table.find(*host).value_or(0) : 0;
  }

  DomainTable table;
};

// S4.3
TEST_F(DomainTest, AUrlFallsUnderItsDomainOrTheNearestParent) {
  struct Row {
    const char* url;
    std::size_t provider;
  };
  for (const Row& row : {
           Row{"https://example.com/v1/messages?x=1#y", 1},
           {"https://EXAMPLE.Com", 1},
           {"https://example.com./", 1},
           {"http://example.com:8080/", 1},
           {"https://user:secret@example.com/", 1},
           {"https://user:a%40b@www.example.com:443/", 1},
           {"example.com", 1},
           {"www.example.com:80", 1},
           {"https://a.b.c.example.com/", 1},
           {"https://api.example.com/", 2},
           {"https://eu.api.example.com/", 2},
           {"https://xapi.example.com/", 1},
           {"https://notexample.com/", 0},
           {"https://example.com.evil.org/", 0},
           {"https://evil.org/example.com", 0},
           {"https://example.com@evil.org/", 0},
           {"https://com/", 0},
           {"https://bücher.example/", 3},
           {"https://www.BÜCHER.example/", 3},
           {"http://10.0.0.1:9000/", 4},
           {"http://1.10.0.0.1/", 0},
           {"http://10.0.0.2/", 0},
           {"http://[::1]:80/", 5},
           {"http://[0:0:0:0:0:0:0:1]/", 5},
           {"http://[::2]/", 0},
           {"http://localhost:11434/", 6},
           {"", 0},
           {"https:///path", 0},
           {"https://a..example.com/", 0},
       }) {
    EXPECT_EQ(of(row.url), row.provider) << row.url;
  }
}

TEST_F(DomainTest, AnAddressHasNoParents) {
  EXPECT_TRUE(table.add("0.1", 7));
  EXPECT_EQ(of("http://10.0.0.3/"), 0U);
  EXPECT_EQ(table.find("10.9.0.1"), std::nullopt);
}

TEST_F(DomainTest, ADomainHasOneProvider) {
  EXPECT_FALSE(table.add("example.com", 9));
  EXPECT_EQ(of("https://example.com"), 1U);
}

}  // namespace
}  // namespace weir
