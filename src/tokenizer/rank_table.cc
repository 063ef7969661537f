#include "tokenizer/rank_table.h"

#include <algorithm>
#include <bit>
#include <charconv>

#include <fmt/format.h>

namespace weir {
namespace {

constexpr std::int8_t kNoDigit = -1;

constexpr std::array<std::int8_t, 256> base64_digits() {
  std::array<std::int8_t, 256> digits{};
  digits.fill(kNoDigit);
  std::int8_t value = 0;
  for (const char c :
       std::string_view{"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"}) {
    digits[static_cast<unsigned char>(c)] = value++;
  }
  return digits;
}
constexpr auto kDigits = base64_digits();

// Padded base64 into `decoded`; false if it is malformed or empty.
bool decode(std::string_view text, std::string& decoded) {
  decoded.clear();
  if (text.empty() || text.size() % 4 != 0) return false;
  text.remove_suffix(text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0);
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const std::int8_t digit = kDigits[static_cast<unsigned char>(c)];
    if (digit == kNoDigit) return false;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    held += 6;
    if (held >= 8) {
      held -= 8;
      decoded.push_back(static_cast<char>(bits >> held & 0xFF));
    }
  }
  return true;
}

}  // namespace

static_assert(std::endian::native == std::endian::little);

RankTable::RankTable(std::size_t tokens)
    : slots_(std::bit_ceil(2 * tokens + 2)),
      shift_(64 - std::countr_zero(slots_.size())),
      pairs_(std::size_t{256} * 256, kNone) {
  bytes_.fill(kNone);
}

bool RankTable::insert(std::string_view token, std::uint32_t rank) {
  const char* begin = token.data();
  const char* end = begin + token.size();
  longest_ = std::max(longest_, token.size());
  if (find(begin, end, end) != kNone) return false;
  Key key{};
  if (token.size() <= kInline) {
    key = inline_key(begin, token.size(), end);
  } else {
    key = long_key(begin, token.size());
  }
  std::size_t i = home(key);
  while (slots_[i].length != 0) i = (i + 1) & (slots_.size() - 1);
  if (token.size() > kInline) {
    key.tail = static_cast<std::uint32_t>(long_tokens_.size());
    long_tokens_ += token;
  }
  slots_[i] = {.head = key.head,
               .tail = key.tail,
               .rank = rank & kRankMax,
               .length = key.length & kLengthMax};
  if (token.size() == 1) bytes_[static_cast<unsigned char>(token[0])] = rank;
  if (token.size() == 2) pairs_[pair_index(begin)] = rank;
  return true;
}

std::expected<RankTable, std::string> RankTable::parse(std::string_view text) {
  RankTable table{static_cast<std::size_t>(std::ranges::count(text, '\n')) + 1};
  std::string token;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const auto wrong = [number](std::string_view what) {
      return std::unexpected{fmt::format("line {} of the ranks: {}", number, what)};
    };
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t space = line.find(' ');
    if (space == line.npos) return wrong("not a token and a rank");
    if (!decode(line.substr(0, space), token)) return wrong("the token is not base64");
    if (token.size() > kLengthMax) {
      return wrong(fmt::format("the token has more than {} bytes", kLengthMax));
    }
    std::uint32_t rank = 0;
    const auto [end, error] = std::from_chars(line.begin() + space + 1, line.end(), rank);
    if (error != std::errc{} || end != line.end() || rank > kRankMax) {
      return wrong(fmt::format("the rank is not a number up to {}", kRankMax));
    }
    if (!table.insert(token, rank)) return wrong("the token was there before");
  }
  for (std::size_t byte = 0; byte < table.bytes_.size(); ++byte) {
    if (table.bytes_[byte] == kNone) {
      return std::unexpected{fmt::format("the ranks have no token for the byte {:#04x}", byte)};
    }
  }
  return table;
}

}  // namespace weir
