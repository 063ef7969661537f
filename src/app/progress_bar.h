// ProgressBar: one line of a terminal that is written again and again, and gone with the object.
// Elsewhere than on a terminal nothing is written.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

namespace weir::app {

// "[########        ] text", of which `done`, from 0 to 1, is filled; cut to 79 columns.
inline std::string progress_line(double done, std::string_view text) {
  constexpr std::size_t kColumns = 79;
  constexpr std::size_t kWidth = 16;
  const auto filled = static_cast<std::size_t>(std::clamp(done, 0.0, 1.0) * kWidth);
  return fmt::format("[{:#<{}}{:{}}] {}", "", filled, "", kWidth - filled,
                     text.substr(0, kColumns - kWidth - 3));
}

class ProgressBar {
 public:
  ~ProgressBar() {
    if (shown_) std::fputs("\r\x1b[K", stderr);
  }
  void show(double done, std::string_view text) {
    if (!terminal_) return;
    shown_ = true;
    fmt::print(stderr, "\r{}\x1b[K", progress_line(done, text));
  }

 private:
  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  bool shown_ = false;
};

}  // namespace weir::app
