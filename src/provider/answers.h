// How each profile words a refusal and carries a key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/model.h"
#include "weir/core/time.h"

namespace weir {

// A refusal of ours.
struct RefusalText {      // weir::Refusal is the gate's
  int status;             // 400, 401, 403, 404, 413, 429, 500, 502, 503, 504
  std::string_view code;  // ours: "rate_limited", "never_fits"; shown where the shape has a place
  std::string_view message;  // UTF-8
  std::optional<Nanos> retry_after = {};
};

// The body (application/json) in the provider's own shape, so that its SDK understands it.
std::string refusal_body(Profile profile, const RefusalText& refusal);

// The header field that carries a key.
struct KeyField {
  std::string_view name;    // lower case
  std::string_view prefix;  // "Bearer ", or none
};
KeyField key_field(Profile profile);
// The line of a head, with its CRLF, that carries the configured key; nothing without one, or where
// the query carries it.
void append_key(std::string& head, const ProviderConfig& provider);
// To the end of a request's target: the parameter that carries it, if one does.
void append_key_parameter(std::string& target, const ProviderConfig& provider);
// Asterisks in its place, in whichever form it was sent or may be repeated, also where the end of a
// text that was cut has cut it: for what is kept, told and logged, and for heads of answers.
enum class TextEnd : std::uint8_t { kWhole, kCut };
void hide_key(std::string& text, const ProviderConfig& provider, TextEnd end = TextEnd::kWhole);

// A query (without '?') less the parameters that carry a key. `key` is one everywhere but with
// generic providers, where it may be anything.
std::string without_credentials(const ProviderConfig& provider, std::string_view query);

}  // namespace weir
