#include "provider/answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "net/characters.h"
#include "net/field_names.h"
#include "net/http_head.h"

namespace weir {
namespace {

struct Wording {
  int status;
  std::string_view openai;
  std::string_view anthropic;
  std::string_view gemini;
  std::string_view bedrock;
};

// The last row is for all the rest.
constexpr std::array kWordings = std::to_array<Wording>({
    {400, "invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT",
     "ValidationException"},
    {401, "authentication_error", "authentication_error", "UNAUTHENTICATED",
     "UnrecognizedClientException"},
    {403, "permission_error", "permission_error", "PERMISSION_DENIED", "AccessDeniedException"},
    {404, "not_found_error", "not_found_error", "NOT_FOUND", "ResourceNotFoundException"},
    {413, "invalid_request_error", "request_too_large", "INVALID_ARGUMENT", "ValidationException"},
    {429, "rate_limit_error", "rate_limit_error", "RESOURCE_EXHAUSTED", "ThrottlingException"},
    {502, "server_error", "api_error", "UNAVAILABLE", "ServiceUnavailableException"},
    {503, "server_error", "overloaded_error", "UNAVAILABLE", "ServiceUnavailableException"},
    {504, "server_error", "timeout_error", "DEADLINE_EXCEEDED", "ModelTimeoutException"},
    {500, "server_error", "api_error", "INTERNAL", "InternalServerException"},
});

const Wording& wording(int status) {
  const auto found = std::ranges::find(kWordings, status, &Wording::status);
  return found == kWordings.end() ? kWordings.back() : *found;
}

// A protobuf duration, rounded up to milliseconds: "26s", "34.070s".
std::string duration_text(Nanos span) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(std::max(span, Nanos{0})).count();
  return ms % 1000 == 0 ? fmt::format("{}s", ms / 1000)
                        : fmt::format("{}.{:03}s", ms / 1000, ms % 1000);
}

boost::json::object gemini_error(const RefusalText& refusal) {
  boost::json::object error{{"code", refusal.status},
                            {"message", refusal.message},
                            {"status", wording(refusal.status).gemini}};
  if (refusal.retry_after) {
    error["details"] = boost::json::array{
        boost::json::object{{"@type", "type.googleapis.com/google.rpc.RetryInfo"},
                            {"retryDelay", duration_text(*refusal.retry_after)}}};
  }
  return {{"error", std::move(error)}};
}

boost::json::object body_of(Profile profile, const RefusalText& refusal) {
  const Wording& words = wording(refusal.status);
  switch (profile) {
    case Profile::kAnthropic:
      return {{"type", "error"},
              {"error", {{"type", words.anthropic}, {"message", refusal.message}}}};
    case Profile::kGemini: return gemini_error(refusal);
    case Profile::kBedrock: return {{"__type", words.bedrock}, {"message", refusal.message}};
    case Profile::kGeneric: return {{"error", refusal.code}, {"message", refusal.message}};
    case Profile::kOpenai:
    case Profile::kAzure:
    case Profile::kGroq:
    case Profile::kMistral: break;
  }
  return {{"error",
           {{"message", refusal.message},
            {"type", words.openai},
            {"param", nullptr},
            {"code", refusal.code}}}};
}

bool is_credential_parameter(const ProviderConfig& provider, std::string_view name) {
  return net::is_credential_parameter(name) ||
         (provider.profile != Profile::kGeneric && net::same_ignoring_case(name, "key")) ||
         (!provider.key_parameter.empty() && net::same_ignoring_case(name, provider.key_parameter));
}

std::string percent_encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (net::is_digit(c) || net::is_letter(c) || std::string_view{"-._~"}.contains(c)) {
      out += c;
    } else {
      fmt::format_to(std::back_inserter(out), "%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

// As some write JSON.
std::string with_slashes_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) out.append(c == '/' ? "\\" : "") += c;
  return out;
}

}  // namespace

std::string refusal_body(Profile profile, const RefusalText& refusal) {
  return boost::json::serialize(body_of(profile, refusal));
}

KeyField key_field(Profile profile) {
  switch (profile) {
    case Profile::kAnthropic: return {"x-api-key", ""};
    case Profile::kGemini: return {"x-goog-api-key", ""};
    case Profile::kAzure: return {"api-key", ""};
    default: return {"authorization", "Bearer "};
  }
}

void append_key(std::string& head, const ProviderConfig& provider) {
  if (provider.api_key.empty() || !provider.key_parameter.empty()) return;
  const KeyField key = key_field(provider.profile);
  head.append(key.name).append(": ").append(key.prefix);
  head.append(provider.api_key.reveal()).append("\r\n");
}

void append_key_parameter(std::string& target, const ProviderConfig& provider) {
  if (provider.api_key.empty() || provider.key_parameter.empty()) return;
  target.append(target.contains('?') ? "&" : "?").append(provider.key_parameter).append("=");
  target += percent_encoded(provider.api_key.reveal());
}

void hide_key(std::string& text, const ProviderConfig& provider, TextEnd end) {
  constexpr std::size_t kKeyBytesMin = 8;  // shorter ones are words that are found everywhere
  constexpr std::size_t kPartBytesMin = 4;
  const std::string& plain = provider.api_key.reveal();
  if (plain.size() < kKeyBytesMin) return;
  for (const std::string& key : {plain, percent_encoded(plain), with_slashes_escaped(plain)}) {
    for (std::size_t at = 0; (at = text.find(key, at)) != text.npos; at += key.size()) {
      text.replace(at, key.size(), key.size(), '*');
    }
    if (end == TextEnd::kWhole) continue;
    for (std::size_t size = std::min(key.size(), text.size()); size >= kPartBytesMin; --size) {
      if (!text.ends_with(std::string_view{key}.substr(0, size))) continue;
      text.replace(text.size() - size, size, size, '*');
      break;
    }
  }
}

std::string without_credentials(const ProviderConfig& provider, std::string_view query) {
  std::string kept;
  while (!query.empty()) {
    const std::string_view parameter = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(parameter.size() + 1, query.size()));
    const std::string_view encoded = parameter.substr(0, parameter.find('='));
    const std::string name = net::percent_decoded(encoded).value_or(std::string{encoded});
    if (is_credential_parameter(provider, name)) continue;
    if (!kept.empty()) kept += '&';
    kept += parameter;
  }
  return kept;
}

}  // namespace weir
