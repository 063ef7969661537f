// The scenarios of seed 004, against the daemon, over HTTP, in stepped time.
#include "app/daemon_for_test.h"

namespace weir::app {
namespace {

using namespace std::chrono_literals;

class ScenariosTest : public DaemonTest {
 protected:
  ScenariosTest() {
    provider("fmp", "domain: financialmodelingprep.com\nlimit: 300\nperiod: 1m\n");
    provider("alphavantage", "domain: alphavantage.co\nlimit: 5\nperiod: 1m\n");
    provider("yahoo", "domain: finance.yahoo.com\nlimit: 2000\nperiod: 1h\n");
  }

  int ask(const std::string& url) { return acquire("{\"url\":\"" + url + "\"}").status; }

  // How many of `count` requests are admitted.
  int admitted(const std::string& url, int count) {
    std::string body = "{\"requests\":[";
    for (int i = 0; i < count; ++i) body += (i == 0 ? "" : ",") + ("{\"url\":\"" + url + "\"}");
    const Answer answer = post("/v1/acquire_batch", body + "]}");
    int good = 0;
    for (const auto& result : answer.json.at("results").as_array()) {
      good += result.at("status").as_int64() == 200 ? 1 : 0;
    }
    return good;
  }
};

constexpr const char* kFmp = "https://financialmodelingprep.com/api/v3/historical-price-full/AAPL";

// S4.9, scenario 1
TEST_F(ScenariosTest, ThreeSourcesShareOneDomain) {
  start();
  EXPECT_EQ(ask(kFmp), 200);
  EXPECT_EQ(ask("https://financialmodelingprep.com/api/v3/quote/MSFT?apikey=x"), 200);
  EXPECT_EQ(ask("http://FinancialModelingPrep.com:80/other"), 200);
  const Answer resource = get("/v1/resources/financialmodelingprep.com");
  EXPECT_EQ(resource.json.at("limits").at(0).at("available").as_int64(), 297);
}

// S4.9, scenario 2
TEST_F(ScenariosTest, TheLimitIsApproachedAndNotPassed) {
  start();
  EXPECT_EQ(admitted(kFmp, 295), 295);
  EXPECT_EQ(admitted(kFmp, 10), 5);
  time.advance(59s);
  EXPECT_EQ(admitted(kFmp, 5), 0);
  time.advance(1s);  // the next window
  EXPECT_EQ(admitted(kFmp, 5), 5);
}

// S4.9, scenario 3; S4.4
TEST_F(ScenariosTest, AWindowStartsWithTheFirstRequestAfterTheLastOneEnded) {
  start();
  constexpr const char* kYahoo = "https://finance.yahoo.com/v8/chart/AAPL";
  EXPECT_EQ(admitted(kYahoo, 2001), 2000);
  time.advance(1h - 1ns);
  EXPECT_EQ(admitted(kYahoo, 1), 0);
  time.advance(5s + 1ns);  // 11:00:05: the new window starts here, not at 11:00:00
  EXPECT_EQ(admitted(kYahoo, 2000), 2000);
  time.advance(1h - 1s);
  EXPECT_EQ(admitted(kYahoo, 1), 0);
  time.advance(1s);
  EXPECT_EQ(admitted(kYahoo, 1), 1);
}

// S4.3
TEST_F(ScenariosTest, SubdomainsFallUnderTheirDomainAndUnknownOnesAreUnlimited) {
  start();
  EXPECT_EQ(admitted("https://www.alphavantage.co/query", 3), 3);
  EXPECT_EQ(admitted("https://alphavantage.co/query", 3), 2);
  const Answer unknown = acquire(R"({"url":"https://notalphavantage.co/query"})");
  EXPECT_EQ(unknown.response.body, R"({"permit":null,"unlimited":true})");
  EXPECT_EQ(admitted("https://example.org/", 100), 100);
}

// S4.2
TEST_F(ScenariosTest, FilesAndDirectoriesAreMixedAndTwoFilesForOneDomainAreRefused) {
  const std::string special =
      directory.write("special.yaml", "domain: Finance.Yahoo.com.\nlimit: 1\nperiod: 1s\n");
  server::Log log{STDERR_FILENO, server::Log::Format::kJson, time};
  const auto started = Daemon::start({.files = {.main_file = {},
                                                .provider_files = {special},
                                                .provider_dirs = {directory.path("providers")}},
                                      .listen = Listen{.host = "127.0.0.1", .port = 0}},
                                     time.source(), log);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().exit_code, 2);
  ASSERT_EQ(started.error().lines.size(), 1U);
  EXPECT_NE(started.error().lines[0].find("special.yaml:1:"), std::string::npos);
  EXPECT_NE(started.error().lines[0].find("yahoo.yaml:1"), std::string::npos);
}

}  // namespace
}  // namespace weir::app
