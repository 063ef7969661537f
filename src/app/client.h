// Client: the daemon as the commands see it. Says on stderr what went wrong, once.
#pragma once

#include <boost/json/value.hpp>
#include <expected>
#include <string>
#include <string_view>

#include "app/commands.h"
#include "net/http_client.h"

namespace weir::app {

class Client {
 public:
  // An exit code for an address that is none.
  static std::expected<Client, int> create(const ServerOptions& options);

  // The reply's body as it came, with its status: 200, 201 or 429. Everything else has been said,
  // and its exit code is the error.
  struct Reply {
    int status;
    std::string text;
    boost::json::value json;
  };
  std::expected<Reply, int> call(net::HttpClient::Call call);
  std::expected<Reply, int> get(std::string target) { return call({.target = std::move(target)}); }

  // A body that need not be JSON, of a 200.
  std::expected<std::string, int> bytes(std::string target);

  // Without a word: for what is best done quietly.
  int status_of(const net::HttpClient::Call& call);

 private:
  explicit Client(net::HttpClient::Options options) : http_(std::move(options)) {}
  std::expected<net::Response, int> raw(const net::HttpClient::Call& call);
  static std::expected<Reply, int> understood(const net::Response& response);

  net::HttpClient http_;
};

}  // namespace weir::app
