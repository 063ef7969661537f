#include "provider/call_body.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>
#include <vector>

#include "provider/estimate.h"
#include "provider/json_scan.h"

namespace weir {
namespace {

enum Key : KeyId {
  kModel = 1,
  kStream,
  kStreamOptions,
  kIncludeUsage,
  kSettings,  // an object that has kMaxOutput or kChoices
  kMaxOutput,
  kChoices,
  kPlain,  // of a provider's own shape; its value is text
  kName,
  kSilent,  // likewise; its value is no text for the model
  kDetail,
  kUrl,
  kImage,  // a URL, or an object with one
  kData,   // base64
  kTools,  // this and what follows is the prompt, if it stands at the root
  kMessages,
  kTokens,  // text, or numbers of tokens
  kPrompt,
};

struct Named {
  std::string_view name;
  KeyId key;
};

// Sorted.
constexpr std::array kKeys = std::to_array<Named>({
    {"arguments", kPlain},
    {"best_of", kChoices},
    {"bytes", kData},
    {"cache_control", kSilent},
    {"call_id", kSilent},
    {"candidateCount", kChoices},
    {"candidate_count", kChoices},
    {"content", kPrompt},
    {"contents", kMessages},
    {"data", kData},
    {"description", kPlain},
    {"detail", kDetail},
    {"encrypted_content", kSilent},
    {"fileUri", kSilent},
    {"file_data", kUrl},
    {"file_id", kSilent},
    {"file_uri", kSilent},
    {"format", kSilent},
    {"function", kPlain},
    {"function_call", kPlain},
    {"functions", kTools},
    {"generationConfig", kSettings},
    {"generation_config", kSettings},
    {"id", kSilent},
    {"image", kPlain},
    {"image_url", kImage},
    {"include_usage", kIncludeUsage},
    {"inferenceConfig", kSettings},
    {"inlineData", kPlain},
    {"inline_data", kPlain},
    {"input", kTokens},
    {"inputText", kPrompt},
    {"input_audio", kPlain},
    {"instructions", kPrompt},
    {"maxOutputTokens", kMaxOutput},
    {"maxTokens", kMaxOutput},
    {"max_completion_tokens", kMaxOutput},
    {"max_gen_len", kMaxOutput},
    {"max_new_tokens", kMaxOutput},
    {"max_output_tokens", kMaxOutput},
    {"max_tokens", kMaxOutput},
    {"max_tokens_to_sample", kMaxOutput},
    {"media_type", kSilent},
    {"messages", kMessages},
    {"mimeType", kSilent},
    {"mime_type", kSilent},
    {"model", kModel},
    {"n", kChoices},
    {"name", kName},
    {"parameters", kPlain},
    {"parts", kPlain},
    {"prompt", kTokens},
    {"properties", kPlain},
    {"requests", kPrompt},
    {"response_format", kPrompt},
    {"role", kPlain},
    {"signature", kSilent},
    {"source", kPlain},
    {"status", kSilent},
    {"stream", kStream},
    {"stream_options", kStreamOptions},
    {"system", kPrompt},
    {"systemInstruction", kPrompt},
    {"system_instruction", kPrompt},
    {"text", kPrompt},
    {"thinking", kPlain},
    {"thoughtSignature", kSilent},
    {"toolConfig", kTools},
    {"toolUseId", kSilent},
    {"tool_call_id", kSilent},
    {"tool_calls", kPlain},
    {"tool_use_id", kSilent},
    {"tools", kTools},
    {"type", kSilent},
    {"url", kUrl},
});
static_assert(std::ranges::is_sorted(kKeys, {}, &Named::name));

constexpr Amount kMaxOutputMost = 1'000'000'000;
constexpr Amount kChoicesMost = 1000;

class Body {
 public:
  Body(Profile profile, std::string_view body)
      : profile_(profile), tokenizes_(body.size() <= kTokenizedBytesMax) {
    scanner_.feed(body);
  }

  bool is_object() const { return is_object_ && scanner_.whole(); }
  CallBody finish(std::string_view model, FindTokenizer find_tokenizer);

  KeyId key(std::string_view name);
  bool skips() const { return scanner_.depth() == 1 && last() == kNoKey; }
  void open(char bracket);
  void close(char bracket);
  void word(char first);
  void number(std::string_view text);
  void text(std::string_view part, bool last);

 private:
  struct Picture {
    Media media;
    std::size_t base64_bytes = 0;
    Detail detail = Detail::kHigh;
  };

  KeyId last() const { return scanner_.at(scanner_.depth()); }
  KeyId parent() const { return scanner_.at(scanner_.depth() - 1); }
  bool in_prompt() const {
    const KeyId root = scanner_.at(1);
    return root >= kTools && root != kItem;
  }
  void add_text(std::string_view text) {
    ends_.push_back(texts_.size() + text.size());
    texts_ += text;
  }
  void prompt_text();
  // True if the string in hand is media, and counted as such.
  bool take_media();

