#include "config/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <unordered_map>

namespace weir {
namespace {

constexpr std::size_t kDepthMax = 64;
constexpr std::size_t kFlawsMax = 100;

class Builder final : public YAML::EventHandler {
 public:
  Document document;

  [[noreturn]] void stop(const YAML::Mark& mark, std::string message) {
    refuse(mark, std::move(message));
    throw Stop{};
  }
  struct Stop {};

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (document.root) stop(mark, "a second document; a file holds one");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    add(mark, Node::Kind::kNull);
  }
  void OnAnchor(const YAML::Mark& mark, const std::string& /*name*/) override {
    refuse(mark, "anchors (&) are not allowed");
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    refuse(mark, kAlias);
    add(mark, Node::Kind::kRefused);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                const std::string& value) override {
    check_tag(mark, tag, {"str", "int", "float", "bool", "null"});
    Node& scalar = add(mark, Node::Kind::kScalar);
    scalar.quoted = tag == "!" || tag == std::string{kCore} + "str";
    scalar.text = value;
    if (tag == "!") last_quote_ = mark;
    if (is_key(scalar)) check_key(mark, value);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                       YAML::EmitterStyle::value /*style*/) override {
    check_tag(mark, tag, {"seq"});
    open(mark, Node::Kind::kList);
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {
    check_tag(mark, tag, {"map"});
    open(mark, Node::Kind::kMap);
  }
  void OnMapEnd() override { open_.pop_back(); }

  // The parser takes the end of the text for the end of a quote.
  void check_last_quote(std::string_view text) {
    const auto begin = static_cast<std::size_t>(last_quote_.pos);
    if (begin >= text.size() || (text[begin] != '"' && text[begin] != '\'')) return;
    const char quote = text[begin];
    for (std::size_t i = begin + 1; i < text.size(); ++i) {
      const bool doubled = quote == '\'' && text.substr(i).starts_with("''");
      if (doubled || (quote == '"' && text[i] == '\\')) {
        ++i;
      } else if (text[i] == quote) {
        return;
      }
    }
    stop(last_quote_, "not YAML: the quote is never closed");
  }

  static constexpr const char* kAlias = "aliases (*) are not allowed";

 private:
  static constexpr std::string_view kCore = "tag:yaml.org,2002:";
  struct Open {
    Node* node;  // stays where it is: only the innermost open node grows
    std::unordered_map<std::string, int> lines;  // of its keys
  };

  void refuse(const YAML::Mark& mark, std::string message) {
    document.flaws.push_back({mark.line + 1, mark.column + 1, std::move(message)});
    if (document.flaws.size() >= kFlawsMax) throw Stop{};
  }

  void check_tag(const YAML::Mark& mark, std::string_view tag,
                 std::initializer_list<std::string_view> allowed) {
    if (tag == "?" || tag == "!") return;
    if (tag.starts_with(kCore) && std::ranges::count(allowed, tag.substr(kCore.size())) != 0) {
      return;
    }
    refuse(mark, "this tag (!) is not allowed here");
  }

  void check_key(const YAML::Mark& mark, const std::string& key) {
    const auto [first, is_new] = open_.back().lines.try_emplace(key, mark.line + 1);
    if (is_new) return;
    refuse(mark, fmt::format("the key `{}` stands here twice, first in line {}", shown(key),
                             first->second));
  }

  bool is_key(const Node& node) const {
    return !open_.empty() && !open_.back().node->keys.empty() &&
           &open_.back().node->keys.back() == &node;
  }

  Node& add(const YAML::Mark& mark, Node::Kind kind) {
    Node* node = nullptr;
    if (open_.empty()) {
      node = &document.root.emplace();
    } else if (Node& parent = *open_.back().node;
               parent.kind == Node::Kind::kMap && parent.keys.size() == parent.items.size()) {
      if (kind != Node::Kind::kScalar) stop(mark, "a key must be text");
      node = &parent.keys.emplace_back();
    } else {
      node = &parent.items.emplace_back();
    }
    node->kind = kind;
    node->line = mark.line + 1;
    node->column = mark.column + 1;
    return *node;
  }

  void open(const YAML::Mark& mark, Node::Kind kind) {
    if (open_.size() >= kDepthMax) {
      stop(mark, fmt::format("nested more than {} deep", kDepthMax));
    }
    open_.push_back({&add(mark, kind), {}});
  }

  std::vector<Open> open_;
  YAML::Mark last_quote_;
};

// The length of the UTF-8 character that `text` begins with; 0 if it begins with none, or with NUL.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return first == 0 ? 0 : 1;
  // The second byte's range keeps out overlong forms, surrogates and what is above U+10FFFF.
  struct Form {
    unsigned first_from, first_to, second_from, second_to;
    std::size_t length;
  };
  constexpr std::array kForms{Form{0xC2, 0xDF, 0x80, 0xBF, 2}, Form{0xE0, 0xE0, 0xA0, 0xBF, 3},
                              Form{0xE1, 0xEC, 0x80, 0xBF, 3}, Form{0xED, 0xED, 0x80, 0x9F, 3},
                              Form{0xEE, 0xEF, 0x80, 0xBF, 3}, Form{0xF0, 0xF0, 0x90, 0xBF, 4},
                              Form{0xF1, 0xF3, 0x80, 0xBF, 4}, Form{0xF4, 0xF4, 0x80, 0x8F, 4}};
  for (const Form& form : kForms) {
    if (first < form.first_from || first > form.first_to) continue;
    if (byte(1) < form.second_from || byte(1) > form.second_to) return 0;
    for (std::size_t i = 2; i < form.length; ++i) {
      if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
    }
    return form.length;
  }
  return 0;
}

std::optional<Document::Flaw> check_characters(std::string_view text) {
  Document::Flaw flaw{1, 1, {}};
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_length(text.substr(at));
    if (length == 0) {
      flaw.message = text[at] == '\0' ? "a NUL byte; is this a text file?" : "invalid UTF-8";
      return flaw;
    }
    flaw.column += static_cast<int>(length);
    if (text[at] == '\n') {
      ++flaw.line;
      flaw.column = 1;
    }
    at += length;
  }
  return {};
}

