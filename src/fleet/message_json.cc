#include "fleet/message_json.h"

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <utility>

namespace weir::fleet {
namespace {

namespace json = boost::json;

constexpr std::size_t kDepthMax = 8;  // ours are flat; others may add to theirs

}  // namespace

std::optional<json::object> parse_object(std::string_view text, std::size_t bytes_max) {
  if (text.size() > bytes_max) return std::nullopt;
  json::parse_options options;
  options.max_depth = kDepthMax;
  json::error_code error;
  json::value value = json::parse({text.data(), text.size()}, error, {}, options);
  if (error || !value.is_object()) return std::nullopt;
  return std::move(value.get_object());
}

std::optional<std::string_view> text_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains({key.data(), key.size()});
  const json::string* text = value != nullptr ? value->if_string() : nullptr;
  if (text == nullptr) return std::nullopt;
  return std::string_view{text->data(), text->size()};
}

}  // namespace weir::fleet
