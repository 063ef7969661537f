#include "provider/fleet_signals.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bus/bus_for_test.h"
#include "provider/known_rate.h"
#include "provider/resources_for_test.h"
#include "weir/bus/in_process_bus.h"
#include "weir/fleet/distributed_limiter.h"

namespace weir {
namespace {

using namespace std::chrono;

constexpr std::string_view kKey = "9f86d081884c7d65";  // a client's, as the proxy writes it

Signals refusal(Signals::Kind kind, std::optional<Nanos> wait = {}) {
  Signals signals;
  signals.kind = kind;
  signals.reason = "test";
  (kind == Signals::Kind::kExhausted ? signals.resets_in : signals.retry_after) = wait;
  return signals;
}
Signals limited(std::optional<Nanos> retry_after = {}) {
  return refusal(Signals::Kind::kLimited, retry_after);
}
Signals exhausted(std::optional<Nanos> resets_in = {}) {
  return refusal(Signals::Kind::kExhausted, resets_in);
}

// A daemon, as far as it matters here.
struct Node {
  Node(std::shared_ptr<MessageBus> bus, const std::string& name, SimulatedTime& clock,
       const std::string& api_key = "sk-one")
      : time(clock), resources(time.source()), signals(std::move(bus), name, resources, time) {
    ProviderConfig api = provider("api", {requests_each(120, 1min)});
    api.api_key = Secret{api_key};
    EXPECT_TRUE(resources.apply({api, provider("other", {})}));
  }

  std::shared_ptr<Account> account(std::string_view model = "m", std::string_view credential = kKey,
                                   std::string_view resource = "api") {
    return resources.find(resource)->route({.model = model, .account = credential})->account;
  }
  // The provider has answered this, as the proxy passes it on.
  void answered(const Signals& answer, std::string_view model = "m",
                std::string_view credential = kKey) {
    const auto resource = resources.find("api");
    account(model, credential)->set_known_rate(known_rate(*resource->config(), model));
    account(model, credential)->answered(answer, Cost::call(), time.now());
    signals.tell(*resource, {.model = model, .account = credential}, answer);
  }
  static Nanos held_for(Account& account) { return account.gate().metrics().held_for; }
  Nanos held_for(std::string_view model = "m", std::string_view credential = kKey) {
    return held_for(*account(model, credential));
  }
  // Requests a minute; 0 if there is no pace.
  static Amount pace(Account& account) {
    const auto limits = account.gate().metrics().limits;
    return limits.empty() ? 0 : limits.front().amount / 1'000;
  }
  Amount pace(std::string_view model = "m", std::string_view credential = kKey) {
    return pace(*account(model, credential));
  }

  SimulatedTime& time;
  Resources resources;
  FleetSignals signals;
};

struct FleetSignalsTest : testing::Test {
  void say(std::string_view subject, std::string_view payload) {
    ASSERT_TRUE(bus->publish(subject, payload));
    bus->settle();
  }
  fleet::CapacityUpdate update(CalendarTime at) const {
    return {.resource = "api",
            .agent_id = "agent",
            .new_capacity = 50,
            .reason = "429",
            .timestamp = at,
            .model = "m",
            .credential_hash = std::string{kKey}};
  }
  FleetSignalsStatus say(const fleet::CapacityUpdate& said) {
    say(fleet::kCapacitySubject, fleet::format_capacity_update(said).value());
    return b.signals.status();
  }

