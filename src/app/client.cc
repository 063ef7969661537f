#include "app/client.h"

#include <fmt/format.h>

#include <boost/json/parse.hpp>
#include <cstdlib>

#include "app/command_line.h"

namespace weir::app {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string{} : std::string{value};
}

std::string text_of(const boost::json::value& reply, std::string_view key) {
  const auto* object = reply.if_object();
  const auto* value = object != nullptr ? object->if_contains({key.data(), key.size()}) : nullptr;
  const auto* text = value != nullptr ? value->if_string() : nullptr;
  return text != nullptr ? std::string{text->data(), text->size()} : std::string{};
}

// Why not, as who sits at the command line can mend it.
std::string reason(const Client::Reply& reply) {
  if (reply.status == 401) return "this daemon wants a token that it knows: set WEIR_TOKEN";
  std::string message = text_of(reply.json, "message");
  constexpr std::string_view kList = "GET /v1/resources";
  if (const std::size_t at = message.find(kList); at != message.npos) {
    message.replace(at, kList.size(), "`weir resources`");
  }
  return message;
}

}  // namespace

std::expected<Client, int> Client::create(const ServerOptions& options) {
  std::string address = options.server.empty() ? environment("WEIR_SERVER") : options.server;
  constexpr std::string_view kScheme = "http://";
  if (address.starts_with(kScheme)) address.erase(0, kScheme.size());
  while (address.ends_with('/')) address.pop_back();
  net::HttpClient::Options http{.token = environment("WEIR_TOKEN")};
  if (!address.empty()) {
    const auto listen = parse_listen(address);
    if (!listen) {
      fmt::print(stderr, "weir: the daemon's address: {}\n", listen.error().message);
      return std::unexpected(kUsage);
    }
    http.host = listen->host;
    http.port = listen->port;
  }
  return Client{std::move(http)};
}

std::expected<net::Response, int> Client::raw(const net::HttpClient::Call& call) {
  auto response = http_.call(call);
  if (response) return std::move(*response);
  fmt::print(stderr, "weir: {}; is the daemon running? (weir start)\n", response.error().message);
  return std::unexpected(kUnreachable);
}

std::expected<Client::Reply, int> Client::call(net::HttpClient::Call call) {
  const auto response = raw(call);
  return response ? understood(*response) : std::unexpected(response.error());
}

std::expected<std::string, int> Client::bytes(std::string target) {
  auto response = raw({.target = std::move(target)});
  if (!response) return std::unexpected(response.error());
  if (response->status == 200) return std::move(response->body);
  const auto reply = understood(*response);
  return std::unexpected(reply ? kFailed : reply.error());
}

std::expected<Client::Reply, int> Client::understood(const net::Response& response) {
  boost::json::error_code error;
  Reply reply{.status = response.status, .text = response.body, .json = {}};
  reply.json = boost::json::parse(response.body, error);
  if (error || !reply.json.is_object()) {
    fmt::print(stderr, "weir: the answer is not a Weir daemon's; is this its address?\n");
    return std::unexpected(kFailed);
  }
  if (reply.status == 200 || reply.status == 201 || reply.status == 429) return reply;

  if (const auto* mistakes = reply.json.as_object().if_contains("mistakes");
      mistakes != nullptr && mistakes->is_array()) {
    for (const auto& mistake : mistakes->as_array()) {
      fmt::print(stderr, "{}\n", std::string_view{mistake.as_string()});
    }
    return std::unexpected(kUsage);
  }
  fmt::print(stderr, "weir: {}\n", reason(reply));
  return std::unexpected(reply.status == 400 || reply.status == 404 ? kUsage : kFailed);
}

int Client::status_of(const net::HttpClient::Call& call) {
  const auto response = http_.call(call);
  return response ? response->status : 0;
}

}  // namespace weir::app
