// A cluster of six: three masters and their replicas.
#include <atomic>

#include "redis/client_for_test.h"
#include "redis/slots.h"

namespace weir::redis {
namespace {

class ClientClusterTest : public ClientTest {
 protected:
  void set_slot(int which, int slot, const std::string& state, const std::string& id) {
    cluster_.node(which).cli({"CLUSTER", "SETSLOT", std::to_string(slot), state, id});
  }
  // As redis-cli moves a slot: both know, then the keys go, then everybody is told.
  void begin_move(int slot, int from, int to) {
    set_slot(to, slot, "IMPORTING", cluster_.id(from));
    set_slot(from, slot, "MIGRATING", cluster_.id(to));
  }
  void move_key(const std::string& key, int from, int to) {
    cluster_.node(from).cli(
        {"MIGRATE", "127.0.0.1", std::to_string(cluster_.node(to).port()), key, "0", "5000"});
  }
  void end_move(int slot, int from, int to) {
    const std::string id = cluster_.id(to);
    set_slot(to, slot, "NODE", id);
    set_slot(from, slot, "NODE", id);
  }

  RedisCluster cluster_;
  std::shared_ptr<Client> client_ = connect(cluster_.url());
};

// S2.6
TEST_F(ClientClusterTest, SendsEachKeyToItsMasterAndFollowsSlotsThatMoveUnderLoad) {
  for (int i = 0; i < 100; ++i) {
    const std::string key = "key" + std::to_string(i);
    EXPECT_EQ(say(*client_, {"SET", key, key}), "OK");
  }
  int kept = 0;
  for (int which = 0; which < 3; ++which) kept += std::stoi(cluster_.node(which).cli({"DBSIZE"}));
  EXPECT_EQ(kept, 100);
  Status status = client_->status();
  EXPECT_TRUE(status.up && status.cluster);
  EXPECT_TRUE(eventually([&] { return client_->status().connects == 3; }));
  EXPECT_NE(client_->server("{a}").run_id, client_->server("{b}").run_id);
  EXPECT_NE(client_->ask("", {"DBSIZE"}, in(10s))->integer, 0);

  const Script script{"return redis.call('incr', KEYS[1]) + redis.call('incr', KEYS[2])"};
  for (int i = 1; i <= 20; ++i) {
    const std::string tag = "{" + std::to_string(i) + "}";
    EXPECT_EQ(as_text(run(*client_, script, {tag + "a", tag + "b"}, {})), "2");
  }

  const int slot = slot_of("{moving}");
  const int from = cluster_.master_of(slot);
  const int to = (from + 1) % 3;
  std::atomic<bool> stop = false;
  std::atomic<int> answered = 0;
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (std::int64_t last = 0; !stop; ++answered) {
        const Answer answer = client_->ask("{moving}", {"INCR", "{moving}"}, in(10s));
        if (!answer || answer->integer <= last) ++wrong;
        if (answer) last = answer->integer;
      }
    });
  }
  const auto after_more = [&] {
    const int before = answered;
    EXPECT_TRUE(eventually([&] { return answered > before + 50; }));
  };
  for (int round = 0; round < 3; ++round) {
    const int source = round % 2 == 0 ? from : to;
    const int target = round % 2 == 0 ? to : from;
    after_more();
    begin_move(slot, source, target);
    after_more();
    move_key("{moving}", source, target);
    after_more();
    end_move(slot, source, target);
  }
  after_more();
  stop = true;
  callers.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(say(*client_, {"GET", "{moving}"}), std::to_string(answered));
  EXPECT_TRUE(cluster_.node(to).cli({"INFO", "commandstats"}).contains("cmdstat_asking:calls="));
  EXPECT_TRUE(cluster_.node(from).cli({"INFO", "errorstats"}).contains("errorstat_MOVED"));
  EXPECT_EQ(client_->status().failures, 0U);

  // Keys that are on both sides of a move: it is tried until the move is over.
  const std::string a = "{moving}a";
  const std::string b = "{moving}b";
  EXPECT_EQ(say(*client_, {"MSET", a, "1", b, "2"}), "OK");
  begin_move(slot, to, from);
  move_key(a, to, from);
  EXPECT_TRUE(eventually([&] {
    const Answer half = client_->ask(a, {"MGET", a, b}, in(100ms));
    return half && half->text.starts_with("TRYAGAIN");
  }));
  std::promise<Answer> both;
  client_->call(a, {"MGET", a, b}, in(20s),
                [&](Answer answer) { both.set_value(std::move(answer)); });
  move_key(b, to, from);
  end_move(slot, to, from);
  const Answer answer = both.get_future().get();
  ASSERT_TRUE(answer && answer->items.size() == 2);
  EXPECT_EQ(answer->items[0].text + answer->items[1].text, "12");
}

// S2.6
TEST_F(ClientClusterTest, GoesOnWithTheReplicaThatTakesTheFirstMastersPlace) {
  const std::string key = [&] {
    for (int i = 0;; ++i) {
      std::string candidate = "key" + std::to_string(i);
      if (cluster_.master_of(slot_of(candidate)) == 0) return candidate;
    }
  }();
  std::atomic<int> heard = 0;
  const auto id = client_->subscribe("channel", [&](std::string_view) { ++heard; });
  ASSERT_TRUE(eventually([&] { return client_->subscribed(); }));
  ASSERT_EQ(say(*client_, {"SET", key, "1"}), "OK");
  const std::string run_id = client_->server(key).run_id;
  // The replica has it.
  ASSERT_EQ(cluster_.node(0).cli({"WAIT", "1", "10000"}), "1");

  cluster_.let_replicas_take_over();
  cluster_.node(0).kill();
  EXPECT_TRUE(eventually([&] { return say(*client_, {"INCR", key}) == "2"; }));
  EXPECT_TRUE(client_->status().up);
  EXPECT_NE(client_->server(key).run_id, run_id);
  EXPECT_NE(client_->server(key).run_id, "");
  EXPECT_EQ(client_->ask("", {"PING"}, in(10s))->text, "PONG");
  // The subscriptions go to another node, and a message from any to all.
  ASSERT_TRUE(eventually([&] { return client_->subscribed(); }));
  EXPECT_TRUE(eventually([&] {
    static_cast<void>(client_->ask("", {"PUBLISH", "channel", "x"}, in(10s)));
    return heard > 0;
  }));
  client_->unsubscribe(id);
}

}  // namespace
}  // namespace weir::redis
