#include "proxy/proxy.h"

#include <fmt/format.h>
#include <openssl/sha.h>

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "net/characters.h"
#include "net/field_names.h"
#include "provider/answers.h"
#include "server/connection.h"
#include "server/loop.h"
#include "server/text.h"

namespace weir::proxy {
namespace {

constexpr std::string_view kPrefix = "/proxy/";
constexpr std::size_t kAgentBytesMax = 256;
constexpr int kPriorityMax = 100;

// "/proxy/openai/v1/models" → openai, /v1/models
struct Place {
  std::string_view provider;
  std::string_view path;
};

Place place_of(std::string_view path) {
  path.remove_prefix(kPrefix.size());
  const std::size_t slash = std::min(path.find('/'), path.size());
  return {path.substr(0, slash), slash == path.size() ? "/" : path.substr(slash)};
}

std::unexpected<Outcome> refuse(const ProviderConfig& provider, int status, std::string_view code,
                                std::string_view message) {
  return std::unexpected(refusal_outcome(provider, status, code, message));
}

// Text that may name an agent: printable, UTF-8.
bool is_name(std::string_view text) {
  if (text.empty() || text.size() > kAgentBytesMax) return false;
  std::size_t more = 0;  // bytes of a character still to come
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (more > 0) {
      if ((byte & 0xC0U) != 0x80U) return false;
      --more;
    } else if (byte >= 0x80) {
      if (byte < 0xC2 || byte > 0xF4) return false;
      more = byte >= 0xF0 ? 3 : byte >= 0xE0 ? 2 : 1;
    } else if (byte < 0x20 || byte == 0x7F) {
      return false;
    }
  }
  return more == 0;
}

// Seconds, decimals allowed.
std::optional<Nanos> parse_seconds(std::string_view text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  if (!(seconds >= 0 && seconds <= 86'400)) return {};
  return std::chrono::duration_cast<Nanos>(std::chrono::duration<double>{seconds});
}

std::optional<int> parse_priority(std::string_view text) {
  int priority = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), priority);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  if (priority < -kPriorityMax || priority > kPriorityMax) return {};
  return priority;
}

// Whose quota a request falls under: the configured key's, or that of the key it brings.
std::string credential_of(const ProviderConfig& provider, const server::HttpRequest& http) {
  if (!provider.pass_client_key) return std::string{Resource::kOwnAccount};
  for (const net::Field& field : http.head.fields.all()) {
    if (!net::is_credential_field(field.name)) continue;
    if (net::same_ignoring_case(field.name, http.client.token_field)) continue;
    std::array<unsigned char, 32> hash;
    SHA256(reinterpret_cast<const unsigned char*>(field.value.data()), field.value.size(),
           hash.data());
    return fmt::format("{:02x}", fmt::join(std::span{hash}.first(8), ""));
  }
  return "none";
}

}  // namespace

// The connections to providers of one loop.
class Proxy::Connections final : public server::LoopPart {
 public:
  Connections(server::Loop& loop, const Parts& parts)
      : pool_(loop.io, parts.clock, parts.tls, net::UpstreamPool::Options{}) {}

  void sweep() override { pool_.sweep(); }
  net::UpstreamPool& pool() { return pool_; }

  // Parsed once. Null for what is no URL of a server.
  const std::shared_ptr<const net::Origin>& origin(const std::string& upstream) {
    const auto known = origins_.find(upstream);
    if (known != origins_.end()) return known->second;
    if (origins_.size() >= Resources::kResourcesMax) origins_.clear();
    const auto parsed = net::Origin::parse(upstream);
    return origins_
        .emplace(upstream, parsed ? std::make_shared<const net::Origin>(*parsed) : nullptr)
        .first->second;
  }

 private:
  net::UpstreamPool pool_;
  std::unordered_map<std::string, std::shared_ptr<const net::Origin>> origins_;
};

Proxy::Proxy(Parts parts)
    : parts_(std::move(parts)),
      house_{.resources = parts_.resources,
             .events = parts_.events,
             .log = parts_.log,
             .clock = parts_.clock,
             .fleet = parts_.fleet} {}

Proxy::~Proxy() = default;

void Proxy::add_routes(server::Router& router) {
  const auto provider_at = [this](const net::RequestHead& head) {
    const auto resource = parts_.resources.find(place_of(head.path).provider);
    return resource == nullptr ? nullptr : resource->config();
  };
  router.add({.method = "*",
              .pattern = std::string{kPrefix},
              .need = server::Need::kClient,
              .handler = [this](const server::HttpRequest& http,
                                server::Responder& responder) { handle(http, responder); },
              .body_max =
                  [provider_at](const net::RequestHead& head) {
                    const auto provider = provider_at(head);
                    return provider == nullptr ? server::Connection::kBodyMax
                                               : static_cast<std::size_t>(provider->max_body);
                  },
              .deny =
                  [provider_at](const net::RequestHead& head, const server::Denial& denial,
                                server::Responder& responder) {
                    const auto provider = provider_at(head);
                    if (provider == nullptr) {
                      return responder.error(denial.status, denial.code, denial.message);
                    }
                    const Outcome outcome =
                        refusal_outcome(*provider, denial.status, denial.code, denial.message);
                    responder.reply(
                        {.status = denial.status,
                         .body = outcome.body,
                         .fields = denial.status == 401 ? "WWW-Authenticate: Bearer\r\n" : ""});
                  }});
}

