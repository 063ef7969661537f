// Base64 decoded as it comes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace weir {

// Both alphabets; what belongs to neither (padding, line ends) is passed over.
class Base64 {
 public:
  void reset() { bits_ = 0; }

  // Calls take(std::string_view) with what `text`, the next piece, decodes to.
  template <class Take>
  void decode(std::string_view text, const Take& take) {
    std::array<char, 256> out{};
    std::size_t size = 0;
    for (const char c : text) {
      const int value = digit(c);
      if (value < 0) continue;
      word_ = word_ << 6U | static_cast<std::uint32_t>(value);
      bits_ += 6;
      if (bits_ < 8) continue;
      bits_ -= 8;
      out[size++] = static_cast<char>(word_ >> bits_ & 0xFFU);
      if (size == out.size()) take(std::string_view{out.data(), std::exchange(size, 0)});
    }
    if (size > 0) take(std::string_view{out.data(), size});
  }

 private:
  static int digit(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+' || c == '-') return 62;
    return c == '/' || c == '_' ? 63 : -1;
  }

  std::uint32_t word_ = 0;
  unsigned bits_ = 0;
};

}  // namespace weir
