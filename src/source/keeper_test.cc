// The keeper on a real SQLite file, in stepped time: what is written, in which order, and what
// happens while the store is away.
#include "source/keeper.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <future>

#include "core/temporary_directory_for_test.h"
#include "store/fault_vfs_for_test.h"
#include "weir/time/simulated_time.h"

namespace weir::source {
namespace {

using namespace std::chrono_literals;
using store::FaultVfs;

class KeeperTest : public ::testing::Test {
 protected:
  void open(const std::string& vfs = {}) {
    keeper = std::make_unique<Keeper>(
        Keeper::Parts{.store = {.where = directory.path("weir.db"), .vfs = vfs},
                      .time = time.source(),
                      .loaded = [this](auto rows) { loaded = std::move(rows); },
                      .all = [this] { return all; },
                      .told = [this](const Keeper::Status& status) { told(status); }});
    const auto started = keeper->start();
    ASSERT_TRUE(started) << started.error().message;
  }
  void told(const Keeper::Status& status) {
    const std::lock_guard lock{mutex};
    states.push_back(status.open);
    messages.push_back(status.message);
  }
  std::vector<bool> all_states() {
    const std::lock_guard lock{mutex};
    return states;
  }
  static store::SourceRow row(const std::string& name) {
    return {.name = name, .definition = "{}"};
  }
  static store::SourceBatch::Outcome outcome(const std::string& name, std::string bytes) {
    return {.name = name,
            .result = {.status = 200},
            .body = store::SourceBody{.status = 200, .bytes = std::move(bytes)}};
  }
  bool put(const std::string& name) {
    std::promise<bool> stored;
    const bool told = keeper->put(row(name), [&](bool good) { stored.set_value(good); });
    return told && stored.get_future().get();
  }
  bool remove(const std::string& name) {
    std::promise<bool> stored;
    const bool told = keeper->remove(name, [&](bool good) { stored.set_value(good); });
    return told && stored.get_future().get();
  }
  // The store fails from now on; `put` sees it.
  void lose_the_store() {
    faults.arm(0, FaultVfs::Fault::kFull, FaultVfs::Lasts::kFromThenOn);
    EXPECT_FALSE(put("a"));
  }
  void find_the_store() {
    while (!time.next_alarm()) std::this_thread::yield();  // asleep until it tries again
    faults.disarm();
    time.advance(Keeper::kRetryAfter);
    while (!keeper->status().open) std::this_thread::yield();
  }
  // The latest body, or "none", or "away".
  std::string body(const std::string& name) {
    std::promise<std::string> bytes;
    keeper->ask([&](store::SourceStore* store) {
      if (store == nullptr) {
        bytes.set_value("away");
        return true;
      }
      const auto kept = store->body(name);
      bytes.set_value(!kept ? "failed" : *kept ? (*kept)->bytes : "none");
      return kept.has_value();
    });
    return bytes.get_future().get();
  }
  std::vector<std::string> names_after_reopening() {
    keeper.reset();
    open();
    std::vector<std::string> names;
    for (const store::SourceRow& each : loaded) names.push_back(each.name);
    return names;
  }