Proxy::Connections& Proxy::connections_of(server::Loop& loop, const Parts& parts) {
  if (loop.part == nullptr) loop.part = std::make_unique<Connections>(loop, parts);
  return static_cast<Connections&>(*loop.part);
}

void Proxy::handle(const server::HttpRequest& http, server::Responder& responder) {
  server::Loop& loop = responder.loop();
  Connections& connections = connections_of(loop, parts_);
  auto errand = understand(http, connections);
  if (!errand) {
    const Outcome& outcome = errand.error();
    responder.reply({.status = outcome.status, .body = outcome.body, .fields = outcome.fields});
    return;
  }
  if (!errand->charge.priced && errand->facts.api != Api::kOther) warn_unpriced(*errand);
  std::make_shared<Exchange>(house_, loop, connections.pool(), std::move(*errand))
      ->start(responder);
}

std::expected<Errand, Outcome> Proxy::understand(const server::HttpRequest& http,
                                                 Connections& connections) {
  const net::RequestHead& head = http.head;
  const auto [name, path] = place_of(head.path);
  auto resource = parts_.resources.find(name);
  if (resource == nullptr) {
    return std::unexpected(
        Outcome{404,
                server::error_body("resource_unknown",
                                   fmt::format("no provider is called \"{}\"; GET /v1/resources "
                                               "lists them",
                                               name)),
                {}});
  }
  const auto config = resource->config();
  const auto& origin = connections.origin(config->upstream);
  if (origin == nullptr) {
    return refuse(*config, 404, "no_upstream",
                  fmt::format("the provider \"{}\" has no `upstream`", config->name));
  }
  if (http.body.size() > config->max_body) {
    return refuse(*config, 413, "bad_message", "the body is larger than `max_body`");
  }
  if (climbs(path)) return refuse(*config, 400, "invalid_request", "the path is not plain");

  std::string_view agent = http.client.name;
  if (const auto named = head.fields.find("x-weir-agent")) {
    if (!is_name(*named)) {
      return refuse(*config, 400, "invalid_request",
                    "X-Weir-Agent must be 1 to 256 bytes of UTF-8 without control characters");
    }
    agent = *named;
  }
  std::optional<int> priority;
  if (const auto given = head.fields.find("x-weir-priority")) {
    priority = parse_priority(*given);
    if (!priority) {
      return refuse(*config, 400, "invalid_request",
                    "X-Weir-Priority must be a whole number from -100 to 100");
    }
  }
  Nanos patience = config->max_wait;
  if (const auto given = head.fields.find("x-weir-max-wait")) {
    const auto seconds = parse_seconds(*given);
    if (!seconds) {
      return refuse(*config, 400, "invalid_request",
                    "X-Weir-Max-Wait must be a number of seconds from 0 to 86400");
    }
    patience = std::min(patience, *seconds);
  }

  CallFacts facts =
      read_call(config->profile,
                {.method = head.method, .path = path, .query = head.query, .body = http.body},
                parts_.tokenizer);
  std::string credential = credential_of(*config, http);
  auto route = resource->route(
      {.agent = agent, .model = facts.model, .priority = priority, .account = credential});
  if (!route) return refuse(*config, 503, weir::name(route.error().code), route.error().message);
  const Charge charge = weir::charge(*config, facts, house_.calibration);

  const bool read = facts.api != Api::kOther;
  std::string body = facts.hide_usage() ? with_stream_usage(http.body) : std::string{http.body};
  const std::string query =
      config->pass_client_key ? std::string{head.query} : without_credentials(*config, head.query);
  const Instant now = parts_.clock.now();
  return Errand{.resource = std::move(resource),
                .config = config,
                .route = std::move(*route),
                .credential = std::move(credential),
                .facts = std::move(facts),
                .charge = charge,
                .agent = std::string{agent},
                .origin = origin,
                .method = std::string{head.method},
                .head = request_head(head, *config,
                                     {.origin = *origin,
                                      .path = path,
                                      .query = query,
                                      .body_bytes = body.size(),
                                      .token_field = http.client.token_field,
                                      .read = read}),
                .body = std::move(body),
                .share = std::move(*http.share),
                .http_1_0 = head.http_1_0,
                .arrived = now,
                .deadline = now + patience};
}

void Proxy::warn_unpriced(const Errand& errand) {
  const auto counts_dollars = [](const std::vector<LimitConfig>& limits) {
    return std::ranges::any_of(
        limits, [](const LimitConfig& limit) { return limit.spec.unit == Unit::kMicroUsd; });
  };
  const ProviderConfig& provider = *errand.config;
  const bool budgeted =
      counts_dollars(provider.limits) ||
      std::ranges::any_of(provider.models, counts_dollars, &ModelConfig::limits) ||
      std::ranges::any_of(provider.agents, counts_dollars, &AgentConfig::limits);
  if (!budgeted) return;
  {
    const std::lock_guard lock{mutex_};
    if (unpriced_.size() >= Calibration::kModelsMax) return;
    if (!unpriced_.insert(provider.name + ' ' + errand.facts.model).second) return;
  }
  parts_.log.warning("no price is known for a model, so its calls do not count against the budget",
                     {{"resource", provider.name}, {"model", errand.facts.model}});
}

}  // namespace weir::proxy
