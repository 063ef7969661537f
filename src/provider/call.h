// What a request to a provider asks for, as far as it decides the request's cost.
//
// Pure: no clock, no I/O, no lock. A body is read once, in time linear in its size; what is no
// JSON, nests deeper than 64 or fits no API known here is Api::kOther without a model: it is
// forwarded and charged as one request, and the provider itself says what is wrong with it. Of
// members of one name the last counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/model.h"
#include "tokenizer/tokenizer.h"

namespace weir {

enum class Api : std::uint8_t {
  kOther,        // charged as a request
  kCountTokens,  // likewise, but the model is known: Anthropic's count_tokens, Gemini's countTokens
  kChat,         // OpenAI's chat completions, and whoever has the same shape
  kCompletions,
  kResponses,
  kEmbeddings,  // of any provider
  kMessages,    // Anthropic's
  kGenerate,    // Gemini's generateContent and streamGenerateContent
  kConverse,    // Bedrock's converse and converse-stream
  kInvoke,      // Bedrock's invoke, the body in whichever shape the model has
};

// The tokenizer of an encoding, made when it is first asked for; null where the program was built
// without ranks: bytes are counted instead.
using FindTokenizer = const Tokenizer* (*)(Encoding);
inline const Tokenizer* no_tokenizer(Encoding) { return nullptr; }

// A request as it came. `path` is what follows /proxy/NAME, percent-encoded, without the query.
struct CallText {
  std::string_view method;
  std::string_view path;
  std::string_view query = {};
  std::string_view body = {};
};

struct CallFacts {
  Api api = Api::kOther;
  std::string model = {};  // printable ASCII, at most kModelBytesMax; empty: unknown
  bool stream = false;
  bool usage_asked = false;               // stream_options.include_usage
  bool usage_on_demand = false;           // its streams tell usage only if asked
  std::optional<Amount> max_output = {};  // as the request says it, for one choice
  Amount choices = 1;                     // n, or best_of where that is more
  Amount input_tokens = 0;                // our count of the prompt, before any calibration

  // Send the body through with_stream_usage() and the answer through a StreamUsageHider (sse.h).
  bool hide_usage() const { return stream && usage_on_demand && !usage_asked; }
};

inline constexpr std::size_t kModelBytesMax = 256;
// Above this the tokenizer gives way to a third of the bytes of text, which errs upwards.
inline constexpr std::size_t kTokenizedBytesMax = 1024 * 1024;

CallFacts read_call(Profile profile, const CallText& call, FindTokenizer tokenizer);

}  // namespace weir
