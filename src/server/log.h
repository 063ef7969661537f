// Log: structured lines on a descriptor, as text for people or as JSON for programs.
//
//   log.info("listening", {{"address", "127.0.0.1:9347"}});
//   2026-11-15 22:46:09.120 info  listening address=127.0.0.1:9347
//   {"time":"2026-11-15T22:46:09.120Z","level":"info","message":"listening","address":"127…"}
//
// Safe to use from any thread; a line is one write. There is no way to log a Secret: fields are
// text and numbers.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <string>
#include <string_view>
#include <variant>

#include "weir/time/clock.h"

namespace weir::server {

class Log {
 public:
  enum class Format : std::uint8_t { kText, kJson };
  enum class Level : std::uint8_t { kInfo, kWarning, kError };
  struct Field {
    std::string_view name;
    std::variant<std::string_view, std::int64_t> value;
  };

  Log(int descriptor, Format format, const Clock& clock)
      : descriptor_(descriptor), format_(format), clock_(clock) {}

  void info(std::string_view message, std::initializer_list<Field> fields = {}) {
    write(Level::kInfo, message, fields);
  }
  void warning(std::string_view message, std::initializer_list<Field> fields = {}) {
    write(Level::kWarning, message, fields);
  }
  void error(std::string_view message, std::initializer_list<Field> fields = {}) {
    write(Level::kError, message, fields);
  }

 private:
  void write(Level level, std::string_view message, std::initializer_list<Field> fields);

  const int descriptor_;
  const Format format_;
  const Clock& clock_;
  std::mutex mutex_;
};

}  // namespace weir::server
