// add, sources, remove, check and status of sources, as processes.
#include "app/process_for_test.h"
#include "app/sources_for_test.h"

namespace weir::app {
namespace {

class SourceCommandsTest : public SourcesTest {
 protected:
  struct Ended {
    int code;
    std::string out;
    std::string err;
  };
  enum class Server : std::uint8_t { kDaemon, kNone };
  Ended weir(std::vector<std::string> arguments, Server server = Server::kDaemon) {
    arguments.insert(arguments.begin(), WEIR_PROGRAM);
    if (daemon != nullptr && server == Server::kDaemon) {
      arguments.insert(arguments.end(),
                       {"--server", "127.0.0.1:" + std::to_string(daemon->port())});
    }
    return run(std::move(arguments));
  }
  Ended run(std::vector<std::string> command) {
    Process process{std::move(command), directory.path("process" + std::to_string(++launched_))};
    const int code = process.wait();
    return {code, process.out(), process.err()};
  }

 private:
  int launched_ = 0;
};

TEST_F(SourceCommandsTest, AFolderAListAndStandardInputAreCheckedAndAdded) {
  start();
  const std::string define = "url: " + world.url() + "\n";
  directory.write("all/a.yaml", "name: a\n" + define);
  directory.write("all/b.yaml", "name: b\n" + define);
  const Ended checked = weir({"check", directory.path("all")}, Server::kNone);
  EXPECT_EQ(checked.code, 0) << checked.err;
  EXPECT_TRUE(checked.out.starts_with("a (http://") && checked.out.contains("\nb (http://"));
  const Ended added = weir({"add", directory.path("all")});
  EXPECT_EQ(added.out, "added a: every 1m, not limited\nadded b: every 1m, not limited\n");
  EXPECT_TRUE(added.err.contains("in memory alone")) << "not over a restart: " << added.err;
  const std::string list = directory.write(
      "list", "[{name: c, url: '" + world.url() + "'}, {name: d, url: '" + world.url() + "'}]");
  const auto piped = [&](const std::string& file) {
    const std::string command =
        fmt::format("exec {} add - --server 127.0.0.1:{} < {}", WEIR_PROGRAM, daemon->port(), file);
    return run({"/bin/sh", "-c", command});
  };
  EXPECT_EQ(piped(list).out, "added c: every 1m, not limited\nadded d: every 1m, not limited\n");
  const Ended wrong = piped(directory.write("bad", "name: e\nurl: nowhere\n"));
  EXPECT_EQ(wrong.code, 2);
  EXPECT_TRUE(wrong.err.starts_with("-:2:6: url: ")) << wrong.err;
  until([&] { return get("/metrics").response.body.contains("weir_sources{state=\"due\"} 0\n"); });
  const std::string status = weir({"status"}).out;
  EXPECT_TRUE(status.ends_with("\n4 sources, 0 due, 0 failing\n")) << status;
}

// What the daemon refuses after others were added.
TEST_F(SourceCommandsTest, ItIsSaidWhichWereAdded) {
  limited("api_key: CANARY-1\napi_key_parameter: appid\n");
  start("store: " + directory.path("weir.db") + "\n");
  directory.write("all/a.yaml", "name: a\nurl: " + world.url() + "\n");
  directory.write("all/b.yaml", "name: b\nurl: " + world.url("/?appid=x") + "\n");
  const Ended ended = weir({"add", directory.path("all")});
  EXPECT_EQ(ended.code, 2);
  EXPECT_EQ(ended.out, "added a: every 1m, within the limits of world\n");
  EXPECT_TRUE(ended.err.contains("url: holds a key")) << ended.err;
  EXPECT_TRUE(ended.err.ends_with("weir: 1 of 2 were added; b was not\n")) << ended.err;
  EXPECT_FALSE(ended.err.contains("in memory alone")) << ended.err;
}

// S4.8
TEST_F(SourceCommandsTest, AddListShowAndRemove) {
  limited("limit: 100\nperiod: 1m\n");
  start();
  world.answer(World::good("{\"price\":1}\n"));
  const std::string a = directory.write("a.yaml", "name: a\nurl: " + world.url("/a") + "\n");
  const std::string b =
      directory.write("b.yaml", "name: b\nurl: " + world.url("/b", "localhost") + "\nevery: 5m\n");
  const Ended added = weir({"add", a, b});
  EXPECT_EQ(added.code, 0) << added.err;
  EXPECT_EQ(added.out,
            "added a: every 1m, within the limits of world\nadded b: every 5m, not limited\n");
  until_last("a", 200);
  EXPECT_TRUE(weir({"add", a}).out.starts_with("replaced a"));
  const Ended table = weir({"sources"});
  EXPECT_TRUE(table.out.contains("SOURCE") && table.out.contains(world.url("/a"))) << table.out;
  EXPECT_EQ(boost::json::parse(weir({"sources", "--json"}).out).at("total").as_int64(), 2);
  const Ended shown = weir({"sources", "a"});
  EXPECT_TRUE(shown.out.contains("limited by world") && shown.out.contains("200")) << shown.out;
  EXPECT_TRUE(shown.out.contains("at most 1048576 bytes kept")) << shown.out;
  EXPECT_EQ(weir({"sources", "a", "--body"}).out, "{\"price\":1}\n");
  EXPECT_EQ(weir({"remove", "a"}).out, "removed a\n");
  EXPECT_EQ(weir({"remove", "a"}).code, 2);
  EXPECT_EQ(weir({"sources", "a"}).code, 2);
}

TEST_F(SourceCommandsTest, ABodyThatCannotBeWrittenIsAFailure) {
  start();
  add("a");
  until_last("a", 200);
  const Ended ended = run({"/bin/sh", "-c",
                           fmt::format("exec {} sources a --body --server 127.0.0.1:{} > /dev/full",
                                       WEIR_PROGRAM, daemon->port())});
  EXPECT_EQ(ended.code, 1);
  EXPECT_TRUE(ended.err.starts_with("weir: the body cannot be written: ")) << ended.err;
}

TEST_F(SourceCommandsTest, WhereTheDaemonIsGoneMidwayItIsSaidWhichWereAdded) {
  world.answer([&](const std::string&) {
    const std::string body = R"({"resource":null,"stored":true,"durable":true})";
    return world.count() > 1 ? std::string{"nothing that is HTTP\r\n\r\n"}
                             : fmt::format("HTTP/1.1 201 Created\r\nContent-Length: {}\r\n\r\n{}",
                                           body.size(), body);
  });
  for (const char* name : {"a", "b", "c"}) {
    directory.write(fmt::format("all/{}.yaml", name),
                    fmt::format("name: {}\nurl: https://a.example/\n", name));
  }
  const Ended ended = weir({"add", directory.path("all"), "--server", world.url("")});
  EXPECT_EQ(ended.code, 69);
  EXPECT_EQ(ended.out, "added a: every 1m, not limited\n");
  EXPECT_TRUE(ended.err.ends_with("weir: 1 of 3 were added; b was not\n")) << ended.err;
}

TEST_F(SourceCommandsTest, WhatIsRemovedWhileTheStoreIsAwayIsSaidNotToBeStored) {
  start("store: " + directory.path("weir.db") + "\n");
  add("a");
  until_last("a", 200);
  for (const char* end : {"", "-wal", "-shm"}) {
    std::filesystem::remove(directory.path("weir.db-sources") + end);
  }
  EXPECT_EQ(put("b", "url: " + world.url() + "\n").text("stored"), "false");
  EXPECT_TRUE(weir({"sources", "a"}).out.contains("the store is away: results are not known"));
  const Ended removed = weir({"remove", "a"});
  EXPECT_EQ(removed.code, 0);
  EXPECT_EQ(removed.err, "weir: a is gone, but the store is away: that is not stored yet\n");
}

TEST_F(SourceCommandsTest, MistakesHaveTheirPlaceAndNothingIsAdded) {
  start();
  const std::string good = directory.write("good.yaml", "name: a\nurl: " + world.url() + "\n");
  const std::string bad = directory.write("bad.yaml", "name: b\nurl: nowhere\nevery: 1y\n");
  const Ended ended = weir({"add", good, bad, directory.path("missing.yaml")});
  EXPECT_EQ(ended.code, 2);
  EXPECT_TRUE(ended.err.contains("bad.yaml:2:6: url: ")) << ended.err;
  EXPECT_TRUE(ended.err.contains("bad.yaml:3:8: every: ")) << ended.err;
  EXPECT_TRUE(ended.err.contains("missing.yaml: ")) << ended.err;
  EXPECT_EQ(get("/v1/sources").number("total"), 0);
  EXPECT_EQ(weir({"remove", "a/b"}).code, 2);
  EXPECT_EQ(weir({"sources", "--body"}).code, 2);
  EXPECT_TRUE(weir({"sources"}).out.contains("no sources yet"));
  for (const char* command : {"add", "sources", "remove"}) {
    EXPECT_TRUE(weir({command, "--help"}).out.contains("Example:\n  ")) << command;
  }
}

TEST_F(SourceCommandsTest, AnAnswerThatIsNoDaemonsIsSaidToBeNone) {
  for (const char* body : {"[]", "{}", R"({"sources":5})", "<html>"}) {
    world.answer(World::good(body));
    for (const char* command : {"sources", "status", "resources"}) {
      const Ended ended = weir({command, "--server", world.url("")});
      EXPECT_EQ(ended.code, 1) << command << body;
      EXPECT_TRUE(ended.err.starts_with("weir: the answer is not a Weir daemon's")) << ended.err;
    }
  }
}

TEST_F(SourceCommandsTest, WithoutADaemonTheyAreUnreachable) {
  const std::string file = directory.write("a.yaml", "name: a\nurl: https://a.example/\n");
  EXPECT_EQ(weir({"add", file, "--server", "127.0.0.1:1"}).code, 69);
  EXPECT_EQ(weir({"sources", "--server", "127.0.0.1:1"}).code, 69);
}

}  // namespace
}  // namespace weir::app
