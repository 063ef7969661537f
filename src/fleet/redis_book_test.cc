#include "fleet/redis_book.h"

#include <gtest/gtest.h>

#include <future>
#include <string>
#include <utility>
#include <vector>

#include "fleet/script_book_for_test.h"

namespace weir::fleet {
namespace {

constexpr Micros kSecond = 1'000'000;

LeaseCall call(std::string node, std::int64_t sequence, LeaseAsk ask) {
  return {.gate = "gate",
          .node = std::move(node),
          .sequence = sequence,
          .run = "run",
          .member_ttl = 10 * kSecond,
          .keep = 60 * kSecond,
          .quarantine = kSecond,
          .expire = 3'600 * kSecond,
          .asks = {std::move(ask)}};
}
LeaseAsk window(Amount want) {
  return {.limit = "tokens",
          .kind = LeaseKind::kWindow,
          .amount = 1'000,
          .period = 3'600 * kSecond,
          .ttl = kSecond,
          .want = want,
          .least = 1};
}
LeaseAsk log(Amount want) {
  return {.limit = "requests",
          .kind = LeaseKind::kLog,
          .amount = 1'000'000,
          .period = 400 * kSecond,
          .ttl = kSecond,
          .want = want,
          .least = 1};
}

class RedisBookTest : public ::testing::Test {
 protected:
  Result<LeaseAnswer> ask(const LeaseCall& call) {
    std::promise<Result<LeaseAnswer>> promise;
    auto answer = promise.get_future();
    book_.ask(call, time_.clock.now() + std::chrono::seconds{30},
              [&promise](Result<LeaseAnswer> given) { promise.set_value(std::move(given)); });
    return answer.get();
  }
  void wait_until_up() const {
    while (!client_->status().up) nap();
  }
  Micros server_time() const {
    const std::string said = server_.cli({"TIME"});
    const auto line = said.find('\n');
    return std::stoll(said.substr(0, line)) * kSecond + std::stoll(said.substr(line + 1));
  }

