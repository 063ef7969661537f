#include "provider/domain.h"

#include "net/host.h"

namespace weir {

bool DomainTable::add(std::string host, std::size_t provider) {
  return providers_.emplace(std::move(host), provider).second;
}

std::optional<std::size_t> DomainTable::find(std::string_view host) const {
  if (const auto own = providers_.find(host); own != providers_.end()) return own->second;
  if (net::is_address(host)) return std::nullopt;
  for (std::size_t dot = host.find('.'); dot != std::string_view::npos; dot = host.find('.')) {
    host.remove_prefix(dot + 1);
    if (const auto parent = providers_.find(host); parent != providers_.end()) {
      return parent->second;
    }
  }
  return std::nullopt;
}

}  // namespace weir
