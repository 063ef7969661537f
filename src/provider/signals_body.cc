#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <exception>

#include "net/characters.h"
#include "provider/durations.h"
#include "provider/signals_parts.h"

namespace weir {
namespace {

namespace json = boost::json;

constexpr std::size_t kDepthMax = 32;
constexpr std::size_t kCodeBytesMax = 96;

// Null if it is not JSON.
json::value parse(std::string_view body) {
  json::parse_options options;
  options.max_depth = kDepthMax;
  try {
    boost::system::error_code error;
    json::value value = json::parse(body, error, {}, options);
    if (!error) return value;
  } catch (const std::exception&) {
  }
  return nullptr;
}

const json::value* member(const json::value* value, std::string_view key) {
  if (value == nullptr || !value->is_object()) return nullptr;
  return value->get_object().if_contains(key);
}

std::string_view text_of(const json::value* value) {
  if (value == nullptr || !value->is_string()) return {};
  return value->get_string();
}

// A number that may come as a string.
std::string number_text(const json::value* value) {
  if (value == nullptr) return {};
  if (value->is_int64()) return std::to_string(value->get_int64());
  if (value->is_uint64()) return std::to_string(value->get_uint64());
  return std::string{text_of(value)};
}

std::string lower(std::string_view text) {
  std::string result{text};
  std::ranges::transform(result, result.begin(), net::lower);
  return result;
}

// "Please retry in 34.07s.", "reset after 2m 13s".
std::optional<Nanos> said_in(std::string_view text) {
  for (const std::string_view phrase :
       {"retry in ", "try again in ", "retry after ", "reset after ", "resets in ", "reset in "}) {
    for (std::size_t at = text.find(phrase); at != text.npos; at = text.find(phrase, at + 1)) {
      const auto found = read_leading_duration(text.substr(at + phrase.size()));
      if (found > Nanos{0}) return found;
    }
  }
  return std::nullopt;
}

class BodyReader {
 public:
  explicit BodyReader(CalendarTime wall) : wall_(wall) {}

  BodyFacts read(std::string_view body);

 private:
  void read_error(const json::value& error);
  void read_google(const json::value& detail);
  void read_openrouter(const json::value& metadata);
  void prefer(std::string_view code) {
    if (!code.empty()) facts_.code.assign(code.substr(0, kCodeBytesMax));
  }
  void wait(std::optional<Nanos> delay) {
    if (!facts_.retry_after && delay > Nanos{0}) facts_.retry_after = delay;
  }

  CalendarTime wall_;
  BodyFacts facts_;
};

BodyFacts BodyReader::read(std::string_view body) {
  const json::value whole = parse(body.substr(0, kSignalBodyBytes));
  if (whole.is_null()) {
    facts_.text = lower(body.substr(0, kSignalBodyBytes));
  } else {
    // Gemini's streams answer with an array.
    const bool listed = whole.is_array() && !whole.get_array().empty();
    const json::value& root = listed ? whole.get_array().front() : whole;
    const json::value* error = member(&root, "error");
    read_error(error == nullptr ? root : *error);
  }
  wait(said_in(facts_.text));
  return std::move(facts_);
}

// From the least specific word for it to the most.
void BodyReader::read_error(const json::value& error) {
  const std::string_view message = text_of(member(&error, "message"));
  facts_.text = lower(error.is_string() ? text_of(&error) : message);
  facts_.type.assign(text_of(member(&error, "type")).substr(0, kCodeBytesMax));
  const std::string_view status = text_of(member(&error, "status"));
  facts_.resource_exhausted = status == "RESOURCE_EXHAUSTED";
  prefer(text_of(member(&error, "__type")));
  prefer(status);
  prefer(facts_.type);
  prefer(text_of(member(&error, "code")));
  const json::value* details = member(&error, "details");
  prefer(text_of(member(details, "error_code")));
  if (details != nullptr && details->is_array()) {
    for (const json::value& detail : details->get_array()) read_google(detail);
  }
  if (const json::value* metadata = member(&error, "metadata")) read_openrouter(*metadata);
}

void BodyReader::read_google(const json::value& detail) {
  wait(read_duration(text_of(member(&detail, "retryDelay"))));
  prefer(text_of(member(&detail, "reason")));
  const json::value* violations = member(&detail, "violations");
  if (violations == nullptr || !violations->is_array()) return;
  for (const json::value& violation : violations->get_array()) {
    const std::string_view id = text_of(member(&violation, "quotaId"));
    if (facts_.daily) return;
    prefer(id);
    facts_.daily = id.find("PerDay") != id.npos || id.find("Daily") != id.npos;
  }
}

void BodyReader::read_openrouter(const json::value& metadata) {
  const std::string_view source = text_of(member(&metadata, "limit_source"));
  prefer(source);
  facts_.daily = facts_.daily || source.ends_with("_daily");
  const json::value* headers = member(&metadata, "headers");
  wait(read_reset(number_text(member(headers, "X-RateLimit-Reset")), wall_));
}

}  // namespace

BodyFacts read_body_facts(std::string_view body, CalendarTime wall) {
  return BodyReader{wall}.read(body);
}

}  // namespace weir
