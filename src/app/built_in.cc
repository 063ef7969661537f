#include "app/built_in.h"

#include "embedded/example_providers.h"

namespace weir::app {

std::expected<Model, Mistakes> built_in_model() {
  Model model;
  for (const auto& [name, text] : kEmbedded) {
    auto provider = parse_provider(text, "examples/providers/" + std::string{name});
    if (!provider) return std::unexpected(provider.error());
    model.providers.push_back(std::move(*provider));
  }
  return model;
}

}  // namespace weir::app
