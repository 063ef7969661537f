#include "provider/usage.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "provider/base64.h"
#include "provider/json_scan.h"

namespace weir {
namespace {

// What a number of an answer says.
enum Field : std::uint8_t {
  kInput,
  kOutput,
  kThoughts,       // Gemini: beside the candidates'
  kToolPrompt,     // Gemini: beside the prompt's
  kTotal,          // Gemini: all of them
  kCached,         // a part of kInput
  kWritten,        // likewise
  kCachedBeside,   // not in kInput
  kWrittenBeside,  // likewise
  kWrittenFive,    // minutes: a part of kWrittenBeside
  kWrittenHour,    // likewise
  kFieldCount,
};

// Keys by what they are for. Those of counts are kCount and above: kCount + Field.
enum Key : KeyId {
  kWrapper = 1,  // of usage: message_start's message, response.completed's response, x_groq
  kUsageKey,
  kDetails,
  kError,
  kType,
  kCode,
  kTier,
  kBytes,
  kChoices,  // content begins here
  kDelta,
  kCandidates,
  kNest,     // leads to content
  kContent,  // is content, or leads to it
  kCount,
};

struct Named {
  std::string_view name;
  KeyId key;
};

constexpr KeyId count(Field field) { return static_cast<KeyId>(KeyId{kCount} + KeyId{field}); }

// Sorted.
constexpr std::array kKeys = std::to_array<Named>({
    {"amazon-bedrock-invocationMetrics", kUsageKey},
    {"arguments", kContent},
    {"bytes", kBytes},
    {"cacheReadInputTokenCount", count(kCachedBeside)},
    {"cacheReadInputTokens", count(kCachedBeside)},
    {"cacheWriteInputTokenCount", count(kWrittenBeside)},
    {"cacheWriteInputTokens", count(kWrittenBeside)},
    {"cache_creation", kDetails},
    {"cache_creation_input_tokens", count(kWrittenBeside)},
    {"cache_read_input_tokens", count(kCachedBeside)},
    {"cache_write_tokens", count(kWritten)},
    {"cachedContentTokenCount", count(kCached)},
    {"cached_tokens", count(kCached)},
    {"candidates", kCandidates},
    {"candidatesTokenCount", count(kOutput)},
    {"choices", kChoices},
    {"code", kCode},
    {"completion_tokens", count(kOutput)},
    {"content", kContent},
    {"delta", kDelta},
    {"ephemeral_1h_input_tokens", count(kWrittenHour)},
    {"ephemeral_5m_input_tokens", count(kWrittenFive)},
    {"error", kError},
    {"function", kNest},
    {"function_call", kNest},
    {"input", kContent},
    {"inputTokenCount", count(kInput)},
    {"inputTokens", count(kInput)},
    {"input_tokens", count(kInput)},
    {"input_tokens_details", kDetails},
    {"message", kWrapper},
    {"outputTokenCount", count(kOutput)},
    {"outputTokens", count(kOutput)},
    {"output_tokens", count(kOutput)},
    {"partial_json", kContent},
    {"parts", kNest},
    {"promptTokenCount", count(kInput)},
    {"prompt_tokens", count(kInput)},
    {"prompt_tokens_details", kDetails},
    {"reasoning", kContent},
    {"reasoningContent", kNest},
    {"reasoning_content", kContent},
    {"refusal", kContent},
    {"response", kWrapper},
    {"service_tier", kTier},
    {"status", kCode},
    {"text", kContent},
    {"thinking", kContent},
    {"thoughtsTokenCount", count(kThoughts)},
    {"toolUse", kNest},
    {"toolUsePromptTokenCount", count(kToolPrompt)},
    {"tool_calls", kNest},
    {"totalTokenCount", count(kTotal)},
    {"type", kType},
    {"usage", kUsageKey},
    {"usageMetadata", kUsageKey},
    {"x_groq", kWrapper},
});
static_assert(std::ranges::is_sorted(kKeys, {}, &Named::name));

// No provider counts as far; sums of a few stay valid amounts.
constexpr Amount kCountMax = 1'000'000'000'000;

Amount parse_count(std::string_view text) {
  Amount value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) return text.starts_with('-') ? -1 : kCountMax;
  return std::min(value, kCountMax);
}

// A short text that came in parts; what does not fit is dropped.
class ShortText {
 public:
  void clear() { size_ = 0; }
  void append(std::string_view part) {
    const std::size_t taken = std::min(part.size(), bytes_.size() - size_);
    std::ranges::copy(part.substr(0, taken), bytes_.data() + size_);
    size_ += taken;
  }
  void assign(std::string_view text) {
    clear();
    append(text);
  }
  std::string_view view() const { return {bytes_.data(), size_}; }

