#include "server/log.h"

#include <unistd.h>

#include "server/text.h"

namespace weir::server {
namespace {

std::string_view name(Log::Level level) {
  switch (level) {
    case Log::Level::kInfo: return "info";
    case Log::Level::kWarning: return "warning";
    case Log::Level::kError: return "error";
  }
  return "";
}

bool is_bare(std::string_view text) {
  return !text.empty() && text.find_first_not_of(
                              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                              "._-:/*@%+,[]") == std::string_view::npos;
}

void append_value(std::string& line, const Log::Field& field, Log::Format format) {
  if (const auto* number = std::get_if<std::int64_t>(&field.value)) {
    append_number(line, *number);
    return;
  }
  const std::string_view text = std::get<std::string_view>(field.value);
  if (format == Log::Format::kText && is_bare(text)) {
    line += text;
  } else {
    append_json(line, text);
  }
}

}  // namespace

void Log::write(Level level, std::string_view message, std::initializer_list<Field> fields) {
  std::string line;
  const std::string time = iso_time(clock_.wall());
  if (format_ == Format::kJson) {
    line.append("{\"time\":\"").append(time).append("\",\"level\":\"").append(name(level));
    line += "\",\"message\":";
    append_json(line, message);
  } else {
    line.append(time, 0, 10).append(" ").append(time, 11, 12).append(" ").append(name(level));
    line.append(std::max<std::size_t>(8, name(level).size()) - name(level).size(), ' ');
    line += message;
  }
  for (const Field& field : fields) {
    if (format_ == Format::kJson) {
      line += ',';
      append_json(line, field.name);
      line += ':';
    } else {
      line.append(" ").append(field.name).append("=");
    }
    append_value(line, field, format_);
  }
  line += format_ == Format::kJson ? "}\n" : "\n";

  const std::lock_guard lock{mutex_};
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written <= 0) return;  // nobody reads the log: nothing to be done about it
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace weir::server
