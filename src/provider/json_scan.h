// JsonScanner: reads JSON as it comes, cut anywhere, in fixed memory and linear time.
//
// It knows the way to every value: for each open object the key of the member it is in, as the
// small number that Handler gives to keys it knows. Accepts a little more than JSON (numbers,
// words and bytes of strings are not checked), never less; what it cannot read leaves it broken
// until reset(). Not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace weir {

using KeyId = std::uint8_t;
inline constexpr KeyId kNoKey = 0;          // one that the handler does not know
inline constexpr KeyId kItem = 0xFF;        // of an array
inline constexpr std::size_t kKeyMax = 64;  // longer keys are unknown

// Handler:
//   KeyId key(std::string_view name)                 decoded
//   void text(std::string_view part, bool last)      decoded; of a string value
//   void number(std::string_view text)  the first kKeyMax bytes of it
//   void word(char first)                            'n', 't' or 'f'
//   void open(char bracket), close(char bracket)     the way is that to the object or array itself
//   bool skips()                  asked after open(): nothing of what is inside matters, and only
//                                 close() is called for it; its brackets and strings alone are read
// Inside of each, at() says where in the document it is, begin() and end() where in the text.
template <class Handler>
class JsonScanner {
 public:
  static constexpr std::size_t kDepthMax = 64;

  explicit JsonScanner(Handler& handler) : handler_(&handler) {}

  void feed(std::string_view bytes);
  void reset();

  bool broken() const { return state_ == State::kBroken; }
  bool whole() const { return state_ == State::kDone; }
  // How many keys and items lead to the value in hand, and the `level`th of them, from 1.
  std::size_t depth() const { return depth_; }
  KeyId at(std::size_t level) const { return level <= depth_ ? way_[level] : kNoKey; }
  bool in_array() const { return depth_ > 0 && way_[depth_] == kItem; }
  // Bytes fed before the token in hand, and up to its end; of strings and keys with their quotes.
  std::size_t begin() const { return begin_; }
  std::size_t end() const { return end_; }

 private:
  enum class State : std::uint8_t {
    kValue,
    kItemOrEnd,
    kKeyOrEnd,
    kKey,
    kColon,
    kAfter,
    kString,
    kEscape,
    kUnicode,
    kNumber,
    kWord,
    kSkip,
    kSkipString,
    kSkipEscape,
    kDone,
    kBroken,
  };

  std::size_t structure(std::string_view bytes, std::size_t i);
  std::size_t string(std::string_view bytes, std::size_t i);
  std::size_t number(std::string_view bytes, std::size_t i);
  std::size_t skip(std::string_view bytes, std::size_t i);
  std::size_t string_stop(std::string_view bytes, std::size_t i);
  void escape(char c);
  void unicode(char c);
  void open(char bracket);
  void close(char bracket);
  void begin_value(char c);
  void end_value() { state_ = depth_ == 0 ? State::kDone : State::kAfter; }
  void end_string();
  void part(std::string_view text);
  void put_code_point(std::uint32_t code);
  void flush_surrogate();

  Handler* handler_;
  State state_ = State::kValue;
  bool is_key_ = false;
  std::uint8_t digits_ = 0;
  std::uint8_t short_size_ = 0;  // of short_: a key, or a number that was cut
  std::uint16_t unit_ = 0;       // of UTF-16, being read
  std::uint16_t surrogate_ = 0;  // the first half of a pair
  std::size_t depth_ = 0;
  std::size_t skipped_ = 0;  // objects and arrays that are open in what is skipped
  std::size_t fed_ = 0;      // before the bytes in hand
  std::size_t quote_ = 0;  // behind the next quote in the bytes in hand, if more than where we are
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::array<KeyId, kDepthMax + 1> way_{};
  std::array<char, kKeyMax + 1> short_{};
};

template <class Handler>
void JsonScanner<Handler>::reset() {
  state_ = State::kValue;
  depth_ = fed_ = 0;
  surrogate_ = 0;
}