  RealTime<> time_;
  redis::RedisServer server_;
  std::shared_ptr<redis::Client> client_ =
      redis::Client::create({.url = server_.url(), .ca_file = {}}, time_.source()).value();
  RedisBook book_{client_};
};

TEST_F(RedisBookTest, GrantsByTheClockOfTheServer) {
  wait_until_up();
  const Micros before = server_time();
  const LeaseAnswer answer = ask(call("a", 1, window(100))).value();
  const Micros after = server_time();
  EXPECT_LE(before, answer.now);
  EXPECT_LE(answer.now, after);
  EXPECT_EQ(answer.members, 1);
  ASSERT_EQ(answer.grants.size(), 1U);
  EXPECT_EQ(answer.grants[0], (LeaseGrant{.units = 100,
                                          .expires = answer.now + kSecond,
                                          .free = 900,
                                          .state = {answer.now + 3'600 * kSecond, 100, 0}}));
}

TEST_F(RedisBookTest, AnswersARepeatedCallAlikeAndCallsAnEarlierOneStale) {
  wait_until_up();
  const LeaseAnswer first = ask(call("a", 5, window(100))).value();
  server_.cli({"SCRIPT", "FLUSH"});
  EXPECT_EQ(ask(call("a", 5, window(100))), first);
  EXPECT_TRUE(ask(call("a", 4, window(100)))->stale);
  EXPECT_EQ(ask(call("a", 6, window(100)))->grants[0].free, 800);
}

TEST_F(RedisBookTest, KeepsGatesApartAndEachInOneSlotOfACluster) {
  wait_until_up();
  LeaseCall other = call("a", 1, window(100));
  other.gate = "other";
  EXPECT_EQ(ask(call("a", 1, window(100)))->grants[0].free, 900);
  EXPECT_EQ(ask(other)->grants[0].free, 900);
  EXPECT_EQ(book_keys("other"), (std::vector<std::string>{"q:{other}:s", "q:{other}:l"}));
  EXPECT_EQ(server_.cli({"DBSIZE"}), "4");
}

TEST_F(RedisBookTest, LetsASilentBookBeForgotten) {
  wait_until_up();
  ASSERT_TRUE(ask(call("a", 1, window(1))));
  for (const std::string& key : book_keys("gate")) {
    const auto left = std::stoll(server_.cli({"PTTL", key}));
    EXPECT_GT(left, 3'500'000);
    EXPECT_LE(left, 3'600'000);
  }
}

TEST_F(RedisBookTest, KnowsTheRunOfTheServer) {
  wait_until_up();
  const std::string run = book_.server("gate").run;
  EXPECT_EQ(run.size(), 40U);
  EXPECT_TRUE(server_.cli({"INFO", "server"}).contains(run));
}

TEST_F(RedisBookTest, FailsWithoutAServer) {
  wait_until_up();
  client_->close();
  EXPECT_FALSE(ask(call("a", 1, window(1))));
}

TEST_F(RedisBookTest, FailsWhenTheServerRefuses) {
  wait_until_up();
  LeaseAsk bad = window(1);
  bad.least = 0;
  const auto answer = ask(call("a", 1, bad));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error(), Errc::kCallFailed);
  EXPECT_TRUE(answer.error().message.contains("LEASE")) << answer.error().message;
}

TEST(RedisBook, RefusesWhatIsNotAnAnswer) {
  const auto text = [](std::string words) {
    net::RespValue value;
    value.kind = net::RespValue::Kind::kString;
    value.text = std::move(words);
    return value;
  };
  EXPECT_TRUE(decode(text("9 1 0 0 1 2 3 4 5 -6"), 1));
  EXPECT_TRUE(decode(text("9 0 0 1"), 1)->stale);
  for (const char* bad : {"", " ", "9", "9 1 0 0", "9 1 0 0 1 2 3 4 5", "9 1 0 0 1 2 3 4 5 6 7",
                          "9 1 0 0 1 2 3 4 5 6 ", "9  1 0 0 1 2 3 4 5", "9 1 0 0 1 2 3 4 5 1e3",
                          "9 1 0 0 1 2 3 4 5 99999999999999999999"}) {
    EXPECT_FALSE(decode(text(bad), 1)) << bad;
  }
  EXPECT_FALSE(decode(net::RespValue{}, 1));
}

// The script itself.

TEST(LeaseScript, RefusesMalformedArgumentsAndWritesNothing) {
  ScriptBook book;
  LeaseAsk ask = window(1);
  ask.ends = {5};
  ask.has_witness = true;
  const std::vector<std::string> good = encode(call("a", 1, ask));
  const auto refused = [&](std::vector<std::string> args) {
    args.push_back("1000");
    return book.run(book_keys("gate"), std::move(args))->is_error();
  };
  const auto but = [&](std::size_t at, const std::string& word) {
    std::vector<std::string> args = good;
    args[at] = word;
    return args;
  };
  for (std::size_t at = 0; at < good.size(); ++at) {
    EXPECT_TRUE(refused(but(at, ""))) << at;
    EXPECT_TRUE(refused({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(at)})) << at;
    if (at == 0 || at == 2 || at == 9) continue;  // names may be anything else
    for (const char* bad : {"-1", "1.5", "x", "nan", "inf", "1e300", "9007199254740992"}) {
      EXPECT_TRUE(refused(but(at, bad))) << at << ": " << bad;
    }
  }
  std::vector<std::string> longer = good;
  longer.push_back("0");
  EXPECT_TRUE(refused(longer));
  EXPECT_TRUE(refused(but(1, "0"))) << "sequence";
  EXPECT_TRUE(refused(but(11, "0"))) << "amount";
  EXPECT_TRUE(refused(but(11, "1000000000000001"))) << "amount";
  EXPECT_TRUE(refused(but(11, "1e3"))) << "amount";
  EXPECT_TRUE(refused(but(12, "0"))) << "period";
  EXPECT_EQ(book.command({"DBSIZE"}).integer, 0);
  EXPECT_FALSE(refused(good));
}

TEST(LeaseScript, StoresWholeDecimals) {
  ScriptBook book;
  LeaseAsk large{.limit = "money",
                 .kind = LeaseKind::kBucket,
                 .amount = kAmountMax,
                 .period = 400LL * 86'400 * kSecond,
                 .burst = kAmountMax,
                 .want = kAmountMax / 3,
                 .least = 1};
  ASSERT_TRUE(book.decide(call("a", 1, large), 1'790'000'000 * kSecond));
  for (const auto& value : book.command({"HVALS", "q:{gate}:s"}).items) {
    EXPECT_FALSE(value.text.contains("e+") || value.text.contains(".")) << value.text;
  }
}

TEST(LeaseScript, KeepsALogSmall) {
  ScriptBook book;
  for (int i = 1; i <= 3'000; ++i) {
    ASSERT_EQ(book.decide(call("a", i, log(1)), (1'790'000'000 + i) * kSecond)->grants[0].units, 1);
  }
  EXPECT_LE(book.command({"HLEN", "q:{gate}:s"}).integer, 410);
  ASSERT_EQ(book.decide(call("a", 9'999, log(0)), 1'790'009'999 * kSecond)->grants[0].free,
            1'000'000);
  EXPECT_LE(book.command({"HLEN", "q:{gate}:s"}).integer, 5);
}

TEST(LeaseScript, KeepsNothingOfWhoIsSilentForTooLong) {
  ScriptBook book;
  LeaseAsk slots{.limit = "slots",
                 .kind = LeaseKind::kSlots,
                 .amount = 1'000,
                 .ttl = kSecond,
                 .want = 1,
                 .least = 1};
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(book.decide(call("n" + std::to_string(i), 1, slots), 1'000 * kSecond));
  }
  const LeaseAnswer answer = book.decide(call("other", 1, slots), 1'061 * kSecond).value();
  EXPECT_EQ(answer.members, 1);
  EXPECT_EQ(answer.grants[0].free, 999);
  // last, run, quarantine; the limit; what was answered to the other node and what it has.
  EXPECT_EQ(book.command({"HLEN", "q:{gate}:s"}).integer, 6);
  EXPECT_EQ(book.command({"ZCARD", "q:{gate}:l"}).integer, 1);
}

}  // namespace
}  // namespace weir::fleet
