#include "config/provider_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/file.h"
#include "config/limits.h"
#include "net/host.h"

namespace weir {
namespace {

constexpr std::array<std::pair<std::string_view, Profile>, 8> kProfiles{
    {{"openai", Profile::kOpenai},
     {"anthropic", Profile::kAnthropic},
     {"gemini", Profile::kGemini},
     {"azure", Profile::kAzure},
     {"bedrock", Profile::kBedrock},
     {"groq", Profile::kGroq},
     {"mistral", Profile::kMistral},
     {"generic", Profile::kGeneric}}};

constexpr std::uint64_t kMaxBodyMost = 1U << 30U;
constexpr Amount kMaxTokensMost = 1'000'000'000;

Profile profile_of(std::string_view domain) {
  constexpr std::array<std::pair<std::string_view, Profile>, 5> kDomains{
      {{"api.openai.com", Profile::kOpenai},
       {"api.anthropic.com", Profile::kAnthropic},
       {"generativelanguage.googleapis.com", Profile::kGemini},
       {"api.groq.com", Profile::kGroq},
       {"api.mistral.ai", Profile::kMistral}}};
  for (const auto& [known, profile] : kDomains) {
    if (domain == known) return profile;
  }
  if (domain.ends_with(".openai.azure.com")) return Profile::kAzure;
  if (domain.starts_with("bedrock-runtime.") && domain.ends_with(".amazonaws.com")) {
    return Profile::kBedrock;
  }
  return Profile::kGeneric;
}

std::string read_domain(Fields& fields) {
  fields.require("domain");
  const auto text = fields.text("domain", "a domain such as api.example.com");
  if (!text) return {};
  auto host = net::host_of(*text);
  const bool alone = text->find_first_of("/@?#") == text->npos &&
                     (text->find(':') == text->npos ||
                      (host && net::is_address(*host) && (*text == *host || text->ends_with(']'))));
  if (host && alone) return *std::move(host);
  fields.mistake("domain", host ? fmt::format("must be the host alone: {}", *host)
                                : "is not a domain such as api.example.com");
  return {};
}

// Never quoted: it may hold a password.
std::string read_upstream(Fields& fields, const std::string& domain) {
  if (fields.find("upstream") == nullptr) {
    const bool bare = domain.find(':') == domain.npos;
    return bare ? "https://" + domain : "https://[" + domain + "]";
  }
  auto url = fields.text("upstream", "a URL such as https://api.example.com");
  if (!url) return {};
  const bool https = url->starts_with("https://");
  const auto host = net::host_of(*url);
  const auto authority = std::string_view{*url}.substr(0, url->find('/', url->find("://") + 3));
  if (!https && !url->starts_with("http://")) {
    fields.mistake("upstream", "must begin with https://");
  } else if (authority.find('@') != authority.npos) {
    fields.mistake("upstream", "must not hold a user or a password");
  } else if (!host) {
    fields.mistake("upstream", "is not a URL such as https://api.example.com");
  } else if (!https && !net::is_loopback(*host)) {
    fields.mistake("upstream", "must begin with https://; http:// is for this machine alone");
  } else if (std::ranges::any_of(
                 *url, [](char c) { return c <= ' ' || c > '~' || c == '?' || c == '#'; })) {
    fields.mistake("upstream", "must be a URL of scheme, host, port and path, in ASCII");
  }
  return *std::move(url);
}

bool is_pattern(std::string_view text) {
  return !text.empty() && text.size() <= 256 && std::ranges::none_of(text, [](char c) {
    return static_cast<unsigned char>(c) < ' ' || c == 0x7F;
  });
}

// Calls read(pattern, fields) for each entry of `key`.
void each_pattern(Fields& provider, std::string_view key, const auto& read) {
  auto scopes = provider.map(key);
  if (!scopes) return;
  const Node& node = scopes->node();
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const std::string path = fmt::format("{}.{}", key, excerpt(node.keys[i].text));
    if (!is_pattern(node.keys[i].text)) {
      provider.reading().mistake(node.keys[i], path,
                                 "a pattern is 1 to 256 characters; * stands for any of them");
    }
    auto fields = Fields::of(provider.reading(), node.items[i], path);
    if (!fields) continue;
    read(node.keys[i], *fields);
    fields->finish();
  }
}

void read_agent(ProviderConfig& provider, const Node& key, Fields& fields) {
  AgentConfig agent;
  agent.pattern = key.text == "default" ? "*" : key.text;
  if (std::ranges::find(provider.agents, agent.pattern, &AgentConfig::pattern) !=
      provider.agents.end()) {
    fields.reading().mistake(key, "agents", "`default` and \"*\" are the same; give one");
  }
  agent.limits = read_limits(fields);
  agent.weight = static_cast<std::uint32_t>(fields.whole("weight", 1, 1000).value_or(1));
  agent.priority = static_cast<int>(fields.whole("priority", -100, 100).value_or(0));
  provider.agents.push_back(std::move(agent));
}

void read_price(ProviderConfig& provider, const Node& key, Fields& fields) {
  fields.require("input");
  fields.require("output");
  Price price;
  price.input = fields.micro_usd("input", 0).value_or(0);
  price.output = fields.micro_usd("output", 0).value_or(0);
  price.cached_input = fields.micro_usd("cached_input", 0).value_or(price.input);
  price.cache_write = fields.micro_usd("cache_write", 0).value_or(price.input);
  provider.prices.push_back({key.text, price});
}

}  // namespace

