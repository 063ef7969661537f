#include "config/fields.h"
#include "config/load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <numeric>

namespace weir {
namespace {

constexpr std::size_t kMistakesMax = 1000;  // of one file
constexpr Nanos kPeriodMin = std::chrono::milliseconds{1};
constexpr Amount kMicro = 1'000'000;

constexpr std::array<std::pair<std::string_view, Nanos>, 5> kPeriodUnits{
    {{"d", std::chrono::days{1}},
     {"h", std::chrono::hours{1}},
     {"m", std::chrono::minutes{1}},
     {"s", std::chrono::seconds{1}},
     {"ms", std::chrono::milliseconds{1}}}};

std::string_view kind_name(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kList: return "a list";
    case Node::Kind::kMap: return "a mapping";
    case Node::Kind::kScalar: return node.quoted ? "text" : "a plain value";
    case Node::Kind::kNull:
    case Node::Kind::kRefused: break;
  }
  return "nothing";
}

// How many letters must be changed, added or dropped to make one of the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

// " did you mean `period`?" if there is one close enough to be meant.
std::string suggestion(std::string_view word, const auto& known) {
  constexpr std::size_t kWordMax = 64;
  if (word.size() > kWordMax) return {};
  std::string plain{word};
  for (char& c : plain) {
    if (c == '-') c = '_';
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  std::string_view nearest;
  std::size_t least = std::min<std::size_t>(3, word.size() / 2 + 1);
  for (const std::string_view candidate : known) {
    if (const std::size_t d = distance(plain, candidate); d < least) {
      least = d;
      nearest = candidate;
    }
  }
  return nearest.empty() ? std::string{} : fmt::format("; did you mean `{}`?", nearest);
}

template <class Integer>
bool parse_whole(std::string_view text, Integer& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

std::string excerpt(std::string_view value) {
  constexpr std::size_t kShownMax = 40;
  std::string text{value.substr(0, kShownMax)};
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, '?');
  return value.size() > kShownMax ? text + "..." : text;
}

std::string spell(Nanos period) {
  for (const auto& [suffix, unit] : kPeriodUnits) {
    if (period % unit == Nanos{0}) return fmt::format("{}{}", period / unit, suffix);
  }
  return fmt::format("{}ns", period.count());
}

Result<Nanos> parse_period(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto unit = std::ranges::find(kPeriodUnits, text.substr(digits),
                                      &decltype(kPeriodUnits)::value_type::first);
  std::int64_t count = 0;
  if (digits == 0 || unit == kPeriodUnits.end()) {
    return fail(Errc::kInvalidConfig,
                fmt::format("{} is not a period; write 30s, 5m, 1h or 1d", excerpt(text)));
  }
  if (!parse_whole(text.substr(0, digits), count) || count > kPeriodMax / unit->second ||
      count * unit->second < kPeriodMin) {
    return fail(Errc::kInvalidConfig,
                fmt::format("a period is from {} to {}: {}", spell(kPeriodMin), spell(kPeriodMax),
                            excerpt(text)));
  }
  return count * unit->second;
}

void Reading::mistake(const Node& at, std::string field, std::string message) {
  if (mistakes.size() < kMistakesMax) {
    mistakes.push_back({place(at), std::move(field), std::move(message)});
  }
}

bool Reading::claim(std::map<std::string, Place> Claims::* which, const std::string& value,
                    const Node& at, const char* field) {
  const auto [first, is_new] = (claims.*which).try_emplace(value, place(at));
  if (is_new) return true;
  const Place& other = first->second;
  mistake(at, field,
          fmt::format("{} is taken by the {} in {}:{}:{}", value,
                      which == &Claims::sources ? "source" : "provider", other.file, other.line,
                      other.column));
  return false;
}

std::string Reading::resolve(const std::string& path) const {
  return (std::filesystem::path{file}.parent_path() / path).string();
}

std::optional<Fields> Fields::of(Reading& reading, const Node& node, std::string path) {
  if (node.kind == Node::Kind::kMap) return Fields{reading, node, std::move(path)};
  if (node.kind != Node::Kind::kRefused) {
    reading.mistake(node, std::move(path),
                    fmt::format("expected a mapping (key: value), not {}", kind_name(node)));
  }
  return {};
}

std::string Fields::path(std::string_view key) const {
  return path_.empty() ? std::string{key} : fmt::format("{}.{}", path_, key);
}

const Node* Fields::find(std::string_view key) {
  if (std::ranges::find(known_, key) == known_.end()) known_.emplace_back(key);
  return node_->find(key);
}

const Node* Fields::find(std::string_view key, Node::Kind kind, std::string_view what) {
  const Node* node = find(key);
  if (node == nullptr || node->kind == Node::Kind::kRefused) return nullptr;
  if (node->kind == kind) return node;
  mistake(key, fmt::format("expected {}, not {}", what, kind_name(*node)));
  return nullptr;
}

void Fields::require(std::string_view key) {
  if (find(key) == nullptr) reading_->mistake(*node_, path(key), "is missing");
}

void Fields::mistake(std::string_view key, std::string message) {
  const Node* at = node_->find(key);
  if (at == nullptr) at = node_;
  // An empty value stands nowhere: point to its key.
  if (at->kind == Node::Kind::kNull) at = &*std::ranges::find(node_->keys, key, &Node::text);
  reading_->mistake(*at, path(key), std::move(message));
}

std::optional<std::string> Fields::text(std::string_view key, std::string_view what) {
  const Node* node = find(key, Node::Kind::kScalar, what);
  if (node == nullptr) return {};
  if (!node->text.empty()) return node->text;
  mistake(key, fmt::format("expected {}, not nothing", what));
  return {};
}

std::optional<std::string> Fields::name(std::string_view key) {
  auto value = text(key, "a name");
  if (!value || is_name(*value)) return value;
  mistake(key, fmt::format("a name is 1 to 64 letters, digits, dots, underscores or dashes: {}",
                           excerpt(*value)));
  return {};
}

std::optional<Amount> Fields::whole(std::string_view key, Amount from, Amount to) {
  const std::string what = fmt::format("a whole number from {} to {}", from, to);
  const Node* node = find(key, Node::Kind::kScalar, what);
  if (node == nullptr) return {};
  Amount value = 0;
  if (!node->quoted && parse_whole(node->text, value) && value >= from && value <= to) return value;
  mistake(key, fmt::format("must be {}{}: {}", what, node->quoted ? " without quotes" : "",
                           excerpt(node->text)));
  return {};
}

std::optional<Amount> Fields::micro_usd(std::string_view key, Amount least) {
  const std::string what = fmt::format("dollars from {} to 1000000000 with at most 6 decimals",
                                       least == 0 ? "0" : "0.000001");
  const Node* node = find(key, Node::Kind::kScalar, what);
  if (node == nullptr) return {};
  const std::string_view text = node->text;
  const std::size_t point = std::min(text.find('.'), text.size());
  std::string decimals{text.substr(std::min(point + 1, text.size()))};
  const bool formed = (point == text.size() || !decimals.empty()) && decimals.size() <= 6;
  decimals.resize(6, '0');
  std::uint64_t dollars = 0;
  std::uint64_t micros = 0;
  if (!node->quoted && formed && parse_whole(text.substr(0, point), dollars) &&
      parse_whole(decimals, micros) && dollars <= kAmountMax / kMicro) {
    const Amount value = static_cast<Amount>(dollars) * kMicro + static_cast<Amount>(micros);
    if (value >= least && value <= kAmountMax) return value;
  }
  mistake(key, fmt::format("must be {}: {}", what, excerpt(text)));
  return {};
}

std::optional<bool> Fields::yes_or_no(std::string_view key) {
  constexpr std::array<std::pair<std::string_view, bool>, 2> kWords{
      {{"true", true}, {"false", false}}};
  return choice(key, kWords);
}

std::optional<std::uint64_t> Fields::bytes(std::string_view key, std::uint64_t most) {
  constexpr std::array<std::pair<std::string_view, unsigned>, 4> kUnits{
      {{"", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}}};
  const auto value = text(key, "a number of bytes such as 1MiB");
  if (!value) return {};
  const std::size_t digits = std::min(value->find_first_not_of("0123456789"), value->size());
  const auto unit = std::ranges::find(kUnits, std::string_view{*value}.substr(digits),
                                      &decltype(kUnits)::value_type::first);
  std::uint64_t count = 0;
  if (unit != kUnits.end() && parse_whole(std::string_view{*value}.substr(0, digits), count) &&
      count > 0 && count <= most >> unit->second) {
    return count << unit->second;
  }
  mistake(key, fmt::format("must be bytes from 1 to {} such as 1MiB: {}", most, excerpt(*value)));
  return {};
}

std::optional<Nanos> Fields::period(std::string_view key) {
  const auto value = text(key, "a period such as 30s, 5m, 1h or 1d");
  if (!value) return {};
  const auto period = parse_period(*value);
  if (period) return *period;
  mistake(key, period.error().message);
  return {};
}

std::vector<std::pair<const Node*, std::string>> Fields::list(std::string_view key) {
  std::vector<std::pair<const Node*, std::string>> items;
  if (const Node* node = find(key, Node::Kind::kList, "a list")) {
    for (const Node& item : node->items) {
      items.emplace_back(&item, fmt::format("{}[{}]", path(key), items.size()));
    }
  }
  return items;
}

std::optional<Fields> Fields::map(std::string_view key) {
  const Node* node = find(key, Node::Kind::kMap, "a mapping (key: value)");
  return node == nullptr ? std::nullopt : std::optional{Fields{*reading_, *node, path(key)}};
}

std::optional<std::size_t> Fields::word_of(std::string_view key,
                                           std::span<const std::string_view> words) {
  const std::string what = fmt::format("one of {}", fmt::join(words, ", "));
  const auto word = text(key, what);
  if (!word) return {};
  const auto found = std::ranges::find(words, *word);
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  mistake(key, fmt::format("must be {}: {}{}", what, excerpt(*word), suggestion(*word, words)));
  return {};
}

void Fields::finish() {
  for (const Node& key : node_->keys) {
    if (std::ranges::find(known_, key.text) != known_.end()) continue;
    const std::string key_shown = shown(key.text);
    reading_->mistake(key, path(key_shown),
                      fmt::format("unknown key `{}`{}", key_shown, suggestion(key_shown, known_)));
  }
}

}  // namespace weir
