// From a URL to the provider that it falls under (S4.3).
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace weir {

// Lets a map with keys of std::string be asked for a view.
struct TextHash : std::hash<std::string_view> {
  using is_transparent = void;
};
template <class T>
using ByName = std::unordered_map<std::string, T, TextHash, std::equal_to<>>;

// Which provider a host falls under: its own entry, else its nearest parent's. Parents are found on
// label boundaries only, and an IP address has none. A plain value; not thread-safe by itself.
class DomainTable {
 public:
  // False if `host` (as net::host_of gives it) is there already.
  bool add(std::string host, std::size_t provider);
  std::optional<std::size_t> find(std::string_view host) const;

 private:
  ByName<std::size_t> providers_;
};

}  // namespace weir
