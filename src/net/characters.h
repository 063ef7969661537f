// Classes of ASCII characters, whatever the locale.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weir::net {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
constexpr bool is_letter(char c) { return lower(c) >= 'a' && lower(c) <= 'z'; }
constexpr bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

// 0 to 15; -1 if `c` is no hexadecimal digit.
constexpr int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  return lower(c) >= 'a' && lower(c) <= 'f' ? lower(c) - 'a' + 10 : -1;
}

constexpr bool same_ignoring_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

// The classes of RFC 9110 and 9112.
enum CharacterClass : std::uint8_t {
  kTokenCharacter = 1,   // methods, names of fields
  kTargetCharacter = 2,  // visible, and no '#'
  kValueCharacter = 4,   // of a field: visible, space, tab, and bytes from 0x80
};

inline constexpr auto kCharacterClasses = [] {
  std::array<std::uint8_t, 256> classes{};
  for (unsigned i = 0; i < classes.size(); ++i) {
    const char c = static_cast<char>(i);
    const bool visible = i > ' ' && i < 0x7f;
    if (is_digit(c) || is_letter(c) || std::string_view{"!#$%&'*+-.^_`|~"}.contains(c)) {
      classes[i] |= kTokenCharacter;
    }
    if (visible && c != '#') classes[i] |= kTargetCharacter;
    if (visible || c == ' ' || c == '\t' || !is_ascii(c)) classes[i] |= kValueCharacter;
  }
  return classes;
}();

constexpr bool is(CharacterClass wanted, char c) {
  return (kCharacterClasses[static_cast<unsigned char>(c)] & wanted) != 0;
}

// How many bytes at the front of `text` are of the class.
constexpr std::size_t count_of(CharacterClass wanted, std::string_view text) {
  std::size_t count = 0;
  while (count < text.size() && is(wanted, text[count])) ++count;
  return count;
}

constexpr bool all_are(CharacterClass wanted, std::string_view text) {
  return count_of(wanted, text) == text.size();
}

}  // namespace weir::net
