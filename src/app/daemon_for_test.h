// A daemon for tests: real sockets on a free port, files in a temporary directory, stepped time.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <filesystem>
#include <functional>
#include <future>
#include <string>
#include <thread>

#include "app/daemon.h"
#include "core/temporary_directory_for_test.h"
#include "net/http_client.h"
#include "time/eventually_for_test.h"
#include "weir/time/simulated_time.h"

namespace weir::app {

class DaemonTest : public ::testing::Test {
 protected:
  DaemonTest() {
    log_file_ = ::open(directory.path("log").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
    log_ = std::make_unique<server::Log>(log_file_, server::Log::Format::kJson, time);
  }
  ~DaemonTest() override {
    daemon.reset();
    close(log_file_);
  }

  // A provider file, read by the next start() or reload().
  void provider(const std::string& name, const std::string& text) {
    directory.write("providers/" + name + ".yaml", text);
  }

  // With the provider files, and `main_file` if it is not empty.
  void start(const std::string& main_file = {}) {
    Daemon::Options options{.files = {}, .listen = Listen{.host = "127.0.0.1", .port = 0}};
    std::filesystem::create_directories(directory.path("providers"));
    options.files.provider_dirs.push_back(directory.path("providers"));
    if (!main_file.empty()) options.files.main_file = directory.write("weir.yaml", main_file);
    options.threads = 2;
    auto started = Daemon::start(std::move(options), time.source(), *log_);
    ASSERT_TRUE(started) << started.error().lines.front();
    daemon = std::move(*started);
  }

  net::HttpClient client(std::string token = {}) const {
    return net::HttpClient{{.port = daemon->port(), .token = std::move(token)}};
  }

  // Nobody waits that long, unless something is wrong.
  static constexpr std::chrono::minutes kLongEnough{2};

  struct Answer {
    int status = 0;
    boost::json::value json;
    net::Response response;

    std::string text(std::string_view key) const {
      return boost::json::serialize(json.at({key.data(), key.size()}));
    }
    std::int64_t number(std::string_view key) const {
      return json.at({key.data(), key.size()}).as_int64();
    }
    std::string permit() const {
      return std::string{std::string_view{json.at("permit").as_string()}};
    }
  };
  Answer call(const net::HttpClient::Call& call) {
    net::HttpClient http = client();
    const auto response = http.call(call);
    if (!response) {
      ADD_FAILURE() << response.error().message;
      return {};
    }
    boost::json::error_code error;
    return {response->status, boost::json::parse(response->body, error), *response};
  }
  Answer get(const std::string& target) { return call({.target = target}); }
  Answer post(const std::string& target, const std::string& body) {
    return call({.method = "POST", .target = target, .body = body, .timeout = kLongEnough});
  }
  Answer acquire(const std::string& body) { return post("/v1/acquire", body); }

  // An acquire that waits, answered in its own time.
  std::future<Answer> acquire_waiting(const std::string& body) {
    return std::async(std::launch::async, [this, body] { return acquire(body); });
  }
  // Until as many wait at the resource.
  void until_waiting(const std::string& resource, std::int64_t wanted) {
    while (get("/v1/resources/" + resource).number("waiting") != wanted) nap();
  }

  std::string log() const { return directory.read("log"); }

  TemporaryDirectory directory;
  SimulatedTime time;

 private:
  int log_file_;
  std::unique_ptr<server::Log> log_;

 protected:
  std::unique_ptr<Daemon> daemon;
};

}  // namespace weir::app
