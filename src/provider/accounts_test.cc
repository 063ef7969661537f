// The accounts of a provider, and the way of a request through them.
#include "provider/accounts.h"

#include "provider/resources_for_test.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

using Names = std::vector<std::string>;

Signals refusal(Signals::Kind kind, Nanos time) {
  Signals signals;
  signals.kind = kind;
  (kind == Signals::Kind::kExhausted ? signals.resets_in : signals.retry_after) = time;
  return signals;
}

struct AccountsTest : testing::Test {
  void hold(const std::shared_ptr<Account>& account, Nanos length) {
    account->answered(refusal(Signals::Kind::kLimited, length), Cost::call(), time.now());
  }

  SimulatedTime time;
  Accounts accounts{"p", time.source(), /*accounts_max=*/3};
};

TEST_F(AccountsTest, AreToldApartByCredentialAndModel) {
  EXPECT_EQ(accounts.find("k1", "m"), nullptr);
  const auto account = accounts.at("k1", "m");
  EXPECT_EQ(account->gate().name(), "p account m");
  EXPECT_EQ(accounts.at("k1", "m"), account);
  EXPECT_EQ(accounts.find("k1", "m"), account);
  EXPECT_NE(accounts.at("k2", "m"), account);
  EXPECT_NE(accounts.at("k1", ""), account);
  EXPECT_EQ(accounts.all().size(), 3U);
}

TEST_F(AccountsTest, OneAtRestMakesRoomAndOneThatLearntOfAHoldStays) {
  hold(accounts.at("k", "1"), 10min);
  accounts.at("k", "2");
  accounts.at("k", "3");
  for (int i = 4; i < 20; ++i) accounts.at("k", std::to_string(i));
  EXPECT_EQ(accounts.all().size(), 3U);
  ASSERT_NE(accounts.find("k", "1"), nullptr);
  EXPECT_FALSE(accounts.find("k", "1")->at_rest());
}

TEST_F(AccountsTest, WhoFindsNoRoomSharesOne) {
  for (const char* model : {"1", "2", "3"}) hold(accounts.at("k", model), 10min);
  const auto shared = accounts.at("k", "4");
  EXPECT_EQ(accounts.at("other", "5"), shared);
  EXPECT_EQ(accounts.all().size(), 4U);
  time.advance(1h);
  EXPECT_NE(accounts.at("k", "4"), shared);
  EXPECT_EQ(accounts.at("k", std::string(257, 'x')), shared);
}

struct AccountRouteTest : ResourcesTest {
  AccountRouteTest() { EXPECT_TRUE(resources.apply({provider("p", {requests_each(100, 1min)})})); }
  void answer(const Caller& caller, const Signals& signals) {
    const auto route = resources.find("p")->route(caller).value();
    route.account->answered(signals, Cost::call(), time.now());
  }
  void hold(const Caller& caller) { answer(caller, refusal(Signals::Kind::kLimited, 20s)); }
};

TEST_F(AccountRouteTest, TheAccountIsTheLastGateOfThePath) {
  ASSERT_TRUE(resources.apply(
      {provider("q", {requests_each(9, 1min)}, {{.pattern = "m", .limits = {tokens_each(9, 1min)}}},
                {{.pattern = "*", .limits = {requests_each(9, 1min)}}})}));
  const Passage passage = pass("q", {.agent = "a", .model = "m", .account = "k"});
  Names names;
  for (const Gate* gate : passage.route.path.gates()) names.push_back(gate->name());
  EXPECT_EQ(names, (Names{"q agent a", "q model m", "q", "q account m"}));
}

TEST_F(AccountRouteTest, AHoldStopsThatCredentialAndModelAlone) {
  hold({.model = "m", .account = "k1"});
  EXPECT_FALSE(pass("p", {.model = "m", .account = "k1"}));
  EXPECT_TRUE(pass("p", {.model = "other", .account = "k1"}));
  EXPECT_TRUE(pass("p", {.model = "m", .account = "k2"}));
  EXPECT_TRUE(pass("p", {.model = "m"}));
  EXPECT_EQ(resources.find("p")->gate().metrics().limits[0].available, 97);
}

TEST_F(AccountRouteTest, WhoBringsNoCredentialStopsWithTheProvidersOwn) {
  EXPECT_EQ(pass("p", {.model = "m"}).route.account, nullptr);
  hold({.model = "m", .account = Resource::kOwnAccount});
  EXPECT_FALSE(pass("p", {.model = "m"}));
  EXPECT_TRUE(pass("p", {.model = "other"}));
  EXPECT_TRUE(pass("p"));
  hold({.account = Resource::kOwnAccount});
  EXPECT_FALSE(pass("p"));
  time.advance(20s);
  EXPECT_TRUE(pass("p", {.model = "m"}));
}

TEST_F(AccountRouteTest, ResumingTheProviderResumesItsAccounts) {
  hold({.model = "m", .account = "k"});
  answer({.model = "n", .account = "k"}, refusal(Signals::Kind::kExhausted, 5h));
  wait("p", {.model = "m", .account = "k"});
  resources.find("p")->resume();
  EXPECT_EQ(ended_now(), Names{"admitted"});
  EXPECT_TRUE(pass("p", {.model = "n", .account = "k"}));
}

TEST_F(AccountRouteTest, AnotherKeyIsAnotherAccount) {
  hold({.model = "m", .account = Resource::kOwnAccount});
  hold({.model = "m", .account = "k"});
  wait("p", {.model = "m"});
  ProviderConfig config = provider("p", {requests_each(100, 1min)});
  ASSERT_TRUE(resources.apply({config}));
  EXPECT_FALSE(pass("p", {.model = "m"}));
  config.api_key = Secret{"new"};
  ASSERT_TRUE(resources.apply({config}));
  EXPECT_EQ(ended_now(), Names{"admitted"});
  EXPECT_TRUE(pass("p", {.model = "m", .account = Resource::kOwnAccount}));
  EXPECT_FALSE(pass("p", {.model = "m", .account = "k"}));
}

}  // namespace
}  // namespace weir