 private:
  std::array<char, 64> bytes_{};
  std::size_t size_ = 0;
};

// What all documents of an answer say together.
struct Facts {
  std::array<Amount, kFieldCount> counts;
  ServiceTier tier = ServiceTier::kStandard;
  Amount content_events = 0;
  Amount content_bytes = 0;
  bool failed = false;
  ShortText error_type = {};
  ShortText error_code = {};

  Facts() { counts.fill(-1); }
  void say(Field field, Amount value) {
    if (value >= 0) counts[field] = value;
  }
};

// One JSON document after the other.
class Document {
 public:
  Document(Facts& facts, Document* inner) : facts_(&facts), inner_(inner) {}
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;

  void feed(std::string_view bytes) { scanner_.feed(bytes); }
  void reset() {
    scanner_.reset();
    word_.clear();
    content_seen_ = false;
  }

  KeyId key(std::string_view name) const {
    const auto found = std::ranges::lower_bound(kKeys, name, {}, &Named::name);
    return found != kKeys.end() && found->name == name ? found->key : kNoKey;
  }
  bool skips() const { return scanner_.depth() > 0 && last() == kNoKey; }
  void open(char bracket) {
    if (bracket == '{' && last() == kError && error_level(0)) facts_->failed = true;
  }
  void close(char) {}
  void word(char) {}
  void number(std::string_view text);
  void text(std::string_view part, bool is_last);

 private:
  KeyId last() const { return scanner_.at(scanner_.depth()); }
  // The level behind a root array (Gemini's stream) and a wrapper.
  std::size_t root() const {
    const std::size_t from = scanner_.at(1) == kItem ? 2 : 1;
    return scanner_.at(from) == kWrapper ? from + 1 : from;
  }
  // Whether the value in hand is `below` levels under an `error` at the root.
  bool error_level(std::size_t below) const {
    return scanner_.at(root()) == kError && scanner_.depth() == root() + below;
  }
  bool is_content() const;
  void short_text(std::string_view value);

  Facts* facts_;
  Document* inner_;  // for what stands in "bytes", base64 (Bedrock)
  Base64 base64_;
  ShortText word_;
  bool content_seen_ = false;  // in the string in hand
  JsonScanner<Document> scanner_{*this};
};

void Document::number(std::string_view text) {
  const KeyId key = last();
  if (key < kCount || key == kItem) return;
  const std::size_t usage = root();
  if (scanner_.at(usage) != kUsageKey) return;
  const std::size_t below = scanner_.depth() - usage;
  if (below == 1 || (below == 2 && scanner_.at(usage + 1) == kDetails)) {
    facts_->say(static_cast<Field>(key - kCount), parse_count(text));
  }
}

bool Document::is_content() const {
  const KeyId key = last();
  const std::size_t from = scanner_.at(1) == kItem ? 2 : 1;
  switch (scanner_.at(from)) {
    case kDelta: return key == kContent || scanner_.depth() == from;
    case kCandidates: return key == kContent;
    case kChoices:
      return key == kContent && (scanner_.at(from + 2) == kDelta || scanner_.depth() == from + 2);
    default: return false;
  }
}

void Document::text(std::string_view part, bool is_last) {
  const KeyId key = last();
  if (key == kNoKey || key == kItem) return;
  if (is_content()) {
    facts_->content_bytes += static_cast<Amount>(part.size());
    content_seen_ |= !part.empty();
    if (is_last && std::exchange(content_seen_, false)) ++facts_->content_events;
  } else if (key == kBytes && scanner_.depth() == 1 && inner_ != nullptr) {
    base64_.decode(part, [&](std::string_view bytes) { inner_->feed(bytes); });
    if (!is_last) return;
    inner_->feed("\n");
    inner_->reset();
    base64_.reset();
  } else {
    word_.append(part);
    if (!is_last) return;
    short_text(word_.view());
    word_.clear();
  }
}

void Document::short_text(std::string_view value) {
  const KeyId key = last();
  const bool at_root = scanner_.depth() == root();
  if (key == kTier && (at_root || scanner_.at(root()) == kUsageKey)) {
    facts_->tier = value == "batch"                         ? ServiceTier::kBatch
                   : value == "flex"                        ? ServiceTier::kFlex
                   : value == "priority" || value == "fast" ? ServiceTier::kPriority
                                                            : ServiceTier::kStandard;
  } else if (error_level(0) || (key == kType && at_root && value == "error")) {
    facts_->failed = true;
  } else if (key == kType && error_level(1)) {
    facts_->error_type.assign(value);
  } else if (key == kCode && (error_level(1) || (at_root && facts_->failed))) {
    facts_->error_code.assign(value);
  }
}

enum class Shape : std::uint8_t { kJson, kSse, kEventStream };

Shape shape_of(std::string_view content_type) {
  std::string type{content_type.substr(0, 64)};
  for (char& c : type) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  if (type.starts_with("text/event-stream")) return Shape::kSse;
  if (type.starts_with("application/vnd.amazon.eventstream")) return Shape::kEventStream;
  return Shape::kJson;
}

std::uint32_t big_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (const char c : bytes) value = value << 8U | static_cast<unsigned char>(c);
  return value;
}

}  // namespace

