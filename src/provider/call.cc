#include "provider/call.h"

#include <algorithm>

#include "net/http_head.h"
#include "provider/call_body.h"

namespace weir {
namespace {

// What the path says.
struct Target {
  Api api = Api::kOther;
  std::string model = {};  // empty: the body names it
  bool stream = false;     // or the body says so
};

// What is badly encoded stays as it is.
std::string decoded(std::string_view text) {
  return net::percent_decoded(text).value_or(std::string{text});
}

// The last segment of a path, which is cut off it.
std::string_view pop(std::string_view& path) {
  const std::size_t slash = path.rfind('/');
  const std::string_view last = path.substr(slash == path.npos ? 0 : slash + 1);
  path = path.substr(0, slash == path.npos ? 0 : slash);
  return last;
}

// "models/gemini-2.5-pro:streamGenerateContent"
Target gemini_target(std::string_view last) {
  const std::size_t colon = last.rfind(':');
  const std::string_view verb = last.substr(colon + 1);
  Target target{.model = decoded(last.substr(0, colon))};
  if (verb == "generateContent" || verb == "streamGenerateContent") {
    target.api = Api::kGenerate;
    target.stream = verb.starts_with('s');
  } else if (verb == "embedContent" || verb == "batchEmbedContents") {
    target.api = Api::kEmbeddings;
  } else if (verb == "countTokens") {
    target.api = Api::kCountTokens;
  }
  return target;
}

// "model/anthropic.claude-sonnet-4-20250514-v1%3A0/converse-stream"
Target bedrock_target(std::string_view verb, std::string_view id) {
  Target target{.model = decoded(id)};
  if (verb == "converse" || verb == "converse-stream") {
    target.api = Api::kConverse;
  } else if (verb == "invoke" || verb == "invoke-with-response-stream") {
    const bool embeds = target.model.find("embed") != target.model.npos;
    target.api = embeds ? Api::kEmbeddings : Api::kInvoke;
  }
  target.stream = verb.ends_with("-stream");
  return target;
}

Target target_of(Profile profile, std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  const std::string_view last = pop(path);
  std::string_view above = path;
  const std::string_view second = pop(above);
  const std::string_view third = pop(above);
  const std::string_view fourth = pop(above);

  if (second == "models" && last.find(':') != last.npos) return gemini_target(last);
  if (third == "model" && profile == Profile::kBedrock) return bedrock_target(last, second);

  Target target;
  if (last == "completions") {
    target.api = second == "chat" ? Api::kChat : Api::kCompletions;
  } else if (last == "embeddings") {
    target.api = Api::kEmbeddings;
  } else if (last == "responses") {
    target.api = Api::kResponses;
  } else if (last == "messages" && (second == "v1" || second.empty())) {
    target.api = Api::kMessages;  // not OpenAI's threads/ID/messages
  } else if (last == "count_tokens" && second == "messages") {
    target.api = Api::kCountTokens;
  }
  // Azure: openai/deployments/NAME/chat/completions
  if (target.api == Api::kChat && fourth == "deployments") target.model = decoded(third);
  if (third == "deployments") target.model = decoded(second);
  return target;
}

// Azure's versions before this one refuse stream_options.
bool knows_stream_options(Profile profile, std::string_view query) {
  constexpr std::string_view kName = "api-version=";
  constexpr std::string_view kFirst = "2024-09-01";
  switch (profile) {
    case Profile::kOpenai:
    case Profile::kGemini:
    case Profile::kGeneric: return true;
    case Profile::kAzure: {
      const std::size_t at = query.find(kName);
      return at == query.npos || query.substr(at + kName.size(), kFirst.size()) >= kFirst;
    }
    // Groq's streams tell usage in x_groq, Mistral's in their last chunk.
    default: return false;
  }
}

bool is_model(std::string_view model) {
  return !model.empty() && model.size() <= kModelBytesMax &&
         std::ranges::all_of(model, [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

CallFacts read_call(Profile profile, const CallText& call, FindTokenizer tokenizer) {
  const Target target = call.method == "POST" ? target_of(profile, call.path) : Target{};
  if (target.api == Api::kOther) return {};
  auto body = read_call_body(profile, target.model, call.body, tokenizer);
  if (!body || !is_model(body->model)) return {};
  if (profile == Profile::kGeneric && !body->has_prompt) return {};  // not what the path looks like

  CallFacts facts;
  facts.model = std::move(body->model);
  facts.api = target.api;
  if (facts.api == Api::kCountTokens) return facts;
  facts.stream = target.stream || body->stream;
  facts.usage_asked = body->usage_asked;
  const bool asks = facts.api == Api::kChat || facts.api == Api::kCompletions;
  facts.usage_on_demand = asks && knows_stream_options(profile, call.query);
  facts.max_output = body->max_output;
  facts.choices = body->choices;
  facts.input_tokens = body->input_tokens;
  return facts;
}

}  // namespace weir
