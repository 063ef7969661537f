// The ranks of a byte pair encoding: which byte strings are tokens, and their numbers.
//
// Immutable once parsed. An open-addressing table with the keys inside, so that a look-up of a
// short token touches one cache line.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

class RankTable {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  // As Tokenizer::create(). The 256 bytes must be among the tokens: any text can then be encoded.
  static std::expected<RankTable, std::string> parse(std::string_view text);

  // The rank of the bytes from `begin` to `end`, which are not none; kNone if they are no token.
  // May read, but not beyond `readable`, what follows them.
  std::uint32_t find(const char* begin, const char* end, const char* readable) const {
    const auto length = static_cast<std::size_t>(end - begin);
    if (length > longest_) return kNone;
    const Key key =
        length <= kInline ? inline_key(begin, length, readable) : long_key(begin, length);
    for (std::size_t i = home(key);; i = (i + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[i];
      if (slot.length == 0) return kNone;
      if (slot.head != key.head || slot.length != key.length) continue;
      if (length <= kInline ? slot.tail == key.tail
                            : std::memcmp(long_tokens_.data() + slot.tail, begin, length) == 0) {
        return slot.rank;
      }
    }
  }
  std::uint32_t find_byte(char byte) const { return bytes_[static_cast<unsigned char>(byte)]; }
  // The rank of the two bytes at `begin`.
  std::uint32_t find_pair(const char* begin) const { return pairs_[pair_index(begin)]; }

 private:
  static constexpr std::size_t kInline = 12;
  static constexpr std::uint32_t kLengthMax = 255;
  static constexpr std::uint32_t kRankMax = 0xFFFFFF;

  // Of a short token head and tail are the bytes, zeros behind them; of a long one head is a hash
  // and, in a slot, tail its place in long_tokens_.
  struct Key {
    std::uint64_t head;
    std::uint32_t tail;
    std::uint32_t length;
  };
  struct Slot {
    std::uint64_t head;
    std::uint32_t tail;
    std::uint32_t rank : 24;
    std::uint32_t length : 8;  // 0: empty
  };
  static_assert(sizeof(Slot) == 16);

  explicit RankTable(std::size_t tokens);
  // False if it is there already.
  bool insert(std::string_view token, std::uint32_t rank);

  static std::size_t pair_index(const char* begin) {
    return static_cast<std::size_t>(static_cast<unsigned char>(begin[0]) << 8 |
                                    static_cast<unsigned char>(begin[1]));
  }
  static Key inline_key(const char* begin, std::size_t length, const char* readable) {
    std::array<char, kInline> bytes{};
    if (static_cast<std::size_t>(readable - begin) >= kInline) {
      std::memcpy(bytes.data(), begin, kInline);
    } else {
      std::memcpy(bytes.data(), begin, length);
    }
    Key key{.head = 0, .tail = 0, .length = static_cast<std::uint32_t>(length)};
    std::memcpy(&key.head, bytes.data(), sizeof key.head);
    std::memcpy(&key.tail, bytes.data() + sizeof key.head, sizeof key.tail);
    key.head &= ~std::uint64_t{0} >> (64 - 8 * std::min<std::size_t>(length, 8));
    key.tail = length > 8 ? key.tail & ~std::uint32_t{0} >> (96 - 8 * length) : 0;
    return key;
  }
  static Key long_key(const char* begin, std::size_t length) {
    std::uint64_t word = 0;
    std::memcpy(&word, begin + length - sizeof word, sizeof word);
    std::uint64_t hash = word;
    for (std::size_t i = 0; i + sizeof word < length; i += sizeof word) {
      std::memcpy(&word, begin + i, sizeof word);
      hash = (hash ^ word) * kFactor;
      hash ^= hash >> 32;
    }
    return {.head = hash, .tail = 0, .length = static_cast<std::uint32_t>(length)};
  }
  std::size_t home(const Key& key) const {
    const std::uint64_t mixed =
        (key.head ^ (std::uint64_t{key.tail} << 8 | key.length) * kFactor) * kFactor;
    return static_cast<std::size_t>((mixed ^ mixed >> 32) * kFactor >> shift_);
  }

  static constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio

  std::vector<Slot> slots_;  // a power of two
  int shift_;
  std::size_t longest_ = 0;
  std::string long_tokens_;
  std::array<std::uint32_t, 256> bytes_;
  std::vector<std::uint32_t> pairs_;  // by both bytes
};

}  // namespace weir
