#include "server/access.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>

#include "net/characters.h"
#include "net/host.h"

namespace weir::server {
namespace {

struct SentToken {
  std::string_view field = {};
  std::string_view token = {};
};

// The token of `X-Weir-Token`, of `Authorization: Bearer`, or of the field in which an SDK sends
// its key; empty if there is none.
SentToken token_of(const net::Fields& fields) {
  if (const auto token = fields.find("x-weir-token")) return {"x-weir-token", *token};
  const std::string_view authorization = fields.find("authorization").value_or("");
  constexpr std::string_view kBearer = "bearer ";
  if (authorization.size() > kBearer.size() &&
      net::same_ignoring_case(authorization.substr(0, kBearer.size()), kBearer)) {
    return {"authorization", authorization.substr(kBearer.size())};
  }
  for (const std::string_view field : {"x-api-key", "api-key", "x-goog-api-key"}) {
    if (const auto key = fields.find(field)) return {field, *key};
  }
  return {};
}

bool allows(Scope scope, Need need) {
  switch (need) {
    case Need::kNothing: return true;
    case Need::kClient: return scope == Scope::kClient || scope == Scope::kAdmin;
    case Need::kRead: return scope == Scope::kRead || scope == Scope::kAdmin;
    case Need::kAdmin: return scope == Scope::kAdmin;
  }
  return false;
}

std::string_view name(Need need) {
  constexpr std::array<std::string_view, 4> kNames{"", "client", "read", "admin"};
  return kNames[static_cast<std::size_t>(need)];
}

// An Origin is ours if it names the very host and port that the request went to.
bool same_origin(std::string_view origin, std::string_view host) {
  const std::size_t scheme = origin.find("://");
  return scheme != std::string_view::npos && origin.substr(scheme + 3) == host;
}

}  // namespace

Access::Hash Access::hash_of(std::string_view text) {
  Hash hash;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash.data());
  return hash;
}

bool Access::apply(const MainConfig& config) {
  auto rules = std::make_shared<Rules>();
  for (const TokenConfig& token : config.tokens) {
    rules->tokens.push_back({token.name, token.scope, hash_of(token.token.reveal())});
  }
  for (const std::string& host : config.hosts) {
    if (auto known = net::host_of(host)) rules->hosts.push_back(std::move(*known));
  }
  const std::lock_guard lock{mutex_};
  const bool changed = rules_ == nullptr || rules_->tokens != rules->tokens;
  rules_ = std::move(rules);
  return changed;
}

std::shared_ptr<const Access::Rules> Access::rules() const {
  const std::lock_guard lock{mutex_};
  return rules_;
}

std::expected<Identity, Denial> Access::check(const net::RequestHead& head, std::string_view peer,
                                              Need need, bool streams) const {
  const std::shared_ptr<const Rules> rules = this->rules();

  // The most frequent Host of all is told from its text.
  if (!head.host.starts_with("127.0.0.1:") && !head.host.starts_with("localhost:")) {
    const auto host = net::host_of(head.host);
    const bool known = host && (net::is_address(*host) || net::is_loopback(*host) ||
                                std::ranges::find(rules->hosts, *host) != rules->hosts.end());
    if (!known && !head.host.empty()) {
      return std::unexpected(
          Denial{421, "host_unknown",
                 "this server is not called \"" + std::string{head.host} +
                     "\"; names other than IP addresses and localhost are listed under `hosts` "
                     "in the main file"});
    }
  }

  const bool changes = head.method != "GET" && head.method != "HEAD";
  if (const auto origin = head.fields.find("origin"); origin && (changes || streams)) {
    if (!same_origin(*origin, head.host)) {
      return std::unexpected(Denial{
          403, "origin_refused",
          "requests from pages of another origin are refused: \"" + std::string{*origin} + "\""});
    }
  }

  if (need == Need::kNothing || rules->tokens.empty()) return Identity{.name = std::string{peer}};

  const SentToken sent = token_of(head.fields);
  if (sent.token.empty()) {
    return std::unexpected(
        Denial{401, "token_missing", "send a token: Authorization: Bearer … or X-Weir-Token: …"});
  }
  const Hash hash = hash_of(sent.token);
  const Token* found = nullptr;
  for (const Token& token : rules->tokens) {
    if (CRYPTO_memcmp(token.hash.data(), hash.data(), hash.size()) == 0) found = &token;
  }
  if (found == nullptr) {
    return std::unexpected(Denial{401, "token_unknown", "nobody has this token"});
  }
  if (!allows(found->scope, need)) {
    return std::unexpected(Denial{403, "scope_missing",
                                  "the token \"" + found->name + "\" has the scope " +
                                      std::string{weir::name(found->scope)} + "; this call needs " +
                                      std::string{name(need)}});
  }
  return Identity{.name = found->name, .scope = found->scope, .token_field = sent.field};
}

}  // namespace weir::server
