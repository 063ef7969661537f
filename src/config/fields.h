// Fields: the entries of one mapping in a file, read as checked values.
//
// A read of a key that is absent or wrong gives nothing; what is wrong is noted in the Reading with
// its place. Keys that nobody asked for are mistakes once finish() is called.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/load.h"
#include "config/yaml.h"

namespace weir {

// What only one provider or source may have, and where it was said first.
struct Claims {
  std::map<std::string, Place> names;
  std::map<std::string, Place> domains;
  std::map<std::string, Place> sources;
};

// One file while it is read.
struct Reading {
  std::string file;                   // as messages name it; paths in it are relative to its folder
  std::optional<unsigned> mode = {};  // its permissions; nothing for text from elsewhere
  Claims& claims;
  Mistakes mistakes = {};
  Mistakes warnings = {};

  Place place(const Node& at) const { return {file, at.line, at.column}; }
  void mistake(const Node& at, std::string field, std::string message);
  // False, with a mistake, if another has it.
  bool claim(std::map<std::string, Place> Claims::* which, const std::string& value, const Node& at,
             const char* field);
  // A path in this file, as seen from the process.
  std::string resolve(const std::string& path) const;
};

class Fields {
 public:
  // Nothing, and a mistake, if `node` is no mapping.
  static std::optional<Fields> of(Reading& reading, const Node& node, std::string path = {});

  Reading& reading() const { return *reading_; }
  const Node& node() const { return *node_; }
  std::string path(std::string_view key) const;
  // The value of `key`, null if there is none.
  const Node* find(std::string_view key);
  void require(std::string_view key);
  // Something is wrong with the value of `key`.
  void mistake(std::string_view key, std::string message);

  std::optional<std::string> text(std::string_view key, std::string_view what = "text");
  // Text of [A-Za-z0-9._-]{1,64}.
  std::optional<std::string> name(std::string_view key);
  std::optional<Amount> whole(std::string_view key, Amount from, Amount to);
  // Written in dollars. `least` is 1, or 0 for what may be free.
  std::optional<Amount> micro_usd(std::string_view key, Amount least = 1);
  std::optional<bool> yes_or_no(std::string_view key);  // written true or false
  // Bytes, or with KiB, MiB or GiB behind the number.
  std::optional<std::uint64_t> bytes(std::string_view key, std::uint64_t most);
  std::optional<Nanos> period(std::string_view key);
  // The items with their paths; none if the value is no list.
  std::vector<std::pair<const Node*, std::string>> list(std::string_view key);
  std::optional<Fields> map(std::string_view key);

  template <class T, std::size_t kSize>
  std::optional<T> choice(std::string_view key,
                          const std::array<std::pair<std::string_view, T>, kSize>& choices) {
    std::vector<std::string_view> words;
    for (const auto& [word, value] : choices) words.push_back(word);
    const auto index = word_of(key, words);
    return index ? std::optional{choices[*index].second} : std::nullopt;
  }

  // Mistakes for the keys that nobody asked for.
  void finish();

 private:
  Fields(Reading& reading, const Node& node, std::string path)
      : reading_(&reading), node_(&node), path_(std::move(path)) {}

  const Node* find(std::string_view key, Node::Kind kind, std::string_view what);
  std::optional<std::size_t> word_of(std::string_view key, std::span<const std::string_view> words);

  Reading* reading_;
  const Node* node_;
  std::string path_;
  std::vector<std::string> known_;  // every key asked for
};

// A value as messages may show it: short and on one line. Never for what may be a secret.
std::string excerpt(std::string_view value);
// "30s", "5m": the longest unit that divides it.
std::string spell(Nanos period);

}  // namespace weir