template <class Handler>
void JsonScanner<Handler>::feed(std::string_view bytes) {
  quote_ = 0;
  std::size_t i = 0;
  while (i < bytes.size()) {
    switch (state_) {
      case State::kString: i = string(bytes, i); break;
      case State::kEscape: escape(bytes[i++]); break;
      case State::kUnicode: unicode(bytes[i++]); break;
      case State::kNumber: i = number(bytes, i); break;
      case State::kWord:
        if (bytes[i] >= 'a' && bytes[i] <= 'z') {
          ++i;
          break;
        }
        end_ = fed_ + i;
        end_value();
        handler_->word(short_[0]);
        break;
      case State::kSkip: i = skip(bytes, i); break;
      case State::kSkipString:
        i = string_stop(bytes, i);
        if (i < bytes.size()) {
          state_ = bytes[i++] == '"' ? State::kSkip : State::kSkipEscape;
        }
        break;
      case State::kSkipEscape:
        state_ = State::kSkipString;
        ++i;
        break;
      case State::kBroken: fed_ += bytes.size(); return;
      default: i = structure(bytes, i);
    }
  }
  fed_ += bytes.size();
}

template <class Handler>
std::size_t JsonScanner<Handler>::structure(std::string_view bytes, std::size_t i) {
  const char c = bytes[i];
  if (c == ' ' || c == '\n' || c == '\r' || c == '\t') return i + 1;
  begin_ = fed_ + i;
  end_ = begin_ + 1;
  switch (state_) {
    case State::kValue: begin_value(c); break;
    case State::kItemOrEnd:
      if (c == ']') {
        close(c);
      } else {
        begin_value(c);
      }
      break;
    case State::kKeyOrEnd:
      if (c == '}') {
        close(c);
        break;
      }
      [[fallthrough]];
    case State::kKey:
      state_ = c == '"' ? State::kString : State::kBroken;
      is_key_ = true;
      short_size_ = 0;
      break;
    case State::kColon: state_ = c == ':' ? State::kValue : State::kBroken; break;
    case State::kAfter:
      if (c == ',') {
        state_ = in_array() ? State::kValue : State::kKey;
      } else {
        close(c);
      }
      break;
    default: state_ = State::kBroken;
  }
  // A number's own bytes are for number().
  return state_ == State::kNumber ? i : i + 1;
}

template <class Handler>
void JsonScanner<Handler>::begin_value(char c) {
  short_size_ = 0;
  is_key_ = false;
  if (c == '"') {
    state_ = State::kString;
  } else if (c == '{' || c == '[') {
    open(c);
  } else if (c == '-' || (c >= '0' && c <= '9')) {
    state_ = State::kNumber;
  } else if (c == 't' || c == 'f' || c == 'n') {
    state_ = State::kWord;
    short_[0] = c;
  } else {
    state_ = State::kBroken;
  }
}

template <class Handler>
void JsonScanner<Handler>::open(char bracket) {
  if (depth_ == kDepthMax) {
    state_ = State::kBroken;
    return;
  }
  handler_->open(bracket);
  if (handler_->skips()) {
    skipped_ = 1;
    state_ = State::kSkip;
    return;
  }
  way_[++depth_] = bracket == '[' ? kItem : kNoKey;
  state_ = bracket == '[' ? State::kItemOrEnd : State::kKeyOrEnd;
}

template <class Handler>
std::size_t JsonScanner<Handler>::skip(std::string_view bytes, std::size_t i) {
  // Eight bytes at once while none of them is a quote or lies at '[' (0x5B) or above, where all
  // brackets are; only small letters, of words and exponents, lie there beside them.
  constexpr std::uint64_t kEach = 0x0101'0101'0101'0101;
  const auto is_plain = [&](std::size_t at) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    const std::uint64_t quote = word ^ kEach * '"';
    return (((word + kEach * (0x80 - '[')) | word | ((quote - kEach) & ~quote)) & kEach * 0x80) ==
           0;
  };
  while (i < bytes.size()) {
    if (i + 8 <= bytes.size() && is_plain(i)) {
      i += 8;
      continue;
    }
    const char c = bytes[i++];
    if (c == '"') {
      state_ = State::kSkipString;
      return i;
    }
    if (c == '{' || c == '[') ++skipped_;
    if ((c == '}' || c == ']') && --skipped_ == 0) {
      end_ = fed_ + i;
      end_value();
      handler_->close(c);
      return i;
    }
  }
  return i;
}

template <class Handler>
void JsonScanner<Handler>::close(char bracket) {
  if (bracket != (in_array() ? ']' : '}')) {
    state_ = State::kBroken;
    return;
  }
  --depth_;
  end_value();
  handler_->close(bracket);
}

