#include "tokenizer/utf8.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace weir {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// How many of the first bytes are ASCII, but for up to seven of the last.
std::size_t ascii_prefix(std::string_view text) {
  std::size_t n = 0;
  for (std::uint64_t word = 0; text.size() - n >= sizeof word; n += sizeof word) {
    std::memcpy(&word, text.data() + n, sizeof word);
    if ((word & 0x8080808080808080) != 0) break;
  }
  return n;
}

// The length of the character that `text`, which is not empty, begins with; 0 if it is malformed.
// The bounds of the second byte are those of table 3-7 of the Unicode standard.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() < length) return 0;
  const unsigned least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < least || byte(1) > most) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

// Where the first malformed byte is, or the size.
std::size_t well_formed_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    at += ascii_prefix(text.substr(at));
    for (std::size_t i = 0; i < 16 && at < text.size(); ++i) {
      const std::size_t length = character_length(text.substr(at));
      if (length == 0) return at;
      at += length;
    }
  }
  return at;
}

}  // namespace

std::string_view well_formed_utf8(std::string_view text, std::string& repaired) {
  std::size_t good = well_formed_prefix(text);
  if (good == text.size()) return text;
  repaired.clear();
  while (good < text.size()) {
    repaired.append(text.substr(0, good)).append(kReplacement);
    text.remove_prefix(good + 1);
    good = well_formed_prefix(text);
  }
  return repaired.append(text);
}

}  // namespace weir