std::string_view name(Profile profile) {
  return std::ranges::find(kProfiles, profile, &decltype(kProfiles)::value_type::second)->first;
}

void claim_name(Reading& reading, const std::string& name, const Node& at) {
  reading.claim(&Claims::names, name, at, "name");
}

ProviderConfig read_provider(Reading& reading, const Node& root) {
  ProviderConfig provider;
  auto found = Fields::of(reading, root);
  if (!found) return provider;
  Fields& fields = *found;

  provider.domain = read_domain(fields);
  const Node* named = fields.find("name");
  provider.name = named == nullptr ? provider.domain : fields.name("name").value_or("");
  const Node* domain = fields.find("domain");
  const bool own_domain = !provider.domain.empty() &&
                          reading.claim(&Claims::domains, provider.domain, *domain, "domain");
  if (named != nullptr && !provider.name.empty()) claim_name(reading, provider.name, *named);
  if (named == nullptr && own_domain) claim_name(reading, provider.name, *domain);
  provider.place = reading.place(domain == nullptr ? root : *domain);

  provider.upstream = read_upstream(fields, provider.domain);
  provider.profile = fields.choice("profile", kProfiles).value_or(profile_of(provider.domain));
  provider.api_key = read_secret(fields, "api_key");
  provider.key_parameter = fields.name("api_key_parameter").value_or("");
  provider.limits = read_limits(fields);
  provider.request_timeout = fields.period("request_timeout").value_or(provider.request_timeout);
  if (provider.request_timeout > kPeriodMax / 2) {  // a permit lives for twice as long
    fields.mistake("request_timeout", fmt::format("is at most {}", spell(kPeriodMax / 2)));
  }
  provider.max_wait = fields.period("max_wait").value_or(provider.max_wait);
  each_pattern(fields, "models", [&](const Node& key, Fields& scope) {
    provider.models.push_back({key.text, read_limits(scope)});
  });
  each_pattern(fields, "agents",
               [&](const Node& key, Fields& scope) { read_agent(provider, key, scope); });
  provider.pass_client_key = fields.yes_or_no("pass_client_key").value_or(false);
  if (provider.pass_client_key && !provider.api_key.empty()) {
    fields.mistake("pass_client_key", "a call has one key: choose api_key or pass_client_key");
  }
  const bool keyed = fields.find("api_key") != nullptr || fields.find("api_key_env") != nullptr ||
                     fields.find("api_key_file") != nullptr;
  if (!provider.key_parameter.empty() && !keyed) {
    fields.mistake("api_key_parameter", "says where api_key goes, and there is none");
  }
  provider.max_body = fields.bytes("max_body", kMaxBodyMost).value_or(provider.max_body);
  provider.default_max_tokens = fields.whole("default_max_tokens", 1, kMaxTokensMost);
  provider.refund_unused_tokens = fields.yes_or_no("refund_unused_tokens");
  each_pattern(fields, "prices",
               [&](const Node& key, Fields& price) { read_price(provider, key, price); });
  fields.finish();
  return provider;
}

}  // namespace weir