// The parser's own message without what it quotes.
std::string without_quote(const std::string& message) {
  if (message.starts_with(YAML::ErrorMsg::UNKNOWN_ANCHOR)) return Builder::kAlias;
  return "not YAML: " + message.substr(0, message.find(':'));
}

// The parser sometimes points behind the end.
Document::Flaw inside(Document::Flaw flaw, std::string_view text) {
  if (flaw.line < 1) return {0, 0, std::move(flaw.message)};
  int line = 1;
  while (line < flaw.line) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) break;
    text.remove_prefix(end + 1);
    ++line;
  }
  flaw.line = line;
  flaw.column =
      std::clamp(flaw.column, 1, static_cast<int>(text.substr(0, text.find('\n')).size()) + 1);
  return flaw;
}

}  // namespace

const Node* Node::find(std::string_view key) const {
  const auto found = std::ranges::find(keys, key, &Node::text);
  return found == keys.end() ? nullptr : &items[static_cast<std::size_t>(found - keys.begin())];
}

std::string shown(std::string_view key) {
  constexpr std::size_t kShownMax = 64;
  std::string text{key.substr(0, std::min(key.find_first_of(":=\"'\\ "), kShownMax))};
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, '?');
  return text;
}

Document parse_yaml(std::string_view text) {
  Builder builder;
  Document& document = builder.document;
  if (text.size() > kTextMax) {
    document.flaws.push_back({0, 0, "larger than 1 MiB"});
    return std::move(document);
  }
  if (auto flaw = check_characters(text)) {
    document.flaws.push_back(*std::move(flaw));
    return std::move(document);
  }
  bool complete = false;
  try {
    std::istringstream in{std::string{text}};
    YAML::Parser parser{in};
    while (parser.HandleNextDocument(builder)) {
    }
    builder.check_last_quote(text);
    complete = true;
  } catch (const Builder::Stop&) {
  } catch (const YAML::Exception& error) {
    document.flaws.push_back(
        {error.mark.line + 1, error.mark.column + 1, without_quote(error.msg)});
  }
  for (auto& flaw : document.flaws) flaw = inside(std::move(flaw), text);
  if (!complete) {
    document.root.reset();
  } else if (!document.root) {
    document.flaws.push_back({0, 0, "the file is empty"});
  }
  return std::move(document);
}

}  // namespace weir
