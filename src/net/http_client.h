// A small HTTP/1.1 client on one connection, for the command line and for tests: it blocks.
//
// Not thread-safe. Keeps the connection alive and opens it anew when the server has closed it.
// Timeouts are real time. Does not follow redirects.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/core/error.h"

namespace weir::net {

struct Response {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> fields = {};
  std::string body = {};

  // The first field of this name, whatever its case; empty if there is none.
  std::string_view field(std::string_view name) const;
};

class HttpClient {
 public:
  struct Options {
    std::string host = "127.0.0.1";
    std::uint16_t port = 9347;
    std::string token = {};  // sent as Authorization: Bearer
    std::chrono::milliseconds connect_timeout{2'000};
  };
  struct Call {
    std::string method = "GET";
    std::string target = "/";
    std::string body = {};  // sent as application/json
    std::vector<std::pair<std::string, std::string>> fields = {};
    std::chrono::milliseconds timeout{10'000};  // for the whole answer
  };

  explicit HttpClient(Options options);
  ~HttpClient();
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;

  // Fails with kUnavailable when the server cannot be reached or breaks off, kDeadlineExceeded
  // after the timeout; the message names host and port. Fails with kCallFailed, and sends nothing,
  // if the method, the target or a field cannot be a part of HTTP. A request is sent a second time
  // only if a connection that was kept ended before any byte of the answer.
  Result<Response> call(const Call& call);
  Result<Response> get(std::string target) { return call({.target = std::move(target)}); }
  Result<Response> post(std::string target, std::string body) {
    return call({.method = "POST", .target = std::move(target), .body = std::move(body)});
  }

  // Reads an endless answer (SSE): `on_bytes` gets the body as it arrives, until it returns false
  // or the server ends it. The timeout is the longest silence. Returns the head.
  Result<Response> stream(const Call& call, const std::function<bool(std::string_view)>& on_bytes);

 private:
  enum class Timeout { kOfAll, kOfSilence };
  struct Connection;

  Result<Response> exchange(const Call& call, Timeout timeout,
                            const std::function<bool(std::string_view)>& on_bytes);

  Options options_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace weir::net