  TemporaryDirectory directory;
  SimulatedTime time;
  FaultVfs faults;
  std::mutex mutex;
  std::vector<bool> states;
  std::vector<std::string> messages;
  std::vector<store::SourceRow> loaded;
  std::vector<store::SourceRow> all;  // as who uses it has them, when the store is opened again
  std::unique_ptr<Keeper> keeper;
};

TEST_F(KeeperTest, WhatIsPutIsThereAfterwardsAndWhatIsRemovedIsNot) {
  open();
  for (const char* name : {"a", "b", "c"}) EXPECT_TRUE(put(name));
  EXPECT_TRUE(remove("b"));
  EXPECT_EQ(names_after_reopening(), (std::vector<std::string>{"a", "c"}));
}

TEST_F(KeeperTest, WhoAsksSeesWhatCameBefore) {
  open();
  keeper->put(row("a"), {});
  keeper->add(row("a"), outcome("a", "one"));
  keeper->add(row("a"), outcome("a", "two"));
  EXPECT_EQ(body("a"), "two");
  keeper->remove("a", {});
  EXPECT_EQ(body("a"), "none");
  keeper->put(row("a"), {});
  EXPECT_EQ(body("a"), "none");
}

TEST_F(KeeperTest, RemovedAndAddedAgainInOneGoIsThere) {
  open();
  for (int i = 0; i < 50; ++i) {
    keeper->put(row("a"), {});
    keeper->add(row("a"), outcome("a", "old"));
    keeper->remove("a", {});
    keeper->put(row("a"), {});
  }
  EXPECT_EQ(body("a"), "none");
  EXPECT_EQ(names_after_reopening(), (std::vector<std::string>{"a"}));
}

TEST_F(KeeperTest, ClosingWritesWhatThereIs) {
  open();
  for (int i = 0; i < 100; ++i) keeper->put(row(std::to_string(i)), {});
  EXPECT_EQ(names_after_reopening().size(), 100U);
}

TEST_F(KeeperTest, AStoreThatFailsIsOpenedAgainAndNothingIsLost) {
  open(FaultVfs::name());
  EXPECT_TRUE(put("a"));
  lose_the_store();
  EXPECT_FALSE(put("b"));
  EXPECT_FALSE(keeper->status().open);
  EXPECT_FALSE(keeper->status().message.empty());
  EXPECT_EQ(body("a"), "away");
  keeper->add(row("a"), outcome("a", "meanwhile"));
  find_the_store();
  EXPECT_EQ(body("a"), "meanwhile");
  EXPECT_EQ(all_states(), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(names_after_reopening(), (std::vector<std::string>{"a", "b"}));
}

// Somebody has removed it, or put an older copy in its place.
TEST_F(KeeperTest, AnotherStoreInItsPlaceGetsAllThatThereIs) {
  open();
  for (const char* name : {"a", "old"}) EXPECT_TRUE(put(name));
  const std::string file = directory.path("weir.db-sources");
  keeper.reset();
  std::filesystem::copy_file(file, file + ".copy");
  open();
  EXPECT_TRUE(remove("old"));
  EXPECT_TRUE(put("b"));
  std::filesystem::rename(file + ".copy", file);
  for (const char* end : {"-wal", "-shm"}) std::filesystem::remove(file + end);
  all = {row("a"), row("b"), row("c")};
  EXPECT_FALSE(put("c"));
  find_the_store();
  EXPECT_EQ(body("a"), "none");
  EXPECT_EQ(names_after_reopening(), (std::vector<std::string>{"a", "b", "c"}));
}

TEST_F(KeeperTest, ClosingSaysOfHowManySourcesSomethingIsLost) {
  open(FaultVfs::name());
  EXPECT_TRUE(put("b"));
  all = {row("a")};
  lose_the_store();
  keeper->add(row("a"), outcome("a", "x"));
  keeper->remove("b", {});
  while (!time.next_alarm()) std::this_thread::yield();
  EXPECT_EQ(keeper->close(), 2U);
  EXPECT_EQ(keeper->close(), 0U);
}

TEST_F(KeeperTest, AnotherReasonIsTold) {
  open(FaultVfs::name());
  all = {row("a")};
  lose_the_store();
  while (!time.next_alarm()) std::this_thread::yield();
  faults.arm(0, FaultVfs::Fault::kReadOnly, FaultVfs::Lasts::kFromThenOn);
  time.advance(Keeper::kRetryAfter);
  while (all_states().size() < 3) std::this_thread::yield();
  EXPECT_EQ(all_states(), (std::vector<bool>{true, false, false}));
  const std::lock_guard lock{mutex};
  EXPECT_NE(messages[1], messages[2]);
}

TEST_F(KeeperTest, ABatchIsClosedBeforeABodyThatWouldBeTooMuch) {
  open(FaultVfs::name());
  EXPECT_TRUE(put("a"));
  lose_the_store();
  const std::string most(Keeper::kBatchBytes - 10'000, 'x');
  for (int i = 0; i < 3; ++i) keeper->add(row("a"), outcome("a", most));
  const auto before = keeper->status().commits;
  find_the_store();
  EXPECT_EQ(body("a"), most);
  EXPECT_EQ(keeper->status().commits, before + 3);
}

TEST_F(KeeperTest, NobodyWaitsForAStoreThatIsAway) {
  open(FaultVfs::name());
  lose_the_store();
  EXPECT_FALSE(keeper->put(row("b"), [](bool) { ADD_FAILURE() << "told after all"; }));
  EXPECT_FALSE(keeper->remove("a", [](bool) { ADD_FAILURE() << "told after all"; }));
  find_the_store();
  EXPECT_EQ(names_after_reopening(), (std::vector<std::string>{"b"}));
}

TEST_F(KeeperTest, WhatCannotBeWrittenIsBounded) {
  open(FaultVfs::name());
  EXPECT_TRUE(put("gone"));
  lose_the_store();
  for (const char* name : {"b", "c"}) keeper->put(row(name), {});
  keeper->remove("gone", {});
  for (int i = 0; i < 100; ++i) {
    keeper->add(row("a"), outcome("a", std::string(1'000'000, i < 99 ? 'x' : 'y')));
    if (i == 10) keeper->remove("b", {});
  }
  EXPECT_GE(keeper->status().given_up, 30U);
  EXPECT_TRUE(keeper->has_room());  // sources go on
  find_the_store();
  EXPECT_EQ(body("a"), std::string(1'000'000, 'y'));
  // The batches whose results were given up are no longer there.
  EXPECT_LE(keeper->status().commits, 1 + Keeper::kPendingMax / Keeper::kBatchBytes);
  EXPECT_EQ(names_after_reopening(), (std::vector<std::string>{"a", "c"}));
}

TEST_F(KeeperTest, AStoreInUseIsAwaited) {
  open();
  EXPECT_TRUE(put("a"));
  auto first = std::move(keeper);
  loaded.clear();
  open();
  EXPECT_FALSE(keeper->loaded());
  EXPECT_EQ(body("a"), "away");
  while (!time.next_alarm()) std::this_thread::yield();
  first.reset();
  time.advance(Keeper::kRetryAfter);
  while (!keeper->loaded()) std::this_thread::yield();
  EXPECT_EQ(loaded.size(), 1U);
}

TEST_F(KeeperTest, AStoreThatIsNoneIsAFailure) {
  directory.write("weir.db-sources", std::string(10'000, 'x'));
  Keeper other{{.store = {.where = directory.path("weir.db")},
                .time = time.source(),
                .loaded = [](auto) {},
                .all = [] { return std::vector<store::SourceRow>{}; },
                .told = [](const auto&) {}}};
  const auto started = other.start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().fault, store::Fault::kCorrupt);
}

}  // namespace
}  // namespace weir::source