struct UsageReader::State {
  explicit State(Shape s) : shape(s) { held.reserve(kHeaderBytesMax); }

  void read_sse(std::string_view bytes);
  void read_frames(std::string_view bytes);
  void read_headers();

  Facts facts;
  Document inner{facts, nullptr};
  Document outer{facts, &inner};
  const Shape shape;

  // SSE: the line in hand.
  enum class Line : std::uint8_t { kName, kData, kOther } line = Line::kName;
  std::size_t matched = 0;  // bytes of "data:"
  bool after_cr = false;

  // AWS: prelude, headers, payload and checksum of the frame in hand.
  enum class Part : std::uint8_t { kPrelude, kHeaders, kPayload, kChecksum } part = Part::kPrelude;
  std::size_t left = kPreludeBytes;  // of the part
  std::size_t payload = 0;
  std::string held;  // a prelude, or the headers as far as they are looked at
  bool lost = false;
  static constexpr std::size_t kPreludeBytes = 12;
  static constexpr std::size_t kChecksumBytes = 4;
  static constexpr std::size_t kHeaderBytesMax = 1024;
};

void UsageReader::State::read_sse(std::string_view bytes) {
  constexpr std::string_view kField = "data:";
  for (std::size_t i = 0; i < bytes.size();) {
    const bool ends = bytes[i] == '\n' || bytes[i] == '\r';
    if (std::exchange(after_cr, false) && bytes[i] == '\n') {
      ++i;
    } else if (ends) {
      if (line == Line::kData) outer.feed("\n");
      if (line == Line::kName && matched == 0) outer.reset();  // the blank line after an event
      after_cr = bytes[i] == '\r';
      line = Line::kName;
      matched = 0;
      ++i;
    } else if (line == Line::kName) {
      line = bytes[i] != kField[matched]  ? Line::kOther
             : ++matched == kField.size() ? Line::kData
                                          : Line::kName;
      ++i;
    } else {
      std::size_t stop = i;
      while (stop < bytes.size() && bytes[stop] != '\n' && bytes[stop] != '\r') ++stop;
      if (line == Line::kData) outer.feed(bytes.substr(i, stop - i));
      i = stop;
    }
  }
}

