#include "fleet/capacity_update.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "fleet/message_json.h"

namespace weir::fleet {
namespace {

namespace json = boost::json;
using namespace std::chrono;

std::string format_time(CalendarTime time) {
  const auto day = floor<days>(time);
  const year_month_day date{day};
  const hh_mm_ss clock{time - day};
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:09}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count(),
                     clock.subseconds().count());
}

// Reads a text from its front; after something unexpected it stays at fault.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  int number(std::size_t digits, int max) {
    int value = 0;
    for (std::size_t i = 0; i < digits; ++i) value = value * 10 + digit();
    if (value > max) fault_ = true;
    return value;
  }
  // One of `characters`; the first of them if there is none.
  char one_of(std::string_view characters) {
    if (rest_.empty() || characters.find(rest_.front()) == std::string_view::npos) {
      fault_ = true;
      return characters.front();
    }
    return take();
  }
  // What follows a dot, if one does; digits beyond the ninth are dropped.
  nanoseconds fraction() {
    if (!rest_.starts_with('.')) return nanoseconds{0};
    take();
    nanoseconds value{0};
    nanoseconds unit = 100ms;
    do {
      value += unit * digit();
      unit /= 10;
    } while (is_digit());
    return value;
  }
  bool at_end() const { return !fault_ && rest_.empty(); }

 private:
  bool is_digit() const { return !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9'; }
  int digit() {
    if (is_digit()) return take() - '0';
    fault_ = true;
    return 0;
  }
  char take() {
    const char front = rest_.front();
    rest_.remove_prefix(1);
    return front;
  }

  std::string_view rest_;
  bool fault_ = false;
};

std::optional<CalendarTime> parse_time(std::string_view text) {
  Reader reader{text};
  const year y{reader.number(4, 2200)};
  reader.one_of("-");
  const month m{static_cast<unsigned>(reader.number(2, 12))};
  reader.one_of("-");
  const day d{static_cast<unsigned>(reader.number(2, 31))};
  reader.one_of("Tt ");
  const hours h{reader.number(2, 23)};
  reader.one_of(":");
  const minutes min{reader.number(2, 59)};
  reader.one_of(":");
  const seconds s{reader.number(2, 60)};  // a leap second is the next one
  const nanoseconds fraction = reader.fraction();
  minutes offset{0};
  if (const char sign = reader.one_of("Zz+-"); sign == '+' || sign == '-') {
    offset = hours{reader.number(2, 23)};
    reader.one_of(":");
    offset += minutes{reader.number(2, 59)};
    if (sign == '-') offset = -offset;
  }
  const year_month_day date = y / m / d;
  if (!reader.at_end() || y < year{1969} || !date.ok()) return std::nullopt;
  const CalendarTime time = sys_days{date} + h + min + s + fraction - offset;
  if (time < CalendarTime{} || time >= sys_days{2200y / 1 / 1}) return std::nullopt;
  return time;
}

// False if there is something of this name that is not a string.
bool read_optional(const json::object& object, std::string_view key,
                   std::optional<std::string>& value) {
  value = text_of(object, key);
  return value || !object.contains({key.data(), key.size()});
}

std::string serialize(const CapacityUpdate& update) {
  json::object object{{"resource", update.resource},
                      {"agent_id", update.agent_id},
                      {"new_capacity", update.new_capacity},
                      {"reason", update.reason},
                      {"timestamp", format_time(update.timestamp)}};
  if (update.model) object.emplace("model", *update.model);
  if (update.credential_hash) object.emplace("credential_hash", *update.credential_hash);
  return json::serialize(object);
}

// At most `bytes`, without a piece of a character at the end.
void cut(std::string& text, std::size_t bytes) {
  if (text.size() <= bytes) return;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0U) == 0x80U) --bytes;
  text.resize(bytes);
}

}  // namespace

bool is_agent_id(std::string_view text) {
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7F; };
  return !text.empty() && text.size() <= kAgentIdBytesMax && std::ranges::none_of(text, is_control);
}

std::optional<std::string> format_capacity_update(CapacityUpdate update) {
  cut(update.reason, kReasonBytesMax);
  std::string text = serialize(update);
  if (parse_capacity_update(text)) return text;
  update.reason.clear();
  text = serialize(update);
  if (parse_capacity_update(text)) return text;
  return std::nullopt;
}

std::optional<CapacityUpdate> parse_capacity_update(std::string_view text) {
  const auto object = parse_object(text, kUpdateBytesMax);
  if (!object) return std::nullopt;

  const auto resource = text_of(*object, "resource");
  const auto agent_id = text_of(*object, "agent_id");
  const auto reason = text_of(*object, "reason");
  const auto timestamp = text_of(*object, "timestamp");
  const json::value* capacity = object->if_contains("new_capacity");
  if (!resource || resource->empty() || !agent_id || !is_agent_id(*agent_id) || !reason ||
      !timestamp || capacity == nullptr || !capacity->is_int64()) {
    return std::nullopt;
  }
  const Amount new_capacity = capacity->get_int64();
  const auto time = parse_time(*timestamp);
  if (new_capacity < 1 || new_capacity > kAmountMax || !time) return std::nullopt;
  CapacityUpdate update{.resource = std::string{*resource},
                        .agent_id = std::string{*agent_id},
                        .new_capacity = new_capacity,
                        .reason = std::string{*reason},
                        .timestamp = *time};
  if (!read_optional(*object, "model", update.model) ||
      !read_optional(*object, "credential_hash", update.credential_hash)) {
    return std::nullopt;
  }
  return update;
}

}  // namespace weir::fleet
