#include "config/main_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/file.h"
#include "config/limits.h"
#include "config/load.h"
#include "config/provider_file.h"
#include "net/host.h"
#include "redis/url.h"
#include "weir/limiter/provider_limiter.h"

namespace weir {
namespace {

constexpr std::size_t kTokenMin = 16;

constexpr std::array<std::pair<std::string_view, Scope>, 3> kScopes{
    {{"client", Scope::kClient}, {"read", Scope::kRead}, {"admin", Scope::kAdmin}}};
constexpr std::array<std::pair<std::string_view, Durability>, 3> kDurabilities{
    {{"exact", Durability::kExact},
     {"snapshot", Durability::kSnapshot},
     {"none", Durability::kNone}}};
constexpr std::array<std::pair<std::string_view, Sync>, 2> kSyncs{
    {{"process", Sync::kProcess}, {"power", Sync::kPower}}};
constexpr std::array<std::pair<std::string_view, OnStoreFailure>, 2> kOnStoreFailures{
    {{"deny", OnStoreFailure::kDeny}, {"memory", OnStoreFailure::kMemory}}};
constexpr std::array<std::pair<std::string_view, Fallback>, 5> kFallbacks{
    {{"deny", Fallback::kDeny},
     {"reserve", Fallback::kReserve},
     {"share", Fallback::kShare},
     {"open", Fallback::kOpen},
     {"local", Fallback::kLocal}}};

ProviderConfig read_seed_entry(Reading& reading, const Node& key, Fields& fields) {
  ProviderConfig provider;
  provider.name = key.text;
  provider.place = reading.place(key);
  if (fields.find("burst") != nullptr) {
    fields.mistake("burst",
                   "is gone: with approximate token estimates a burst would overrun the limit");
  }
  // Only what the document has; a value it leaves out is the document's own.
  const auto defaults = ProviderLimiters::defaults();
  const auto known = defaults.find(key.text);
  const bool has_tokens = fields.find("tokens_per_minute") != nullptr;
  const bool has_slots = fields.find("max_concurrency") != nullptr;
  const auto tokens = fields.whole("tokens_per_minute", kTokensPerMinuteMin, kAmountMax);
  const auto slots = fields.whole("max_concurrency", 1, kAmountMax);
  fields.finish();
  const auto add = [&](LimitSpec spec) {
    spec.name = Limit::create(spec, Instant{})->spec().name;
    provider.limits.push_back({std::move(spec)});
  };
  if (tokens) add(tokens_per_minute_limit(*tokens));
  if (!has_tokens && known != defaults.end()) {
    add(tokens_per_minute_limit(known->second.tokens_per_minute));
  }
  if (slots) add(LimitSpec::concurrency(*slots));
  if (!has_slots && known != defaults.end()) {
    add(LimitSpec::concurrency(known->second.max_concurrency));
  }
  return provider;
}

MainFile read_seed(Reading& reading, const Node& rate_limit) {
  constexpr std::string_view kPath = "agents.resilience.rate_limit";
  MainFile main;
  const auto entries = Fields::of(reading, rate_limit, std::string{kPath});
  if (!entries) return main;
  for (std::size_t i = 0; i < rate_limit.keys.size(); ++i) {
    const Node& key = rate_limit.keys[i];
    const std::string path = entries->path(excerpt(key.text));
    if (!is_name(key.text)) {
      reading.mistake(key, path, "a name is 1 to 64 letters, digits, dots, underscores or dashes");
    }
    claim_name(reading, key.text, key);
    if (auto fields = Fields::of(reading, rate_limit.items[i], path)) {
      main.providers.push_back(read_seed_entry(reading, key, *fields));
    }
  }
  return main;
}

bool holds_password(std::string_view url) {
  const std::size_t begin = url.find("://");
  if (begin == url.npos) return false;
  const auto authority = url.substr(begin + 3, url.find_first_of("/?#", begin + 3) - begin - 3);
  const std::size_t at = authority.rfind('@');
  return (at != authority.npos && authority.substr(0, at).find(':') != authority.npos) ||
         url.find("password=") != url.npos;
}

// A URL of one of `schemes`. Never quoted: it may hold a password.
Secret read_url(Fields& fields, std::string_view key,
                std::initializer_list<std::string_view> schemes) {
  auto url = fields.text(key, "a URL");
  if (!url) return {};
  if (std::ranges::none_of(schemes, [&](auto scheme) { return url->starts_with(scheme); })) {
    fields.mistake(key, fmt::format("must be a URL that begins with {}",
                                    fmt::join(schemes.begin(), schemes.end(), " or ")));
  } else if (url->starts_with("redis") || url->starts_with("unix")) {
    if (const auto address = redis::parse_url(*url); !address) {
      fields.mistake(key, address.error().message);
    }
  } else if (!net::host_of(*url)) {
    fields.mistake(key, "is not a URL with a host");
  }
  if (holds_password(*url)) check_secret_here(fields, key);
  return Secret{*std::move(url)};
}

Secret read_store(Fields& fields) {
  auto store = fields.text("store", "a path or a postgresql:// URL");
  if (!store) return {};
  // PostgreSQL's own URLs need no host: postgresql:///weir is a socket on this machine.
  const bool postgresql = store->starts_with("postgresql://") || store->starts_with("postgres://");
  if (store->find("://") != std::string::npos && !postgresql) {
    fields.mistake("store", "must be a path, or a URL that begins with postgresql://");
  }
  if (holds_password(*store)) check_secret_here(fields, "store");
  return Secret{postgresql ? *std::move(store) : fields.reading().resolve(*store)};
}

std::vector<std::string> read_hosts(Fields& fields) {
  std::vector<std::string> hosts;
  for (const auto& [node, path] : fields.list("hosts")) {
    auto host = node->kind == Node::Kind::kScalar ? net::host_of(node->text) : std::nullopt;
    if (!host || node->text.find_first_of("/@?#") != std::string::npos) {
      fields.reading().mistake(*node, path, "expected a host name such as weir.example.com");
    } else {
      hosts.push_back(*std::move(host));
    }
  }
  return hosts;
}

std::vector<TokenConfig> read_tokens(Fields& main) {
  std::vector<TokenConfig> tokens;
  auto auth = main.map("auth");
  if (!auth) return tokens;
  for (const auto& [node, path] : auth->list("tokens")) {
    TokenConfig& token = tokens.emplace_back();
    auto fields = Fields::of(main.reading(), *node, path);
    if (!fields) continue;
    for (const auto* key : {"name", "scope"}) fields->require(key);
    token.name = fields->name("name").value_or("");
    token.scope = fields->choice("scope", kScopes).value_or(Scope::kClient);
    const std::size_t mistakes = main.reading().mistakes.size();
    token.token = read_secret(*fields, "token");
    if (main.reading().mistakes.size() == mistakes && token.token.reveal().size() < kTokenMin) {
      main.reading().mistake(*node, path,
                             token.token.empty()
                                 ? "needs one of token, token_env and token_file"
                                 : fmt::format("a token has at least {} characters", kTokenMin));
    }
    fields->finish();
    for (const TokenConfig& other : std::span{tokens}.first(tokens.size() - 1)) {
      if (!token.name.empty() && other.name == token.name) {
        fields->mistake("name", fmt::format("two tokens have the name {}", token.name));
      }
      if (!token.token.empty() && other.token.reveal() == token.token.reveal()) {
        main.reading().mistake(*node, path,
                               fmt::format("is the same token as that of {}", other.name));
      }
    }
  }
  auth->finish();
  return tokens;
}

std::optional<FleetConfig> read_fleet(Fields& main) {
  auto fields = main.map("fleet");
  if (!fields) return {};
  FleetConfig fleet;
  fleet.redis = read_url(*fields, "redis", {"redis://", "rediss://", "unix://"});
  fleet.bus = read_url(*fields, "bus", {"nats://", "tls://", "redis://", "rediss://", "unix://"});
  if (fields->find("redis") == nullptr && fields->find("bus") == nullptr) {
    main.mistake("fleet", "needs redis or bus");
  }
  fleet.node = fields->name("node").value_or("");
  fleet.fallback = fields->choice("fallback", kFallbacks).value_or(fleet.fallback);
  if (const auto timeout = fields->whole("timeout_ms", 1, 10'000)) {
    fleet.timeout = std::chrono::milliseconds{*timeout};
  }
  if (const auto file = fields->text("ca_file", "a path")) {
    fleet.ca_file = fields->reading().resolve(*file);
  }
  fields->finish();
  return fleet;
}

void read_listen(Fields& fields, Listen& listen) {
  const auto text = fields.text("listen", "an address such as 127.0.0.1:9347");
  if (!text) return;
  const auto parsed = parse_listen(*text);
  if (parsed) {
    listen = *parsed;
  } else {
    fields.mistake("listen", parsed.error().message);
  }
}

}  // namespace

std::string_view name(Scope scope) {
  return std::ranges::find(kScopes, scope, &decltype(kScopes)::value_type::second)->first;
}

MainFile read_main(Reading& reading, const Node& root) {
  const Node* seed = &root;
  for (const auto* key : {"agents", "resilience", "rate_limit"}) {
    if (seed != nullptr) seed = seed->find(key);
  }
  if (seed != nullptr) return read_seed(reading, *seed);

  MainFile main;
  MainConfig& config = main.config;
  auto found = Fields::of(reading, root);
  if (!found) return main;
  Fields& fields = *found;
  read_listen(fields, config.listen);
  config.hosts = read_hosts(fields);
  config.store = read_store(fields);
  config.durability = fields.choice("durability", kDurabilities).value_or(config.durability);
  config.sync = fields.choice("sync", kSyncs).value_or(config.sync);
  config.on_store_failure =
      fields.choice("on_store_failure", kOnStoreFailures).value_or(config.on_store_failure);
  for (const auto& [node, path] : fields.list("providers")) {
    if (node->kind != Node::Kind::kScalar || node->text.empty()) {
      reading.mistake(*node, path, "expected the path of a file or a directory");
    } else {
      main.named.push_back({reading.resolve(node->text), {reading.place(*node), path, {}}});
    }
  }
  config.tokens = read_tokens(fields);
  config.fleet = read_fleet(fields);
  fields.finish();
  if (auto refusal = wide_open(config)) fields.mistake("listen", *std::move(refusal));
  return main;
}

}  // namespace weir