void UsageReader::State::read_frames(std::string_view bytes) {
  while (!lost && (!bytes.empty() || left == 0)) {
    const std::string_view some = bytes.substr(0, left);
    bytes.remove_prefix(some.size());
    left -= some.size();
    if (part == Part::kPayload) outer.feed(some);
    if (part == Part::kPrelude || part == Part::kHeaders) {
      held.append(some.substr(0, kHeaderBytesMax - held.size()));
    }
    if (left > 0) continue;
    switch (part) {
      case Part::kPrelude: {
        const std::size_t total = big_endian(held.substr(0, 4));
        const std::size_t headers = big_endian(held.substr(4, 4));
        lost = total < headers + kPreludeBytes + kChecksumBytes;
        payload = total - headers - kPreludeBytes - kChecksumBytes;
        left = headers;
        part = Part::kHeaders;
        held.clear();
        break;
      }
      case Part::kHeaders:
        read_headers();
        left = payload;
        part = Part::kPayload;
        held.clear();
        break;
      case Part::kPayload:
        outer.reset();
        left = kChecksumBytes;
        part = Part::kChecksum;
        break;
      case Part::kChecksum:
        left = kPreludeBytes;
        part = Part::kPrelude;
        break;
    }
  }
}

// An exception has its name in a header: the name's length, the name, 7 for text, two bytes of
// length, the text.
void UsageReader::State::read_headers() {
  constexpr std::string_view kName = ":exception-type";
  const std::string_view headers = held;
  const std::size_t at = headers.find(kName);
  const std::size_t value = at + kName.size() + 3;
  if (at == headers.npos || value > headers.size()) return;
  facts.failed = true;
  facts.error_type.assign(headers.substr(value, big_endian(headers.substr(value - 2, 2))));
}

UsageReader::UsageReader(std::string_view content_type)
    : state_(std::make_unique<State>(shape_of(content_type))) {}
UsageReader::~UsageReader() = default;
UsageReader::UsageReader(UsageReader&&) noexcept = default;
UsageReader& UsageReader::operator=(UsageReader&&) noexcept = default;

void UsageReader::field(std::string_view name, std::string_view value) {
  constexpr std::array<std::pair<std::string_view, Field>, 4> kFields{
      {{"x-amzn-bedrock-input-token-count", kInput},
       {"x-amzn-bedrock-output-token-count", kOutput},
       {"x-amzn-bedrock-cache-read-input-token-count", kCachedBeside},
       {"x-amzn-bedrock-cache-write-input-token-count", kWrittenBeside}}};
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; };
  for (const auto& [known, field] : kFields) {
    if (std::ranges::equal(name, known, same)) state_->facts.say(field, parse_count(value));
  }
}

void UsageReader::read(std::string_view bytes) {
  switch (state_->shape) {
    case Shape::kJson: state_->outer.feed(bytes); break;
    case Shape::kSse: state_->read_sse(bytes); break;
    case Shape::kEventStream: state_->read_frames(bytes); break;
  }
}

std::optional<Usage> UsageReader::usage() const {
  const auto& counts = state_->facts.counts;
  if (counts[kInput] < 0 && counts[kOutput] < 0) return {};
  const auto said = [&](Field field) { return std::max<Amount>(counts[field], 0); };
  Usage usage;
  usage.tier = state_->facts.tier;
  usage.cached_input = said(kCached) + said(kCachedBeside);
  usage.input =
      std::max<Amount>(said(kInput) - said(kCached) - said(kWritten), 0) + said(kToolPrompt);
  const bool split = counts[kWrittenFive] >= 0 || counts[kWrittenHour] >= 0;
  usage.cache_write = said(kWritten) + said(split ? kWrittenFive : kWrittenBeside);
  usage.cache_write_1h = said(kWrittenHour);
  // Whether Gemini's candidates include its thoughts is told in two ways; the total is not.
  usage.output = counts[kTotal] >= 0
                     ? std::max<Amount>(counts[kTotal] - said(kInput) - said(kToolPrompt), 0)
                     : said(kOutput) + said(kThoughts);
  return usage;
}

Amount UsageReader::visible_output() const {
  const Facts& facts = state_->facts;
  return std::min(std::max(facts.content_events, (facts.content_bytes + 3) / 4), kCountMax);
}

std::string_view UsageReader::error() const {
  const Facts& facts = state_->facts;
  if (!facts.failed) return {};
  if (!facts.error_type.view().empty()) return facts.error_type.view();
  return facts.error_code.view().empty() ? "error" : facts.error_code.view();
}

}  // namespace weir