template <class Handler>
std::size_t JsonScanner<Handler>::number(std::string_view bytes, std::size_t i) {
  const auto in_number = [](char c) {
    return (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E';
  };
  const std::size_t from = i;
  while (i < bytes.size() && in_number(bytes[i])) ++i;
  const std::string_view text = bytes.substr(from, i - from);
  const bool is_whole = i < bytes.size();
  if (!is_whole || short_size_ > 0) {
    const std::size_t taken = std::min(text.size(), kKeyMax - short_size_);
    std::memcpy(short_.data() + short_size_, text.data(), taken);
    short_size_ = static_cast<std::uint8_t>(short_size_ + taken);
  }
  if (is_whole) {
    end_ = fed_ + i;
    end_value();
    handler_->number(short_size_ > 0 ? std::string_view{short_.data(), short_size_}
                                     : text.substr(0, kKeyMax));
  }
  return i;
}

// Where the next quote or backslash is, else the end. A quote that is found stays found while the
// backslashes before it are read: each byte is looked at twice at most, however many there are.
template <class Handler>
std::size_t JsonScanner<Handler>::string_stop(std::string_view bytes, std::size_t i) {
  if (quote_ <= i) quote_ = std::min(bytes.find('"', i), bytes.size()) + 1;
  return std::min(bytes.substr(0, quote_ - 1).find('\\', i), quote_ - 1);
}

template <class Handler>
std::size_t JsonScanner<Handler>::string(std::string_view bytes, std::size_t i) {
  const std::size_t stop = string_stop(bytes, i);
  if (stop > i) part(bytes.substr(i, stop - i));
  if (stop == bytes.size()) return stop;
  if (bytes[stop] == '\\') {
    state_ = State::kEscape;
  } else {
    end_ = fed_ + stop + 1;
    end_string();
  }
  return stop + 1;
}

template <class Handler>
void JsonScanner<Handler>::end_string() {
  flush_surrogate();
  if (!is_key_) {
    end_value();
    handler_->text({}, true);
    return;
  }
  const bool fits = short_size_ <= kKeyMax;
  way_[depth_] = fits ? handler_->key({short_.data(), short_size_}) : kNoKey;
  state_ = State::kColon;
}

template <class Handler>
void JsonScanner<Handler>::part(std::string_view text) {
  flush_surrogate();
  if (!is_key_) {
    handler_->text(text, false);
    return;
  }
  const std::size_t taken = std::min(text.size(), short_.size() - short_size_);
  std::memcpy(short_.data() + short_size_, text.data(), taken);
  short_size_ = static_cast<std::uint8_t>(short_size_ + taken);
}

template <class Handler>
void JsonScanner<Handler>::escape(char c) {
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  state_ = State::kString;
  if (c == 'u') {
    state_ = State::kUnicode;
    digits_ = 0;
    unit_ = 0;
  } else if (const auto which = kLetters.find(c); which != kLetters.npos) {
    part(kMeanings.substr(which, 1));
  } else {
    state_ = State::kBroken;
  }
}

template <class Handler>
void JsonScanner<Handler>::unicode(char c) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const char lower = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  const auto digit = kHex.find(lower);
  if (digit == kHex.npos) {
    state_ = State::kBroken;
    return;
  }
  unit_ = static_cast<std::uint16_t>(unit_ * 16U + digit);
  if (++digits_ < 4) return;
  state_ = State::kString;
  if (unit_ >= 0xD800 && unit_ < 0xDC00) {
    flush_surrogate();
    surrogate_ = unit_;
  } else if (unit_ >= 0xDC00 && unit_ < 0xE000 && surrogate_ != 0) {
    const std::uint32_t high = surrogate_ - 0xD800U;
    surrogate_ = 0;
    put_code_point(0x10000U + (high << 10U) + (unit_ - 0xDC00U));
  } else {
    put_code_point(unit_);
  }
}

// A half without its other half stands for no character.
template <class Handler>
void JsonScanner<Handler>::flush_surrogate() {
  if (surrogate_ == 0) return;
  surrogate_ = 0;
  put_code_point(0xFFFD);
}

template <class Handler>
void JsonScanner<Handler>::put_code_point(std::uint32_t code) {
  if (code >= 0xD800 && code < 0xE000) code = 0xFFFD;
  std::array<char, 4> utf8{};
  std::size_t size = 0;
  const auto put = [&](std::uint32_t byte) { utf8[size++] = static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else {
    if (code < 0x800) {
      put(0xC0U | code >> 6U);
    } else {
      if (code < 0x10000) {
        put(0xE0U | code >> 12U);
      } else {
        put(0xF0U | code >> 18U);
        put(0x80U | (code >> 12U & 0x3FU));
      }
      put(0x80U | (code >> 6U & 0x3FU));
    }
    put(0x80U | (code & 0x3FU));
  }
  part({utf8.data(), size});
}

}  // namespace weir
