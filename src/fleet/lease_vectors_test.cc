// lease_vectors.txt: the twin and the script answer as it says, call by call.
//
//   case <sentence>                         a new book
//   at <now> <node> <sequence> [key=value]  a call
//   ask <limit> <kind> [key=value]          its asks
//   = <now> <members> <quarantine> <stale>  the answer expected
//   grant <units> <expires> <free> <state>  one for each ask
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "fleet/book_for_test.h"
#include "fleet/script_book_for_test.h"

namespace weir::fleet {

namespace {

struct Step {
  int line = 0;
  Micros now = 0;
  LeaseCall call;
  LeaseAnswer answer;
};
struct Case {
  std::string name;
  std::vector<Step> steps = {};
};

std::vector<std::int64_t> numbers(const std::string& text) {
  std::vector<std::int64_t> all;
  std::istringstream in{text};
  for (std::string word; std::getline(in, word, ',');) all.push_back(std::stoll(word));
  return all;
}

void set(LeaseCall& call, const std::string& key, const std::string& value) {
  if (key == "run") {
    call.run = value;
    return;
  }
  Micros* const field = key == "distrust"     ? &call.distrust
                        : key == "member_ttl" ? &call.member_ttl
                        : key == "keep"       ? &call.keep
                        : key == "quarantine" ? &call.quarantine
                                              : nullptr;
  ASSERT_NE(field, nullptr) << key;
  *field = std::stoll(value);
}

void set(LeaseAsk& ask, const std::string& key, const std::string& value) {
  if (key == "ends") {
    ask.ends = numbers(value);
  } else if (key == "witness") {
    ask.has_witness = true;
    std::ranges::copy(numbers(value), ask.witness.begin());
  } else {
    std::int64_t* const field = key == "amount"       ? &ask.amount
                                : key == "period"     ? &ask.period
                                : key == "burst"      ? &ask.burst
                                : key == "ttl"        ? &ask.ttl
                                : key == "want"       ? &ask.want
                                : key == "least"      ? &ask.least
                                : key == "back"       ? &ask.back
                                : key == "back_until" ? &ask.back_until
                                : key == "owed"       ? &ask.owed
                                : key == "held"       ? &ask.held
                                                      : nullptr;
    ASSERT_NE(field, nullptr) << key;
    *field = std::stoll(value);
  }
}

template <class T>
void set_all(T& what, std::istringstream& words) {
  for (std::string word; words >> word;) {
    const auto equals = word.find('=');
    ASSERT_NE(equals, std::string::npos) << word;
    set(what, word.substr(0, equals), word.substr(equals + 1));
  }
}

LeaseKind kind_named(const std::string& wanted) {
  for (int kind = 0; kind < 6; ++kind) {
    if (name(static_cast<LeaseKind>(kind)) == wanted) return static_cast<LeaseKind>(kind);
  }
  ADD_FAILURE() << "no such kind: " << wanted;
  return {};
}

std::vector<Case> vectors() {
  std::ifstream file{std::filesystem::path{__FILE__}.replace_filename("lease_vectors.txt")};
  EXPECT_TRUE(file);
  std::vector<Case> cases;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    std::istringstream words{line};
    std::string first;
    if (!(words >> first) || first.starts_with('#')) continue;
    if (first == "case") {
      cases.push_back({line.substr(5)});
    } else if (first == "at") {
      Step step{.line = number, .call = {}, .answer = {}};
      step.call.gate = cases.back().name;
      step.call.run = "one";
      step.call.member_ttl = 10'000'000;
      step.call.keep = 60'000'000;
      step.call.quarantine = 5'000'000;
      step.call.expire = std::int64_t{1} << 50;
      words >> step.now >> step.call.node >> step.call.sequence;
      set_all(step.call, words);
      cases.back().steps.push_back(std::move(step));
    } else if (first == "ask") {
      LeaseAsk ask;
      std::string kind;
      words >> ask.limit >> kind;
      ask.kind = kind_named(kind);
      set_all(ask, words);
      cases.back().steps.back().call.asks.push_back(std::move(ask));
    } else if (first == "=") {
      LeaseAnswer& answer = cases.back().steps.back().answer;
      words >> answer.now >> answer.members >> answer.quarantine >> answer.stale;
    } else if (first == "grant") {
      LeaseGrant grant;
      words >> grant.units >> grant.expires >> grant.free;
      for (std::int64_t& each : grant.state) words >> each;
      cases.back().steps.back().answer.grants.push_back(grant);
    } else {
      ADD_FAILURE() << "line " << number << ": " << line;
    }
  }
  EXPECT_GT(cases.size(), 30U);
  return cases;
}

TEST(LeaseVectors, TheTwinAnswersSo) {
  for (const Case& each : vectors()) {
    TestBook twin;
    for (const Step& step : each.steps) {
      EXPECT_EQ(twin.decide(step.call, step.now), step.answer)
          << each.name << ", line " << step.line;
    }
  }
}

TEST(LeaseVectors, TheScriptAnswersSo) {
  ScriptBook script;
  for (const Case& each : vectors()) {
    for (const Step& step : each.steps) {
      const auto answer = script.decide(step.call, step.now);
      ASSERT_TRUE(answer) << answer.error().message << ": " << each.name << ", line " << step.line;
      EXPECT_EQ(*answer, step.answer) << each.name << ", line " << step.line;
    }
  }
}

}  // namespace
}  // namespace weir::fleet
