#include "source/definition.h"

#include <fmt/format.h>

#include "server/text.h"

namespace weir::source {

std::string definition_text(const SourceConfig& config) {
  const auto ms = [](Nanos span) { return fmt::format("{}ms", server::ceil_ms(span)); };
  server::JsonText json;
  json.open('{').key("name").text(config.name).key("url").text(config.url);
  json.key("every").text(ms(config.every)).key("timeout").text(ms(config.timeout));
  json.key("max_body").number(config.max_body).key("headers").open('{');
  for (const auto& [name, value] : config.headers) json.key(name).text(value);
  json.close('}').close('}');
  return json.str();
}

}  // namespace weir::source