  const Profile profile_;
  const bool tokenizes_;
  bool is_object_ = false;
  CallBody facts_;
  Amount counted_ = 0;  // without a tokenizer
  bool has_messages_ = false;
  bool has_tools_ = false;
  std::string texts_;  // of the prompt, one behind the other
  std::vector<std::size_t> ends_;
  std::string string_;            // in hand, as far as it is looked at
  std::size_t string_bytes_ = 0;  // all of it
  std::vector<Picture> pictures_;
  std::optional<Detail> detail_;   // of the object in hand
  std::size_t picture_depth_ = 0;  // where the last picture stands
  JsonScanner<Body> scanner_{*this};
};

KeyId Body::key(std::string_view name) {
  const auto found = std::ranges::lower_bound(kKeys, name, {}, &Named::name);
  const KeyId key = found != kKeys.end() && found->name == name ? found->key : kNoKey;
  if (scanner_.depth() == 1) {
    if (key == kModel) facts_.model.clear();
    if (key == kStreamOptions) facts_.usage_asked = false;
    if (key == kTools) has_tools_ = true;
    if (key >= kTools) facts_.has_prompt = true;
  } else if (key == kNoKey && in_prompt()) {
    if (tokenizes_) {
      add_text(name);
    } else {
      counted_ += byte_estimate(name.size());
    }
    counted_ += 2;
  }
  return key;
}

void Body::open(char bracket) {
  if (scanner_.depth() == 0) is_object_ = bracket == '{';
  if (bracket == '{' && scanner_.depth() == 2 && scanner_.in_array() &&
      (scanner_.at(1) == kMessages || scanner_.at(1) == kTokens)) {
    counted_ += 3;
    has_messages_ = true;
  }
  detail_.reset();
}

void Body::close(char) {
  detail_.reset();
  picture_depth_ = 0;
}

void Body::word(char first) {
  const bool yes = first == 't';
  if (scanner_.depth() == 1 && last() == kStream) facts_.stream = yes;
  if (scanner_.depth() == 2 && scanner_.at(1) == kStreamOptions && last() == kIncludeUsage) {
    facts_.usage_asked = yes;
  }
  if (in_prompt() && scanner_.depth() > 1) ++counted_;
}

void Body::number(std::string_view text) {
  if (in_prompt()) {
    const bool token = scanner_.at(1) == kTokens && scanner_.in_array();
    counted_ += token ? 1 : byte_estimate(text.size());
    return;
  }
  const bool is_setting =
      scanner_.depth() == 1 || (scanner_.depth() == 2 && scanner_.at(1) == kSettings);
  Amount value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range && !text.starts_with('-')) value = kAmountMax;
  if (!is_setting || value < 1) return;
  if (last() == kMaxOutput) {
    facts_.max_output = std::max(facts_.max_output.value_or(0), std::min(value, kMaxOutputMost));
  } else if (last() == kChoices) {
    facts_.choices = std::max(facts_.choices, std::min(value, kChoicesMost));
  }
}

void Body::text(std::string_view part, bool is_last) {
  if (!in_prompt()) {
    if (scanner_.depth() == 1 && last() == kModel) {
      facts_.model += part.substr(0, kModelBytesMax + 1 - facts_.model.size());
    }
    return;
  }
  string_bytes_ += part.size();
  const bool keeps = tokenizes_ || string_.size() < kMediaHeadMax;
  if (keeps) string_ += part;
  if (!is_last) return;
  prompt_text();
  string_.clear();
  string_bytes_ = 0;
}

void Body::prompt_text() {
  if (last() == kSilent) return;
  if (last() == kDetail) {
    detail_ = string_ == "low" ? Detail::kLow : Detail::kHigh;
    if (picture_depth_ == scanner_.depth() && !pictures_.empty()) {
      pictures_.back().detail = *detail_;
    }
    return;
  }
  if (take_media()) return;
  if (last() == kName && scanner_.depth() == 3 && scanner_.at(1) == kMessages) ++counted_;
  if (tokenizes_) {
    add_text(string_);
  } else {
    counted_ += byte_estimate(string_bytes_);
  }
}

bool Body::take_media() {
  constexpr std::size_t kBase64Least = 64;  // a shorter one is a word
  const KeyId key = last();
  if (key != kUrl && key != kImage && key != kData) return false;
  std::string_view base64 = string_;
  std::size_t size = string_bytes_;
  const bool is_url = base64.starts_with("http://") || base64.starts_with("https://");
  if (base64.starts_with("data:")) {
    const std::size_t comma = std::min(base64.find(','), base64.size() - 1);
    base64.remove_prefix(comma + 1);
    size -= comma + 1;
  } else if (is_url) {
    if (key != kImage && parent() != kImage && parent() != kPlain) return false;
  } else if (key != kData || size < kBase64Least ||
             base64.substr(0, 1024).find_first_of(" {<:.,;") != base64.npos) {
    return false;
  }
  Picture picture{is_url ? Media{Media::Kind::kImage} : look_at_media(base64), size};
  picture.detail = detail_.value_or(Detail::kHigh);
  picture_depth_ = scanner_.depth();
  pictures_.push_back(picture);
  return true;
}

CallBody Body::finish(std::string_view model, FindTokenizer find_tokenizer) {
  if (!model.empty()) facts_.model = model;
  facts_.input_tokens = counted_ + (has_messages_ ? 3 : 0) + (has_tools_ ? 9 : 0);
  for (const Picture& picture : pictures_) {
    facts_.input_tokens +=
        media_tokens(profile_, facts_.model, picture.media, picture.base64_bytes, picture.detail);
  }
  const Tokenizer* tokenizer = ends_.empty() ? nullptr : find_tokenizer(encoding_of(facts_.model));
  std::size_t begin = 0;
  for (const std::size_t end : ends_) {
    const std::string_view text{texts_.data() + begin, end - begin};
    facts_.input_tokens += tokenizer == nullptr ? byte_estimate(text.size())
                                                : static_cast<Amount>(tokenizer->count(text));
    begin = end;
  }
  return std::move(facts_);
}

}  // namespace

std::optional<CallBody> read_call_body(Profile profile, std::string_view model,
                                       std::string_view body, FindTokenizer find_tokenizer) {
  Body reader{profile, body};
  if (!reader.is_object()) return {};
  return reader.finish(model, find_tokenizer);
}

}  // namespace weir
