// YAML (and so JSON) text → a tree that knows where everything stands.
//
// Hostile text is refused, never expanded: aliases, anchors, tags beyond the core schema, duplicate
// keys, keys that are no text, a second document, nesting deeper than 64, more than 1 MiB, NUL and
// invalid UTF-8. No message quotes the text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

struct Node {
  enum class Kind : unsigned char { kRefused, kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  int line = 0;
  int column = 0;
  bool quoted = false;      // a scalar that is text whatever it looks like
  std::string text;         // of a scalar
  std::vector<Node> items;  // of a list; the values of a map
  std::vector<Node> keys;   // of a map, scalars all, one for each item

  // The value of a map's key; null if there is none, or no map.
  const Node* find(std::string_view key) const;
};

struct Document {
  struct Flaw {
    int line = 0;
    int column = 0;
    std::string message;
  };

  std::optional<Node> root;  // nothing if the text cannot be read on; what is refused is kRefused
  std::vector<Flaw> flaws;
};

inline constexpr std::size_t kTextMax = 1024 * 1024;

Document parse_yaml(std::string_view text);

// A key as messages may show it: short, on one line, and without what may be a value.
std::string shown(std::string_view key);

}  // namespace weir