  SimulatedTime time;
  std::shared_ptr<InProcessBus> bus = make_in_process_bus();
  Node a{bus, "a", time};
  Node b{bus, "b", time};
  bus::Heard holds;
  bus::Heard updates;
  std::unique_ptr<MessageBus::Subscription> hears_holds =
      bus->subscribe(kHoldSubject, holds.handler()).value();
  std::unique_ptr<MessageBus::Subscription> hears_updates =
      bus->subscribe(fleet::kCapacitySubject, updates.handler()).value();
};

TEST_F(FleetSignalsTest, ARetryAfterAtOneNodeHoldsTheAccountOfTheOthers) {
  a.answered(limited(30s));
  bus->settle();
  EXPECT_EQ(a.held_for(), 30s);
  EXPECT_EQ(b.held_for(), 30s);
  EXPECT_EQ(holds.all(),
            std::vector<std::string>{
                R"({"resource":"api","model":"m","credential_hash":"9f86d081884c7d65",)"
                R"("unit":"requests","remaining_ms":30000,"node":"a"})"});
  EXPECT_EQ(updates.count(), 0U);
  time.advance(29'999ms);
  EXPECT_FALSE(b.account()->gate().try_acquire({}));
  time.advance(1ms);
  EXPECT_TRUE(b.account()->gate().try_acquire({}));
}

TEST_F(FleetSignalsTest, WhoeverHearsOfItLetsItsWaitersGoAtThePaceThatIsConfigured) {
  a.answered(limited(30s));
  bus->settle();
  EXPECT_EQ(b.pace(), 120);
}

TEST_F(FleetSignalsTest, WithoutARetryAfterBothArePaced) {
  a.answered(limited());
  bus->settle();
  EXPECT_EQ(a.pace(), 60);
  EXPECT_EQ(b.pace(), 60);
  EXPECT_GT(b.held_for(), 0s);
  ASSERT_EQ(updates.count(), 1U);
  fleet::CapacityUpdate expected = update(time.wall());
  expected.agent_id = "a";
  expected.new_capacity = 60;
  expected.reason = "test";
  EXPECT_EQ(fleet::parse_capacity_update(updates.all().front()), expected);
  EXPECT_EQ(holds.count(), 0U);
}

TEST_F(FleetSignalsTest, AgentsOfTheLibraryHearOfACut) {
  auto agent = DistributedLimiter::create({.bus = bus, .agent_id = "agent"}, time.source()).value();
  ASSERT_TRUE(agent->set_capacity("api", 100, 1min));
  a.answered(limited());
  bus->settle();
  EXPECT_EQ(agent->capacity("api")->total, 60);
}

TEST_F(FleetSignalsTest, ACutOfAnAgentGoesToEveryAccountOfTheResource) {
  const auto elsewhere = b.account("m", kKey, "other");
  b.account("m");
  b.account("n", Resource::kOwnAccount);
  auto agent = DistributedLimiter::create({.bus = bus, .agent_id = "agent"}, time.source()).value();
  ASSERT_TRUE(agent->set_capacity("api", 100, 1min));
  agent->announce_reduced("api", "429");
  bus->settle();
  EXPECT_GT(b.held_for("m"), 0s);
  EXPECT_GT(b.held_for("n", Resource::kOwnAccount), 0s);
  EXPECT_EQ(Node::held_for(*elsewhere), 0s);
  EXPECT_EQ(b.signals.status().heard, 1U);
}

TEST_F(FleetSignalsTest, ExhaustionClosesTheAccountOfTheOthersUntilItIsOver) {
  a.answered(exhausted(24h));
  bus->settle();
  const auto closed = b.account()->exhausted(time.now());
  ASSERT_TRUE(closed);
  EXPECT_EQ(closed->until, time.now() + 24h);
  EXPECT_FALSE(closed->reason.empty());
  EXPECT_NE(holds.all().front().find(R"("kind":"exhausted","remaining_ms":86400000)"),
            std::string::npos);
}

TEST_F(FleetSignalsTest, ExhaustionOfUnknownLengthIsAskedAboutAgainByEachNode) {
  a.answered(exhausted());
  bus->settle();
  EXPECT_EQ(b.account()->exhausted(time.now())->until, a.account()->exhausted(time.now())->until);
}

TEST_F(FleetSignalsTest, OtherModelsCredentialsAndResourcesGoOn) {
  a.answered(limited(30s), "m");
  a.answered(limited(), "n");
  bus->settle();
  EXPECT_GT(b.held_for("n"), 0s);
  EXPECT_EQ(b.held_for("other model"), 0s);
  for (const std::string_view model : {"m", "n"}) {
    EXPECT_EQ(b.held_for(model, "0000000000000000"), 0s);
    EXPECT_EQ(b.held_for(model, Resource::kOwnAccount), 0s);
    EXPECT_EQ(Node::held_for(*b.account(model, kKey, "other")), 0s);
  }
}

TEST_F(FleetSignalsTest, TheConfiguredKeyIsTheSameAccountOnlyWhereItIsTheSame) {
  Node same{bus, "c", time};
  Node different{bus, "d", time, "sk-two"};
  a.answered(limited(30s), "m", Resource::kOwnAccount);
  a.answered(limited(), "n", Resource::kOwnAccount);
  bus->settle();
  EXPECT_EQ(same.held_for("m", Resource::kOwnAccount), 30s);
  EXPECT_EQ(different.held_for("m", Resource::kOwnAccount), 0s);
  EXPECT_EQ(same.pace("n", Resource::kOwnAccount), 60);
  EXPECT_EQ(different.pace("n", Resource::kOwnAccount), 0);
  for (const std::string& text : {holds.all().at(0), updates.all().at(0)}) {
    EXPECT_EQ(text.find("sk-one"), std::string::npos) << text;
    EXPECT_EQ(text.find("\"own\""), std::string::npos) << text;
  }
}

TEST_F(FleetSignalsTest, TheHashOfAKeyDependsOnItsProvider) {
  ProviderConfig one = provider("api", {});
  one.api_key = Secret{"sk-one"};
  ProviderConfig two = one;
  EXPECT_EQ(own_credential_hash(one), own_credential_hash(two));
  EXPECT_EQ(own_credential_hash(one).size(), 32U);
  two.name = "api2";
  EXPECT_NE(own_credential_hash(one), own_credential_hash(two));
  two.name = "apis";
  two.api_key = Secret{"k-one"};
  EXPECT_NE(own_credential_hash(one), own_credential_hash(two));
}

TEST_F(FleetSignalsTest, ANodeIgnoresWhatItSaidItself) {
  a.answered(limited());
  time.advance(20s);  // so that hearing it would cut the pace again
  const Amount before = a.pace();
  a.answered(limited(1s), "n");
  bus->settle();
  EXPECT_EQ(a.pace(), before);
  EXPECT_EQ(a.signals.status(), (FleetSignalsStatus{.told = 2, .ignored = 2}));
  fleet::CapacityUpdate own = update(time.wall());
  own.agent_id = "a";
  say(own);
  EXPECT_EQ(a.pace(), before);
}

TEST_F(FleetSignalsTest, WhatIsHeardIsNotToldAgain) {
  a.answered(limited(30s), "m");
  a.answered(limited(), "n");
  a.answered(exhausted(1h), "o");
  bus->settle();
  EXPECT_EQ(bus->status().published, 3U);
  EXPECT_EQ(b.signals.status(), (FleetSignalsStatus{.heard = 3}));
}

TEST_F(FleetSignalsTest, TenAnswersAtOnceAreOneMessage) {
  for (int i = 0; i < 10; ++i) {
    a.answered(limited(30s));
    time.advance(20ms);
  }
  a.answered(limited(30s), "n");
  a.answered(limited(30s), "m", "0000000000000000");
  EXPECT_EQ(a.signals.status().told, 3U);
  time.advance(49ms);
  a.answered(limited(30s));
  EXPECT_EQ(a.signals.status().told, 3U);
  time.advance(1ms);
  a.answered(limited(30s));
  EXPECT_EQ(a.signals.status().told, 4U);
}

TEST_F(FleetSignalsTest, ManyAccountsAtATimeTakeNoMoreThanTheirRoom) {
  const auto tell = [&](std::size_t model) {
    a.signals.tell(*a.resources.find("api"), {.model = std::to_string(model), .account = kKey},
                   exhausted());
    return a.signals.status().told;
  };
  for (std::size_t i = 0; i < FleetSignals::kAccountsMax; ++i) tell(i);
  EXPECT_EQ(tell(FleetSignals::kAccountsMax), FleetSignals::kAccountsMax);
  time.advance(FleetSignals::kTellPause);
  EXPECT_EQ(tell(FleetSignals::kAccountsMax), FleetSignals::kAccountsMax + 1);
}

TEST_F(FleetSignalsTest, OnlyRefusalsForBeingTooFastAreTold) {
  for (const auto kind :
       {Signals::Kind::kServed, Signals::Kind::kOverloaded, Signals::Kind::kFailed}) {
    a.answered(refusal(kind));
  }
  a.answered(refusal(Signals::Kind::kOverloaded, 30s));
  EXPECT_EQ(bus->status().published, 0U);
  a.answered(limited(30s));
  EXPECT_EQ(bus->status().published, 1U);
}

TEST_F(FleetSignalsTest, AnAccountThatIsClosedAnywayTellsNoPace) {
  a.answered(exhausted(1h));
  time.advance(1s);
  a.answered(limited());
  EXPECT_EQ(a.signals.status().told, 1U);
  bus->settle();
  EXPECT_EQ(updates.count(), 0U);
}

TEST_F(FleetSignalsTest, AHoldSaysWhatIsUsedUp) {
  Signals answer = limited(1500us);
  answer.add({.unit = Unit::kRequests, .period = 1min, .limit = 10, .remaining = 5});
  answer.add({.unit = Unit::kTokens, .period = 1min, .limit = 10, .remaining = 0});
  a.answered(answer);
  bus->settle();
  const Hold hold = parse_hold(holds.all().at(0)).value();
  EXPECT_EQ(hold.unit, Unit::kTokens);
  EXPECT_EQ(hold.remaining, 2ms);
}

TEST_F(FleetSignalsTest, UpdatesThatAreLateEarlyOrRepeatedAreIgnored) {
  const CalendarTime wall = time.wall();
  std::uint64_t heard = 0;
  const auto hears = [&](const fleet::CapacityUpdate& said) {
    const std::uint64_t before = std::exchange(heard, say(said).heard);
    return heard - before == 1;
  };
  EXPECT_FALSE(hears(update(wall - 30s - 1ns)));
  EXPECT_FALSE(hears(update(wall + 30s + 1ns)));
  EXPECT_TRUE(hears(update(wall - 30s)));
  EXPECT_TRUE(hears(update(wall)));
  EXPECT_FALSE(hears(update(wall)));
  EXPECT_FALSE(hears(update(wall - 1ns)));
  EXPECT_TRUE(hears(update(wall + 1ns)));
  auto another = update(wall);
  another.agent_id = "another";
  EXPECT_TRUE(hears(another));
  another = update(wall);
  another.model = "n";
  EXPECT_TRUE(hears(another));
  EXPECT_TRUE(hears(update(wall + 30s)));
  EXPECT_EQ(b.signals.status(), (FleetSignalsStatus{.heard = heard, .ignored = 4}));
}

TEST_F(FleetSignalsTest, WhatIsOfUnknownResourcesIsIgnored) {
  auto unknown = update(time.wall());
  unknown.resource = "unknown";
  EXPECT_EQ(say(unknown), (FleetSignalsStatus{.ignored = 1}));
  say(kHoldSubject, format_hold({.resource = "unknown",
                                 .model = "m",
                                 .credential_hash = "abc",
                                 .remaining = 1s,
                                 .node = "x"})
                        .value());
  EXPECT_EQ(b.signals.status(), (FleetSignalsStatus{.ignored = 2}));
}

// A well-formed hold with one field as the test wants it, or left out.
std::string hold_with(std::string_view field, std::string_view value) {
  const std::vector<std::pair<std::string_view, std::string_view>> fields{
      {"resource", R"("api")"},
      {"model", R"("m")"},
      {"credential_hash", R"("abc123")"},
      {"unit", R"("tokens")"},
      {"remaining_ms", "1000"},
      {"node", R"("x")"},
      {"kind", ""}};
  std::string text;
  for (const auto& [name, ordinary] : fields) {
    const std::string_view chosen = name == field ? value : ordinary;
    if (chosen.empty()) continue;
    text += (text.empty() ? R"({")" : R"(,")") + std::string{name} + R"(":)" + std::string{chosen};
  }
  return text + "}";
}

TEST_F(FleetSignalsTest, HoldsThatAreMalformedOrOutOfRangeDoNothingButCount) {
  ASSERT_TRUE(parse_hold(hold_with("", "")));
  ASSERT_TRUE(parse_hold(hold_with("remaining_ms", "1")));
  ASSERT_TRUE(parse_hold(hold_with("remaining_ms", "3600000")));
  const std::string quoted_long = '"' + std::string(257, 'm') + '"';
  const std::string blanks(FleetSignals::kMessageBytesMax, ' ');
  std::vector<std::string> bad{"",
                               "{}",
                               "null",
                               "[]",
                               "\xff",
                               hold_with("", "") + "x",
                               hold_with("", "") + blanks,
                               hold_with("model", quoted_long)};
  for (const char* field :
       {"resource", "model", "credential_hash", "unit", "remaining_ms", "node"}) {
    for (const char* value : {"", "null", "true", "{}", "1.5"}) {
      bad.push_back(hold_with(field, value));
    }
  }
  for (const char* value : {"0", "-1", "3600001", "9223372036854775807", "1e3", "\"1000\"",
                            "99999999999999999999", "-9223372036854775808"}) {
    bad.push_back(hold_with("remaining_ms", value));
  }
  for (const char* value : {R"("")", R"("own")", R"("ABC")", R"("a b")", R"("\u0000")"}) {
    bad.push_back(hold_with("credential_hash", value));
  }
  bad.push_back(hold_with("credential_hash", '"' + std::string(65, 'a') + '"'));
  for (const char* value : {R"("")", R"("a\nb")"}) bad.push_back(hold_with("node", value));
  for (const char* value : {R"("")", R"("limited")", "null", "1"}) {
    bad.push_back(hold_with("kind", value));
  }
  bad.push_back(hold_with("unit", R"("apples")"));
  bad.push_back(hold_with("resource", R"("")"));
  for (const std::string& text : bad) {
    EXPECT_EQ(parse_hold(text), std::nullopt) << text;
    say(kHoldSubject, text);
  }
  EXPECT_EQ(b.signals.status(), (FleetSignalsStatus{.malformed = bad.size()}));
  EXPECT_TRUE(b.resources.find("api")->accounts().empty());
}

TEST_F(FleetSignalsTest, UpdatesThatAreMalformedDoNothingButCount) {
  const std::string good = fleet::format_capacity_update(update(time.wall())).value();
  const auto with = [&](std::string_view before, std::string_view after) {
    std::string text = good;
    return text.replace(text.find(before), before.size(), after);
  };
  const std::vector<std::string> bad{"",
                                     with("50", "0"),
                                     with("50", "-5"),
                                     with("50", "99999999999999999999"),
                                     with(R"("m")", "5"),
                                     with(R"("m")", '"' + std::string(257, 'm') + '"'),
                                     with(R"("9f86d081884c7d65")", "null"),
                                     with(R"("9f86d081884c7d65")", R"("own")"),
                                     with(R"("9f86d081884c7d65")", R"("")"),
                                     good + std::string(FleetSignals::kMessageBytesMax, ' ')};
  b.account();
  for (const std::string& text : bad) say(fleet::kCapacitySubject, text);
  EXPECT_EQ(b.signals.status(), (FleetSignalsStatus{.malformed = bad.size()}));
  EXPECT_EQ(b.held_for(), 0s);
}

TEST_F(FleetSignalsTest, NothingIsToldThatNobodyCouldRead) {
  a.answered(limited(30s), "latin: \xe9");
  a.answered(limited(), "latin2: \xe9");
  a.answered(limited(30s), std::string(257, 'm'));
  a.answered(limited(), std::string(257, 'n'));
  EXPECT_EQ(a.signals.status(), FleetSignalsStatus{});
  a.answered(limited(30s), std::string(256, '\x01'));
  bus->settle();
  EXPECT_EQ(b.held_for(std::string(256, '\x01')), 30s);
}

TEST_F(FleetSignalsTest, ABusThatIsClosedDoesNoHarm) {
  bus->close();
  a.answered(limited(30s), "m");
  a.answered(limited(), "n");
  EXPECT_EQ(a.held_for("m"), 30s);
  EXPECT_EQ(a.pace("n"), 60);
  EXPECT_EQ(a.signals.status(), (FleetSignalsStatus{.untold = 2}));
  Node late{bus, "late", time};
  late.answered(limited(30s));
  EXPECT_EQ(late.signals.status(), (FleetSignalsStatus{.untold = 1}));
}

TEST_F(FleetSignalsTest, ANodeThatIsGoneHearsNothing) {
  auto gone = std::make_unique<Node>(bus, "gone", time);
  gone.reset();
  a.answered(limited(30s));
  bus->settle();
  EXPECT_EQ(b.held_for(), 30s);
}

}  // namespace
}  // namespace weir
